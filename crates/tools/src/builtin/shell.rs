//! Running command lines: `shell` (spec S12, M2).

use std::{os::unix::process::ExitStatusExt as _, path::PathBuf, sync::Arc, time::Duration};

use countersign_core::{
    call::{args::Args, preview::Preview, schema::schema_of},
    journal::permit::Permit,
    limits,
};
use futures::future::BoxFuture;
use schemars::JsonSchema;
use serde::Deserialize;
use tokio::{process::Command, time::Instant};

use super::{super::command::in_bounds, workspace::Workspace};
use countersign_engine::{
    process::{self, Outcome, PASSED_ENV},
    tool::{
        Approval, CallFacts, Previewer, Tool, ToolEntry, ToolError, ToolSpec, function::read_args, order::Order,
        reserved::SHELL,
    },
};

/// Most command lines of one call.
const COMMANDS: usize = 50;
/// Default time limit in seconds of all command lines of a call.
const TIME_LIMIT_SECONDS: u32 = 120;
/// Default limit in bytes of a command line's standard output.
const OUTPUT_BYTES: usize = 64 * 1024;

/// Runs command lines with `sh -c`, one after the other, in the workspace's folder (spec S12).
///
/// **The folder confines nothing**: a command line can do whatever the program's user can. The folder is only its
/// working directory. So a person is asked about each call, unless the tool is configured otherwise.
///
/// * **Clean environment**: only [`PASSED_ENV`], and the names given to [`Shell::pass_env`].
/// * **In order**: the calls of one answer on a workspace's files, command lines among them, take effect in the model's order.
/// * **Result**: for each command line, its standard output, the end of its standard error, and how it ended. A command
///   line that fails is not an error of the call, and the next one is run.
/// * **It ends as a whole**: each command line leads its own process group, which is killed with it, at the time limit,
///   and when the call is cancelled. Command lines after a killed one, or one that cannot be started, are not run.
#[derive(Clone, Debug)]
pub struct Shell {
    folder: PathBuf,
    source: Arc<str>,
    /// That of the workspace's files: its command lines read and change them.
    order: Order,
    time_limit: Duration,
    output_limit: usize,
    pass_env: Vec<String>,
}

/// The tool `shell` on this folder; see [`Shell`].
#[must_use]
pub fn shell(workspace: &Workspace) -> ToolEntry {
    Shell::new(workspace).entry()
}

#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct Commands {
    /// Command lines, each run by sh -c in the workspace's folder, one after the other.
    #[schemars(length(min = 1))]
    commands: Vec<String>,
    /// Milliseconds that all of them may take; less than the tool's own limit.
    timeout_ms: Option<u64>,
}

impl Shell {
    /// A shell whose working directory is the workspace.
    #[must_use]
    pub fn new(workspace: &Workspace) -> Shell {
        Shell {
            folder: workspace.path().to_owned(),
            source: workspace.source(),
            order: workspace.order(),
            time_limit: Duration::from_secs(TIME_LIMIT_SECONDS.into()),
            output_limit: OUTPUT_BYTES,
            pass_env: Vec::new(),
        }
    }

    /// How long until a call's command lines are killed; two minutes by default, 1 to 86 400 seconds.
    #[must_use]
    pub fn time_limit(mut self, limit: Duration) -> Shell {
        self.time_limit = in_bounds(limit);
        self
    }

    /// Most bytes of standard output of a command line; 64 KiB by default, [`limits::RESULT_BYTES`] at most.
    #[must_use]
    pub fn output_limit(mut self, bytes: usize) -> Shell {
        self.output_limit = bytes.clamp(1, limits::RESULT_BYTES);
        self
    }

    /// More variables to pass on from this program's environment.
    #[must_use]
    pub fn pass_env(mut self, names: impl IntoIterator<Item = impl Into<String>>) -> Shell {
        self.pass_env.extend(names.into_iter().map(Into::into));
        self
    }

    /// The tool; a person is asked about each call.
    #[must_use]
    pub fn entry(self) -> ToolEntry {
        let spec = ToolSpec::new(
            SHELL,
            "Run command lines with sh, one after the other, in the workspace's folder. Each begins anew: \
                          a change of folder or of a variable does not last.",
            Arc::new(schema_of::<Commands>()),
        );
        let (source, order, shell) = (self.source.clone(), self.order.clone(), Arc::new(self));
        ToolEntry::new(spec, shell.clone())
            .of_source(source)
            .needs_approval(Approval::always())
            .preview(shell)
            .in_order(order)
    }

    async fn run(self: Arc<Shell>, args: Commands) -> Result<String, ToolError> {
        let own = args.timeout_ms.map_or(self.time_limit, Duration::from_millis);
        let end = Instant::now() + own.min(self.time_limit);
        let mut told = Vec::new();
        for (i, line) in args.commands.iter().enumerate() {
            let left = end.saturating_duration_since(Instant::now());
            let (text, ends) = match process::run(self.command(line), &[], self.output_limit, left).await {
                Ok(outcome) => told_of(line, outcome, self.output_limit, own.min(self.time_limit)),
                // Those before it have run: it may be one of them that has removed the folder.
                Err(error) if i > 0 => (format!("$ {line}\n[not run: sh cannot be started: {error}]\n"), true),
                Err(error) => return Err(ToolError::new(format!("sh cannot be started: {error}")).unbegun()),
            };
            told.push(text);
            let rest = args.commands.len() - i - 1;
            if ends && rest > 0 {
                told.push(format!("[{rest} more not run]"));
            }
            if ends {
                break;
            }
        }
        Ok(bounded(told.join("\n")))
    }

    fn command(&self, line: &str) -> Command {
        let mut command = Command::new("sh");
        command.arg("-c").arg(line).env_clear().current_dir(&self.folder);
        for name in PASSED_ENV.into_iter().chain(self.pass_env.iter().map(String::as_str)) {
            if let Some(value) = std::env::var_os(name) {
                command.env(name, value);
            }
        }
        command
    }
}

/// The command lines of a call.
fn read(args: &str) -> Result<Commands, String> {
    let args: Commands = read_args(args).map_err(|error| error.to_string())?;
    let commands = &args.commands;
    if commands.is_empty() || commands.len() > COMMANDS {
        return Err(format!("a call has 1 to {COMMANDS} command lines; this one has {}", commands.len()));
    }
    if commands.iter().any(|line| line.contains('\0')) {
        return Err("a command line must not contain a NUL character".to_owned());
    }
    Ok(args)
}

/// The report on a command line. The second part: whether it was killed.
fn told_of(line: &str, outcome: Outcome, limit: usize, time: Duration) -> (String, bool) {
    let mut text = format!("$ {line}\n");
    let mut say = |part: &str| {
        if !part.is_empty() {
            text.push_str(part);
            if !part.ends_with('\n') {
                text.push('\n');
            }
        }
    };
    let killed = match outcome {
        Outcome::Ended { status, stdout, stderr } => {
            say(&String::from_utf8_lossy(&stdout));
            if !stderr.is_empty() {
                say("[standard error]");
                say(&String::from_utf8_lossy(&stderr));
            }
            match (status.code(), status.signal()) {
                (Some(code), _) => say(&format!("[exit code {code}]")),
                (None, Some(signal)) => say(&format!("[ended by signal {signal}]")),
                (None, None) => say("[ended]"),
            }
            false
        }
        Outcome::TooMuchOutput { stdout } => {
            say(&String::from_utf8_lossy(&stdout));
            say(&format!("[killed: it wrote more than {limit} bytes]"));
            true
        }
        Outcome::TooLong => {
            say(&format!("[killed: it took longer than {} ms]", time.as_millis()));
            true
        }
    };
    (text, killed)
}

/// The beginning and the end of a text that is too long for a result.
fn bounded(text: String) -> String {
    let most = limits::RESULT_BYTES - 1024;
    if text.len() <= most {
        return text;
    }
    let (head, tail) = (text.floor_char_boundary(most / 2), text.ceil_char_boundary(text.len() - most / 2));
    format!("{}\n[{} bytes left out]\n{}", &text[..head], tail - head, &text[tail..])
}

impl Tool for Shell {
    fn run(&self, permit: Permit) -> BoxFuture<'static, Result<String, ToolError>> {
        let shell = Arc::new(self.clone());
        Box::pin(async move {
            let args = read(permit.args().text()).map_err(|why| ToolError::new(why).unbegun())?;
            shell.run(args).await
        })
    }
    fn fits(&self, args: &Args) -> Result<(), String> {
        read(args.text()).map(drop)
    }
}

impl Previewer for Shell {
    /// The command lines as a shell echoes them: no continuation line looks like a separate command.
    fn preview<'a>(&'a self, call: &'a CallFacts<'a>) -> BoxFuture<'a, Result<Preview, String>> {
        Box::pin(async move {
            let args = read(call.args.text())?;
            let lines = args.commands.iter().map(|line| format!("$ {}", line.replace('\n', "\n> ")));
            let lines = std::iter::once(format!("# in {}", self.folder.display())).chain(lines);
            Ok(Preview::text(&lines.collect::<Vec<_>>().join("\n")))
        })
    }
}
