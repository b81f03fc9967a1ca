//! Files that hold what sessions hold: where a system has such rights, only their owner may use them.

use std::fs::{File, OpenOptions};

/// What a file is opened with that belongs to its owner only if it is made now. One that is there keeps its rights.
pub fn options() -> OpenOptions {
    let mut options = File::options();
    #[cfg(unix)]
    std::os::unix::fs::OpenOptionsExt::mode(&mut options, 0o600);
    options
}

/// The rights that others than the owner have of a file, as `chmod` writes them; `None` if they have none.
///
/// # Errors
/// The file's metadata cannot be read.
#[cfg(feature = "sqlite")]
pub fn shared(file: &File) -> std::io::Result<Option<String>> {
    #[cfg(unix)]
    {
        let mode = std::os::unix::fs::PermissionsExt::mode(&file.metadata()?.permissions()) & 0o777;
        Ok((mode & 0o077 != 0).then(|| format!("{mode:o}")))
    }
    #[cfg(not(unix))]
    {
        let _ = file;
        Ok(None)
    }
}
