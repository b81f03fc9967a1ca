//! Files with session content: where the system has file permissions, only the owner gets them.

use std::fs::{File, OpenOptions};

/// Options that create a file for its owner only. An existing file keeps its permissions.
pub fn options() -> OpenOptions {
    let mut options = File::options();
    #[cfg(unix)]
    std::os::unix::fs::OpenOptionsExt::mode(&mut options, 0o600);
    options
}

/// The permissions that others have on a file, as `chmod` writes them; `None` if they have none, or if that is unknown.
#[cfg(feature = "sqlite")]
#[must_use]
pub fn shared(path: &std::path::Path) -> Option<String> {
    #[cfg(unix)]
    {
        let mode = std::os::unix::fs::PermissionsExt::mode(&path.metadata().ok()?.permissions()) & 0o777;
        (mode & 0o077 != 0).then(|| format!("{mode:o}"))
    }
    #[cfg(not(unix))]
    {
        let _ = path;
        None
    }
}
