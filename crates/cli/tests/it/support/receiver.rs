//! A receiver of webhooks, which records its requests.

use std::{
    net::SocketAddr,
    sync::{Arc, Mutex},
    time::{Duration, Instant},
};

use reqwest::header::{HeaderMap, HeaderName, HeaderValue};
use serde_json::Value;
use standardwebhooks::Webhook;
use tokio::{
    io::{AsyncBufReadExt as _, AsyncReadExt as _, AsyncWriteExt as _, BufReader},
    net::{TcpListener, TcpStream},
};

use super::DEADLINE;

/// Standard Webhooks' secret of these tests, and another one.
pub(crate) const SECRET: &str = "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSwMfKQ9r8GKYo=";
pub(crate) const OTHER_SECRET: &str = "whsec_C2FVsBQIhrscChlQIMVOb5sSYspob7oDC2FVsBQIhrs=";

/// A request as it was received.
#[derive(Clone, Debug)]
pub(crate) struct Received {
    pub(crate) headers: HeaderMap,
    pub(crate) body: String,
}

impl Received {
    pub(crate) fn json(&self) -> Value {
        serde_json::from_str(&self.body).unwrap()
    }

    pub(crate) fn kind(&self) -> String {
        self.json()["type"].as_str().unwrap_or_default().to_owned()
    }

    pub(crate) fn id(&self) -> &str {
        self.headers["webhook-id"].to_str().unwrap()
    }

    /// Whether it is about this session.
    pub(crate) fn is_of(&self, session: &str) -> bool {
        self.body.contains(&format!("open={session}%5F"))
    }

    /// The reference library's verdict on its signature.
    pub(crate) fn is_signed_with(&self, secret: &str) -> bool {
        Webhook::new(secret).unwrap().verify(self.body.as_bytes(), &self.headers).is_ok()
    }
}

/// How it answers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Answer {
    Status(u16),
    /// 200 with this body.
    Says(&'static str),
    /// To another address on this machine.
    Redirect(SocketAddr),
    /// Never.
    Hangs,
    /// The first request never, the others with 200.
    HangsFirst,
    /// With a body that has no end.
    Endless,
}

/// Answers on its own port.
pub(crate) struct Receiver {
    pub(crate) address: SocketAddr,
    seen: Arc<Mutex<Vec<Received>>>,
    answer: Arc<Mutex<Answer>>,
}

impl Receiver {
    pub(crate) async fn start(answer: Answer) -> Receiver {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let (seen, answer) = (Arc::<Mutex<Vec<Received>>>::default(), Arc::new(Mutex::new(answer)));
        let (records, answers) = (seen.clone(), answer.clone());
        tokio::spawn(async move {
            loop {
                let (stream, _) = listener.accept().await.unwrap();
                tokio::spawn(serve(stream, records.clone(), answers.clone()));
            }
        });
        Receiver { address, seen, answer }
    }

    pub(crate) fn url(&self) -> String {
        format!("http://{}/hook", self.address)
    }

    pub(crate) fn answers(&self, answer: Answer) {
        *self.answer.lock().unwrap() = answer;
    }

    pub(crate) fn all(&self) -> Vec<Received> {
        self.seen.lock().unwrap().clone()
    }

    /// Waits for a request like this.
    pub(crate) async fn until_received(&self, is_it: impl Fn(&Received) -> bool) {
        let deadline = Instant::now() + DEADLINE;
        while !self.all().iter().any(&is_it) {
            assert!(Instant::now() < deadline, "{:?}", self.all());
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
    }

    /// Waits until there are as many requests.
    pub(crate) async fn until(&self, count: usize) -> Vec<Received> {
        let deadline = Instant::now() + DEADLINE;
        loop {
            let all = self.all();
            if all.len() >= count {
                return all;
            }
            assert!(Instant::now() < deadline, "{} of {count}: {all:?}", all.len());
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
    }
}

async fn serve(stream: TcpStream, seen: Arc<Mutex<Vec<Received>>>, answer: Arc<Mutex<Answer>>) {
    let mut stream = BufReader::new(stream);
    loop {
        let (mut headers, mut first) = (HeaderMap::new(), true);
        loop {
            let mut line = String::new();
            if stream.read_line(&mut line).await.unwrap_or_default() == 0 {
                return;
            }
            if line.trim().is_empty() {
                break;
            }
            if let Some((name, value)) = line.split_once(':').filter(|_| !first) {
                let name = HeaderName::try_from(name.trim()).unwrap();
                headers.insert(name, HeaderValue::try_from(value.trim()).unwrap());
            }
            first = false;
        }
        let length = headers.get("content-length").map_or(0, |length| length.to_str().unwrap().parse().unwrap());
        let mut body = vec![0; length];
        if stream.read_exact(&mut body).await.is_err() {
            return;
        }
        seen.lock().unwrap().push(Received { headers, body: String::from_utf8(body).unwrap() });
        let answer = {
            let mut next = answer.lock().unwrap();
            let answer = if *next == Answer::HangsFirst { Answer::Hangs } else { *next };
            if *next == Answer::HangsFirst {
                *next = Answer::Status(200);
            }
            answer
        };
        let text = match answer {
            Answer::Status(status) => format!("HTTP/1.1 {status} \r\ncontent-length: 0\r\n\r\n"),
            Answer::Says(body) => format!("HTTP/1.1 200 OK\r\ncontent-length: {}\r\n\r\n{body}", body.len()),
            Answer::Redirect(to) => {
                format!("HTTP/1.1 302 Found\r\nlocation: http://{to}/elsewhere\r\ncontent-length: 0\r\n\r\n")
            }
            Answer::Hangs | Answer::HangsFirst => return drop(stream.read_u8().await),
            Answer::Endless => {
                let _ = stream.write_all(b"HTTP/1.1 200 OK\r\n\r\n").await;
                while stream.write_all(&[b'a'; 1024]).await.is_ok() {}
                return;
            }
        };
        if stream.write_all(text.as_bytes()).await.is_err() {
            return;
        }
    }
}
