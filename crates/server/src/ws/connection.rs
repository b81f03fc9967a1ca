//! One WebSocket connection: a single task reads, acts and writes, so that an `ack` always precedes the events it
//! causes.

use std::{pin::pin, time::Duration};

use axum::extract::ws::{CloseFrame, Message, WebSocket, close_code};
use countersign_core::{
    approval::key::parse_approval_key,
    decide::resolve,
    limits,
    refusal::{Code, Refusal},
    wire::{
        PROTOCOL, UNAUTHENTICATED,
        client::{BadFrame, ClientMessage, SendApproval, SendComment, SendMessage, SendReassign, Subscribe},
        event::ConnectionEvent,
    },
};
use countersign_runtime::run::{NewDecision, NewMessage, NewNote, Reply, Start, Stored};
use futures::{
    FutureExt as _, SinkExt as _, StreamExt as _,
    stream::{SplitSink, SplitStream},
};
use tokio::{
    task::coop::unconstrained,
    time::{Instant, MissedTickBehavior, timeout},
};
use tokio_tungstenite::tungstenite;

use super::{
    follow::{Event, Follows},
    pulse::Pulse,
};
use crate::{
    app::App,
    auth::pass::Pass,
    metrics::{Counted, Transport},
    options::{FRAMES_AT_ONCE, slowest},
    places::Visitor,
    repeats::{Makes, session_of},
};

/// Longest reason in a close frame, in bytes (RFC 6455, section 5.5).
const REASON_BYTES: usize = 123;

/// How long the peer may take to answer our close. Its messages until then are read and dropped: closing a socket
/// with unread bytes resets it, and a reset may overtake the reason.
const GOODBYE: Duration = Duration::from_secs(2);

/// The connection is lost; nothing more can be sent.
struct Over;

struct Connection {
    app: App,
    /// Its credential, checked before each message is accepted and before each event is sent.
    pass: Pass,
    out: SplitSink<WebSocket, Message>,
    unread: Unread,
    follows: Follows,
    pulse: Pulse,
    /// The time between pings.
    heartbeat: Duration,
}

/// Serves a connection until it ends.
pub(super) async fn serve(socket: WebSocket, app: App, pass: Pass, visitor: Option<Visitor>) {
    let _counted = Counted::new(&app.metrics.connections);
    let (out, mut input) = socket.split();
    let follows = Follows::new(&app.metrics.subscriptions);
    let heartbeat = app.options.heartbeat.max(Duration::from_secs(1));
    let (unread, pulse) = (Unread::default(), Pulse::new(visitor, heartbeat));
    let mut connection = Connection { app, pass, out, unread, follows, pulse, heartbeat };
    let close = match connection.run(&mut input).await {
        Ok(close) => close,
        Err(Over) => return,
    };
    let stall = connection.stall();
    if let Ok(Ok(())) = timeout(stall, connection.out.send(Message::Close(Some(close)))).await {
        let answered = async { while let Some(Ok(_)) = input.next().await {} };
        // A peer that does not answer is closed anyway.
        let _ = timeout(GOODBYE, answered).await;
    }
    let _ = timeout(stall, connection.out.close()).await;
}

impl Connection {
    /// Runs until either side wants to close; returns the close frame.
    async fn run(&mut self, input: &mut SplitStream<WebSocket>) -> Result<CloseFrame, Over> {
        self.hello().await?;
        let mut beat = tokio::time::interval_at(Instant::now() + self.heartbeat, self.heartbeat);
        beat.set_missed_tick_behavior(MissedTickBehavior::Delay);
        let mut closed = pin!(self.app.closed());
        loop {
            if let Some(close) = self.look().await? {
                return Ok(close);
            }
            tokio::select! {
                // Changes to the token are handled before anything else, above and below.
                _ = self.pass.changed() => {}
                frame = input.next() => {
                    if let Some(close) = self.frame(frame).await? {
                        return Ok(close);
                    }
                }
                event = self.follows.next() => {
                    if let Some(close) = self.look().await? {
                        return Ok(close);
                    }
                    // Its session may have been given up just now.
                    if self.follows.follows(&event.0) {
                        self.pass_on(event).await?;
                    }
                }
                _ = beat.tick() => {
                    if self.pulse.is_missing() {
                        // An answer may have come during a slow write, and be unread.
                        let Some(frame) = unconstrained(input.next()).now_or_never() else {
                            return Ok(close(close_code::POLICY, "nothing was heard for too long"));
                        };
                        if let Some(close) = self.frame(frame).await? {
                            return Ok(close);
                        }
                        // What came amid a message is no sign of life.
                        if self.pulse.is_silent() {
                            return Ok(close(close_code::POLICY, "nothing was heard for too long"));
                        }
                    }
                    let ping = self.pulse.ping();
                    self.write(Message::Ping(ping.to_vec().into())).await?;
                }
                () = &mut closed => return Ok(close(close_code::AWAY, "the server stops")),
            }
        }
    }

    /// Takes what has arrived; returns the close frame if the connection is to end.
    async fn frame(&mut self, frame: Option<Result<Message, axum::Error>>) -> Result<Option<CloseFrame>, Over> {
        if let Some(Ok(frame)) = &frame {
            self.pulse.heard(frame);
        }
        if let Some(close) = self.look().await? {
            return Ok(Some(close));
        }
        match frame {
            None => return Err(Over),
            Some(Err(error)) => return self.unreadable(error).await.map(Some),
            Some(Ok(Message::Close(_))) => {
                // Reading queues the answer, flushing sends it (RFC 6455, section 5.5.1).
                self.flush().await?;
                return Err(Over);
            }
            Some(Ok(Message::Text(text))) => self.take(text.as_str()).await?,
            Some(Ok(Message::Binary(_))) => {
                let refusal = Refusal::new(Code::BadJson, "a frame must be text, not binary");
                self.refuse(refusal, About::default()).await?;
            }
            Some(Ok(Message::Ping(_) | Message::Pong(_))) => {}
        }
        Ok(None)
    }

    /// Says whose connection it is.
    async fn hello(&mut self) -> Result<(), Over> {
        let history_id = self.app.runtime.history_id().await;
        let by = self.pass.by();
        let hello = ConnectionEvent::Hello {
            protocol: PROTOCOL.to_owned(),
            server: concat!("countersign/", env!("CARGO_PKG_VERSION")).to_owned(),
            heartbeat_seconds: u32::try_from(self.heartbeat.as_secs()).unwrap_or(u32::MAX),
            history_id,
            subject: by.subject.clone(),
            tenant: by.tenant.clone(),
            roles: by.roles.clone(),
        };
        self.say(&hello).await
    }

    /// Checks whether the connection may continue, and which sessions it may still follow.
    async fn look(&mut self) -> Result<Option<CloseFrame>, Over> {
        if let Err(refusal) = self.pass.check() {
            return Ok(Some(close(UNAUTHENTICATED, refusal.message)));
        }
        if self.pass.take_moved() {
            self.hello().await?;
            for session_id in self.follows.sessions() {
                let seen = self.app.runtime.session(self.pass.by(), &session_id).await;
                if let Err(refusal) = seen {
                    if refusal.code.is_temporary() {
                        // Neither may its events be sent unchecked, nor may it end as if it could not be seen any more.
                        return Ok(Some(close(close_code::AGAIN, "the rights have changed, and the store fails")));
                    }
                    self.follows.remove(&session_id);
                    let about = About { session_id: Some(session_id.to_string()), ..About::default() };
                    self.refuse(refusal, about).await?;
                }
            }
        }
        Ok(None)
    }

    /// Input that is not a frame. Oversized input is answered, a broken stream cannot be.
    async fn unreadable(&mut self, error: axum::Error) -> Result<CloseFrame, Over> {
        let error = error.into_inner();
        if let Some(tungstenite::Error::Capacity(_)) = error.downcast_ref() {
            let message = format!("a frame has at most {} bytes", limits::MESSAGE_FRAME_BYTES);
            self.refuse(Refusal::new(Code::TooLarge, message), About::default()).await?;
            return Ok(close(close_code::SIZE, "the frame is too large"));
        }
        if let Some(tungstenite::Error::Utf8(_)) = error.downcast_ref() {
            self.refuse(Refusal::new(Code::BadJson, "the frame is not UTF-8"), About::default()).await?;
            return Ok(close(close_code::INVALID, "the frame is not UTF-8"));
        }
        tracing::debug!(%error, "the connection broke");
        Err(Over)
    }

    async fn take(&mut self, text: &str) -> Result<(), Over> {
        match ClientMessage::parse(text) {
            Err(bad) => {
                let BadFrame { refusal, request_id, session_id, approval_key } = bad;
                self.refuse(refusal, About { request_id, session_id, approval_key }).await
            }
            Ok(ClientMessage::Ping) => self.say(&ConnectionEvent::Pong).await,
            Ok(ClientMessage::Message(message)) => self.message(message).await,
            Ok(ClientMessage::Approval(approval)) => self.approval(approval).await,
            Ok(ClientMessage::Comment(comment)) => {
                let SendComment { session_id, approval_key, text, request_id } = comment;
                let about = About { request_id, session_id: Some(session_id), approval_key: Some(approval_key) };
                self.note(about, NewNote::Comment(text.into())).await
            }
            Ok(ClientMessage::Reassign(reassign)) => {
                let SendReassign { session_id, approval_key, role, subject, text, request_id } = reassign;
                let about = About { request_id, session_id: Some(session_id), approval_key: Some(approval_key) };
                let (subject, text) = (subject.map(Into::into), text.map(Into::into));
                self.note(about, NewNote::Reassign { role: role.map(Into::into), subject, text }).await
            }
            Ok(ClientMessage::Subscribe(subscribe)) => self.subscribe(subscribe).await,
            Ok(ClientMessage::Unsubscribe(of)) => {
                self.follows.remove(&of.session_id);
                Ok(())
            }
            Ok(ClientMessage::Cancel(of)) => {
                let about =
                    About { request_id: of.request_id.clone(), session_id: Some(of.session_id), ..About::default() };
                let session_id = about.session_id.clone().unwrap_or_default();
                match self.app.runtime.cancel(self.pass.by(), &session_id, of.request_id).await {
                    Ok(()) => self.ack(about.request_id, &session_id).await,
                    Err(refusal) => self.refuse(refusal, about).await,
                }
            }
        }
    }

    async fn message(&mut self, mut message: SendMessage) -> Result<(), Over> {
        let made = || message.request_id.as_ref().map(|key| session_of(self.pass.by(), Makes::Message, key));
        message.session_id = message.session_id.or_else(made);
        let about = About {
            request_id: message.request_id.clone(),
            session_id: message.session_id.clone(),
            approval_key: None,
        };
        let room = self.follows.check_room(message.session_id.as_deref());
        let follow = !message.session_id.as_deref().is_some_and(|id| self.follows.follows(id));
        let (app, by) = (&self.app, self.pass.by());
        let stored = async {
            room?;
            let new = NewMessage {
                session_id: message.session_id,
                agent: message.agent,
                content: message.content.into_content("content")?,
                request_id: message.request_id,
                on_pending: message.on_pending,
            };
            match follow {
                true => app.runtime.message_followed(by, new).await,
                false => app.runtime.message(by, new).await,
            }
        };
        match stored.await {
            Ok(stored) => {
                self.app.metrics.message(Transport::WebSocket, &stored);
                self.stored(about.request_id, stored).await
            }
            Err(refusal) => self.refuse(refusal, about).await,
        }
    }

    async fn approval(&mut self, approval: SendApproval) -> Result<(), Over> {
        let about = About {
            request_id: approval.request_id.clone(),
            session_id: Some(approval.session_id.clone()),
            approval_key: Some(approval.approval_key.clone()),
        };
        let follow = self.follows.takes(&approval.session_id);
        let (app, by) = (&self.app, self.pass.by());
        let stored = async {
            let of = parse_approval_key(&approval.approval_key).map(|(session_id, _)| session_id);
            if of != Some(&*approval.session_id) {
                return Err(resolve::not_in_session(&approval.approval_key, &approval.session_id));
            }
            let reply = Reply::of(approval.decisions, approval.answers.as_deref(), approval.resume)?;
            let new = NewDecision {
                approval_key: approval.approval_key,
                reply,
                digest: approval.digest,
                user_edit_content: approval.user_edit_content,
                request_id: approval.request_id,
            };
            match follow {
                true => app.runtime.decide_followed(by, new).await,
                false => app.runtime.decide(by, new).await,
            }
        };
        match stored.await {
            Ok(stored) => self.stored(about.request_id, stored).await,
            Err(refusal) => self.refuse(refusal, about).await,
        }
    }

    async fn note(&mut self, about: About, note: NewNote) -> Result<(), Over> {
        let session_id = about.session_id.clone().unwrap_or_default();
        let key = about.approval_key.clone().unwrap_or_default();
        let follow = self.follows.takes(&session_id);
        let (app, by) = (&self.app, self.pass.by());
        let stored = async {
            if parse_approval_key(&key).map(|(session_id, _)| session_id) != Some(&*session_id) {
                return Err(resolve::not_in_session(&key, &session_id));
            }
            let request_id = about.request_id.clone();
            match follow {
                true => app.runtime.note_followed(by, &key, note, request_id).await,
                false => app.runtime.note(by, &key, note, request_id).await,
            }
        };
        match stored.await {
            Ok(stored) => self.stored(about.request_id, stored).await,
            Err(refusal) => self.refuse(refusal, about).await,
        }
    }

    async fn subscribe(&mut self, subscribe: Subscribe) -> Result<(), Over> {
        let room = self.follows.check_room(Some(&subscribe.session_id));
        let (app, by) = (&self.app, self.pass.by());
        let subscription = async {
            room?;
            let after = match Start::new(subscribe.after, subscribe.last)? {
                Start::Now => None,
                Start::After(after) => Some(after),
                last => Some(app.runtime.start_of(by, &subscribe.session_id, last, None).await?),
            };
            app.runtime.subscribe(by, &subscribe.session_id, after).await
        };
        match subscription.await {
            Ok(subscription) => {
                self.follows.insert(subscription);
                Ok(())
            }
            Err(refusal) => {
                let (request_id, session_id) = (subscribe.request_id, Some(subscribe.session_id));
                self.refuse(refusal, About { request_id, session_id, approval_key: None }).await
            }
        }
    }

    /// Acknowledges what was stored; its events follow.
    async fn stored(&mut self, request_id: Option<String>, stored: Stored) -> Result<(), Over> {
        self.ack(request_id, &stored.session_id).await?;
        if let Some(subscription) = stored.follow {
            self.follows.insert(subscription);
        }
        Ok(())
    }

    fn stall(&self) -> Duration {
        self.app.options.connections.read_timeout
    }

    /// Writes an event together with any others that are ready.
    async fn pass_on(&mut self, event: Event) -> Result<(), Over> {
        let mut next = Some(event);
        let mut written = 0;
        while let Some((session_id, event)) = next.take() {
            match event {
                Ok(frame) => self.feed(Message::Text(frame.json.to_string().into())).await?,
                Err(refusal) => {
                    if !refusal.code.is_temporary() {
                        self.follows.remove(&session_id);
                    }
                    self.refuse(refusal, About { session_id: Some(session_id.to_string()), ..About::default() })
                        .await?;
                }
            }
            written += 1;
            if written < FRAMES_AT_ONCE && self.pass.is_current() {
                next = self.follows.ready();
            }
        }
        self.flush().await
    }

    async fn ack(&mut self, request_id: Option<String>, session_id: &str) -> Result<(), Over> {
        self.say(&ConnectionEvent::Ack { request_id, session_id: session_id.to_owned() }).await
    }

    async fn refuse(&mut self, refusal: Refusal, about: About) -> Result<(), Over> {
        self.app.metrics.refused(refusal.code);
        if refusal.code == Code::Internal {
            tracing::error!(error = refusal.message, session_id = about.session_id, "internal error");
        }
        self.say(&ConnectionEvent::Error {
            code: refusal.code,
            message: refusal.message,
            request_id: about.request_id,
            session_id: about.session_id,
            approval_key: about.approval_key,
            details: refusal.details,
        })
        .await
    }

    async fn say(&mut self, event: &ConnectionEvent) -> Result<(), Over> {
        // Plain data with string keys always serialises.
        let text = serde_json::to_string(event).unwrap_or_default();
        self.write(Message::Text(text.into())).await
    }

    async fn write(&mut self, message: Message) -> Result<(), Over> {
        self.feed(message).await?;
        self.flush().await
    }

    async fn feed(&mut self, message: Message) -> Result<(), Over> {
        let size = size_of(&message);
        self.pulse.sent(size);
        let left = self.unread.left(size, Instant::now(), self.stall());
        bounded(&mut self.pass, left, self.out.feed(message)).await
    }

    async fn flush(&mut self) -> Result<(), Over> {
        let left = self.unread.left(0, Instant::now(), self.stall());
        bounded(&mut self.pass, left, self.out.flush()).await?;
        self.unread = Unread::default();
        Ok(())
    }
}

/// The subject of a refused frame.
#[derive(Default)]
struct About {
    request_id: Option<String>,
    session_id: Option<String>,
    approval_key: Option<String>,
}

/// What the peer may not have read. The sink keeps a frame until it gets the next one or is flushed, so that the time
/// for a frame is needed then.
#[derive(Default)]
struct Unread {
    since: Option<Instant>,
    bytes: u64,
}

impl Unread {
    /// How long it may still take the peer to read all of it, with so many more bytes.
    fn left(&mut self, size: u64, now: Instant, stall: Duration) -> Duration {
        self.bytes += size;
        let gone = now.duration_since(*self.since.get_or_insert(now));
        stall.saturating_add(slowest(self.bytes)).saturating_sub(gone)
    }
}

fn size_of(message: &Message) -> u64 {
    match message {
        Message::Text(text) => text.len() as u64,
        _ => 0,
    }
}

/// Waits for a write, but not for a stalled reader, nor beyond the validity of the token.
async fn bounded(
    pass: &mut Pass,
    left: Duration,
    write: impl Future<Output = Result<(), axum::Error>>,
) -> Result<(), Over> {
    tokio::select! {
        biased;
        written = timeout(left, write) => match written {
            Ok(Ok(())) => Ok(()),
            Ok(Err(_)) => Err(Over),
            Err(_) => {
                tracing::info!("a connection that does not read was closed");
                Err(Over)
            }
        },
        // The peer is not reading, so a reason would not reach it.
        _ = pass.over() => Err(Over),
    }
}

fn close(code: u16, reason: impl Into<String>) -> CloseFrame {
    let mut reason = reason.into();
    reason.truncate(reason.floor_char_boundary(REASON_BYTES));
    CloseFrame { code, reason: reason.into() }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn r9_r7_the_frames_of_a_batch_have_the_time_of_all_of_them() {
        let (now, stall) = (Instant::now(), Duration::from_secs(30));
        let mut unread = Unread::default();
        let mut left = |size, later| unread.left(size, now + Duration::from_secs(later), stall);
        assert_eq!(left(16 << 20, 0), Duration::from_secs(30 + 1024));
        assert_eq!(left(16 << 10, 20), Duration::from_secs(10 + 1025), "a later frame begins no new time");
        assert_eq!(left(0, 40), Duration::from_secs(1025 - 10), "nor does the flush, which has what is left");
    }
}
