//! The DevTools protocol of a browser, over its WebSocket: one request at a time.

use std::time::Duration;

use futures::{SinkExt as _, StreamExt as _};
use serde_json::{Value, json};
use tokio::{net::TcpStream, time::timeout};
use tokio_tungstenite::{
    MaybeTlsStream, WebSocketStream, connect_async_with_config,
    tungstenite::{Message, protocol::WebSocketConfig},
};

/// How long an answer may take.
const ANSWER: Duration = Duration::from_secs(30);
/// Largest message of the browser, in bytes: a picture of the screen.
const MESSAGE_BYTES: usize = 64 * 1024 * 1024;

/// A connection to a browser, and to one page of it once it is attached.
pub(super) struct DevTools {
    socket: WebSocketStream<MaybeTlsStream<TcpStream>>,
    session: Option<String>,
    next: u64,
    /// How many pages have finished loading.
    loads: u64,
}

impl DevTools {
    /// # Errors
    /// Nothing answers there.
    pub(super) async fn connect(address: &str) -> Result<DevTools, String> {
        let config =
            WebSocketConfig::default().max_message_size(Some(MESSAGE_BYTES)).max_frame_size(Some(MESSAGE_BYTES));
        let connected = timeout(ANSWER, connect_async_with_config(address, Some(config), true)).await;
        let (socket, _) = connected.map_err(|_| late("the connection"))?.map_err(|error| error.to_string())?;
        Ok(DevTools { socket, session: None, next: 0, loads: 0 })
    }

    /// Talks to this page from now on.
    pub(super) fn attached(&mut self, session: String) {
        self.session = Some(session);
    }

    /// Asks for something and waits for the answer.
    ///
    /// # Errors
    /// The browser refuses it, in its words; it does not answer in time; it is gone.
    pub(super) async fn ask(&mut self, method: &str, params: Value) -> Result<Value, String> {
        let id = self.send(method, params).await?;
        let answered = timeout(ANSWER, async {
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
        answered.await.map_err(|_| late(method))?
    }

    /// Goes to a page, and waits until it is there.
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
        loaded.await.map_err(|_| late(url))?
    }

    async fn send(&mut self, method: &str, params: Value) -> Result<u64, String> {
        self.next += 1;
        let mut message = json!({ "id": self.next, "method": method, "params": params });
        if let Some(session) = &self.session {
            message["sessionId"] = json!(session);
        }
        self.socket.send(Message::text(message.to_string())).await.map_err(|error| error.to_string())?;
        Ok(self.next)
    }

    /// The next message. What the browser asks for on its own is dealt with.
    async fn read(&mut self) -> Result<Value, String> {
        loop {
            let text = match self.socket.next().await {
                Some(Ok(Message::Text(text))) => text,
                Some(Ok(_)) => continue,
                Some(Err(error)) => return Err(error.to_string()),
                None => return Err("the browser has ended".to_owned()),
            };
            let message: Value = serde_json::from_str(&text).map_err(|error| error.to_string())?;
            match message["method"].as_str() {
                Some("Page.loadEventFired") => self.loads += 1,
                // It would stop the page, and nobody sees it in a picture.
                Some("Page.javascriptDialogOpening") => {
                    self.send("Page.handleJavaScriptDialog", json!({ "accept": false })).await?;
                }
                _ => {}
            }
            return Ok(message);
        }
    }
}

fn late(what: &str) -> String {
    format!("the browser took longer than {} s: {what}", ANSWER.as_secs())
}
