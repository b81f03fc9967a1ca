//! The ledger: a file outside the product in which every tool records its start and its end.

use std::{
    fs::{self, OpenOptions},
    io::{self, Read as _, Write as _},
    path::Path,
    time::Duration,
};

use countersign_core::call::args::{Args, Digest};
use serde::{Deserialize, Serialize};
use serde_json::Value;

/// One line of the ledger.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Line {
    /// Whether the effect is about to happen or has happened.
    pub what: What,
    /// The tool.
    pub tool: String,
    /// The tool's `COUNTERSIGN_IDEMPOTENCY_KEY`.
    pub key: String,
    /// The tool's `COUNTERSIGN_ATTEMPT`.
    pub attempt: u32,
    /// SHA-256 of the bytes on its standard input, in hexadecimal.
    pub digest: String,
    /// Whether those bytes are canonical JSON.
    pub canonical: bool,
}

/// Which side of the effect a line records.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum What {
    /// Before it.
    Begin,
    /// After it.
    End,
}

/// A kill cuts a write to a file between two of its pages, and nowhere else; larger pages end at multiples of this,
/// too.
const PAGE_BYTES: usize = 4096;

/// The lines of a ledger, in order; none if nothing has written to it yet. A tool killed in the middle of a line has
/// not written it: it was killed before the effect that the line records.
///
/// # Errors
/// It cannot be read, or has an invalid line.
pub fn read(path: &Path) -> Result<Vec<Line>, String> {
    let text = match fs::read_to_string(path) {
        Ok(text) => text,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Vec::new()),
        Err(error) => return Err(format!("the ledger cannot be read: {error}")),
    };
    let (mut lines, mut end) = (Vec::new(), 0);
    for whole in text.split_inclusive('\n') {
        let line = whole.trim_end_matches('\n');
        let cut = end + line.len();
        end += whole.len();
        match serde_json::from_str(line) {
            _ if line.is_empty() => {}
            Ok(line) => lines.push(line),
            Err(_) if cut.is_multiple_of(PAGE_BYTES) => {}
            Err(error) => return Err(format!("the ledger has a broken line {line:?}: {error}")),
        }
    }
    Ok(lines)
}

/// The lines once no tool is running. Tools of a killed server run on for some milliseconds, or were killed in
/// the middle; those are waited for only briefly.
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

/// What every tool of these runs does: a line, a small pause (`ms` of its arguments), a line. With `fail` in its
/// arguments it ends as a failure.
///
/// # Errors
/// The environment is not as spec M2 promises, or the ledger cannot be written.
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
    // The server may be gone.
    let _ = writeln!(io::stdout(), "{tool} {} done", line.key);
    if args["fail"] == Value::Bool(true) { Err("told to fail".to_owned()) } else { Ok(()) }
}

fn append(path: &Path, line: &Line) -> Result<(), String> {
    // With a leading line break: even if the line before was cut, this one is complete.
    let text = format!("\n{}\n", serde_json::to_string(line).map_err(|error| error.to_string())?);
    let write = || {
        let mut file = OpenOptions::new().create(true).append(true).open(path)?;
        file.write_all(text.as_bytes())?;
        file.sync_data()
    };
    write().map_err(|error: io::Error| format!("the ledger cannot be written: {error}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn r4_a_line_cut_by_a_kill_at_a_page_is_ignored_and_cut_elsewhere_an_error() {
        let path = std::env::temp_dir().join(format!("countersign-ledger-{}", std::process::id()));
        let line = Line {
            what: What::Begin,
            tool: "post".to_owned(),
            key: "s/c1/b".to_owned(),
            attempt: 1,
            digest: "0".repeat(64),
            canonical: true,
        };
        let text = serde_json::to_string(&line).expect("json");
        for (cut, whole) in [(PAGE_BYTES, true), (PAGE_BYTES - 1, false), (PAGE_BYTES + 1, false)] {
            let _ = fs::remove_file(&path);
            append(&path, &line).expect("written");
            let room = cut - fs::read(&path).expect("read").len();
            let mut file = OpenOptions::new().append(true).open(&path).expect("open");
            file.write_all(&[vec![b'\n'; room - 20], text.as_bytes()[..20].to_vec()].concat()).expect("written");
            append(&path, &line).expect("written");
            assert_eq!(read(&path).map(|lines| lines.len()).ok(), whole.then_some(2), "cut at {cut}");
        }
        fs::remove_file(&path).expect("removed");
    }
}
