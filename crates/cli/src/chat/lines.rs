//! What is typed, line by line, without waiting for it: events are shown meanwhile.

use std::{sync::mpsc, thread};

use tokio::sync::mpsc::{UnboundedReceiver, unbounded_channel};

/// Standard input. It is read only while a line is wanted, so that an editor has the terminal for itself.
pub(super) struct Lines {
    wanted: mpsc::Sender<()>,
    read: UnboundedReceiver<Option<String>>,
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
                    Ok(0) | Err(_) => None,
                    Ok(_) => Some(line.trim().to_owned()),
                };
                if lines.send(line).is_err() {
                    return;
                }
            }
        });
        Lines { wanted, read, reading: false }
    }

    /// The next line; `None` at the end of the input. If this future is dropped, the next call gets the line.
    pub(super) async fn next(&mut self) -> Option<String> {
        if !self.reading {
            self.wanted.send(()).ok()?;
            self.reading = true;
        }
        let line = self.read.recv().await.flatten();
        self.reading = false;
        line
    }
}
