//! The ledger: a file outside the product in which every tool writes down that it began and that it ended.

use std::{
    fs::{self, OpenOptions},
    io::{self, Read as _, Write as _},
    path::Path,
    time::Duration,
};

use countersign::core::call::args::{Args, Digest};
use serde::{Deserialize, Serialize};
use serde_json::Value;

/// One line of the ledger.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Line {
    /// Whether the effect is about to happen or has happened.
    pub what: What,
    /// The tool.
    pub tool: String,
    /// What the tool was given as `COUNTERSIGN_IDEMPOTENCY_KEY`.
    pub key: String,
    /// What the tool was given as `COUNTERSIGN_ATTEMPT`.
    pub attempt: u32,
    /// SHA-256 of the bytes on its standard input, in hexadecimal.
    pub digest: String,
    /// Whether those bytes are canonical JSON.
    pub canonical: bool,
}

/// Which side of the effect a line stands on.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum What {
    /// Before it.
    Begin,
    /// After it.
    End,
}

/// The lines of a ledger, in order; none if nothing has written to it yet.
///
/// # Errors
/// It cannot be read, or a line is not one.
pub fn read(path: &Path) -> Result<Vec<Line>, String> {
    let text = match fs::read_to_string(path) {
        Ok(text) => text,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Vec::new()),
        Err(error) => return Err(format!("the ledger cannot be read: {error}")),
    };
    text.lines()
        .map(|line| {
            serde_json::from_str(line).map_err(|error| format!("the ledger has a broken line {line:?}: {error}"))
        })
        .collect()
}

/// The lines once no tool is at work any more. Tools of a killed server go on for some milliseconds, or
/// were killed in the middle; the latter are not waited for longer than a moment.
///
/// # Errors
/// As [`read`].
pub async fn settled(path: &Path) -> Result<Vec<Line>, String> {
    let mut lines = read(path)?;
    for _ in 0..20 {
        tokio::time::sleep(Duration::from_millis(25)).await;
        let again = read(path)?;
        let ends = again.iter().filter(|line| line.what == What::End).count();
        let quiet = again.len() == lines.len() && 2 * ends == again.len();
        lines = again;
        if quiet {
            break;
        }
    }
    Ok(lines)
}

/// What every tool of the torture does: a line, a small pause (`ms` of its arguments), a line. With
/// `fail` in its arguments it ends as a failure.
///
/// # Errors
/// The environment is not what SPEC M2 promises, or the ledger cannot be written.
pub fn tool(path: &Path, tool: &str) -> Result<(), String> {
    let mut input = Vec::new();
    io::stdin().read_to_end(&mut input).map_err(|error| format!("no input: {error}"))?;
    let text = String::from_utf8_lossy(&input);
    let args: Value = serde_json::from_str(&text).unwrap_or_default();
    let var = |name: &str| std::env::var(name).map_err(|_| format!("{name} is not set"));
    let mut line = Line {
        what: What::Begin,
        tool: tool.to_owned(),
        key: var("COUNTERSIGN_IDEMPOTENCY_KEY")?,
        attempt: var("COUNTERSIGN_ATTEMPT")?.parse().map_err(|_| "COUNTERSIGN_ATTEMPT is no number".to_owned())?,
        digest: Digest::of(&input).to_string(),
        canonical: Args::parse(&text).is_ok_and(|args| args.text().as_bytes() == input),
    };
    append(path, &line)?;
    std::thread::sleep(Duration::from_millis(args["ms"].as_u64().unwrap_or(0).min(1000)));
    line.what = What::End;
    append(path, &line)?;
    // The server may be gone, which is its affair.
    let _ = writeln!(io::stdout(), "{tool} {} done", line.key);
    if args["fail"] == Value::Bool(true) { Err("told to fail".to_owned()) } else { Ok(()) }
}

fn append(path: &Path, line: &Line) -> Result<(), String> {
    let mut text = serde_json::to_string(line).map_err(|error| error.to_string())?;
    text.push('\n');
    let write = || {
        let mut file = OpenOptions::new().create(true).append(true).open(path)?;
        file.write_all(text.as_bytes())?;
        file.sync_data()
    };
    write().map_err(|error: io::Error| format!("the ledger cannot be written: {error}"))
}
