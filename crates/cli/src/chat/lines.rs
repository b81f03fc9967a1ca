//! Typed input, line by line, without blocking: events are shown meanwhile.

use std::{
    io::{BufRead as _, Read as _},
    sync::mpsc,
    thread,
    time::Duration,
};

use countersign_core::limits::MESSAGE_FRAME_BYTES;
use tokio::sync::mpsc::{UnboundedReceiver, unbounded_channel};

use crate::{failure::Failure, remote::of_code};

/// How long a line that is already there may take.
const HERE: Duration = Duration::from_millis(200);

/// A line, or why there is none; `None` at the end of the input.
type Read = Result<Option<String>, Failure>;

/// Standard input. It is read only while a line is wanted, so that an editor has the terminal for itself.
pub(super) struct Lines {
    wanted: mpsc::Sender<()>,
    read: UnboundedReceiver<Read>,
    /// Whether a line is being read.
    reading: bool,
    /// Whether any was read: then the input is the chat's.
    began: bool,
}

impl Lines {
    /// A reader with no line requested yet.
    pub(super) fn new() -> Lines {
        let (wanted, requests) = mpsc::channel::<()>();
        let (lines, read) = unbounded_channel();
        // A thread that does not keep the program from ending.
        thread::spawn(move || {
            while requests.recv().is_ok() {
                if lines.send(line(&mut std::io::stdin().lock())).is_err() {
                    return;
                }
            }
        });
        Lines { wanted, read, reading: false, began: false }
    }

    /// Whether more input has arrived after the lines that were read. Input of which nothing was read may be meant for
    /// somebody else, and is left alone.
    pub(super) async fn has_more(&mut self) -> bool {
        self.began && matches!(tokio::time::timeout(HERE, self.next()).await, Ok(Ok(Some(_))))
    }

    /// The next line. If this future is dropped, the next call gets it.
    pub(super) async fn next(&mut self) -> Read {
        if !self.reading {
            if self.wanted.send(()).is_err() {
                return Ok(None);
            }
            (self.reading, self.began) = (true, true);
        }
        let line = self.read.recv().await.unwrap_or(Ok(None));
        self.reading = false;
        line
    }
}

/// Reads a line. One that is too long for a frame is not read to its end.
fn line(input: &mut impl std::io::BufRead) -> Read {
    let mut line = Vec::new();
    let read = input.take(MESSAGE_FRAME_BYTES as u64 + 1).read_until(b'\n', &mut line);
    let cannot = |error: &dyn std::fmt::Display| Failure::from(format!("cannot read the input: {error}"));
    read.map_err(|error| cannot(&error))?;
    if line.is_empty() {
        return Ok(None);
    }
    if line.len() > MESSAGE_FRAME_BYTES {
        let text = format!("a line of the input has more than {MESSAGE_FRAME_BYTES} bytes (too_large)");
        return Err(Failure::new(of_code("too_large"), text));
    }
    let line = String::from_utf8(line).map_err(|error| cannot(&error))?;
    Ok(Some(line.trim_end_matches(['\n', '\r']).to_owned()))
}
