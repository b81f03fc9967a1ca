//! Sends the spans of runs to an OpenTelemetry collector: OTLP over HTTP, JSON-encoded.
//!
//! ```no_run
//! # async fn example() -> Result<(), Box<dyn std::error::Error>> {
//! use tracing_subscriber::layer::SubscriberExt as _;
//!
//! let (traces, sending) = countersign_runtime::otlp::traces("http://127.0.0.1:4318/v1/traces")?;
//! let subscriber = tracing_subscriber::registry().with(traces.layer());
//! tracing::subscriber::set_global_default(subscriber)?;
//! tokio::spawn(sending.run());
//! // Runs …
//! traces.flush().await;
//! # Ok(())
//! # }
//! ```
//! A collector that does not respond delays nothing: spans are queued in memory, at most [`WAITING`] of them with at
//! most [`WAITING_BYTES`] in total. Further spans are dropped, and their number is logged. A text is cut after
//! [`ATTRIBUTE_BYTES`].

mod collect;
mod json;
#[cfg(test)]
mod tests;

use std::{
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
    time::Duration,
};

use countersign_engine::outgoing;
use reqwest::{Client, Url, header::CONTENT_TYPE};
use tokio::sync::{OwnedSemaphorePermit, Semaphore, mpsc, oneshot};
use tracing::{Subscriber, level_filters::LevelFilter};
use tracing_subscriber::{Layer, filter::Targets, registry::LookupSpan};

use self::collect::Collector;
use crate::run::spans::TARGET;

/// The maximum number of spans queued for sending.
pub const WAITING: usize = 4096;
/// The maximum size in bytes of the spans queued for sending.
pub const WAITING_BYTES: usize = 32 * 1024 * 1024;
/// The maximum size in bytes of a text in a span: arguments and results may be much longer.
pub const ATTRIBUTE_BYTES: usize = 64 * 1024;
/// The maximum number of spans per request.
const AT_ONCE: usize = 512;
/// The maximum size in bytes of the spans of a request with more than one. Their JSON may be six times as large, and
/// collectors accept 20 MiB.
const AT_ONCE_BYTES: usize = 2 * 1024 * 1024;
/// The size counted for a span, an event or an attribute in addition to its texts.
const ENTRY_BYTES: usize = 64;
/// How long a request may take.
const TIMEOUT: Duration = Duration::from_secs(10);
/// The delays before retries of a request.
const PAUSES: [Duration; 2] = [Duration::from_millis(200), Duration::from_secs(1)];

/// An address that spans cannot be sent to. Its message says how to fix it.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct OtlpError(String);

/// A span that has ended.
pub(crate) struct Finished {
    trace_id: String,
    span_id: String,
    parent_id: Option<String>,
    /// An earlier span of the same trace.
    link: Option<String>,
    name: String,
    client: bool,
    /// Nanoseconds since 1970, like all times here.
    start: u128,
    end: u128,
    attributes: Vec<(&'static str, serde_json::Value)>,
    events: Vec<Happened>,
}

impl Finished {
    /// Its approximate size.
    fn bytes(&self) -> u32 {
        let texts = [self.trace_id.len(), self.span_id.len(), self.name.len()].iter().sum::<usize>();
        let events = self.events.iter().map(|event| ENTRY_BYTES + event.name.len() + bytes_of(&event.attributes));
        let all = ENTRY_BYTES + texts + bytes_of(&self.attributes) + events.sum::<usize>();
        u32::try_from(all).unwrap_or(u32::MAX)
    }
}

fn bytes_of(attributes: &[(&'static str, serde_json::Value)]) -> usize {
    attributes.iter().map(|(name, value)| ENTRY_BYTES + name.len() + value.as_str().map_or(0, str::len)).sum()
}

/// An event within a span.
pub(crate) struct Happened {
    name: String,
    at: u128,
    attributes: Vec<(&'static str, serde_json::Value)>,
}

enum Message {
    /// A span, with its permit for queued bytes.
    Span(Box<Finished>, OwnedSemaphorePermit),
    Flush(oneshot::Sender<()>),
}

/// A handle that collects finished spans. Cheap to clone.
#[derive(Clone)]
pub struct Traces {
    sender: mpsc::Sender<Message>,
    /// How many bytes may still be queued.
    room: Arc<Semaphore>,
    dropped: Arc<AtomicU64>,
}

/// The task that sends the spans.
pub struct Sending {
    receiver: mpsc::Receiver<Message>,
    dropped: Arc<AtomicU64>,
    client: Client,
    url: Url,
}

/// A collector of spans and the task that sends them: `endpoint` is the full address, usually
/// `http://HOST:4318/v1/traces`.
///
/// # Errors
/// Not an HTTP address, or it contains a user or a password.
pub fn traces(endpoint: &str) -> Result<(Traces, Sending), OtlpError> {
    let url = address(endpoint)?;
    let client = outgoing::client(&url).timeout(TIMEOUT).build();
    let client = client.map_err(|error| OtlpError(format!("the HTTP client cannot be made: {error}")))?;
    let (sender, receiver) = mpsc::channel(WAITING);
    let dropped = Arc::new(AtomicU64::new(0));
    let room = Arc::new(Semaphore::new(WAITING_BYTES));
    Ok((Traces { sender, room, dropped: dropped.clone() }, Sending { receiver, dropped, client, url }))
}

/// Checks whether spans can be sent to an address.
///
/// # Errors
/// Not an HTTP address, or it contains a user or a password.
pub fn check(endpoint: &str) -> Result<(), OtlpError> {
    address(endpoint).map(drop)
}

fn address(endpoint: &str) -> Result<Url, OtlpError> {
    let wrong = |why: String| OtlpError(format!("{why}; it looks like http://127.0.0.1:4318/v1/traces"));
    outgoing::address(endpoint).map_err(wrong)
}

impl Traces {
    /// The layer that collects spans, for the program's subscriber. It ignores all spans but those of runs.
    pub fn layer<S: Subscriber + for<'a> LookupSpan<'a>>(&self) -> impl Layer<S> + use<S> {
        Collector::new(self.clone()).with_filter(Targets::new().with_target(TARGET, LevelFilter::DEBUG))
    }

    /// Waits until all spans that have ended so far have been sent or dropped.
    pub async fn flush(&self) {
        let (done, told) = oneshot::channel();
        if self.sender.send(Message::Flush(done)).await.is_ok() {
            // An error means that the sender has stopped: nothing to wait for.
            let _ = told.await;
        }
    }

    fn give(&self, span: Finished) {
        let place = self.room.clone().try_acquire_many_owned(span.bytes());
        let sent = place.is_ok_and(|place| self.sender.try_send(Message::Span(Box::new(span), place)).is_ok());
        if !sent {
            self.dropped.fetch_add(1, Ordering::Relaxed);
        }
    }
}

/// The spans of a request, with their permits for queued bytes.
struct Batch {
    spans: Vec<Finished>,
    place: OwnedSemaphorePermit,
}

impl Batch {
    fn has_room(&self, place: &OwnedSemaphorePermit) -> bool {
        self.place.num_permits() + place.num_permits() <= AT_ONCE_BYTES
    }

    fn add(&mut self, span: Finished, place: OwnedSemaphorePermit) {
        self.spans.push(span);
        self.place.merge(place);
    }
}

impl Sending {
    /// Sends spans as they end, until all handles and layers are dropped.
    pub async fn run(mut self) {
        let mut messages = Vec::new();
        while self.receiver.recv_many(&mut messages, AT_ONCE).await > 0 {
            let (mut batches, mut waits) = (Vec::<Batch>::new(), Vec::new());
            for message in messages.drain(..) {
                match message {
                    Message::Span(span, place) => match batches.last_mut().filter(|batch| batch.has_room(&place)) {
                        Some(batch) => batch.add(*span, place),
                        None => batches.push(Batch { spans: vec![*span], place }),
                    },
                    Message::Flush(done) => waits.push(done),
                }
            }
            let dropped = self.dropped.swap(0, Ordering::Relaxed);
            if dropped > 0 {
                tracing::warn!(dropped, "spans ended faster than they could be sent");
            }
            for batch in batches {
                self.send(&batch.spans).await;
            }
            for done in waits {
                // The waiting task may be gone.
                let _ = done.send(());
            }
        }
    }

    async fn send(&self, spans: &[Finished]) {
        let body = json::request(spans).to_string();
        let mut pauses = PAUSES.into_iter();
        loop {
            let request =
                self.client.post(self.url.clone()).header(CONTENT_TYPE, "application/json").body(body.clone());
            let (why, again) = match request.send().await {
                Ok(answer) if answer.status().is_success() => return,
                // The statuses that the protocol declares retryable.
                Ok(answer) => (answer.status().to_string(), matches!(answer.status().as_u16(), 429 | 502..=504)),
                Err(error) => (error.without_url().to_string(), true),
            };
            match pauses.next().filter(|_| again) {
                Some(pause) => tokio::time::sleep(pause).await,
                None => {
                    tracing::warn!(spans = spans.len(), why, "spans could not be sent");
                    return;
                }
            }
        }
    }
}
