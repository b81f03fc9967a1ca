//! Streamable HTTP for the protocol's library, with failures that say whether anything was done.

mod post;

use std::{
    collections::HashMap,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    time::Duration,
};

use futures::{
    StreamExt as _,
    stream::{self, BoxStream},
};
use reqwest::{
    Client,
    header::{HeaderName, HeaderValue},
};
use rmcp::{
    model::{
        ClientJsonRpcMessage, ClientRequest, ErrorCode, ErrorData, JsonRpcMessage, RequestId, ServerJsonRpcMessage,
    },
    transport::streamable_http_client::{
        SseError, StreamableHttpClient, StreamableHttpError, StreamableHttpPostResponse,
    },
};
use sse_stream::Sse;
use tokio::time::sleep_until;

use super::{
    failure::Failure,
    pace::{Pace, Warnings},
    pipes::{self, MESSAGE_BYTES, is_same},
    settings::secrets::Secrets,
};

/// Streams are reopened no more often than this. A server that closes them may set the delay itself, and a malicious
/// one sets none.
const STREAM_AGAIN: Duration = Duration::from_secs(1);
/// A burst that is allowed before that: as many calls as may break at once.
const STREAMS_AT_ONCE: u32 = 8;

/// A client with our own failures.
#[derive(Clone)]
pub(super) struct Http {
    client: Client,
    /// The secrets that no error may repeat from the server's answers.
    secrets: Arc<Secrets>,
    /// When streams are opened.
    streams: Arc<Pace>,
    /// The server has opened a stream of its own, over which answers that it has not given at once may arrive.
    has_streams: Arc<AtomicBool>,
    /// A request in the session got the status for an unknown session, whatever came with it.
    may_be_gone: Arc<AtomicBool>,
    warnings: Arc<Warnings>,
}

type Headers = HashMap<HeaderName, HeaderValue>;
type Answer<T> = Result<T, StreamableHttpError<Failure>>;

impl StreamableHttpClient for Http {
    type Error = Failure;

    async fn post_message(
        &self,
        uri: Arc<str>,
        message: ClientJsonRpcMessage,
        session_id: Option<Arc<str>>,
        auth_header: Option<String>,
        headers: Headers,
    ) -> Answer<StreamableHttpPostResponse> {
        self.post_message_with_max_sse_event_size(uri, message, session_id, auth_header, headers, MESSAGE_BYTES).await
    }

    async fn post_message_with_max_sse_event_size(
        &self,
        uri: Arc<str>,
        message: ClientJsonRpcMessage,
        session_id: Option<Arc<str>>,
        auth_header: Option<String>,
        headers: Headers,
        _: usize,
    ) -> Answer<StreamableHttpPostResponse> {
        let asked = match &message {
            ClientJsonRpcMessage::Request(request) => Some(request.id.clone()),
            _ => None,
        };
        let probes = matches!(&message, ClientJsonRpcMessage::Request(request)
            if matches!(request.request, ClientRequest::DiscoverRequest(_)));
        let in_session = session_id.is_some();
        match self.post(&uri, &message, session_id.as_deref(), auth_header, headers).await {
            Ok(StreamableHttpPostResponse::Json(message, session)) if !probes => self
                .told(message, asked.as_ref(), in_session)
                .map(|message| StreamableHttpPostResponse::Json(message, session)),
            Ok(StreamableHttpPostResponse::Sse(events, session)) => {
                Ok(StreamableHttpPostResponse::Sse(self.bounded(events), session))
            }
            // No answer can come any more. A probe is answered in another revision.
            Ok(StreamableHttpPostResponse::Accepted)
                if asked.is_some() && !probes && !self.has_streams.load(Ordering::SeqCst) =>
            {
                Err(StreamableHttpError::Client(Failure::Unreadable))
            }
            Ok(answer) => Ok(answer),
            Err(error) => Err(self.ours(error, in_session)),
        }
    }

    async fn delete_session(
        &self,
        uri: Arc<str>,
        session_id: Arc<str>,
        auth_header: Option<String>,
        headers: Headers,
    ) -> Answer<()> {
        self.client.delete_session(uri, session_id, auth_header, headers).await.map_err(|error| self.ours(error, true))
    }

    async fn get_stream(
        &self,
        uri: Arc<str>,
        session_id: Option<Arc<str>>,
        last_event_id: Option<String>,
        auth_header: Option<String>,
        headers: Headers,
    ) -> Answer<BoxStream<'static, Result<Sse, SseError>>> {
        self.get_stream_with_max_sse_event_size(uri, session_id, last_event_id, auth_header, headers, MESSAGE_BYTES)
            .await
    }

    async fn get_stream_with_max_sse_event_size(
        &self,
        uri: Arc<str>,
        session_id: Option<Arc<str>>,
        last_event_id: Option<String>,
        auth_header: Option<String>,
        headers: Headers,
        most: usize,
    ) -> Answer<BoxStream<'static, Result<Sse, SseError>>> {
        sleep_until(self.streams.next()).await;
        let stream = self
            .client
            .get_stream_with_max_sse_event_size(uri, session_id, last_event_id, auth_header, headers, most)
            .await;
        self.has_streams.fetch_or(stream.is_ok(), Ordering::SeqCst);
        stream.map(|events| self.bounded(events)).map_err(|error| match error {
            // Retrying would be refused forever.
            StreamableHttpError::Client(error) if error.status().is_some_and(|status| status.is_client_error()) => {
                StreamableHttpError::ServerDoesNotSupportSse
            }
            error => self.ours(error, false),
        })
    }
}

impl Http {
    /// `may_be_gone` becomes true when the server may no longer know the session; `warnings` are about messages that are
    /// not read.
    pub(super) fn new(
        client: Client,
        secrets: Arc<Secrets>,
        may_be_gone: Arc<AtomicBool>,
        warnings: Arc<Warnings>,
    ) -> Http {
        let streams = Arc::new(Pace::new(STREAM_AGAIN, STREAMS_AT_ONCE));
        Http { client, secrets, streams, has_streams: Arc::default(), may_be_gone, warnings }
    }

    /// The events of a stream, each as it is read; a batch is one for each of its messages.
    fn bounded(&self, events: BoxStream<'static, Result<Sse, SseError>>) -> BoxStream<'static, Result<Sse, SseError>> {
        let warnings = self.warnings.clone();
        let bounded = move |mut event: Sse| {
            if let Some(instead) = event.data.as_deref().and_then(|text| pipes::in_place_of_event(text, &warnings)) {
                event.data = instead;
            }
            event
        };
        events.flat_map(|event| stream::iter(apart(event))).map(move |event| event.map(&bounded)).boxed()
    }

    /// The answer, if it names the request. One that does not would be ignored and waited for, so it is a failure; servers
    /// that refuse a request before they have read it cannot name it.
    fn told(
        &self,
        message: ServerJsonRpcMessage,
        asked: Option<&RequestId>,
        in_session: bool,
    ) -> Answer<ServerJsonRpcMessage> {
        let names = |id: &RequestId| asked.is_some_and(|asked| is_same(id, asked));
        let error = match message {
            JsonRpcMessage::Error(error) => error,
            JsonRpcMessage::Response(response) if names(&response.id) => return Ok(JsonRpcMessage::Response(response)),
            _ if asked.is_some() => return Err(StreamableHttpError::Client(Failure::Unreadable)),
            _ => return Ok(message),
        };
        let named = error.id.as_ref().is_some_and(names);
        if in_session && of_session(&error.error, named) {
            return Err(StreamableHttpError::Client(Failure::Gone));
        }
        match asked {
            Some(_) if !named => {
                let ErrorData { message, code, .. } = error.error;
                let said = self.secrets.redact(&format!("{message} ({})", code.0));
                // Only these two say that the request was not accepted (JSON-RPC 2.0, section 5.1).
                let refused = matches!(code, ErrorCode::PARSE_ERROR | ErrorCode::INVALID_REQUEST);
                Err(StreamableHttpError::Client(if refused { Failure::Refused(said) } else { Failure::Lost(said) }))
            }
            _ => Ok(JsonRpcMessage::Error(error)),
        }
    }

    /// One of the library's failures as one of this crate's. A failure that only the connection's lifecycle reads stays
    /// as it is.
    fn ours(&self, error: StreamableHttpError<reqwest::Error>, in_session: bool) -> StreamableHttpError<Failure> {
        let failure = match error {
            StreamableHttpError::Client(error) => Failure::of_reqwest(&error),
            StreamableHttpError::SessionExpired => Failure::Gone,
            StreamableHttpError::HttpStatus(error) => {
                reqwest::StatusCode::from_u16(error.status).map_or(Failure::Unreadable, Failure::of_status)
            }
            // "HTTP 400 Bad Request: …", with the server's text.
            StreamableHttpError::UnexpectedServerResponse(text) => match text.strip_prefix("HTTP ") {
                Some(refusal)
                    if in_session
                        && ["400", "410"].iter().any(|status| refusal.starts_with(status))
                        && names_session(refusal) =>
                {
                    Failure::Gone
                }
                Some(_) => Failure::Refused(self.secrets.redact(&text)),
                None => Failure::Unreadable,
            },
            StreamableHttpError::AuthRequired(error) => return StreamableHttpError::AuthRequired(error),
            StreamableHttpError::InsufficientScope(error) => return StreamableHttpError::InsufficientScope(error),
            StreamableHttpError::ServerDoesNotSupportSse => return StreamableHttpError::ServerDoesNotSupportSse,
            StreamableHttpError::ServerDoesNotSupportDeleteSession => {
                return StreamableHttpError::ServerDoesNotSupportDeleteSession;
            }
            StreamableHttpError::ResponseBodyTooLarge { .. }
            | StreamableHttpError::UnexpectedContentType(_)
            | StreamableHttpError::Deserialize(_) => Failure::Unreadable,
            _ => Failure::Lost("the connection ended".to_owned()),
        };
        StreamableHttpError::Client(failure)
    }
}

/// An event, or those of the messages in it. Its id is that of an empty one at their end: with it, an interrupted stream
/// would go on after all of them.
fn apart(event: Result<Sse, SseError>) -> Vec<Result<Sse, SseError>> {
    let text = event.as_ref().ok().and_then(|event| event.data.as_deref());
    match text.and_then(|text| pipes::apart(text.trim_ascii().as_bytes())) {
        None => vec![event],
        Some(batch) => {
            let last = event.map(|event| Sse { data: None, ..event });
            batch.into_iter().map(|text| Ok(Sse::default().data(text))).chain([last]).collect()
        }
    }
}

/// Whether it says that the session is no longer known, so that nothing has run. An error that names the request may be
/// the tool's own, about a session of its own, unless it has the wording with which servers refuse requests.
fn of_session(error: &ErrorData, names_request: bool) -> bool {
    let may_say = !names_request || error.message.to_ascii_lowercase().starts_with("bad request");
    refuses(error) && may_say && names_session(&error.message)
}

/// The same for an error with the status for an unknown session that names the request: more may follow that wording,
/// but nothing that the call has done comes before it.
fn begins_with_session(error: &ErrorData) -> bool {
    let said = error.message.to_ascii_lowercase();
    of_session(error, true) || refuses(error) && SESSION_UNKNOWN.iter().any(|words| said.starts_with(words))
}

/// Whether the code is one with which requests are refused.
fn refuses(error: &ErrorData) -> bool {
    matches!(error.code.0, -32000 | -32001 | -32600)
}

/// The wording of the reference servers and SDKs. Any other text about sessions may be about one of the tool's own,
/// which ended while the call ran.
const SESSION_UNKNOWN: [&str; 7] = [
    "session not found",
    "no valid session",
    "invalid session id",
    "missing session id",
    "unknown session",
    "session has been terminated",
    "server not initialized",
];

fn names_session(text: &str) -> bool {
    let text = text.to_ascii_lowercase();
    SESSION_UNKNOWN.iter().any(|words| text.contains(words))
}
