//! A server as a child process: started, awaited, killed.

use std::{fs, net::SocketAddr, os::unix::process::ExitStatusExt as _, path::Path, process::Stdio, time::Duration};

use countersign_test_machine::Variable;
use rustix::process::{Pid, Signal, kill_process};
use tokio::{
    io::{AsyncBufReadExt as _, BufReader},
    process::{Child, Command},
    time::timeout,
};

use crate::world::{CONFIG, World};

/// How long a server may take to listen, or to die once it is killed.
const DEADLINE: Duration = Duration::from_secs(60);
const SIGKILL: i32 = 9;

/// A running server. It is killed when this is dropped.
#[derive(Debug)]
pub struct Server {
    child: Child,
    /// Where it listens.
    pub address: SocketAddr,
}

/// How starting a server ended.
#[derive(Debug)]
pub enum Started {
    /// It listens.
    Listening(Box<Server>),
    /// It reached its failpoint before it listened.
    Died,
}

impl Server {
    /// Starts a server in a world; with a failpoint (`NAME` or `NAME:N`) it dies there.
    ///
    /// # Errors
    /// It could not be started, or ended other than at its failpoint, with its output.
    pub async fn start(world: &World, failpoint: Option<&str>) -> Result<Started, String> {
        Server::start_with(world, &world.path(CONFIG), failpoint, &[]).await
    }

    /// The same, with another configuration, and more variables.
    ///
    /// # Errors
    /// As [`Server::start`].
    pub async fn start_with(
        world: &World,
        config: &Path,
        failpoint: Option<&str>,
        variables: &[Variable],
    ) -> Result<Started, String> {
        let log = fs::File::options().create(true).append(true).open(world.path("server.log"));
        let log = log.map_err(|error| format!("the server's log cannot be written: {error}"))?;
        let mut command = Command::new(&world.program);
        command.args(["serve", "--config"]).arg(config);
        command
            .env_remove("COUNTERSIGN_FAILPOINT")
            .env("COUNTERSIGN_KILLED_FROM_OUTSIDE", "1")
            .env("RUST_LOG", "warn")
            .envs(world.environment())
            .envs(variables.iter().cloned());
        if let Some(failpoint) = failpoint {
            command.env("COUNTERSIGN_FAILPOINT", failpoint);
        }
        command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(log).kill_on_drop(true);
        let mut child = command.spawn().map_err(|error| format!("the server could not be started: {error}"))?;
        let stdout = child.stdout.take().ok_or("the server has no output")?;
        let mut line = String::new();
        match timeout(DEADLINE, BufReader::new(stdout).read_line(&mut line)).await {
            Ok(Ok(_)) => {}
            Ok(Err(error)) => return Err(format!("the server's output cannot be read: {error}")),
            Err(_) => return Err("the server did not listen in time".to_owned()),
        }
        match line.trim().strip_prefix("listening on http://").map(str::parse) {
            Some(Ok(address)) => Ok(Started::Listening(Box::new(Server { child, address }))),
            _ if line.is_empty() => {
                died(world, &mut child).await?;
                Ok(Started::Died)
            }
            _ => Err(format!("the server said {line:?} instead of where it listens")),
        }
    }

    /// Sends it a signal.
    ///
    /// # Errors
    /// It has ended.
    pub fn signal(&self, signal: Signal) -> Result<(), String> {
        let id = self.child.id().and_then(|id| Pid::from_raw(i32::try_from(id).ok()?));
        let id = id.ok_or("the server has ended by itself")?;
        kill_process(id, signal).map_err(|error| format!("the server could not be sent {signal:?}: {error}"))
    }

    /// Waits until it dies.
    ///
    /// # Errors
    /// It ended other than by SIGKILL.
    pub async fn dead(&mut self, world: &World) -> Result<(), String> {
        died(world, &mut self.child).await
    }

    /// Has it shut down, and waits until it has. `false`: it died before that, at its failpoint.
    ///
    /// # Errors
    /// It does not end, or neither in order nor by SIGKILL.
    pub async fn shuts_down(mut self, world: &World) -> Result<bool, String> {
        self.signal(Signal::TERM)?;
        let ended = timeout(DEADLINE, self.child.wait()).await.map_err(|_| "a server does not shut down".to_owned())?;
        if ended.is_ok_and(|status| status.success()) {
            return Ok(true);
        }
        self.dead(world).await.map(|()| false)
    }

    /// Kills it with SIGKILL.
    ///
    /// # Errors
    /// It had ended already.
    pub async fn kill(mut self, world: &World) -> Result<(), String> {
        // It fails only if it is already dead, at its failpoint.
        let _ = self.child.start_kill();
        timeout(DEADLINE, self.dead(world)).await.map_err(|_| "the killed server does not end".to_owned())?
    }
}

async fn died(world: &World, child: &mut Child) -> Result<(), String> {
    let status = child.wait().await.map_err(|error| format!("the server cannot be waited for: {error}"))?;
    if status.signal() == Some(SIGKILL) {
        return Ok(());
    }
    let log = fs::read_to_string(world.path("server.log")).unwrap_or_default();
    let last: Vec<&str> = log.lines().rev().take(5).collect();
    Err(format!("the server ended by itself ({status}); it said last: {last:?}"))
}
