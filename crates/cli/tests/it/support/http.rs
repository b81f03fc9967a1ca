//! A small HTTP client that hides nothing.

use std::{io, net::SocketAddr};

use serde_json::Value;
use tokio::{
    io::{AsyncBufReadExt as _, AsyncReadExt as _, AsyncWriteExt as _, BufReader},
    net::TcpStream,
};

use super::{DEADLINE, published};

#[derive(Debug)]
pub(crate) struct Response {
    pub(crate) status: u16,
    pub(crate) headers: Vec<(String, String)>,
    pub(crate) body: String,
}

impl Response {
    #[track_caller]
    pub(crate) fn json(&self) -> Value {
        serde_json::from_str(&self.body).unwrap_or_else(|e| panic!("{e}: {} {:?}", self.status, self.body))
    }

    pub(crate) fn header(&self, name: &str) -> Option<&str> {
        self.headers.iter().find(|(key, _)| key == name).map(|(_, value)| value.as_str())
    }

    /// The body of a success.
    #[track_caller]
    pub(crate) fn ok(&self) -> Value {
        assert!((200..300).contains(&self.status), "{} {}", self.status, self.body);
        self.json()
    }

    /// The problem document of a refusal with this status and code.
    #[track_caller]
    pub(crate) fn problem(&self, status: u16, code: &str) -> Value {
        assert_eq!(self.status, status, "{}", self.body);
        assert_eq!(self.header("content-type"), Some("application/problem+json"), "{}", self.body);
        let problem = self.json();
        assert_eq!((&problem["code"], &problem["status"]), (&code.into(), &status.into()), "{problem}");
        assert!(problem["type"].is_string() && problem["title"].is_string(), "{problem}");
        assert!(!problem["detail"].as_str().unwrap().is_empty(), "{problem}");
        problem
    }
}

fn head(address: SocketAddr, method: &str, path: &str, headers: &[(&str, &str)], body: Option<&str>) -> String {
    let given = |name: &str| headers.iter().any(|(key, _)| *key == name);
    let mut head = format!("{method} {path} HTTP/1.1\r\nconnection: close\r\n");
    if !given("host") {
        head.push_str(&format!("host: {address}\r\n"));
    }
    if let Some(body) = body {
        if !given("content-type") {
            head.push_str("content-type: application/json\r\n");
        }
        if !given("content-length") {
            head.push_str(&format!("content-length: {}\r\n", body.len()));
        }
    }
    for (name, value) in headers {
        head.push_str(&format!("{name}: {value}\r\n"));
    }
    head + "\r\n"
}

/// One request, and its whole answer.
pub(crate) async fn request(
    address: SocketAddr,
    method: &str,
    path: &str,
    headers: &[(&str, &str)],
    body: Option<&str>,
) -> Response {
    let answer = try_request(address, method, path, headers, body).await;
    answer.unwrap_or_else(|error| panic!("{method} {path}: {error}"))
}

/// The same for a server that may be down.
pub(crate) async fn try_request(
    address: SocketAddr,
    method: &str,
    path: &str,
    headers: &[(&str, &str)],
    body: Option<&str>,
) -> io::Result<Response> {
    let work = async {
        let mut stream = TcpStream::connect(address).await?;
        stream.write_all(head(address, method, path, headers, body).as_bytes()).await?;
        let (mut read, mut write) = stream.split();
        // A refused body need not be read to its end.
        let body = async {
            let _ = write.write_all(body.unwrap_or_default().as_bytes()).await;
        };
        let mut answer = Vec::new();
        let read = async { read.read_to_end(&mut answer).await };
        let (_, read) = tokio::join!(body, read);
        parse(&answer, method).ok_or_else(|| read.err().unwrap_or_else(|| io::ErrorKind::UnexpectedEof.into()))
    };
    let answer = tokio::time::timeout(DEADLINE, work).await;
    let answer = answer.unwrap_or_else(|_| panic!("{method} {path} is answered in time"))?;
    published::check_answer(method, path, &answer);
    if answer.header("content-type").is_some_and(|kind| kind.starts_with("text/event-stream")) {
        events(&answer.body);
    }
    Ok(answer)
}

/// An answer; `None` if it was cut, as by the end of the server.
fn parse(answer: &[u8], method: &str) -> Option<Response> {
    let text = String::from_utf8_lossy(answer);
    let (head, body) = text.split_once("\r\n\r\n")?;
    let mut lines = head.lines();
    let status = lines.next().unwrap().split(' ').nth(1).unwrap().parse().unwrap();
    let headers: Vec<_> = lines
        .map(|line| line.split_once(':').unwrap())
        .map(|(name, value)| (name.to_ascii_lowercase(), value.trim().to_owned()))
        .collect();
    let mut response = Response { status, headers, body: String::new() };
    let length = response.header("content-length").map_or(0, |length| length.parse().unwrap());
    response.body = if response.header("transfer-encoding") == Some("chunked") {
        dechunk(body)?
    } else if method == "HEAD" || status == 304 || body.len() >= length {
        body.to_owned()
    } else {
        return None;
    };
    Some(response)
}

fn dechunk(mut body: &str) -> Option<String> {
    let mut whole = String::new();
    while let Some((size, rest)) = body.split_once("\r\n") {
        let size = usize::from_str_radix(size, 16).unwrap();
        // Chunks are bytes; the tests' streams are cut at whole events.
        whole.push_str(rest.get(..size)?);
        body = rest[size..].strip_prefix("\r\n").unwrap_or_default();
    }
    Some(whole)
}

/// The events of a body of server-sent events: their id and data.
pub(crate) fn events(body: &str) -> Vec<(Option<u64>, Value)> {
    let parsed = body.split("\n\n").filter_map(|event| {
        let field = |name: &str| event.lines().find_map(|line| line.strip_prefix(name)).map(str::trim);
        let data = serde_json::from_str(field("data:")?).unwrap();
        published::check_frame(&data);
        Some((field("id:").map(|id| id.parse().unwrap()), data))
    });
    parsed.collect()
}

/// An open stream of events.
pub(crate) struct Sse(BufReader<TcpStream>);

impl Sse {
    pub(crate) async fn open(address: SocketAddr, path: &str, headers: &[(&str, &str)]) -> Sse {
        let mut stream = TcpStream::connect(address).await.unwrap();
        stream.write_all(head(address, "GET", path, headers, None).as_bytes()).await.unwrap();
        let mut reader = BufReader::new(stream);
        let mut line = String::new();
        reader.read_line(&mut line).await.unwrap();
        assert!(line.contains(" 200 "), "{line}");
        Sse(reader)
    }

    /// The next event's id and data.
    pub(crate) async fn next(&mut self) -> (Option<u64>, Value) {
        let mut id = None;
        let mut data: Option<Value> = None;
        let work = async {
            loop {
                let mut line = String::new();
                assert!(self.0.read_line(&mut line).await.unwrap() > 0, "the stream has ended");
                if let Some(text) = line.strip_prefix("id:") {
                    id = Some(text.trim().parse().unwrap());
                }
                if let Some(text) = line.strip_prefix("data:") {
                    data = Some(serde_json::from_str(text.trim()).unwrap());
                }
                // An empty line ends the event; the ends of chunks are empty lines too, before the next one.
                if line.trim().is_empty()
                    && let Some(data) = data.take()
                {
                    published::check_frame(&data);
                    return data;
                }
            }
        };
        let data = tokio::time::timeout(DEADLINE, work).await.expect("an event comes in time");
        (id, data)
    }

    /// Whether the server has ended the stream.
    pub(crate) async fn ended(&mut self) {
        let mut rest = Vec::new();
        let end = self.0.read_to_end(&mut rest);
        let _ = tokio::time::timeout(DEADLINE, end).await.expect("the stream ends in time");
    }
}
