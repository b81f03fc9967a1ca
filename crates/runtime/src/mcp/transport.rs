//! The two ways to a server: a program's standard input and output, and streamable HTTP.

use std::{
    io,
    path::Path,
    pin::Pin,
    process::Stdio,
    task::{Context, Poll},
    time::Duration,
};

use reqwest::Client;
use rmcp::{
    RoleClient,
    transport::{
        StreamableHttpClientTransport, async_rw::AsyncRwTransport,
        streamable_http_client::StreamableHttpClientTransportConfig,
    },
};
use tokio::{
    io::{AsyncRead, AsyncReadExt as _, ReadBuf},
    process::{ChildStdin, ChildStdout, Command},
    sync::watch,
    task::JoinHandle,
    time::timeout,
};

use super::settings::{Address, Program, url};
use crate::{
    outgoing,
    tool::{command::PASSED_ENV, process::Group},
};

/// Longest message of a server, in bytes. The largest result that is kept is far smaller.
pub(super) const MESSAGE_BYTES: usize = 8 * 1024 * 1024;
/// Longest line of a program's standard error that is logged as one, in bytes.
const LINE_BYTES: usize = 64 * 1024;
/// How long a program may take to end by itself once its standard input is closed.
const ENDING: Duration = Duration::from_secs(1);

pub(super) type Pipes = AsyncRwTransport<RoleClient, Measured<ChildStdout>, ChildStdin>;

/// Tells of each line that is too long to be read as a message. What reads messages leaves it out and says nothing.
pub(super) struct Measured<R> {
    from: R,
    /// Bytes of the line so far.
    line: usize,
    too_long: watch::Sender<()>,
}

impl<R> Measured<R> {
    fn new(from: R) -> Measured<R> {
        Measured { from, line: 0, too_long: watch::Sender::new(()) }
    }

    fn measure(&mut self, read: &[u8]) {
        for part in read.split_inclusive(|byte| *byte == b'\n') {
            let before = self.line;
            self.line += part.len();
            if before <= MESSAGE_BYTES && self.line > MESSAGE_BYTES {
                self.too_long.send_replace(());
            }
            if part.ends_with(b"\n") {
                self.line = 0;
            }
        }
    }
}

impl<R: AsyncRead + Unpin> AsyncRead for Measured<R> {
    fn poll_read(mut self: Pin<&mut Self>, cx: &mut Context<'_>, buf: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        let before = buf.filled().len();
        let polled = Pin::new(&mut self.from).poll_read(cx, buf);
        self.measure(buf.filled().get(before..).unwrap_or_default());
        polled
    }
}

/// A server's program, ended as a group when it is dropped.
pub(super) struct Process {
    group: Group,
    /// Reads what it writes to its standard error: somebody must.
    log: JoinHandle<()>,
}

impl Process {
    /// Starts the program; `told` gets what it writes to its standard error, line by line. The last one changes whenever it
    /// has sent a message that is too long.
    pub(super) fn start(
        program: &Program,
        told: impl FnMut(&str) + Send + 'static,
    ) -> Result<(Process, Pipes, watch::Receiver<()>), String> {
        let name = program.command.first().map(String::as_str).unwrap_or_default();
        if let Some(cwd) = program.cwd.as_deref().filter(|cwd| !cwd.is_dir()) {
            return Err(format!("its folder {} is not there", cwd.display()));
        }
        let mut command = match program.cwd.as_deref() {
            Some(cwd) if Path::new(name).is_relative() && name.contains('/') => Command::new(cwd.join(name)),
            _ => Command::new(name),
        };
        command.args(program.command.iter().skip(1)).env_clear();
        if let Some(cwd) = &program.cwd {
            command.current_dir(cwd);
        }
        for name in PASSED_ENV.into_iter().chain(program.pass_env.iter().map(String::as_str)) {
            if let Some(value) = std::env::var_os(name) {
                command.env(name, value);
            }
        }
        for (name, value) in &program.env {
            command.env(name, value.expose());
        }
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped()).process_group(0);
        let started = Group::spawn(&mut command);
        let mut group = started.map_err(|error| format!("its program {name:?} cannot be started: {error}"))?;
        let child = &mut group.child;
        match (child.stdout.take(), child.stdin.take(), child.stderr.take()) {
            (Some(output), Some(input), Some(errors)) => {
                let log = tokio::spawn(lines(errors, told));
                let output = Measured::new(output);
                let too_long = output.too_long.subscribe();
                let pipes = AsyncRwTransport::new(output, input).with_max_line_length(MESSAGE_BYTES);
                Ok((Process { group, log }, pipes, too_long))
            }
            _ => Err(format!("its program {name:?} has no standard input and output")),
        }
    }

    /// Waits for a moment until the program has ended by itself, then ends it with all it has started.
    pub(super) async fn end(mut self) {
        let _ = timeout(ENDING, self.group.ended()).await;
        self.group.end().await;
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        self.log.abort();
    }
}

/// Reads lines to the end. One that is too long is told in parts.
async fn lines(mut from: impl AsyncRead + Unpin, mut told: impl FnMut(&str)) {
    let (mut buffer, mut line) = (vec![0; 4096], Vec::new());
    while let Ok(read @ 1..) = from.read(&mut buffer).await {
        for part in buffer[..read].split_inclusive(|byte| *byte == b'\n') {
            line.extend_from_slice(part);
            if part.ends_with(b"\n") || line.len() > LINE_BYTES {
                told(String::from_utf8_lossy(&line).trim_end());
                line.clear();
            }
        }
    }
    if !line.is_empty() {
        told(String::from_utf8_lossy(&line).trim_end());
    }
}

/// The way to an address.
pub(super) fn http(address: &Address) -> Result<StreamableHttpClientTransport<Client>, String> {
    let url = url(&address.url)?;
    // The secrets are the client's, so that nothing above it knows them.
    let builder = outgoing::client(&url).default_headers(address.header_map()?);
    let client = builder.build().map_err(|error| format!("the HTTP client cannot be made: {}", error.without_url()))?;
    let mut config = StreamableHttpClientTransportConfig::with_uri(String::from(url))
        // A call is never sent a second time by anybody but us.
        .reinit_on_expired_session(false)
        .max_sse_event_size(MESSAGE_BYTES);
    config.allow_stateless = true;
    Ok(StreamableHttpClientTransport::with_client(client, config))
}

#[cfg(test)]
mod tests {
    use tokio::io::AsyncWriteExt as _;

    use super::*;
    use crate::{mcp::McpServer, model::ApiKey};

    #[tokio::test]
    async fn x_what_a_program_logs_is_without_its_secrets_however_it_is_written() {
        let server = McpServer::stdio("shop", ["shop"]).env("TOKEN", ApiKey::new("hunter2hunter2"));
        let (mut write, read) = tokio::io::duplex(8);
        let writing = tokio::spawn(async move {
            for part in ["token hunter2", "hunter2 is bad\nnext ", "line\n", "end"] {
                write.write_all(part.as_bytes()).await.expect("written");
            }
        });
        let mut told = Vec::new();
        lines(read, |line| told.push(server.redact(line))).await;
        writing.await.expect("written");
        assert_eq!(told, ["token [API key] is bad", "next line", "end"]);
    }
}
