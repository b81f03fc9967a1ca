//! Tools that are programs: arguments on standard input, the result on standard output (spec M2).

use std::{
    ffi::OsString,
    io,
    os::unix::process::ExitStatusExt as _,
    path::{Path, PathBuf},
    process::ExitStatus,
    sync::Arc,
    time::Duration,
};

use countersign_core::{
    journal::permit::Permit,
    limits,
    locale::{Locale, Text},
    setting::SettingError,
};
use futures::future::BoxFuture;
use tokio::process::Command;

use countersign_engine::{
    process::{self, Outcome, PASSED_ENV},
    tool::{Tool, ToolError},
};

/// Default time limit of a command in seconds.
pub const TIME_LIMIT_SECONDS: u32 = 60;
/// Longest time limit of a command, in seconds: one day.
pub const TIME_LIMIT_SECONDS_MAX: u32 = 24 * 3600;

/// A valid time limit: neither zero nor longer than [`TIME_LIMIT_SECONDS_MAX`].
pub(crate) fn in_bounds(limit: Duration) -> Duration {
    limit.clamp(Duration::from_secs(1), Duration::from_secs(TIME_LIMIT_SECONDS_MAX.into()))
}
/// How much of a command's output an error shows, in bytes.
const SHOWN_BYTES: usize = 1024;

/// A program that is started once for each attempt of a call (spec M2, X).
///
/// * **No shell**: `argv` is the program and its arguments, unchanged. The call's arguments are never part of it: they
///   come as canonical JSON text on standard input, byte for byte what was approved.
/// * **Clean environment**: only [`PASSED_ENV`], the names given to [`CommandTool::pass_env`], and
///   `COUNTERSIGN_IDEMPOTENCY_KEY`, `COUNTERSIGN_SESSION_ID`, `COUNTERSIGN_TOOL_USE_ID` and `COUNTERSIGN_ATTEMPT` (a
///   number from 1). No other variable of the server, and so none of its secrets.
/// * **Result**: standard output, unchanged. Bytes that are not UTF-8 are replaced and a last line says so. Output
///   beyond the limit is an error, and the program is killed.
/// * **Errors** for the model: an exit code other than 0 (with the end of standard error), a signal, the time
///   limit, a program that cannot be started.
/// * **It ends as a whole**: the program leads its own process group, which is killed (SIGKILL) when the call is
///   cancelled, at the time limit, and 100 ms after the program has ended (at once if its output is closed). A program
///   cannot leave a background process behind in its group.
#[derive(Clone, Debug)]
pub struct CommandTool {
    inner: Arc<Inner>,
}

#[derive(Clone, Debug)]
struct Inner {
    program: OsString,
    arguments: Vec<String>,
    cwd: Option<PathBuf>,
    time_limit: Duration,
    output_limit: usize,
    pass_env: Vec<String>,
}

impl CommandTool {
    /// A command: the program and its arguments. A program without a `/` is searched for in `PATH`; a relative one with
    /// a `/` is relative to the working directory.
    ///
    /// # Errors
    /// `argv` is empty, its program is empty, or a part has a NUL character.
    pub fn new(argv: impl IntoIterator<Item = impl Into<String>>) -> Result<CommandTool, SettingError> {
        let mut argv = argv.into_iter().map(Into::into);
        let program: String = argv.next().unwrap_or_default();
        let arguments: Vec<String> = argv.collect();
        if program.is_empty() {
            return Err("a command needs a program".into());
        }
        if program.contains('\0') || arguments.iter().any(|a| a.contains('\0')) {
            return Err("a command must not contain a NUL character".into());
        }
        let inner = Inner {
            program: program.into(),
            arguments,
            cwd: None,
            time_limit: Duration::from_secs(TIME_LIMIT_SECONDS.into()),
            output_limit: limits::RESULT_BYTES,
            pass_env: Vec::new(),
        };
        Ok(CommandTool { inner: Arc::new(inner) })
    }

    /// The working directory; the server's own by default.
    #[must_use]
    pub fn cwd(mut self, directory: impl Into<PathBuf>) -> CommandTool {
        Arc::make_mut(&mut self.inner).cwd = Some(directory.into());
        self
    }

    /// How long until the command is killed; a minute by default, 1 to 86 400 seconds.
    #[must_use]
    pub fn time_limit(mut self, limit: Duration) -> CommandTool {
        Arc::make_mut(&mut self.inner).time_limit = in_bounds(limit);
        self
    }

    /// Most bytes of standard output: [`limits::RESULT_BYTES`] by default, and at most.
    #[must_use]
    pub fn output_limit(mut self, bytes: usize) -> CommandTool {
        Arc::make_mut(&mut self.inner).output_limit = bytes.clamp(1, limits::RESULT_BYTES);
        self
    }

    /// More variables to pass on from the server's environment, if they are set there when a call starts.
    #[must_use]
    pub fn pass_env(mut self, names: impl IntoIterator<Item = impl Into<String>>) -> CommandTool {
        Arc::make_mut(&mut self.inner).pass_env.extend(names.into_iter().map(Into::into));
        self
    }
}

impl CommandTool {
    /// Starts the program with this text on its standard input, for something other than a tool call: a guardrail.
    ///
    /// # Errors
    /// It could not be started, or failed, with the text that the result of a call would have.
    #[doc(hidden)]
    pub async fn answer(&self, input: &str, locale: Locale) -> Result<String, ToolError> {
        self.inner.run(input, &[], locale).await
    }
}

impl Tool for CommandTool {
    fn run(&self, permit: Permit) -> BoxFuture<'static, Result<String, ToolError>> {
        let inner = self.inner.clone();
        Box::pin(async move {
            let own = [
                ("COUNTERSIGN_IDEMPOTENCY_KEY", permit.idempotency_key()),
                ("COUNTERSIGN_SESSION_ID", permit.session_id().to_owned()),
                ("COUNTERSIGN_TOOL_USE_ID", permit.call_id().to_owned()),
                ("COUNTERSIGN_ATTEMPT", permit.attempt().to_string()),
            ];
            inner.run(permit.args().text(), &own, permit.locale()).await
        })
    }
}

impl Inner {
    /// Starts the program with this text on its standard input and these extra variables.
    async fn run(&self, input: &str, own: &[(&str, String)], locale: Locale) -> Result<String, ToolError> {
        let say = |text, values: &[(&str, &str)]| Err(ToolError::new(locale.fill(text, values)));
        let program = Path::new(&self.program).display().to_string();
        if let Some(cwd) = self.cwd.as_deref().filter(|cwd| !cwd.is_dir()) {
            let folder = cwd.display().to_string();
            return Err(ToolError::new(locale.fill(Text::CommandNoFolder, &[("folder", &folder)])).unbegun());
        }
        let started = process::run(self.command(own), input.as_bytes(), self.output_limit, self.time_limit).await;
        match started {
            Ok(Outcome::Ended { status, stdout, .. }) if status.success() => Ok(text(stdout, locale)),
            Ok(Outcome::Ended { status, stdout, stderr }) => Err(failed(status, &stdout, &stderr, locale)),
            Ok(Outcome::TooMuchOutput { stdout }) => {
                let (bytes, output) = (self.output_limit.to_string(), beginning(&stdout));
                say(Text::CommandTooMuch, &[("bytes", &bytes), ("output", &output)])
            }
            Ok(Outcome::TooLong) => say(Text::CommandTooLong, &[("seconds", &self.time_limit.as_secs().to_string())]),
            Err(error) => {
                let text = match error.kind() {
                    io::ErrorKind::NotFound => Text::CommandNotFound,
                    io::ErrorKind::PermissionDenied => Text::CommandNotAllowed,
                    _ => Text::CommandNotStarted,
                };
                let values: [(&str, &str); 2] = [("program", &program), ("error", &error.to_string())];
                Err(ToolError::new(locale.fill(text, &values)).unbegun())
            }
        }
    }

    fn command(&self, own: &[(&str, String)]) -> Command {
        let mut command = match self.cwd.as_deref() {
            Some(cwd) if is_relative_path(&self.program) => Command::new(cwd.join(&self.program)),
            _ => Command::new(&self.program),
        };
        command.args(&self.arguments).env_clear();
        if let Some(cwd) = &self.cwd {
            command.current_dir(cwd);
        }
        for name in PASSED_ENV.into_iter().chain(self.pass_env.iter().map(String::as_str)) {
            if let Some(value) = std::env::var_os(name) {
                command.env(name, value);
            }
        }
        for (name, value) in own {
            // The call's id is the model's text, and a NUL character cannot be passed on.
            command.env(name, value.replace('\0', "\u{fffd}"));
        }
        command
    }
}

fn is_relative_path(program: &OsString) -> bool {
    let path = Path::new(program);
    path.is_relative() && path.components().count() > 1 || path.starts_with(".")
}

fn text(stdout: Vec<u8>, locale: Locale) -> String {
    match String::from_utf8(stdout) {
        Ok(text) => text,
        Err(error) => {
            let text = String::from_utf8_lossy(error.as_bytes());
            format!("{text}\n{}", locale.text(Text::NotUtf8))
        }
    }
}

fn failed(status: ExitStatus, stdout: &[u8], stderr: &[u8], locale: Locale) -> ToolError {
    let how = match (status.code(), status.signal()) {
        (Some(code), _) => locale.fill(Text::CommandExit, &[("code", &code.to_string())]),
        (None, Some(signal)) => locale.fill(Text::CommandSignal, &[("signal", &signal.to_string())]),
        (None, None) => locale.text(Text::CommandFailed).to_owned(),
    };
    let errors = String::from_utf8_lossy(stderr);
    let errors = errors.trim();
    ToolError::new(if !errors.is_empty() {
        format!("{how}: {errors}")
    } else if stdout.is_empty() {
        locale.fill(Text::CommandWroteNothing, &[("how", &how)])
    } else {
        locale.fill(Text::CommandWroteOutput, &[("how", &how), ("output", &beginning(stdout))])
    })
}

fn beginning(bytes: &[u8]) -> String {
    String::from_utf8_lossy(&bytes[..bytes.len().min(SHOWN_BYTES)]).trim().to_owned()
}

#[cfg(test)]
#[path = "command_tests.rs"]
mod tests;
