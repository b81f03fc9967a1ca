//! Typed input, line by line, without blocking: events are shown meanwhile.

use std::{
    fs::File,
    io::{BufRead as _, BufReader, Read as _},
    os::fd::AsFd as _,
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
        mpsc,
    },
    thread,
    time::Duration,
};

use countersign_core::limits::MESSAGE_FRAME_BYTES;
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use tokio::{
    sync::mpsc::{UnboundedReceiver, unbounded_channel},
    time::timeout,
};

use crate::{
    failure::Failure,
    remote::of_code,
    terminal::{self, check_whole, tell},
};

/// How long a line that is already there may take.
const HERE: Duration = Duration::from_millis(200);

/// A line, or why there is none; `None` at the end of the input.
type Read = Result<Option<Line>, Failure>;

/// A line of the input.
pub(super) struct Line {
    /// Its text, without its end.
    pub(super) text: String,
    /// How often something that needs a reply had been shown before it was typed.
    shown: u64,
}

/// Standard input. It is read only while a line is wanted, so that an editor has the terminal for itself.
pub(super) struct Lines {
    wanted: mpsc::Sender<()>,
    read: UnboundedReceiver<Read>,
    /// Whether a line is being read.
    reading: bool,
    /// Whether any was read: then the input is the chat's.
    began: bool,
    /// Whether it is a terminal at which a person replies.
    asks: bool,
    /// How often something was shown that needs a reply.
    shown: Arc<AtomicU64>,
    /// The input's end came where nobody could use it.
    ended: bool,
}

impl Lines {
    /// A reader with no line requested yet. `asks`: of a terminal at which a person replies.
    pub(super) fn new(asks: bool) -> std::io::Result<Lines> {
        let (wanted, requests) = mpsc::channel::<()>();
        let (lines, read) = unbounded_channel();
        let shown = Arc::new(AtomicU64::new(0));
        let now = shown.clone();
        let mut input = BufReader::new(File::from(std::io::stdin().as_fd().try_clone_to_owned()?));
        // A thread that does not keep the program from ending.
        thread::spawn(move || {
            let mut shown = 0;
            while requests.recv().is_ok() {
                let read = loop {
                    // What came together with the line before is as old.
                    let is_new = input.buffer().is_empty();
                    // Counted once a line is there and before it is read: then none counts as typed for what is shown later.
                    let is_there = !is_new || !asks || has_line(None);
                    if is_new && is_there {
                        shown = now.load(Ordering::SeqCst);
                    }
                    let bytes = line(&mut input);
                    if !is_there {
                        shown = now.load(Ordering::SeqCst);
                    }
                    match bytes.map(|bytes| bytes.map(|bytes| text(bytes, asks)).transpose()) {
                        // The person types it again; a program cannot.
                        Ok(Err(failure)) if asks => tell(&failure.text),
                        Ok(read) => break read,
                        Err(failure) => break Err(failure),
                    }
                };
                if lines.send(read.map(|text| text.map(|text| Line { text, shown }))).is_err() {
                    return;
                }
            }
        });
        Ok(Lines { wanted, read, reading: false, began: false, asks, shown, ended: false })
    }

    /// Whether more input has arrived after the lines that were read. Input of which nothing was read may be meant for
    /// another program, and is left alone.
    pub(super) async fn has_more(&mut self) -> bool {
        self.began && matches!(tokio::time::timeout(HERE, self.next()).await, Ok(Ok(Some(_)) | Err(_)))
    }

    /// The next line. If this future is dropped, the next call gets it.
    pub(super) async fn next(&mut self) -> Read {
        if std::mem::take(&mut self.ended) {
            return Ok(None);
        }
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

    /// Whether the line was typed before what was shown last, and so is no reply to it.
    pub(super) fn is_early(&self, line: &Line) -> bool {
        self.asks && line.shown < self.shown.load(Ordering::SeqCst)
    }

    /// A line that was typed before now. `None`: there is none, and from now on what is typed may be a reply to what is
    /// shown; an unfinished line is dropped.
    pub(super) async fn early(&mut self) -> Read {
        if self.asks && !self.ended {
            let read = match self.read.try_recv() {
                Ok(read) => {
                    self.reading = false;
                    Some(read?)
                }
                // Text without the end of a line (Ctrl+D) is there too, and no line yet: the rest of it may come later.
                Err(_) if has_line(Some(&Timespec::default())) => timeout(HERE, self.next()).await.ok().transpose()?,
                Err(_) => None,
            };
            match read {
                Some(Some(line)) => return Ok(Some(line)),
                Some(None) => self.keep_end(),
                None => {}
            }
        }
        self.drop_early();
        Ok(None)
    }

    /// From now on what is typed may be a reply to what is shown; what was typed before is dropped.
    pub(super) fn drop_early(&mut self) {
        if self.asks {
            // In this order, so that nothing that was typed before counts as typed for it.
            terminal::drop_early();
            self.shown.fetch_add(1, Ordering::SeqCst);
        }
    }

    /// Keeps the end of the input, for the next one who wants a line.
    pub(super) fn keep_end(&mut self) {
        self.ended = true;
    }

    /// Whether the end of the input is kept.
    pub(super) fn has_ended(&self) -> bool {
        self.ended
    }
}

/// Waits until the terminal has a line, or its end; returns whether it has one. `false` also if the terminal cannot tell.
fn has_line(limit: Option<&Timespec>) -> bool {
    loop {
        let stdin = std::io::stdin();
        let mut terminal = [PollFd::new(&stdin, PollFlags::IN)];
        match poll(&mut terminal, limit) {
            Err(rustix::io::Errno::INTR) => {}
            Ok(1..) => return !terminal[0].revents().contains(PollFlags::NVAL),
            Ok(0) | Err(_) => return false,
        }
    }
}

/// Reads a line. One that is too long for a frame is not read to its end.
fn line(input: &mut impl std::io::BufRead) -> Result<Option<Vec<u8>>, Failure> {
    let mut line = Vec::new();
    let read = input.take(MESSAGE_FRAME_BYTES as u64 + 1).read_until(b'\n', &mut line);
    read.map_err(|error| format!("cannot read the input: {error}"))?;
    if line.len() > MESSAGE_FRAME_BYTES {
        let text = format!("a line of the input has more than {MESSAGE_FRAME_BYTES} bytes (too_large)");
        return Err(Failure::new(of_code("too_large"), text));
    }
    Ok((!line.is_empty()).then_some(line))
}

/// Its text, without its end; `typed` at a terminal.
fn text(line: Vec<u8>, typed: bool) -> Result<String, Failure> {
    if typed {
        check_whole(&line)?;
    }
    let line = String::from_utf8(line).map_err(|error| match typed {
        true => "that line was not sent: it is not UTF-8, which the terminal must be set to; type it again".to_owned(),
        false => format!("cannot read the input: a line of it is not UTF-8: {error}"),
    })?;
    Ok(line.trim_end_matches(['\n', '\r']).to_owned())
}
