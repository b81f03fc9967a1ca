//! The two transports to a server: a program's standard input and output, and streamable HTTP.

use std::{
    collections::VecDeque,
    path::Path,
    process::Stdio,
    sync::{Arc, Mutex, MutexGuard, PoisonError, atomic::AtomicBool},
    time::Duration,
};

use rmcp::transport::{StreamableHttpClientTransport, streamable_http_client::StreamableHttpClientTransportConfig};
use tokio::{
    io::{AsyncRead, AsyncReadExt as _},
    process::{ChildStdin, ChildStdout, Command},
    task::JoinHandle,
    time::timeout,
};

use super::{
    http::Http,
    pace::Warnings,
    pipes::{MESSAGE_BYTES, Pipes},
    settings::secrets::Secrets,
    settings::{Address, Program, url},
};
use countersign_engine::{
    outgoing,
    process::{Group, PASSED_ENV},
};

/// Longest line of a program's standard error that is logged as one, in bytes.
const LINE_BYTES: usize = 64 * 1024;
/// How long a program may take to end on its own once its standard input is closed.
const ENDING: Duration = Duration::from_secs(1);

/// A server's program, ended as a group when it is dropped.
pub(super) struct Process {
    group: Group,
    /// Drains its standard error, which would block it otherwise.
    log: JoinHandle<()>,
}

impl Process {
    /// Starts the program; `told` gets its standard error, line by line; `warnings` are about messages that are not read.
    pub(super) fn start(
        program: &Program,
        warnings: Arc<Warnings>,
        told: impl FnMut(&str) + Send + 'static,
    ) -> Result<(Process, Pipes<ChildStdout, ChildStdin>), String> {
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
            command.env(name, value.value.expose());
        }
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped()).process_group(0);
        let started = Group::spawn(&mut command);
        let mut group = started.map_err(|error| format!("its program {name:?} cannot be started: {error}"))?;
        let child = &mut group.child;
        match (child.stdout.take(), child.stdin.take(), child.stderr.take()) {
            (Some(output), Some(input), Some(errors)) => {
                let log = tokio::spawn(lines(errors, told));
                Ok((Process { group, log }, Pipes::new(output, input, warnings)))
            }
            _ => Err(format!("its program {name:?} has no standard input and output")),
        }
    }

    /// Waits briefly until all of its standard error is read, if it has ended.
    pub(super) async fn last_words(&mut self) {
        let _ = timeout(ENDING, &mut self.log).await;
    }

    /// Waits briefly for the program to end on its own, then kills its process group.
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

/// Most lines that are kept, and how much of each, in characters.
const LAST: usize = 8;
const LAST_CHARS: usize = 200;

/// The last lines of a program's standard error.
#[derive(Default)]
pub(super) struct LastLines(Mutex<VecDeque<String>>);

impl LastLines {
    fn all(&self) -> MutexGuard<'_, VecDeque<String>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(super) fn clear(&self) {
        self.all().clear();
    }

    pub(super) fn add(&self, line: &str) {
        let mut all = self.all();
        if !line.is_empty() {
            all.push_back(line.to_owned());
        }
        if all.len() > LAST {
            all.pop_front();
        }
    }

    /// All of them, redacted and cut. Nothing in it acts on a terminal, or begins a line of a log.
    pub(super) fn text(&self, redact: impl Fn(&str) -> String) -> String {
        let plain = |line: &String| -> String { line.chars().filter(|c| !c.is_control()).collect() };
        // Redacted as it is shown, and together: a secret may have several lines.
        let text = redact(&self.all().iter().map(plain).collect::<Vec<_>>().join("\n"));
        let cut = |line: &str| -> String { line.trim().chars().take(LAST_CHARS).collect() };
        text.lines().map(cut).collect::<Vec<_>>().join(" | ")
    }
}

/// Reads lines to the end. A line that is too long is split.
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

/// The transport to an address. `may_be_gone` becomes true when the server may no longer know the session.
pub(super) fn http(
    address: &Address,
    secrets: Arc<Secrets>,
    may_be_gone: Arc<AtomicBool>,
    warnings: Arc<Warnings>,
) -> Result<StreamableHttpClientTransport<Http>, String> {
    let url = url(&address.url)?;
    // The secrets belong to the client, so that nothing above it knows them.
    let builder = outgoing::client(&url).default_headers(address.header_map()?);
    let client = builder.build().map_err(|_| "no client for its address can be made".to_owned())?;
    let client = Http::new(client, secrets, may_be_gone, warnings);
    let mut config = StreamableHttpClientTransportConfig::with_uri(String::from(url))
        // Only this crate may send a call a second time.
        .reinit_on_expired_session(false)
        .max_sse_event_size(MESSAGE_BYTES);
    config.allow_stateless = true;
    Ok(StreamableHttpClientTransport::with_client(client, config))
}

#[cfg(test)]
mod tests {
    use tokio::io::AsyncWriteExt as _;

    use super::*;
    use crate::McpServer;
    use countersign_engine::key::ApiKey;

    #[test]
    fn x_the_last_lines_of_a_program_have_no_secret_of_several_lines_and_none_with_other_characters_in_it() {
        let secret = ApiKey::new("one two\nthree");
        let server = McpServer::stdio("shop", ["shop"]).env("KEY", secret).env("TOKEN", ApiKey::new("hunter2hunter2"));
        let secrets = Secrets::of(&server.reach);
        let last = LastLines::default();
        for line in ["bad:", "one two", "three", "hunter2\u{7}hunter2", "end"] {
            last.add(line);
        }
        assert_eq!(last.text(|text| secrets.redact(text)), "bad: | [API key] | [API key] | end");
    }

    #[tokio::test]
    async fn x_a_programs_log_is_redacted_however_it_is_written() {
        let server = McpServer::stdio("shop", ["shop"]).env("TOKEN", ApiKey::new("hunter2hunter2"));
        let secrets = Secrets::of(&server.reach);
        let (mut write, read) = tokio::io::duplex(8);
        let writing = tokio::spawn(async move {
            for part in ["token hunter2", "hunter2 is bad\nnext ", "line\n", "end"] {
                write.write_all(part.as_bytes()).await.expect("written");
            }
        });
        let mut told = Vec::new();
        lines(read, |line| told.push(secrets.redact(line))).await;
        writing.await.expect("written");
        assert_eq!(told, ["token [API key] is bad", "next line", "end"]);
    }
}
