//! A message over HTTP, and its answer, read within bounds.
//!
//! The library's own client reads a body of any number of values, each of which takes many times its text's memory.
//! Refusals are translated as by that client, without `Retry-After` and scopes, which nothing here reads.

use std::{io, sync::atomic::Ordering};

use countersign_engine::outgoing;
use futures::{StreamExt as _, stream, stream::BoxStream};
use reqwest::{
    Response, StatusCode,
    header::{ACCEPT, CONTENT_TYPE, WWW_AUTHENTICATE},
};
use rmcp::{
    model::{
        ClientJsonRpcMessage, ClientRequest, ErrorData, JsonRpcError, JsonRpcMessage, RequestId, ServerJsonRpcMessage,
    },
    transport::streamable_http_client::{
        AuthRequiredError, HttpStatusError, InsufficientScopeError, SseError, StreamableHttpError,
        StreamableHttpPostResponse,
    },
};
use sse_stream::{Sse, SseStream};

use super::{Headers, Http, begins_with_session};
use crate::pipes::{self, MESSAGE_BYTES, TOO_LONG, is_same};

type Posted = Result<StreamableHttpPostResponse, StreamableHttpError<reqwest::Error>>;

const JSON: &str = "application/json";
const EVENTS: &str = "text/event-stream";
const SESSION: &str = "mcp-session-id";
/// Longest body of a refusal, in bytes.
const REFUSAL_BYTES: usize = 64 * 1024;

impl Http {
    /// Sends a message, and reads an answer that is JSON. One that is too long, or has too many values, is an error for
    /// the request.
    pub(super) async fn post(
        &self,
        uri: &str,
        message: &ClientJsonRpcMessage,
        session_id: Option<&str>,
        token: Option<String>,
        headers: Headers,
    ) -> Posted {
        let mut request = self.client.post(uri).header(ACCEPT, format!("{EVENTS}, {JSON}"));
        if let Some(token) = token {
            request = request.bearer_auth(token);
        }
        for (name, value) in headers {
            request = request.header(name, value);
        }
        if let Some(session_id) = session_id {
            request = request.header(SESSION, session_id);
        }
        let response = request.json(message).send().await?;
        if session_id.is_some() && response.status() == StatusCode::NOT_FOUND {
            // Even where this one is answered, each later request might get the same.
            self.may_be_gone.store(true, Ordering::SeqCst);
        }
        let said = |name: &str| response.headers().get(name).and_then(|value| value.to_str().ok()).map(str::to_owned);
        match (response.status(), said(WWW_AUTHENTICATE.as_str())) {
            (StatusCode::UNAUTHORIZED, Some(challenge)) => {
                return Err(StreamableHttpError::AuthRequired(AuthRequiredError::new(challenge)));
            }
            (StatusCode::FORBIDDEN, Some(challenge)) => {
                return Err(StreamableHttpError::InsufficientScope(InsufficientScopeError::new(challenge, None)));
            }
            (StatusCode::ACCEPTED | StatusCode::NO_CONTENT, _) => return Ok(StreamableHttpPostResponse::Accepted),
            _ => {}
        }
        let (kind, session) = (said(CONTENT_TYPE.as_str()), said(SESSION));
        let is = |of: &str| kind.as_deref().is_some_and(|kind| kind.starts_with(of));
        if !response.status().is_success() {
            return refused(response, message, session_id.is_some(), is(JSON), session).await;
        }
        let asked = match message {
            ClientJsonRpcMessage::Request(request) => Some(&request.id),
            // Some servers send an empty answer instead of none.
            _ if response.content_length() == Some(0) => return Ok(StreamableHttpPostResponse::Accepted),
            _ => None,
        };
        if is(EVENTS) {
            return Ok(StreamableHttpPostResponse::Sse(events(response, asked), session));
        }
        if !is(JSON) {
            return Err(StreamableHttpError::UnexpectedContentType(kind));
        }
        let answer = match body(response, MESSAGE_BYTES).await? {
            // It is read as one that is an event.
            Some(text) if asked.is_some() && pipes::apart(text.trim_ascii()).is_some() => {
                let batch = Sse::default().data(String::from_utf8_lossy(&text));
                return Ok(StreamableHttpPostResponse::Sse(stream::iter([Ok(batch)]).boxed(), session));
            }
            Some(text) => self.read(&text),
            None => asked.map(too_long),
        };
        match answer {
            Some(answer) => Ok(StreamableHttpPostResponse::Json(answer, session)),
            // No answer is expected.
            None if asked.is_none() => Ok(StreamableHttpPostResponse::Accepted),
            None => Err(StreamableHttpError::UnexpectedServerResponse("it is no message".into())),
        }
    }

    /// The message of a text, or the error in its place.
    fn read(&self, text: &[u8]) -> Option<ServerJsonRpcMessage> {
        let text = std::str::from_utf8(text).ok()?;
        match pipes::in_place(text, &self.warnings) {
            Some(instead) => serde_json::from_str(&instead?).ok(),
            None => serde_json::from_str(text).ok(),
        }
    }
}

fn too_long(asked: &RequestId) -> ServerJsonRpcMessage {
    ServerJsonRpcMessage::error(ErrorData::internal_error(TOO_LONG, None), Some(asked.clone()))
}

/// The rest of a body, if it is no longer than this.
async fn body(mut response: Response, most: usize) -> Result<Option<Vec<u8>>, reqwest::Error> {
    let mut body = Vec::new();
    while let Some(chunk) = response.chunk().await? {
        if chunk.len() > most - body.len() {
            return Ok(None);
        }
        body.extend_from_slice(&chunk);
    }
    Ok(Some(body))
}

/// The content of a refusal: an error of the protocol, a status, or a status with a text.
async fn refused(
    response: Response,
    message: &ClientJsonRpcMessage,
    in_session: bool,
    is_json: bool,
    session: Option<String>,
) -> Posted {
    let status = response.status();
    if status.is_redirection() {
        let why =
            format!("HTTP {} (redirects are not followed: `url` must be the final address)", outgoing::status(status));
        return Err(StreamableHttpError::UnexpectedServerResponse(why.into()));
    }
    let is_limit = status == StatusCode::TOO_MANY_REQUESTS;
    // The status of a server that no longer knows the session, and of a request that looked for something else.
    let may_be_gone = in_session && status == StatusCode::NOT_FOUND;
    let only_status = || Err(StreamableHttpError::from(HttpStatusError::new(status.as_u16(), None)));
    if is_limit || outgoing::may_have_begun(status) && !is_json {
        return only_status();
    }
    let text = match body(response, REFUSAL_BYTES).await {
        Ok(Some(text)) => String::from_utf8_lossy(&text).into_owned(),
        Ok(None) if outgoing::may_have_begun(status) => return only_status(),
        Ok(None) => return Err(StreamableHttpError::ResponseBodyTooLarge { max_size: REFUSAL_BYTES }),
        // The missing part may say that the call has run.
        Err(error) if may_be_gone => return Err(StreamableHttpError::Client(error)),
        Err(_) => "<failed to read response body>".to_owned(),
    };
    let error = match serde_json::from_str::<ServerJsonRpcMessage>(&text) {
        Ok(JsonRpcMessage::Error(error)) => Some(error),
        Ok(_) | Err(_) => None,
    };
    let answers = error.as_ref().is_some_and(|error| is_answer(error, message));
    if may_be_gone && !answers {
        return Err(StreamableHttpError::SessionExpired);
    }
    let status_text = outgoing::status(status);
    let is_of_auth = matches!(status, StatusCode::UNAUTHORIZED | StatusCode::FORBIDDEN);
    if let ClientJsonRpcMessage::Request(request) = message
        && matches!(request.request, ClientRequest::DiscoverRequest(_))
        && !in_session
        && status.is_client_error()
        && !is_of_auth
    {
        // A server that refuses to say what it is may not name the request. It is then addressed in another revision.
        let why =
            || ErrorData::invalid_request(format!("server/discover rejected with HTTP {status_text}: {text}"), None);
        let error = error.map_or_else(why, |error| error.error);
        let message = ServerJsonRpcMessage::error(error, Some(request.id.clone()));
        return Ok(StreamableHttpPostResponse::Json(message, None));
    }
    match error {
        Some(error) if (is_json || answers) && !is_of_auth => {
            Ok(StreamableHttpPostResponse::Json(JsonRpcMessage::Error(error), session))
        }
        _ if outgoing::may_have_begun(status) => only_status(),
        _ => Err(StreamableHttpError::UnexpectedServerResponse(format!("HTTP {status_text}: {text}").into())),
    }
}

/// Whether this is the answer to the request, and not about the session: a request that has run must not be sent again.
fn is_answer(error: &JsonRpcError, message: &ClientJsonRpcMessage) -> bool {
    let ClientJsonRpcMessage::Request(request) = message else { return false };
    error.id.as_ref().is_some_and(|id| is_same(id, &request.id)) && !begins_with_session(&error.error)
}

/// The events of an answer. One that is too long is the last, and an error for the request.
fn events(response: Response, asked: Option<&RequestId>) -> BoxStream<'static, Result<Sse, SseError>> {
    let chunks = stream::unfold(Some((response, Event::default())), |state| async {
        let (mut response, mut event) = state?;
        match response.chunk().await.transpose()? {
            Ok(chunk) if chunk.iter().all(|byte| event.take(*byte)) => Some((Ok(chunk), Some((response, event)))),
            Ok(_) => Some((Err(io::Error::from(io::ErrorKind::FileTooLarge)), None)),
            Err(error) => Some((Err(io::Error::other(error)), None)),
        }
    });
    let instead = asked.and_then(|asked| serde_json::to_string(&too_long(asked)).ok());
    let in_place = move |event: Result<Sse, SseError>| match event {
        Err(SseError::Body(error)) if is_too_large(&*error) => {
            instead.clone().map_or(Err(SseError::Body(error)), |instead| Ok(Sse::default().data(instead)))
        }
        event => event,
    };
    SseStream::from_bytes_stream(chunks).map(in_place).boxed()
}

fn is_too_large(error: &(dyn std::error::Error + Send + Sync + 'static)) -> bool {
    error.downcast_ref::<io::Error>().is_some_and(|error| error.kind() == io::ErrorKind::FileTooLarge)
}

/// How much of an event has been read.
#[derive(Default)]
struct Event {
    /// The bytes of its lines.
    kept: usize,
    /// Those of the current line.
    line: usize,
    is_comment: bool,
    after_return: bool,
}

impl Event {
    /// Whether it is still short enough.
    fn take(&mut self, byte: u8) -> bool {
        let ends_twice = byte == b'\n' && self.after_return;
        self.after_return = byte == b'\r';
        match byte {
            _ if ends_twice => {}
            b'\r' | b'\n' => {
                // An empty line ends the event, and nobody keeps comments.
                self.kept = match self.line {
                    0 => 0,
                    _ if self.is_comment => self.kept,
                    line => self.kept + line + 1,
                };
                self.line = 0;
            }
            _ => {
                self.is_comment = if self.line == 0 { byte == b':' } else { self.is_comment };
                self.line += 1;
            }
        }
        self.kept + self.line <= MESSAGE_BYTES
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use rmcp::transport::streamable_http_client::StreamableHttpClient as _;
    use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};

    use super::*;
    use crate::pipes::TOO_MANY;

    /// The result of a request with the id 7 at a server that answers with this.
    async fn answered(kind: &str, body: String) -> Option<serde_json::Value> {
        let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.expect("a port");
        let uri = format!("http://{}/mcp", listener.local_addr().expect("an address"));
        let head = format!("HTTP/1.1 200 OK\r\ncontent-type: {kind}\r\ncontent-length: {}\r\n\r\n", body.len());
        let serving = tokio::spawn(async move {
            let (mut to, _) = listener.accept().await.expect("a connection");
            let _ = to.read(&mut [0; 4096]).await;
            // It may not read all of it.
            let _ = to.write_all(head.as_bytes()).await;
            let _ = to.write_all(body.as_bytes()).await;
        });
        let client = countersign_engine::outgoing::client(&uri.parse().expect("a URL")).build().expect("a client");
        let http = Http::new(client, Arc::default(), Arc::default(), Arc::default());
        let ping = serde_json::json!({ "jsonrpc": "2.0", "id": 7, "method": "ping" });
        let ping = serde_json::from_value(ping).expect("a message");
        let answer = http.post_message(uri.into(), ping, None, None, Headers::new()).await;
        let message = match answer.expect("an answer") {
            StreamableHttpPostResponse::Json(message, _) => serde_json::to_value(message).ok(),
            StreamableHttpPostResponse::Sse(mut events, _) => {
                let event = events.next().await?.expect("an event");
                serde_json::from_str(&event.data?).ok()
            }
            _ => None,
        };
        serving.abort();
        message
    }

    #[tokio::test]
    async fn s13_r9_an_answer_over_http_is_bounded_in_its_bytes_and_values() {
        let of = |item: &str, times: usize| {
            let items = vec![item; times].join(",");
            format!(r#"{{"jsonrpc":"2.0","id":7,"result":{{"content":[],"structuredContent":{{"x":[{items}]}}}}}}"#)
        };
        let (many, long) = (of(r#"{"a":1}"#, 150_000), of(&format!("\"{}\"", "x".repeat(1 << 20)), 9));
        let event = |text: &str| format!("data: {text}\n\n");
        let comments = format!(": {}\n", "x".repeat(1 << 20)).repeat(9);
        for (kind, body, wrong) in [
            (JSON, many.clone(), TOO_MANY),
            (JSON, long.clone(), TOO_LONG),
            (EVENTS, event(&many), TOO_MANY),
            (EVENTS, event(&long), TOO_LONG),
        ] {
            let answer = answered(kind, body).await.expect("an error");
            assert_eq!((&answer["id"], &answer["error"]["message"]), (&7.into(), &wrong.into()), "{kind}");
        }
        for (kind, body) in [(JSON, of("1", 9)), (EVENTS, event(&of("1", 9))), (EVENTS, comments + &event(&of("1", 9)))]
        {
            let answer = answered(kind, body).await.expect("a result");
            assert_eq!(answer["result"]["structuredContent"]["x"][8], 1, "{kind}");
        }
        let told = r#"{"jsonrpc":"2.0","method":"notifications/tools/list_changed"}"#;
        let batch = |answer: &str| format!(" [{answer},{told}]");
        for (kind, body) in [(JSON, batch(&of("1", 9))), (EVENTS, event(&batch(&of("1", 9))))] {
            let answer = answered(kind, body).await.expect("a result");
            assert_eq!(answer["result"]["structuredContent"]["x"][8], 1, "{kind}");
        }
        let nan = answered(EVENTS, event(&of("NaN", 9))).await.expect("an error");
        assert_eq!((&nan["id"], &nan["error"]["message"]), (&7.into(), &crate::pipes::UNREADABLE.into()));
        let digits = "123456789012345678901234567890";
        for (kind, body) in [(JSON, of(digits, 9)), (EVENTS, event(&of(digits, 9)))] {
            let answer = answered(kind, body).await.expect("a result");
            assert_eq!(answer["result"]["structuredContent"]["x"][8], digits, "{kind}");
        }
    }
}
