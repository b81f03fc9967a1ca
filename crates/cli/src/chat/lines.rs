//! What is typed, line by line, without waiting for it: events are shown meanwhile.

use std::{sync::mpsc, thread};

use tokio::sync::mpsc::{UnboundedReceiver, unbounded_channel};

/// A line, or why there is none; `None` at the end of the input.
type Read = Result<Option<String>, String>;

/// Standard input. It is read only while a line is wanted, so that an editor has the terminal for itself.
pub(super) struct Lines {
    wanted: mpsc::Sender<()>,
    read: UnboundedReceiver<Read>,
    /// Whether a line is being read.
    reading: bool,
}

impl Lines {
    /// Begins with nothing wanted.
    pub(super) fn new() -> Lines {
        let (wanted, requests) = mpsc::channel::<()>();
        let (lines, read) = unbounded_channel();
        // A thread that no end of the program waits for.
        thread::spawn(move || {
            while requests.recv().is_ok() {
                let mut line = String::new();
                let line = match std::io::stdin().read_line(&mut line) {
                    Ok(0) => Ok(None),
                    Ok(_) => Ok(Some(line.trim_end_matches(['\n', '\r']).to_owned())),
                    Err(error) => Err(format!("cannot read the input: {error}")),
                };
                if lines.send(line).is_err() {
                    return;
                }
            }
        });
        Lines { wanted, read, reading: false }
    }

    /// The next line. If this future is dropped, the next call gets it.
    pub(super) async fn next(&mut self) -> Read {
        if !self.reading {
            if self.wanted.send(()).is_err() {
                return Ok(None);
            }
            self.reading = true;
        }
        let line = self.read.recv().await.unwrap_or(Ok(None));
        self.reading = false;
        line
    }
}
