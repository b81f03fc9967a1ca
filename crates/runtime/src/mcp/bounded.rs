//! What a program writes, with an answer in place of each that is too long.

use std::{
    io,
    pin::Pin,
    task::{Context, Poll, ready},
};

use serde_json::Value;
use tokio::io::{AsyncRead, ReadBuf};

/// Longest message of a server, in bytes. The largest result that is kept is far smaller.
pub(super) const MESSAGE_BYTES: usize = 8 * 1024 * 1024;
/// What is told of a longer one.
pub(super) const TOO_LONG: &str = "it sent a message of more than 8 MiB, which is not read";
const _: () = assert!(MESSAGE_BYTES == 8 * 1024 * 1024);
/// JSON-RPC 2.0: internal error.
const INTERNAL: i32 = -32603;
/// Longest key or value of a message's own that is looked at, in bytes.
const WORD_BYTES: usize = 128;

/// Passes on what a program writes. What reads messages leaves out lines of more than [`MESSAGE_BYTES`] and says nothing;
/// so if one is the answer to a request, an error follows it that answers the same request.
pub(super) struct Bounded<R> {
    from: R,
    line: Line,
    /// What was read, or put in, and not passed on yet.
    held: Vec<u8>,
}

impl<R> Bounded<R> {
    pub(super) fn new(from: R) -> Bounded<R> {
        Bounded { from, line: Line::default(), held: Vec::new() }
    }
}

impl<R: AsyncRead + Unpin> AsyncRead for Bounded<R> {
    fn poll_read(mut self: Pin<&mut Self>, cx: &mut Context<'_>, buf: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        let before = buf.filled().len();
        if self.held.is_empty() {
            ready!(Pin::new(&mut self.from).poll_read(cx, buf))?;
        } else {
            let passed = self.held.len().min(buf.remaining());
            buf.put_slice(&self.held[..passed]);
            self.held.drain(..passed);
        }
        let read = &buf.filled()[before..];
        if let Some((end, mut held)) = self.line.read(read) {
            held.extend_from_slice(&read[end..]);
            held.append(&mut self.held);
            self.held = held;
            buf.set_filled(before + end);
        }
        Poll::Ready(Ok(()))
    }
}

/// What is known of a line by what was read of it: as much as it takes to answer in its place.
#[derive(Default)]
struct Line {
    bytes: usize,
    /// How many objects and lists are open.
    depth: usize,
    in_string: bool,
    escaped: bool,
    /// The latest key or value of the message's own, as it is written.
    word: Vec<u8>,
    key: Vec<u8>,
    id: Option<Value>,
    /// It is a request or a notification.
    has_method: bool,
}

impl Line {
    /// Reads on, to the end of a line that is answered in its place: where it ends, and the answer. `None`: all was read.
    fn read(&mut self, bytes: &[u8]) -> Option<(usize, Vec<u8>)> {
        for (at, byte) in bytes.iter().enumerate() {
            self.bytes += 1;
            if *byte != b'\n' {
                self.take(*byte);
                continue;
            }
            let line = std::mem::take(self);
            if line.bytes > MESSAGE_BYTES {
                tracing::warn!(bytes = line.bytes, "a message of an MCP server is too long and not read");
                if let (Some(id), false) = (line.id, line.has_method) {
                    let error = serde_json::json!({ "code": INTERNAL, "message": TOO_LONG });
                    let answer = serde_json::json!({ "jsonrpc": "2.0", "id": id, "error": error });
                    return Some((at + 1, format!("{answer}\n").into_bytes()));
                }
            }
        }
        None
    }

    fn take(&mut self, byte: u8) {
        if self.in_string {
            self.keep(byte);
            self.in_string = self.escaped || byte != b'"';
            self.escaped = byte == b'\\' && !self.escaped;
            return;
        }
        match byte {
            b'{' | b'[' => self.depth += 1,
            b'}' | b']' => {
                self.ended();
                self.depth = self.depth.saturating_sub(1);
            }
            b',' => self.ended(),
            b':' if self.depth == 1 => self.key = std::mem::take(&mut self.word),
            b' ' | b'\t' | b'\r' => {}
            _ => {
                self.in_string = byte == b'"';
                self.keep(byte);
            }
        }
    }

    fn keep(&mut self, byte: u8) {
        // No id of ours is longer.
        if self.depth == 1 && self.word.len() < WORD_BYTES {
            self.word.push(byte);
        }
    }

    /// A value of the message's own has ended.
    fn ended(&mut self) {
        if self.depth != 1 {
            return;
        }
        let word = std::mem::take(&mut self.word);
        match self.key.as_slice() {
            b"\"id\"" => {
                let id = serde_json::from_slice(&word).ok();
                self.id = id.filter(|id: &Value| id.is_number() || id.is_string());
            }
            b"\"method\"" => self.has_method = true,
            _ => {}
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;
    use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};

    use super::*;

    /// What is passed on of what a program writes, without the lines that are too long.
    async fn passed(written: Vec<u8>, pipe: usize) -> Vec<Value> {
        let (mut write, read) = tokio::io::duplex(pipe);
        let writing = tokio::spawn(async move { write.write_all(&written).await });
        let mut passed = Vec::new();
        Bounded::new(read).read_to_end(&mut passed).await.expect("read");
        writing.await.expect("joined").expect("written");
        let lines = passed.split(|byte| *byte == b'\n').filter(|line| (1..MESSAGE_BYTES / 2).contains(&line.len()));
        lines.map(|line| serde_json::from_slice(line).expect("JSON")).collect()
    }

    fn long(head: &str, tail: &str) -> String {
        format!("{head}{}{tail}\n", "x".repeat(MESSAGE_BYTES))
    }

    fn error(id: &Value) -> Value {
        json!({ "jsonrpc": "2.0", "id": id, "error": { "code": -32603, "message": TOO_LONG } })
    }

    #[tokio::test]
    async fn s13_a_message_that_is_too_long_is_answered_in_its_place_and_nothing_else_is_touched() {
        let small = json!({ "jsonrpc": "2.0", "id": 1, "result": {} });
        for (line, answer) in [
            (long(r#"{"jsonrpc":"2.0","id":7,"result":{"id":8,"text":""#, r#""}}"#), Some(json!(7))),
            (
                long(r#"{"result":{"method":["\\\"}",{"id":9}],"text":""#, "\"} , \"id\" : \"a\\\"b\" }\r"),
                Some(json!("a\"b")),
            ),
            (long(r#"{"error":{"code":1,"message":""#, r#""},"id":3}"#), Some(json!(3))),
            // What asks or tells is nobody's answer.
            (long(r#"{"jsonrpc":"2.0","method":"notifications/message","params":{"data":""#, r#""}}"#), None),
            (long(r#"{"jsonrpc":"2.0","id":7,"method":"ping","params":{"data":""#, r#""}}"#), None),
            (long(r#"{"id":null,"result":""#, r#""}"#), None),
            (long(r#"{"id":{"id":7},"result":""#, r#""}"#), None),
            (long("{\"id\":\"", "\"}"), None),
            (long("", ""), None),
        ] {
            let written = format!("{small}\n{line}{small}\n\"end\"");
            let expected = [Some(small.clone()), answer.as_ref().map(error), Some(small.clone()), Some(json!("end"))];
            let expected: Vec<Value> = expected.into_iter().flatten().collect();
            let told = &line[..40];
            assert_eq!(passed(written.clone().into_bytes(), 1 << 20).await, expected, "{told}");
            assert_eq!(passed(written.into_bytes(), 1 << 25).await, expected, "{told}");
        }
    }

    #[tokio::test]
    async fn s13_the_longest_message_is_passed_on_alone() {
        let head = r#"{"id":1,"result":""#;
        let line = format!("{head}{}\"}}\n", "x".repeat(MESSAGE_BYTES - head.len() - 3));
        assert_eq!(line.len(), MESSAGE_BYTES);
        let longer = line.replacen(":1,", ":12,", 1);
        let all = format!("{line}{longer}{line}");
        assert_eq!(passed(all.into_bytes(), 1 << 16).await, [error(&json!(12))]);
    }
}
