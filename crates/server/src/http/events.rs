//! A session's events as server-sent events (spec W8).

use std::{convert::Infallible, pin::Pin, sync::Arc, time::Duration};

use axum::{
    extract::State,
    http::HeaderMap,
    response::{
        IntoResponse as _, Response, Sse,
        sse::{Event, KeepAlive},
    },
};
use countersign_core::{
    approval::principal::Principal,
    journal::state::Status,
    refusal::{Code, Refusal},
};
use countersign_runtime::run::{
    Start,
    subscription::{Frame, Subscription},
};
use futures::{Stream, stream};
use serde::Deserialize;

use super::extract::{Params, Segment};
use crate::{app::App, auth::pass::Pass, metrics::Counted, problem::Problem};

/// Interval of a stream's keep-alive comments.
const KEEP_ALIVE: Duration = Duration::from_secs(15);
/// Delay before the journal is read again after a store failure.
const AGAIN: Duration = Duration::from_secs(1);

/// The query of `GET /v1/sessions/{session_id}/events`.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Follow {
    after: Option<u64>,
    last: Option<u64>,
    before: Option<u64>,
}

pub(super) async fn follow(
    State(app): State<App>,
    pass: Pass,
    Segment(session_id): Segment,
    Params(params): Params<Follow>,
    headers: HeaderMap,
) -> Result<Response, Problem> {
    let last = match headers.get("last-event-id") {
        None => None,
        Some(value) => {
            let seq = value.to_str().ok().and_then(|value| value.parse().ok());
            Some(seq.ok_or_else(|| Problem::invalid("Last-Event-ID: must be the seq of an event"))?)
        }
    };
    let start = match last {
        Some(seq) => Start::After(seq),
        // A number too large for the type is out of bounds too.
        None => Start::new(params.after, params.last.map(|last| u32::try_from(last).unwrap_or(u32::MAX)))?,
    };
    let after = match (start, params.before) {
        (Start::Now, None) => None,
        (Start::Now, Some(_)) => return Err(Problem::invalid("before: needs after or last, for where to begin")),
        (Start::After(after), None) => Some(after),
        (start, before) => Some(app.runtime.start_of(pass.by(), &session_id, start, before).await?),
    };
    let subscription = app.runtime.subscribe(pass.by(), &session_id, after).await?;
    let following = Following {
        // No `seq` is skipped, so the event before it will come.
        until: params.before.map(|before| before - 1),
        closed: Box::pin(app.closed()),
        _counted: Counted::new(&app.metrics.streams),
        pass,
        app,
        subscription,
    };
    Ok(answer(stream::unfold(Some(following), |following| async {
        let mut following = following?;
        match following.next().await {
            Some(Ok(frame)) => Some((Ok(event(&frame)), Some(following))),
            Some(Err(refusal)) => Some((Ok(failure(&refusal)), None)),
            None => None,
        }
    })))
}

/// A stream that ends with its reader, its session, its token, or the server.
struct Following {
    app: App,
    pass: Pass,
    subscription: Subscription,
    /// The last `seq` to send; `None` if more is followed.
    until: Option<u64>,
    closed: Pin<Box<dyn Future<Output = ()> + Send>>,
    _counted: Counted,
}

impl Following {
    async fn next(&mut self) -> Option<Result<Frame, Refusal>> {
        loop {
            if self.until.is_some_and(|until| self.subscription.seq() >= until) {
                return None;
            }
            if let Err(refusal) = look(&self.app, &mut self.pass, &self.subscription).await {
                return Some(Err(refusal));
            }
            tokio::select! {
                _ = self.pass.changed() => {}
                next = next(&mut self.subscription) => {
                    let next = look(&self.app, &mut self.pass, &self.subscription).await.and(next);
                    return Some(next);
                }
                () = &mut self.closed => return Some(Err(shutting_down())),
            }
        }
    }
}

/// Whether a stream may continue, given the current state of its token.
async fn look(app: &App, pass: &mut Pass, subscription: &Subscription) -> Result<(), Refusal> {
    pass.check()?;
    if pass.take_moved() {
        app.runtime.session(pass.by(), subscription.session_id()).await?;
    }
    Ok(())
}

/// The events of the turn that was just started, until it pauses or ends.
pub(super) fn turn(app: App, pass: Pass, subscription: Subscription) -> Response {
    let turn = Turn {
        idle: Box::pin(idle(app.clone(), pass.by().clone(), subscription.session_id().to_string())),
        closed: Box::pin(app.closed()),
        _counted: Counted::new(&app.metrics.streams),
        pass,
        app,
        subscription,
        until: None,
    };
    answer(stream::unfold(Some(turn), |turn| async {
        let mut turn = turn?;
        match turn.next().await {
            Some(Ok(frame)) => Some((Ok(event(&frame)), Some(turn))),
            Some(Err(refusal)) => Some((Ok(failure(&refusal)), None)),
            None => None,
        }
    }))
}

struct Turn {
    app: App,
    pass: Pass,
    subscription: Subscription,
    /// Resolves when nothing more comes of the turn here.
    idle: Pin<Box<dyn Future<Output = Last> + Send>>,
    closed: Pin<Box<dyn Future<Output = ()> + Send>>,
    until: Option<Last>,
    _counted: Counted,
}

/// Where the stream of a turn ends.
#[derive(Clone, Copy, Default)]
struct Last {
    seq: u64,
    /// The turn has neither paused nor ended: the server is shutting down.
    is_left: bool,
}

impl Last {
    fn end(self) -> Option<Result<Frame, Refusal>> {
        self.is_left.then(|| Err(shutting_down()))
    }
}

impl Turn {
    async fn next(&mut self) -> Option<Result<Frame, Refusal>> {
        let next = loop {
            if let Err(refusal) = look(&self.app, &mut self.pass, &self.subscription).await {
                return Some(Err(refusal));
            }
            match self.until {
                // At once, for a queued message, or a repeated one whose turn has paused or ended already.
                Some(last) if self.subscription.seq() >= last.seq => return last.end(),
                Some(_) => tokio::select! {
                    biased;
                    _ = self.pass.changed() => {}
                    next = next(&mut self.subscription) => break next,
                    () = &mut self.closed => return Some(Err(shutting_down())),
                },
                None => tokio::select! {
                    biased;
                    _ = self.pass.changed() => {}
                    next = next(&mut self.subscription) => break next,
                    last = &mut self.idle => self.until = Some(last),
                    () = &mut self.closed => return Some(Err(shutting_down())),
                },
            }
        };
        Some(look(&self.app, &mut self.pass, &self.subscription).await.and(next))
    }
}

async fn idle(app: App, by: Arc<Principal>, session_id: String) -> Last {
    let rests = async || {
        let outcome = app.runtime.wait(&by, &session_id).await?;
        let is_left = outcome.status == Status::Running && app.runtime.is_draining();
        Ok::<_, Refusal>(Last { seq: app.runtime.last_seq(&by, &session_id).await?, is_left })
    };
    loop {
        match rests().await {
            Err(refusal) if refusal.code.is_temporary() => tokio::time::sleep(AGAIN).await,
            // A deleted session has no more events.
            last => return last.unwrap_or_default(),
        }
    }
}

/// The next event, retrying store failures.
async fn next(subscription: &mut Subscription) -> Result<Frame, Refusal> {
    loop {
        match subscription.next().await {
            Err(refusal) if refusal.code.is_temporary() => tokio::time::sleep(AGAIN).await,
            next => return next,
        }
    }
}

fn event(frame: &Frame) -> Event {
    let event = Event::default().data(&*frame.json);
    match frame.seq() {
        Some(seq) => event.id(seq.to_string()),
        None => event,
    }
}

/// Why a stream ends whose events go on: in silence it would be taken for the end of the turn.
fn shutting_down() -> Refusal {
    let what = "the server is shutting down: follow the session after the last seq, here after its restart or at another \
                node";
    Refusal::new(Code::ShuttingDown, what)
}

/// The last event of a stream that cannot continue.
fn failure(refusal: &Refusal) -> Event {
    let data = serde_json::json!({ "type": "error", "code": refusal.code, "message": refusal.message });
    Event::default().data(data.to_string())
}

fn answer(events: impl Stream<Item = Result<Event, Infallible>> + Send + 'static) -> Response {
    Sse::new(events).keep_alive(KeepAlive::new().interval(KEEP_ALIVE)).into_response()
}
