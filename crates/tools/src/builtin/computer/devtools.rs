//! The DevTools protocol of a browser, over two pipes that no program of another user can reach: one request at a time.
//! Each message is JSON and ends with a zero byte.
//!
//! The pipes are the browser's file descriptors 3 and 4. A WebSocket would need a debugging port, which has no
//! password: any program on the machine could control the browser.

use std::{io, time::Duration};

use serde_json::{Value, json};
use tokio::{
    io::{AsyncBufReadExt as _, AsyncRead, AsyncWrite, AsyncWriteExt as _, BufReader},
    process::{ChildStdin, ChildStdout},
    time::timeout,
};

/// How long an answer may take.
const ANSWER: Duration = Duration::from_secs(30);
/// Largest message of the browser, in bytes: a screenshot.
const MESSAGE_BYTES: usize = 64 * 1024 * 1024;

/// A connection to a browser, and to one page of it once it is attached.
pub(super) struct DevTools<W = ChildStdin, R = ChildStdout> {
    to: W,
    /// Unsent bytes: a cancelled request must not leave half a message behind.
    unsent: Vec<u8>,
    from: BufReader<R>,
    /// The beginning of the next message.
    begun: Vec<u8>,
    session: Option<String>,
    next: u64,
    /// How many pages have finished loading.
    loads: u64,
    /// How many answers did not arrive in time: a page that never returns delays them forever.
    late: u32,
}

impl<W: AsyncWrite + Unpin + Send, R: AsyncRead + Unpin + Send> DevTools<W, R> {
    pub(super) fn new(to: W, from: R) -> DevTools<W, R> {
        let from = BufReader::new(from);
        DevTools { to, unsent: Vec::new(), from, begun: Vec::new(), session: None, next: 0, loads: 0, late: 0 }
    }

    /// Talks to this page from now on.
    pub(super) fn attached(&mut self, session: String) {
        self.session = Some(session);
    }

    /// Sends a request and waits for the answer.
    ///
    /// # Errors
    /// The browser refuses it, with its message; it does not answer in time; it has ended.
    pub(super) async fn ask(&mut self, method: &str, params: Value) -> Result<Value, String> {
        self.ask_within(ANSWER, method, params).await
    }

    /// The same, with another timeout.
    pub(super) async fn ask_within(&mut self, most: Duration, method: &str, params: Value) -> Result<Value, String> {
        let answered = timeout(most, async {
            let id = self.send(method, params).await?;
            loop {
                let message = self.read().await?;
                if message["id"] == id {
                    return match message.get("error") {
                        Some(error) => Err(error["message"].as_str().unwrap_or("refused").to_owned()),
                        None => Ok(message["result"].clone()),
                    };
                }
            }
        });
        let answered = answered.await;
        self.late += u32::from(answered.is_err());
        answered.map_err(|_| late(most, method))?
    }

    /// How many answers did not arrive in time so far.
    pub(super) fn late(&self) -> u32 {
        self.late
    }

    /// Navigates to a page, and waits until it is loaded.
    pub(super) async fn go_to(&mut self, url: &str) -> Result<(), String> {
        let before = self.loads;
        let gone = self.ask("Page.navigate", json!({ "url": url })).await?;
        if let Some(error) = gone["errorText"].as_str() {
            return Err(format!("{url}: {error}"));
        }
        let loaded = timeout(ANSWER, async {
            while self.loads == before {
                self.read().await?;
            }
            Ok(())
        });
        loaded.await.map_err(|_| late(ANSWER, url))?
    }

    async fn send(&mut self, method: &str, params: Value) -> Result<u64, String> {
        self.next += 1;
        let mut message = json!({ "id": self.next, "method": method, "params": params });
        if let Some(session) = &self.session {
            message["sessionId"] = json!(session);
        }
        self.unsent.extend(message.to_string().bytes().chain([0]));
        while !self.unsent.is_empty() {
            let written = self.to.write(&self.unsent).await.map_err(|error| ended(&error))?;
            self.unsent.drain(..written);
        }
        Ok(self.next)
    }

    /// The next message. The browser's own requests are handled.
    async fn read(&mut self) -> Result<Value, String> {
        loop {
            let more = self.from.fill_buf().await.map_err(|error| ended(&error))?;
            if more.is_empty() {
                return Err("the browser has ended".to_owned());
            }
            let end = more.iter().position(|byte| *byte == 0);
            let (text, read) = end.map_or((more, more.len()), |end| (&more[..end], end + 1));
            if self.begun.len() + text.len() > MESSAGE_BYTES {
                return Err(format!("the browser sends more than {MESSAGE_BYTES} bytes at once"));
            }
            self.begun.extend_from_slice(text);
            self.from.consume(read);
            if end.is_some() {
                break;
            }
        }
        let text = std::mem::take(&mut self.begun);
        let message: Value = serde_json::from_slice(&text).map_err(|error| error.to_string())?;
        match message["method"].as_str() {
            Some("Page.loadEventFired") => self.loads += 1,
            // A dialog would block the page, and no picture shows it.
            Some("Page.javascriptDialogOpening") => {
                self.send("Page.handleJavaScriptDialog", json!({ "accept": false })).await?;
            }
            _ => {}
        }
        Ok(message)
    }
}

fn ended(error: &io::Error) -> String {
    format!("the browser has ended: {error}")
}

fn late(most: Duration, what: &str) -> String {
    format!("the browser took longer than {} s: {what}", most.as_secs())
}

#[cfg(test)]
mod tests {
    use futures::FutureExt as _;
    use tokio::{
        io::{DuplexStream, duplex},
        sync::mpsc,
    };

    use super::*;

    /// Pipes with a tiny buffer, and the bytes that arrive at the other end of the first.
    fn pipes() -> (DevTools<DuplexStream, DuplexStream>, mpsc::UnboundedReceiver<Value>, DuplexStream) {
        let (to, asked) = duplex(16);
        let (answers, from) = duplex(16);
        let (tell, hears) = mpsc::unbounded_channel();
        tokio::spawn(async move {
            let mut asked = BufReader::new(asked);
            let mut message = Vec::new();
            while asked.read_until(0, &mut message).await.is_ok_and(|read| read > 0) {
                assert_eq!(message.pop(), Some(0));
                let whole = serde_json::from_slice(&message).expect("a whole message");
                if tell.send(whole).is_err() {
                    break;
                }
                message.clear();
            }
        });
        (DevTools::new(to, from), hears, answers)
    }

    fn answer(asked: &Value) -> Vec<u8> {
        let answer = json!({ "id": asked["id"], "result": { "to": asked["method"], "text": "y".repeat(100) } });
        answer.to_string().into_bytes().into_iter().chain([0]).collect()
    }

    #[tokio::test]
    async fn s14_a_request_cancelled_while_it_is_written_leaves_no_half_message() {
        let (mut tools, mut hears, mut answers) = pipes();
        let long = json!({ "text": "x".repeat(100) });
        assert!(tools.ask("Page.first", long.clone()).now_or_never().is_none());
        let browser = tokio::spawn(async move {
            for method in ["Page.first", "Page.second"] {
                let asked = hears.recv().await.expect("asked");
                assert_eq!(asked["method"], method);
                answers.write_all(&answer(&asked)).await.expect("answered");
                if method == "Page.first" {
                    assert_eq!(asked["params"], long);
                }
            }
        });
        let answered = tools.ask("Page.second", json!({})).await.expect("an answer");
        assert_eq!(answered["to"], "Page.second", "not what the first was answered");
        browser.await.expect("both were asked for");
    }

    /// A page may be busy for a while: only the call that it kept waiting ends its browser.
    #[tokio::test]
    async fn s14_an_answer_that_is_late_counts_once_and_not_for_those_after_it() {
        let (mut tools, mut hears, mut answers) = pipes();
        let late = tools.ask_within(Duration::from_millis(1), "Page.first", json!({})).await;
        assert!(late.is_err_and(|error| error.contains("took longer")));
        assert_eq!(tools.late(), 1);
        tokio::spawn(async move {
            while let Some(asked) = hears.recv().await {
                answers.write_all(&answer(&asked)).await.expect("answered");
            }
        });
        assert_eq!(tools.ask("Page.second", json!({})).await.expect("an answer")["to"], "Page.second");
        assert_eq!(tools.late(), 1);
    }

    #[tokio::test]
    async fn s14_a_request_cancelled_while_its_answer_comes_leaves_no_half_message() {
        let (mut tools, mut hears, mut answers) = pipes();
        let (half, mut is_there) = mpsc::unbounded_channel();
        let browser = tokio::spawn(async move {
            let first = answer(&hears.recv().await.expect("asked"));
            answers.write_all(&first[..50]).await.expect("answered");
            half.send(()).expect("somebody waits");
            answers.write_all(&first[50..]).await.expect("answered");
            let second = hears.recv().await.expect("asked");
            answers.write_all(&answer(&second)).await.expect("answered");
        });
        tokio::select! {
            answered = tools.ask("Page.first", json!({})) => panic!("{answered:?}"),
            half = is_there.recv() => half.expect("half of it"),
        }
        let answered = tools.ask("Page.second", json!({})).await.expect("an answer");
        assert_eq!(answered["to"], "Page.second");
        browser.await.expect("both were answered");
    }
}
