//! One child process in its own group: it gets its whole input, its output is read within limits, and it is ended
//! with everything it started.

use std::{
    fs::File,
    io::{self, Seek as _, Write as _},
    process::{ExitStatus, Stdio},
    sync::{Mutex, PoisonError, RwLock, TryLockError},
    time::{Duration, Instant},
};

use rustix::process::{Pid, Signal, WaitId, WaitIdOptions, kill_process_group, waitid};
use tokio::{
    io::{AsyncRead, AsyncReadExt as _},
    process::{Child, Command},
    signal::unix::{SignalKind, signal},
    time::timeout,
};

/// The variables every command gets from this process's environment, if they are set here.
pub const PASSED_ENV: [&str; 4] = ["PATH", "HOME", "LANG", "TZ"];
/// How long output may still come after the process itself has ended, when something it started still holds its
/// standard output or error open. Then the whole group is killed.
pub const GRACE: Duration = Duration::from_millis(100);
/// How much of the end of standard error is kept.
pub const STDERR_BYTES: usize = 4 * 1024;
/// How long a killed process may take to disappear before the call continues without it.
const REAP: Duration = Duration::from_secs(2);

/// How a process ended.
#[derive(Debug)]
pub enum Outcome {
    /// It ended on its own.
    Ended {
        /// Its exit code or signal.
        status: ExitStatus,
        /// All it wrote to standard output.
        stdout: Vec<u8>,
        /// The last [`STDERR_BYTES`] it wrote to standard error.
        stderr: Vec<u8>,
    },
    /// It wrote more than the limit to standard output and was killed.
    TooMuchOutput {
        /// The output up to the limit.
        stdout: Vec<u8>,
    },
    /// It did not end in time and was killed.
    TooLong,
}

/// Runs `command` with `input` on its standard input.
///
/// Dropping the future kills the whole process group at once. Nothing of the group survives the return either: leftover
/// processes are killed at most [`GRACE`] after the leader ended.
///
/// # Errors
/// The process could not be started.
pub async fn run(mut command: Command, input: &[u8], output_limit: usize, time_limit: Duration) -> io::Result<Outcome> {
    // Listening starts before the child can end.
    let mut child_ended = signal(SignalKind::child())?;
    command.stdin(whole(input)?).stdout(Stdio::piped()).stderr(Stdio::piped()).process_group(0);
    let mut group = Group::spawn(&mut command)?;
    let (stdout, stderr) = (group.child.stdout.take(), group.child.stderr.take());
    let (mut out, mut err) = (Head::new(output_limit), Tail::default());

    let ended = timeout(time_limit, async {
        let traffic = async { tokio::try_join!(out.read(stdout), err.read(stderr)).map(drop) };
        tokio::pin!(traffic);
        let mut quiet = false;
        loop {
            tokio::select! {
                done = &mut traffic, if !quiet => {
                    done?;
                    quiet = true;
                }
                () = group.has_ended(&mut child_ended) => break,
            }
        }
        if !quiet {
            quiet = timeout(GRACE, &mut traffic).await.transpose_done()?;
        }
        group.kill();
        let status = group.reap().await;
        if !quiet {
            // Only something that left the group can still have the pipes open: it is not waited for.
            let _ = timeout(GRACE, &mut traffic).await.transpose_done()?;
        }
        Ok::<_, Flood>(status)
    })
    .await;

    match ended {
        Ok(Ok(status)) => Ok(Outcome::Ended { status: status?, stdout: out.bytes, stderr: err.bytes() }),
        Ok(Err(Flood)) => {
            group.end().await;
            Ok(Outcome::TooMuchOutput { stdout: out.bytes })
        }
        Err(_) => {
            group.end().await;
            Ok(Outcome::TooLong)
        }
    }
}

/// The whole input, as a standard input. It is complete before there is a process: through a pipe, a process would read
/// an empty or truncated input, and act on it, when this process is killed while it writes (spec R1).
fn whole(input: &[u8]) -> io::Result<Stdio> {
    let mut file = anonymous()?;
    file.write_all(input)?;
    file.rewind()?;
    Ok(file.into())
}

/// A file without a name.
#[cfg(target_os = "linux")]
fn anonymous() -> io::Result<File> {
    let flags = rustix::fs::MemfdFlags::CLOEXEC;
    Ok(rustix::fs::memfd_create("countersign-input", flags)?.into())
}

/// A file without a name.
#[cfg(not(target_os = "linux"))]
fn anonymous() -> io::Result<File> {
    use std::os::unix::fs::OpenOptionsExt as _;
    let path = std::env::temp_dir().join(format!("countersign-{}", uuid::Uuid::now_v7()));
    let file = File::options().read(true).write(true).create_new(true).mode(0o600).open(&path)?;
    std::fs::remove_file(path)?;
    Ok(file)
}

/// More output than allowed.
#[derive(Debug)]
struct Flood;

/// `Ok(true)` if the traffic ended in time.
trait TransposeDone {
    fn transpose_done(self) -> Result<bool, Flood>;
}

impl TransposeDone for Result<Result<(), Flood>, tokio::time::error::Elapsed> {
    fn transpose_done(self) -> Result<bool, Flood> {
        match self {
            Ok(done) => done.map(|()| true),
            Err(_) => Ok(false),
        }
    }
}

/// A child that leads its own process group, killed as a group when dropped.
///
/// The group's number stays reserved until its leader is reaped, even when the leader has already ended. So signals go
/// to the group only before `Group::reap`, and can never reach an unrelated process with the same number.
pub struct Group {
    pub child: Child,
    leader: Option<Pid>,
}

impl Group {
    pub fn spawn(command: &mut Command) -> io::Result<Group> {
        // Held until the group is known, so that killing all groups leaves none out.
        let known = GROUPS.read().unwrap_or_else(PoisonError::into_inner);
        let child = command.spawn()?;
        let leader = child.id().and_then(|id| i32::try_from(id).ok()).and_then(Pid::from_raw);
        known.lock().unwrap_or_else(PoisonError::into_inner).extend(leader);
        Ok(Group { child, leader })
    }

    /// Waits until the leader has ended, without reaping it.
    async fn has_ended(&self, child_ended: &mut tokio::signal::unix::Signal) {
        let Some(leader) = self.leader else { return };
        let options = WaitIdOptions::EXITED | WaitIdOptions::NOWAIT | WaitIdOptions::NOHANG;
        loop {
            match waitid(WaitId::Pid(leader), options) {
                Ok(None) | Err(rustix::io::Errno::INTR) => {}
                // Ended, or reaped elsewhere.
                Ok(Some(_)) | Err(_) => return,
            }
            if child_ended.recv().await.is_none() {
                return;
            }
        }
    }

    /// Waits until the leader has ended on its own.
    pub async fn ended(&self) -> io::Result<()> {
        // Later ends are signalled; earlier ones are seen at once.
        let mut child_ended = signal(SignalKind::child())?;
        self.has_ended(&mut child_ended).await;
        Ok(())
    }

    /// Kills every process of the group; does nothing once the leader was reaped.
    fn kill(&self) {
        if let Some(leader) = self.leader {
            // It fails only when no process is left.
            let _ = kill_process_group(leader, Signal::KILL);
        }
    }

    async fn reap(&mut self) -> io::Result<ExitStatus> {
        let status = self.child.wait().await;
        // From here on the number may belong to another process.
        self.forget();
        status
    }

    /// After this its number is not used.
    fn forget(&mut self) {
        let Some(leader) = self.leader.take() else { return };
        let known = GROUPS.read().unwrap_or_else(PoisonError::into_inner);
        known.lock().unwrap_or_else(PoisonError::into_inner).retain(|known| *known != leader);
    }

    pub async fn end(&mut self) {
        self.kill();
        let _ = timeout(REAP, self.reap()).await;
    }
}

impl Drop for Group {
    fn drop(&mut self) {
        self.kill();
        self.forget();
    }
}

/// The leaders of all groups. Starting or forgetting one takes a read lock, so that these do not block each other: a start can
/// take long, for example from a network disk that does not respond.
static GROUPS: RwLock<Mutex<Vec<Pid>>> = RwLock::new(Mutex::new(Vec::new()));

/// How long [`kill_all`] waits for groups that are being started.
const STARTING: Duration = Duration::from_secs(1);

/// Kills every group. For a process that is about to end without dropping its groups: a thread that starts or drops a
/// group from here on waits until the process has ended. Kills nothing if another thread takes longer than a second to
/// start a group.
pub fn kill_all() {
    let since = Instant::now();
    let mut known = loop {
        match GROUPS.try_write() {
            Ok(known) => break known,
            Err(TryLockError::Poisoned(known)) => break known.into_inner(),
            Err(TryLockError::WouldBlock) if since.elapsed() < STARTING => {
                std::thread::sleep(Duration::from_millis(10))
            }
            Err(TryLockError::WouldBlock) => return,
        }
    };
    for leader in known.get_mut().unwrap_or_else(PoisonError::into_inner).drain(..) {
        // It fails only when no process is left.
        let _ = kill_process_group(leader, Signal::KILL);
    }
    std::mem::forget(known);
}

/// The beginning of a stream, up to a hard limit.
struct Head {
    bytes: Vec<u8>,
    limit: usize,
}

impl Head {
    fn new(limit: usize) -> Head {
        Head { bytes: Vec::new(), limit }
    }

    async fn read(&mut self, stream: Option<impl AsyncRead + Unpin>) -> Result<(), Flood> {
        let Some(mut stream) = stream else { return Ok(()) };
        let mut buffer = vec![0; 16 * 1024];
        loop {
            match stream.read(&mut buffer).await {
                Ok(0) | Err(_) => return Ok(()),
                Ok(n) => {
                    let room = self.limit - self.bytes.len();
                    self.bytes.extend_from_slice(&buffer[..n.min(room)]);
                    if n > room {
                        return Err(Flood);
                    }
                }
            }
        }
    }
}

/// The end of a stream.
#[derive(Default)]
struct Tail {
    bytes: Vec<u8>,
}

impl Tail {
    async fn read(&mut self, stream: Option<impl AsyncRead + Unpin>) -> Result<(), Flood> {
        let Some(mut stream) = stream else { return Ok(()) };
        let mut buffer = vec![0; 4 * 1024];
        loop {
            match stream.read(&mut buffer).await {
                Ok(0) | Err(_) => return Ok(()),
                Ok(n) => {
                    self.bytes.extend_from_slice(&buffer[..n]);
                    if self.bytes.len() > 2 * STDERR_BYTES {
                        self.bytes.drain(..self.bytes.len() - STDERR_BYTES);
                    }
                }
            }
        }
    }

    fn bytes(mut self) -> Vec<u8> {
        self.bytes.drain(..self.bytes.len().saturating_sub(STDERR_BYTES));
        self.bytes
    }
}
