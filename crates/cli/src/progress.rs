//! The progress of a long command, on standard error.

use std::{
    io::{IsTerminal as _, Write as _},
    time::{Duration, Instant},
};

/// How often progress is shown, to a terminal and to a log.
const TELL: (Duration, Duration) = (Duration::from_millis(200), Duration::from_secs(10));

/// Shows progress now and then: in one line of a terminal, or in lines of a log.
#[derive(Default)]
pub(crate) struct Progress {
    shown_at: Option<Instant>,
    open: bool,
}

impl Progress {
    /// Shows `text` if it is time to, or if it is the last one.
    pub(crate) fn tell(&mut self, is_last: bool, text: impl FnOnce() -> String) {
        let mut out = std::io::stderr().lock();
        let terminal = out.is_terminal();
        let pause = if terminal { TELL.0 } else { TELL.1 };
        if !is_last && self.shown_at.is_some_and(|at| at.elapsed() < pause) {
            return;
        }
        self.shown_at = Some(Instant::now());
        self.open = terminal;
        let text = text();
        // Progress that nobody reads stops nothing.
        let _ =
            if terminal { write!(out, "\r{text}\x1b[K").and_then(|()| out.flush()) } else { writeln!(out, "{text}") };
    }

    /// Ends the line.
    pub(crate) fn end(&self) {
        if self.open {
            eprintln!();
        }
    }
}
