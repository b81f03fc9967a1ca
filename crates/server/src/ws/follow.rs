//! The sessions that one connection follows, merged into one stream.

use std::{
    collections::HashMap,
    sync::Arc,
    task::{Context, Poll},
    time::Duration,
};

use countersign_core::refusal::{Code, Refusal};
use countersign_runtime::run::subscription::{Frame, Subscription};
use futures::{
    FutureExt as _, StreamExt as _,
    future::{AbortHandle, Abortable},
    stream::{self, BoxStream, SelectAll},
};
use prometheus_client::metrics::gauge::Gauge;

use crate::{metrics::Counted, options::SUBSCRIPTIONS};

/// Delay before the journal is read again after a store failure.
const AGAIN: Duration = Duration::from_secs(1);

/// An event of a session, or an error. `session_not_found` and `session_deleted` are final.
pub(super) type Event = (Arc<str>, Result<Frame, Refusal>);

/// The followed sessions, each followed once.
pub(super) struct Follows {
    streams: SelectAll<BoxStream<'static, Event>>,
    handles: HashMap<Arc<str>, Following>,
    gauge: Gauge,
}

struct Following {
    abort: AbortHandle,
    _counted: Counted,
}

impl Drop for Following {
    fn drop(&mut self) {
        self.abort.abort();
    }
}

impl Follows {
    pub(super) fn new(gauge: &Gauge) -> Follows {
        Follows { streams: SelectAll::new(), handles: HashMap::new(), gauge: gauge.clone() }
    }

    pub(super) fn follows(&self, session_id: &str) -> bool {
        self.handles.contains_key(session_id)
    }

    /// The sessions that are followed.
    pub(super) fn sessions(&self) -> Vec<Arc<str>> {
        self.handles.keys().cloned().collect()
    }

    /// Whether one more session can be followed.
    pub(super) fn check_room(&self, session_id: Option<&str>) -> Result<(), Refusal> {
        if self.handles.len() < SUBSCRIPTIONS || session_id.is_some_and(|id| self.follows(id)) {
            return Ok(());
        }
        Err(Refusal::new(
            Code::TooManyFollowed,
            format!(
                "a connection follows at most {SUBSCRIPTIONS} sessions; send unsubscribe for one of them, or use another connection"
            ),
        ))
    }

    /// Whether to follow a session from a decision or note in it on: that counts even if there is no room.
    pub(super) fn takes(&self, session_id: &str) -> bool {
        !self.follows(session_id) && self.check_room(None).is_ok()
    }

    /// Follows a session by this subscription, replacing any earlier one.
    pub(super) fn insert(&mut self, subscription: Subscription) {
        let session_id = subscription.session_id().clone();
        let (abort, registration) = AbortHandle::new_pair();
        let following = Following { abort, _counted: Counted::new(&self.gauge) };
        self.handles.insert(session_id, following);
        self.streams.push(Abortable::new(events(subscription), registration).boxed());
    }

    /// Stops following it.
    pub(super) fn remove(&mut self, session_id: &str) {
        self.handles.remove(session_id);
    }

    /// The next event of any session; waits forever if none is followed. Cancel safe.
    pub(super) async fn next(&mut self) -> Event {
        futures::future::poll_fn(|context| self.poll(context)).await
    }

    /// The next event, if one is ready.
    pub(super) fn ready(&mut self) -> Option<Event> {
        self.next().now_or_never()
    }

    fn poll(&mut self, context: &mut Context<'_>) -> Poll<Event> {
        match self.streams.poll_next_unpin(context) {
            Poll::Ready(Some(event)) => Poll::Ready(event),
            // An empty set registers no waker; adding to it causes another poll.
            Poll::Ready(None) | Poll::Pending => Poll::Pending,
        }
    }
}

fn events(subscription: Subscription) -> impl futures::Stream<Item = Event> + Send + 'static {
    stream::unfold(Some((subscription, false)), |state| async {
        let (mut subscription, failed) = state?;
        if failed {
            tokio::time::sleep(AGAIN).await;
        }
        let session_id = subscription.session_id().clone();
        let next = subscription.next().await;
        let state = match &next {
            Ok(_) => Some((subscription, false)),
            Err(refusal) if refusal.code.is_temporary() => Some((subscription, true)),
            Err(_) => None,
        };
        Some(((session_id, next), state))
    })
}
