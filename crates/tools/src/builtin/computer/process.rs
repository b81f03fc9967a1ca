//! The process of a browser, and its folder. Both end with this process, whichever way it ends.
//!
//! No destructor runs when a process is killed, so a named pipe signals it: only this process has it open for writing,
//! the system closes it, and a watcher in the browser's process group, which reads it, ends the group and removes its
//! folder.

use std::{
    fs::File,
    path::{Path, PathBuf},
    time::Duration,
};

use rustix::{
    fs::{CWD, Mode, mkfifoat},
    process::{Pid, Signal, kill_process_group},
};
use tokio::{
    io::AsyncReadExt as _,
    process::{Child, ChildStderr},
};

/// Runs a program whose group ends once the pipe `alive` in its first argument, a folder, is no longer open for
/// writing: that is when this process ends, whichever way. The folder is then removed. The program reads commands from
/// file descriptor 3, and answers on file descriptor 4.
///
/// The pipe is opened for reading and writing first, which never blocks: if this process has ended by then, its end is
/// read at once. `$$` is the program, which replaces the shell: it must stop writing before the folder is removed. Its
/// number is not reused as long as its group has a process, such as the watcher.
pub(super) const WITH_US: &str = "folder=$1; shift; \
    exec 3<&0 4>&1 5<>\"$folder/alive\" 6<\"$folder/alive\" 5>&- </dev/null >/dev/null; \
    (exec 3<&- 4>&-; trap '' TERM; cat <&6; kill -TERM 0; sleep 1; kill -9 $$; \
    tries=0; until rm -rf -- \"$folder\" || [ $tries -ge 20 ]; do tries=$((tries + 1)); sleep 0.1; done; \
    kill -9 0) 2>/dev/null & \
    exec \"$@\" 6<&-";
/// Lines and bytes kept of the browser's standard error.
const KEPT: (usize, usize) = (5, 1000);

/// The last lines that a program writes to standard error.
pub(super) async fn last_lines(mut stderr: ChildStderr) -> String {
    let (most, bytes) = KEPT;
    let mut kept: Vec<u8> = Vec::new();
    let mut buffer = [0; 4096];
    while let Ok(read @ 1..) = stderr.read(&mut buffer).await {
        kept.extend_from_slice(&buffer[..read]);
        kept.drain(..kept.len().saturating_sub(bytes));
    }
    let kept = String::from_utf8_lossy(&kept);
    let lines: Vec<&str> = kept.lines().map(str::trim).filter(|line| !line.is_empty()).collect();
    lines[lines.len().saturating_sub(most)..].join("; ")
}

/// The process, which ends with everything it started.
pub(super) struct Browser {
    pub(super) child: Child,
    _profile: Profile,
}

impl Browser {
    pub(super) fn new(child: Child, profile: Profile) -> Browser {
        Browser { child, _profile: profile }
    }
}

impl Drop for Browser {
    fn drop(&mut self) {
        // The number identifies the group until its leader is waited for, which nothing else does.
        let leader = self.child.id().and_then(|id| i32::try_from(id).ok()).and_then(Pid::from_raw);
        if let Some(leader) = leader {
            let _ = kill_process_group(leader, Signal::KILL);
        }
    }
}

/// A folder readable only by this user, removed at the end.
pub(super) struct Profile {
    pub(super) path: PathBuf,
    /// A pipe that stays open as long as this process runs; see [`WITH_US`].
    _alive: File,
}

impl Profile {
    pub(super) fn new() -> std::io::Result<Profile> {
        use std::os::unix::fs::DirBuilderExt as _;
        let path = std::env::temp_dir().join(format!("countersign-browser-{}", uuid::Uuid::now_v7()));
        std::fs::DirBuilder::new().mode(0o700).create(&path)?;
        let pipe = path.join("alive");
        let opened = mkfifoat(CWD, &pipe, Mode::RUSR | Mode::WUSR)
            .map_err(Into::into)
            // For reading and writing, so that opening does not wait for the other end.
            .and_then(|()| File::options().read(true).write(true).open(&pipe));
        match opened {
            Ok(alive) => Ok(Profile { path, _alive: alive }),
            Err(error) => {
                remove(&path);
                Err(error)
            }
        }
    }
}

impl Drop for Profile {
    fn drop(&mut self) {
        remove(&self.path);
    }
}

/// Killed processes may still write for a moment.
fn remove(folder: &Path) {
    for _ in 0..50 {
        match std::fs::remove_dir_all(folder) {
            Err(error) if error.kind() != std::io::ErrorKind::NotFound => {
                std::thread::sleep(Duration::from_millis(2));
            }
            _ => return,
        }
    }
}

#[cfg(test)]
mod tests {
    use std::os::unix::process::ExitStatusExt as _;

    use tokio::{process::Command, time::timeout};

    use super::*;

    const DEADLINE: Duration = Duration::from_secs(30);

    /// Like [`Profile`], but its pipe is open nowhere.
    fn abandoned() -> PathBuf {
        let path = std::env::temp_dir().join(format!("countersign-browser-{}", uuid::Uuid::now_v7()));
        std::fs::create_dir(&path).expect("folder");
        mkfifoat(CWD, path.join("alive"), Mode::RUSR | Mode::WUSR).expect("pipe");
        path
    }

    fn started(folder: &Path, program: &str) -> Child {
        let mut command = Command::new("/bin/sh");
        command.args(["-c", WITH_US, "sh"]).arg(folder).args(["/bin/sh", "-c", program]).arg("sh").arg(folder);
        command.process_group(0).kill_on_drop(true).spawn().expect("spawn")
    }

    async fn is_removed(folder: &Path) {
        let gone = async {
            while folder.exists() {
                tokio::time::sleep(Duration::from_millis(10)).await;
            }
        };
        timeout(DEADLINE, gone).await.expect("the folder is removed");
    }

    #[tokio::test]
    async fn s14_a_browser_ends_if_its_program_ended_first() {
        let folder = abandoned();
        let mut child = started(&folder, "exec sleep 600");
        let ended = timeout(DEADLINE, child.wait()).await.expect("it ends").expect("status");
        assert_eq!(ended.signal(), Some(15));
        is_removed(&folder).await;
    }

    #[tokio::test]
    async fn s14_a_browser_that_does_not_want_to_end_leaves_no_folder() {
        let folder = abandoned();
        let alive = File::options().read(true).write(true).open(folder.join("alive")).expect("pipe");
        // It writes as long as it runs, and ends on its own once it cannot.
        let writes = "trap '' TERM; i=0; while : >\"$1/$i\"; do i=$(((i + 1) % 1000)); done";
        let mut child = started(&folder, writes);
        let begun = async {
            while !folder.join("0").exists() {
                tokio::time::sleep(Duration::from_millis(10)).await;
            }
        };
        timeout(DEADLINE, begun).await.expect("it begins");
        assert!(child.try_wait().expect("status").is_none(), "it runs as long as this process does");
        // As if this process had ended.
        drop(alive);
        let ended = timeout(DEADLINE, child.wait()).await.expect("it ends").expect("status");
        assert_eq!(ended.signal(), Some(9), "before its folder is removed");
        is_removed(&folder).await;
    }
}
