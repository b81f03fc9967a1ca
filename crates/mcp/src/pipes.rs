//! A program's standard input and output, where an unreadable message fails only one call.

use std::{collections::VecDeque, io, sync::Arc};

use countersign_core::{limits::JSON_VALUES, plain, values::Values};
use rmcp::{
    RoleClient,
    model::{ClientJsonRpcMessage, ErrorData, RequestId, ServerJsonRpcMessage},
    transport::Transport,
};
use serde_json::{Value, value::RawValue};
use tokio::{
    io::{AsyncBufReadExt as _, AsyncRead, AsyncWrite, AsyncWriteExt as _, BufReader},
    sync::Mutex,
};

use super::{digits, pace::Warnings};

/// Longest message of a server, in bytes. The largest result that is kept is far smaller.
pub(super) const MESSAGE_BYTES: usize = 8 * 1024 * 1024;
/// The error for a longer one.
pub(super) const TOO_LONG: &str = "it sent a message of more than 8 MiB, which is not read";
const _: () = assert!(MESSAGE_BYTES == 8 * 1024 * 1024);
/// The error for one with too many values: each takes many times its text's memory.
pub(super) const TOO_MANY: &str = "it sent a message of more than 200,000 JSON values, which is not read";
const _: () = assert!(JSON_VALUES == 200_000);
/// The byte order mark, with which some programs begin.
const BOM: &[u8] = b"\xEF\xBB\xBF";
/// Longest top-level key or value that is examined, in bytes.
const WORD_BYTES: usize = 128;

/// The error for an answer that is malformed.
pub(super) const UNREADABLE: &str = "it sent an answer that cannot be read";

/// Whether a server means this request: some answer a number as a text, and rmcp takes both.
pub(super) fn is_same(id: &RequestId, answered: &RequestId) -> bool {
    id.to_string() == answered.to_string()
}

/// A program's standard input and output. Messages are lines; one that is too long, or cannot be read, is an error for
/// the request that it answers, and nothing else: the connection stays up.
pub(super) struct Pipes<R, W> {
    from: BufReader<R>,
    /// The state of the current line, and its text, unless it is too long.
    line: Line,
    text: Vec<u8>,
    /// The messages of the last line that are not read yet: it may be a batch.
    batch: VecDeque<String>,
    to: Arc<Mutex<Option<Out<W>>>>,
    warnings: Arc<Warnings>,
}

/// The bytes to write: a cancelled write leaves the rest to the next one.
struct Out<W> {
    to: W,
    left: Vec<u8>,
    written: usize,
}

impl<R: AsyncRead + Unpin, W> Pipes<R, W> {
    /// `warnings` are about messages that are not read.
    pub(super) fn new(from: R, to: W, warnings: Arc<Warnings>) -> Pipes<R, W> {
        let out = Out { to, left: Vec::new(), written: 0 };
        let to = Arc::new(Mutex::new(Some(out)));
        let (from, batch) = (BufReader::new(from), VecDeque::new());
        Pipes { from, line: Line::default(), text: Vec::new(), batch, to, warnings }
    }

    /// The next message; `None` at the end. Cancel-safe.
    async fn next(&mut self) -> Option<ServerJsonRpcMessage> {
        loop {
            while let Some(text) = self.batch.pop_front() {
                if let Some(message) = message(Line::of(text.as_bytes()), text.as_bytes(), &self.warnings) {
                    return Some(message);
                }
            }
            let read = self.from.fill_buf().await.ok()?;
            if read.is_empty() {
                return None;
            }
            let newline = read.iter().position(|byte| *byte == b'\n');
            let part = &read[..newline.unwrap_or(read.len())];
            part.iter().for_each(|byte| self.line.take(*byte));
            if self.line.wrong().is_none() {
                self.text.extend_from_slice(part);
            } else {
                self.text = Vec::new();
            }
            let used = newline.map_or(read.len(), |at| at + 1);
            self.from.consume(used);
            if newline.is_some() {
                let (line, text) = (std::mem::take(&mut self.line), std::mem::take(&mut self.text));
                let text = text.strip_prefix(BOM).unwrap_or(&text).trim_ascii();
                if let Some(batch) = apart(text) {
                    self.batch = batch.into();
                } else if let Some(message) = message(line, text, &self.warnings) {
                    return Some(message);
                }
            }
        }
    }
}

/// The messages of a batch, which servers of 2025-03-26 may send; `None` if the text is none, or has too many values: a
/// batch is bounded as one message is.
pub(super) fn apart(text: &[u8]) -> Option<Vec<String>> {
    if !text.starts_with(b"[") || Line::of(text).has_too_many() {
        return None;
    }
    let batch: Vec<&RawValue> = serde_json::from_slice(text).ok()?;
    Some(batch.into_iter().map(|message| message.get().to_owned()).collect())
}

/// The message of a line, or the error in its place.
fn message(line: Line, text: &[u8], warnings: &Warnings) -> Option<ServerJsonRpcMessage> {
    let wrong = if let Some(wrong) = line.wrong() {
        line.warn(warnings);
        wrong
    } else {
        if text.is_empty() {
            return None;
        }
        match read(text) {
            Ok(message) => return Some(message),
            Err(error) => tracing::debug!(error, "a line of an MCP server is not a message of the protocol"),
        }
        UNREADABLE
    };
    line.answered(wrong)
}

fn read(text: &[u8]) -> Result<ServerJsonRpcMessage, String> {
    let text = std::str::from_utf8(text).map_err(|error| error.to_string())?;
    if plain::has_own_members(text) {
        return Err("it has a reserved member".to_owned());
    }
    serde_json::from_str(digits::kept(text).as_deref().unwrap_or(text)).map_err(|error| error.to_string())
}

/// The replacement for a message that did not arrive as a line: an error for the request that it answers, or nothing,
/// if it has too many values, or some that nobody can count; the same with all its digits, if it would lose some.
/// `None`: it is read as it is.
pub(super) fn in_place(text: &str, warnings: &Warnings) -> Option<Option<String>> {
    let line = Line::of(text.as_bytes());
    // Its bytes are bounded before: one of exactly as many as are read has no more values than others.
    let wrong = if line.has_too_many() {
        line.warn(warnings);
        TOO_MANY
    } else if plain::has_own_members(text) {
        UNREADABLE
    } else {
        return digits::kept(text).map(Some);
    };
    Some(line.answered(wrong).and_then(|error| serde_json::to_string(&error).ok()))
}

/// The same for an event of a stream. One that cannot be read is replaced by an error for the request that it answers:
/// the protocol's library would drop it, and the request would wait until its time is over.
pub(super) fn in_place_of_event(text: &str, warnings: &Warnings) -> Option<Option<String>> {
    let instead = in_place(text, warnings);
    let read = instead.as_ref().map_or(Some(text), Option::as_deref);
    let is_read = |text| serde_json::from_str::<ServerJsonRpcMessage>(text).is_ok();
    if read.is_none_or(is_read) {
        return instead;
    }
    tracing::debug!("an event of an MCP server is not a message of the protocol");
    let error = Line::of(text.as_bytes()).answered(UNREADABLE).and_then(|error| serde_json::to_string(&error).ok());
    error.map(Some).or(instead)
}

impl<R, W> Transport<RoleClient> for Pipes<R, W>
where
    R: AsyncRead + Unpin + Send,
    W: AsyncWrite + Unpin + Send + 'static,
{
    type Error = io::Error;

    fn send(&mut self, message: ClientJsonRpcMessage) -> impl Future<Output = io::Result<()>> + Send + 'static {
        let to = self.to.clone();
        async move {
            let mut line = serde_json::to_vec(&message)?;
            line.push(b'\n');
            let mut to = to.lock().await;
            let out = to.as_mut().ok_or(io::ErrorKind::NotConnected)?;
            out.left.append(&mut line);
            while out.written < out.left.len() {
                match out.to.write(&out.left[out.written..]).await? {
                    0 => return Err(io::ErrorKind::WriteZero.into()),
                    written => out.written += written,
                }
            }
            (out.left, out.written) = (Vec::new(), 0);
            out.to.flush().await
        }
    }

    async fn receive(&mut self) -> Option<ServerJsonRpcMessage> {
        self.next().await
    }

    async fn close(&mut self) -> io::Result<()> {
        *self.to.lock().await = None;
        Ok(())
    }
}

/// The state of a line while it is read: enough to answer in its place.
#[derive(Default)]
struct Line {
    bytes: usize,
    values: Values,
    /// The latest top-level key or value, as it is written.
    word: Vec<u8>,
    key: Vec<u8>,
    id: Option<Value>,
    /// It is a request or a notification.
    has_method: bool,
}

impl Line {
    /// The state after a whole message, which may have line ends between its values.
    fn of(text: &[u8]) -> Line {
        let mut line = Line::default();
        text.iter().for_each(|byte| line.take(*byte));
        line
    }

    fn take(&mut self, byte: u8) {
        self.bytes += 1;
        let is_at_the_top = self.values.depth() == 1;
        let is_in_string = self.values.take(byte);
        if !is_at_the_top {
            return;
        }
        match byte {
            _ if is_in_string => self.keep(byte),
            b'{' | b'[' | b' ' | b'\t' | b'\r' | b'\n' => {}
            b'}' | b']' | b',' => self.ended(),
            b':' => {
                self.key = std::mem::take(&mut self.word);
                // Also in a message that is cut after it.
                self.has_method |= self.key == b"\"method\"";
            }
            _ => self.keep(byte),
        }
    }

    /// Why it is not read, if it is too large.
    fn wrong(&self) -> Option<&'static str> {
        match self {
            Line { bytes: MESSAGE_BYTES.., .. } => Some(TOO_LONG),
            line if line.has_too_many() => Some(TOO_MANY),
            _ => None,
        }
    }

    fn has_too_many(&self) -> bool {
        self.values.are_too_many()
    }

    /// Logs that it is not read.
    fn warn(&self, warnings: &Warnings) {
        let (bytes, values) = (self.bytes, self.values.count());
        if let Some(left_out) = warnings.due() {
            let server = &*warnings.server;
            tracing::warn!(server, bytes, values, left_out, "a message of the MCP server is too large and not read");
        }
    }

    /// The error for the request that it answers.
    fn answered(self, wrong: &'static str) -> Option<ServerJsonRpcMessage> {
        let id = self.id.filter(|_| !self.has_method)?;
        let id = serde_json::from_value(id).ok()?;
        Some(ServerJsonRpcMessage::error(ErrorData::internal_error(wrong, None), Some(id)))
    }

    /// Keeps a byte of a top-level key or value.
    fn keep(&mut self, byte: u8) {
        // None of our ids is longer.
        if self.word.len() < WORD_BYTES {
            self.word.push(byte);
        }
    }

    /// A top-level value has ended.
    fn ended(&mut self) {
        let word = std::mem::take(&mut self.word);
        if self.key == b"\"id\"" {
            let id = serde_json::from_slice(&word).ok();
            self.id = id.filter(|id: &Value| id.is_number() || id.is_string());
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    /// The messages that are read from a program's output.
    async fn read(written: Vec<u8>, pipe: usize) -> Vec<Value> {
        let (mut write, read) = tokio::io::duplex(pipe);
        let writing = tokio::spawn(async move { write.write_all(&written).await });
        let (mut pipes, mut messages) = (Pipes::new(read, tokio::io::sink(), Arc::default()), Vec::new());
        while let Some(message) = pipes.receive().await {
            messages.push(serde_json::to_value(&message).expect("JSON"));
        }
        writing.await.expect("joined").expect("written");
        messages
    }

    fn long(head: &str, tail: &str) -> String {
        format!("{head}{}{tail}\n", "x".repeat(MESSAGE_BYTES))
    }

    fn error(id: &Value, wrong: &str) -> Value {
        json!({ "jsonrpc": "2.0", "id": id, "error": { "code": -32603, "message": wrong } })
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
            // A request or notification answers nothing.
            (long(r#"{"jsonrpc":"2.0","method":"notifications/message","params":{"data":""#, r#""}}"#), None),
            (long(r#"{"jsonrpc":"2.0","id":7,"method":"ping","params":{"data":""#, r#""}}"#), None),
            (long(r#"{"id":null,"result":""#, r#""}"#), None),
            (long(r#"{"id":{"id":7},"result":""#, r#""}"#), None),
            (long("{\"id\":\"", "\"}"), None),
            (long("", ""), None),
        ] {
            let written = format!("{small}\n{line}{small}\n{small}");
            let answer = answer.as_ref().map(|id| error(id, TOO_LONG));
            let expected: Vec<Value> =
                [Some(small.clone()), answer, Some(small.clone())].into_iter().flatten().collect();
            let told = &line[..40];
            assert_eq!(read(written.clone().into_bytes(), 1 << 20).await, expected, "{told}");
            assert_eq!(read(written.into_bytes(), 1 << 25).await, expected, "{told}");
        }
    }

    #[tokio::test]
    async fn s13_r9_a_message_of_too_many_values_is_answered_in_its_place_and_not_parsed() {
        let of = |ones: usize| {
            let ones = "1,".repeat(ones);
            format!(r#"{{"jsonrpc":"2.0","result":{{"content":[],"structuredContent":[{ones}1]}},"id":7}}"#)
        };
        let text = format!(r#"{{"jsonrpc":"2.0","id":8,"result":{{"a":"{}"}}}}"#, ",[{".repeat(JSON_VALUES));
        let (many, most) = (of(JSON_VALUES), of(JSON_VALUES - 10));
        let read = read(format!("{many}\n{most}\n{text}\n").into_bytes(), 1 << 16).await;
        assert_eq!(read[0], error(&json!(7), TOO_MANY));
        assert_eq!((&read[1]["id"], read[1].get("error")), (&json!(7), None));
        assert_eq!((&read[2]["id"], read[2].get("error")), (&json!(8), None), "no value is in a string");

        assert_eq!(in_place(&most, &Warnings::default()), None);
        let instead: Value =
            serde_json::from_str(&in_place(&many, &Warnings::default()).flatten().expect("an error")).expect("JSON");
        assert_eq!(instead, error(&json!(7), TOO_MANY));
        assert_eq!(
            in_place(&many.replace("\"result\"", "\"method\""), &Warnings::default()),
            Some(None),
            "a notification answers nothing"
        );
    }

    #[test]
    fn s13_r9_a_message_over_several_lines_is_answered_in_its_place_too() {
        let of = |ones: usize| {
            let ones = "1,".repeat(ones);
            format!(
                "{{\n  \"jsonrpc\": \"2.0\",\n  \"id\"\n: 7\n,\"result\": {{ \"content\": [], \"x\": [{ones}1] }}\n}}\n"
            )
        };
        let instead = in_place(&of(JSON_VALUES), &Warnings::default()).flatten().expect("an error");
        assert_eq!(serde_json::from_str::<Value>(&instead).expect("JSON"), error(&json!(7), TOO_MANY));
        // White space makes it as long as the longest that is read.
        let many = of(JSON_VALUES);
        let longest = format!("{many}{}", " ".repeat(MESSAGE_BYTES - many.len()));
        assert_eq!(in_place(&longest, &Warnings::default()), Some(Some(instead)));
    }

    #[test]
    fn s13_an_event_that_cannot_be_read_is_an_error_for_its_request_and_is_not_waited_for() {
        let nan = r#"{"jsonrpc":"2.0","id":7,"result":{"content":[],"structuredContent":{"x":NaN}}}"#;
        let hidden = nan.replace("NaN", r#"{"\u0024serde_json::private::RawValue":"[[],[]]"}"#);
        for text in [nan.to_owned(), nan.replace(',', ",\n"), hidden] {
            let instead = in_place_of_event(&text, &Warnings::default()).flatten().expect("an error");
            assert_eq!(serde_json::from_str::<Value>(&instead).expect("JSON"), error(&json!(7), UNREADABLE));
        }
        // What answers nothing stays as it is.
        for text in ["", "ping", r#"{"jsonrpc":"2.0","id":7,"method":5}"#, r#"{"jsonrpc":"2.0","id":7,"result":{}}"#] {
            assert_eq!(in_place_of_event(text, &Warnings::default()), None, "{text}");
        }
    }

    #[tokio::test]
    async fn s13_the_longest_message_is_read() {
        let (head, tail) = (r#"{"jsonrpc":"2.0","id":1,"result":{"text":""#, "\"}}\n");
        let line = format!("{head}{}{tail}", "x".repeat(MESSAGE_BYTES - head.len() - tail.len()));
        assert_eq!(line.len(), MESSAGE_BYTES);
        let longer = line.replacen(":1,", ":12,", 1);
        let read = read(format!("{line}{longer}{line}").into_bytes(), 1 << 16).await;
        let ids: Vec<_> = read.iter().map(|message| (&message["id"], message.get("error").is_some())).collect();
        assert_eq!(ids, [(&json!(1), false), (&json!(12), true), (&json!(1), false)]);
    }

    #[tokio::test]
    async fn s13_an_answer_that_cannot_be_read_is_an_error_for_its_request_alone() {
        let small = r#"{"jsonrpc":"2.0","id":1,"result":{}}"#;
        for (line, id) in [
            // Python writes this for a number that is not one.
            (r#"{"jsonrpc":"2.0","id":7,"result":{"content":[],"structuredContent":{"x":NaN}}}"#, Some(json!(7))),
            (r#"{"jsonrpc":"2.0","id":7,"error":"it broke"}"#, Some(json!(7))),
            (r#"{"jsonrpc":"2.0","id":7,"result":{"content":[{"type":"text","text":"cut"#, Some(json!(7))),
            // Its values are in a string, where nobody has counted them.
            (r#"{"jsonrpc":"2.0","id":7,"result":{"$serde_json::private::RawValue":"[[],[]]"}}"#, Some(json!(7))),
            (r#"{"jsonrpc":"2.0","id":7,"method":"roots/li"#, None),
            (r#"{"jsonrpc":"2.0","id":{},"result":{}}"#, None),
            ("Listening on standard input", None),
            ("\u{0}\u{1}[[[[", None),
        ] {
            let expected: Vec<Value> =
                [Some(serde_json::from_str(small).expect("JSON")), id.map(|id| error(&id, UNREADABLE))]
                    .into_iter()
                    .flatten()
                    .chain([serde_json::from_str(small).expect("JSON")])
                    .collect();
            assert_eq!(read(format!("{small}\n{line}\n\n{small}\r\n").into_bytes(), 64).await, expected, "{line}");
        }
    }

    #[tokio::test]
    async fn s13_each_message_of_a_batch_is_read_within_the_bounds_of_one() {
        let result = |id: u32| json!({ "jsonrpc": "2.0", "id": id, "result": {} });
        let told = json!({ "jsonrpc": "2.0", "method": "notifications/tools/list_changed" });
        let (batch, nan) =
            (json!([told, result(1), result(2)]), r#"[{"jsonrpc":"2.0","id":3,"error":"it broke"},5,[]]"#);
        let many = format!("[{}{}]", "[],".repeat(JSON_VALUES), result(4));
        let log = format!("[{}] is what it says", result(5));
        let lines = format!("\u{feff} {batch}\r\n{nan}\n[]\n{many}\n{log}\n{}\n", result(6));
        let expected = [told, result(1), result(2), error(&json!(3), UNREADABLE), result(6)];
        assert_eq!(read(lines.into_bytes(), 64).await, expected);
    }

    #[tokio::test]
    async fn s13_a_write_cancelled_in_the_middle_is_completed() {
        let (to, mut theirs) = tokio::io::duplex(8);
        let mut pipes = Pipes::new(tokio::io::empty(), to, Arc::default());
        let ping = |id: i64| {
            let message = json!({ "jsonrpc": "2.0", "id": id, "method": "ping" });
            serde_json::from_value(message).expect("a message")
        };
        let given_up = tokio::time::timeout(std::time::Duration::from_millis(20), pipes.send(ping(1))).await;
        assert!(given_up.is_err());
        let last = pipes.send(ping(2));
        let written = tokio::spawn(async move { last.await.map(drop) });
        drop(pipes);
        let mut lines = String::new();
        tokio::io::AsyncReadExt::read_to_string(&mut theirs, &mut lines).await.expect("read");
        written.await.expect("joined").expect("written");
        let ids: Vec<Value> =
            lines.lines().map(|line| serde_json::from_str::<Value>(line).expect("JSON")["id"].clone()).collect();
        assert_eq!(ids, [json!(1), json!(2)]);
    }
}
