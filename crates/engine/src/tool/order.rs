//! The order in which calls of one answer take effect, for tools over one thing, such as the files of a folder (spec S12).
//!
//! Calls that start together run as tasks, which begin in any order and may wait for guardrails before they run. So a
//! call's place is taken when it is started, where the order is still the model's, and is waited for just before it
//! runs.

use std::{
    any::Any,
    collections::HashMap,
    sync::{Arc, Mutex, PoisonError, Weak},
    task::{Context, Poll, Waker},
};

use futures::{FutureExt as _, future::BoxFuture};
use tokio::{sync::RwLock, task::unconstrained};

/// Lets the calls of a session take effect in the order in which they start. Tools with clones of it share that order;
/// a session never waits for another one.
#[derive(Clone, Debug, Default)]
pub struct Order {
    lines: Arc<Lines>,
    reads: bool,
}

/// A session's queue lasts as long as a call is in it. It hands out its places fairly.
type Lines = Mutex<HashMap<Arc<str>, Weak<RwLock<()>>>>;

/// A call's place; dropping it gives it up.
pub struct Ticket(BoxFuture<'static, Box<dyn Any + Send + Sync>>);

impl Order {
    /// The same order for a tool that only reads: its calls wait for earlier changes, not for each other.
    #[must_use]
    pub fn of_reads(&self) -> Order {
        Order { lines: self.lines.clone(), reads: true }
    }

    /// Takes the place behind all those that this session has taken so far.
    #[must_use]
    pub fn ticket(&self, session_id: &str) -> Ticket {
        let line = self.line(session_id);
        let mut place: BoxFuture<'static, Box<dyn Any + Send + Sync>> = match self.reads {
            true => line.read_owned().map(|turn| Box::new(turn) as _).boxed(),
            false => line.write_owned().map(|turn| Box::new(turn) as _).boxed(),
        };
        // The first poll takes the place. Otherwise, in a task that has run for long, it would only be asked to yield.
        let mut first = unconstrained(&mut place);
        match first.poll_unpin(&mut Context::from_waker(Waker::noop())) {
            Poll::Ready(turn) => Ticket(futures::future::ready(turn).boxed()),
            Poll::Pending => Ticket(place),
        }
    }

    fn line(&self, session_id: &str) -> Arc<RwLock<()>> {
        let mut lines = self.lines.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(line) = lines.get(session_id).and_then(Weak::upgrade) {
            return line;
        }
        // One stays for each session with calls at work.
        lines.retain(|_, line| line.strong_count() > 0);
        let line = Arc::new(RwLock::new(()));
        lines.insert(session_id.into(), Arc::downgrade(&line));
        line
    }
}

impl PartialEq for Order {
    fn eq(&self, other: &Order) -> bool {
        Arc::ptr_eq(&self.lines, &other.lines) && self.reads == other.reads
    }
}

impl Ticket {
    /// Waits for the call's turn, which lasts until the returned value is dropped.
    pub async fn turn(self) -> impl Send {
        self.0.await
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn is_next(ticket: &mut Ticket) -> bool {
        ticket.0.poll_unpin(&mut Context::from_waker(Waker::noop())).is_ready()
    }

    #[tokio::test]
    async fn s12_changes_have_their_turn_in_order_and_reads_wait_for_earlier_changes_only() {
        let order = Order::default();
        let first = order.ticket("s1").turn().await;
        let (mut second, mut read, mut other) =
            (order.ticket("s1"), order.of_reads().ticket("s1"), order.of_reads().ticket("s1"));
        let mut last = order.ticket("s1");
        // Whichever asks first: only the order of arrival counts.
        assert!(!is_next(&mut last) && !is_next(&mut read) && !is_next(&mut second));
        // Another session does not wait.
        drop(order.ticket("s2").turn().await);
        drop(first);
        assert!(!is_next(&mut last) && !is_next(&mut read));
        // A call that does not run gives its place up.
        drop(second);
        assert!(!is_next(&mut last) && is_next(&mut other) && is_next(&mut read));
        drop((read, other));
        drop(last.turn().await);
        drop(order.ticket("s3"));
        assert_eq!(order.lines.lock().expect("lines").len(), 1, "ended queues are forgotten");
    }
}
