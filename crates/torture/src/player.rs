//! A person with one session: talks, decides by a fixed policy, reconnects, resends.

use std::{
    net::SocketAddr,
    sync::{
        Arc,
        atomic::{AtomicBool, AtomicU64, Ordering},
    },
    time::Duration,
};

use serde_json::{Value, json};
use tokio::{
    sync::{mpsc, watch},
    time::timeout,
};

use crate::{
    client::{Asked, Conn, Over, PATIENCE, Request, post},
    follow::Follow,
    rng::Rng,
    world::{Base, Switch},
};
use countersign_core::number::InterruptionNo;

/// The addresses of the servers that are running; empty while none is.
pub type Address = watch::Receiver<Vec<SocketAddr>>;

/// How many forks a person makes at most: each is a copy of the whole past.
const FORKS: usize = 20;
/// Events of a connection after which reconnecting people reconnect.
const FEW: u64 = 3;

/// One person and one session.
#[derive(Debug)]
pub struct Player {
    /// The session.
    pub session_id: String,
    /// What it has seen of the session.
    pub follow: Follow,
    /// Its requests, in order. Only the last one can be unanswered.
    pub requests: Vec<Request>,
    agent: String,
    seed: u64,
    /// Messages to send in all.
    messages: usize,
    /// Percentage of cancels at the moments when it could cancel.
    cancels: u64,
    /// Percentage of turns after which it forks the session.
    forks: u64,
    /// Percentage of frames after which it hangs up.
    hang_ups: u64,
    /// Whether it waits and retries when a server cannot reach its store.
    patient: bool,
    /// How often a server answered that it could not reach its store.
    refused: Arc<AtomicU64>,
    /// Whether it leaves everything to its deadline.
    silent: bool,
    /// Whether the next call of unknown outcome that any of these people is asked about starts again.
    starts_again: Arc<AtomicBool>,
    /// Whether each request goes to another server than the one before, if there is one.
    hops: bool,
    /// Whether it reconnects after every few events.
    reconnects: bool,
    /// The server that it talks to, and whether that server has answered a request over this connection.
    at: Option<SocketAddr>,
    has_answered: bool,
    /// The server that answered last.
    answered_at: Option<SocketAddr>,
    /// Requests that were answered by another server than the one before.
    pub hopped: u64,
    /// Connections that it ended after a few events.
    pub connected_anew: u64,
    /// Attempts to connect.
    tries: usize,
    /// Events of this connection.
    events: u64,
    /// Frames so far.
    frames: u64,
    /// Connections it ended itself.
    pub hung_up: u64,
    /// No more messages after the current turn.
    enough: Arc<AtomicBool>,
    /// Notified of every acknowledgement.
    acks: Option<mpsc::UnboundedSender<()>>,
    /// Connections so far.
    pub connections: u64,
    last_try: Option<(usize, u64)>,
}

impl Player {
    /// A person who sends this many messages to an agent.
    #[must_use]
    pub fn new(session_id: &str, agent: &str, seed: u64, messages: usize) -> Player {
        Player {
            session_id: session_id.to_owned(),
            follow: Follow::new(session_id),
            requests: Vec::new(),
            agent: agent.to_owned(),
            seed,
            messages,
            cancels: 0,
            forks: 0,
            hang_ups: 0,
            patient: false,
            refused: Arc::default(),
            silent: false,
            starts_again: Arc::default(),
            hops: false,
            reconnects: false,
            at: None,
            has_answered: false,
            answered_at: None,
            hopped: 0,
            connected_anew: 0,
            tries: 0,
            events: 0,
            frames: 0,
            hung_up: 0,
            enough: Arc::default(),
            acks: None,
            connections: 0,
            last_try: None,
        }
    }

    /// Sets the percentage of moments at which it cancels.
    #[must_use]
    pub fn cancels(mut self, percent: u64) -> Player {
        self.cancels = percent;
        self
    }

    /// Sets the percentage of turns after which it makes a fork of the session, which it does not use.
    #[must_use]
    pub fn forks(mut self, percent: u64) -> Player {
        self.forks = percent;
        self
    }

    /// Sets the percentage of frames after which it ends the connection, wherever they are in the stream.
    #[must_use]
    pub fn hangs_up(mut self, percent: u64) -> Player {
        self.hang_ups = percent;
        self
    }

    /// Retries while a server cannot reach its store.
    #[must_use]
    pub fn patient(mut self) -> Player {
        self.patient = true;
        self
    }

    /// Like [`Player::patient`], and counts those refusals there.
    #[must_use]
    pub fn refused(self, refused: Arc<AtomicU64>) -> Player {
        Player { refused, ..self.patient() }
    }

    /// Applies the run's switches.
    #[must_use]
    pub fn under(mut self, base: &Base) -> Player {
        (self.hops, self.reconnects) = (base.has(Switch::Hopping), base.has(Switch::Reconnecting));
        self
    }

    /// Of the people who share this, the first one asked about a call of unknown outcome approves another attempt: a
    /// short run has few such calls.
    #[must_use]
    pub fn starts_again(mut self, first: Arc<AtomicBool>) -> Player {
        self.starts_again = first;
        self
    }

    /// Decides nothing: every deadline fires.
    #[must_use]
    pub fn silent(mut self) -> Player {
        self.silent = true;
        self
    }

    /// Stops talking once this is true.
    #[must_use]
    pub fn until(mut self, enough: Arc<AtomicBool>) -> Player {
        self.enough = enough;
        self
    }

    /// Notifies of every acknowledgement.
    #[must_use]
    pub fn tell(mut self, acks: mpsc::UnboundedSender<()>) -> Player {
        self.acks = Some(acks);
        self
    }

    /// Sends one more message, and stops cancelling.
    pub fn one_more(&mut self) {
        self.messages = self.messages_acked() + 1;
        self.cancels = 0;
        self.forks = 0;
        self.hang_ups = 0;
        self.enough = Arc::default();
    }

    /// Plays until every message is answered, over as many servers as it takes.
    ///
    /// # Errors
    /// A promise was broken, or the session is stuck.
    pub async fn play(&mut self, mut address: Address) -> Result<(), String> {
        loop {
            let known = match timeout(PATIENCE, address.wait_for(|known| !known.is_empty())).await {
                Ok(Ok(known)) => known.clone(),
                Ok(Err(_)) => return Err(format!("{}: the test ended early", self.session_id)),
                Err(_) => return Err(format!("{}: no server for too long", self.session_id)),
            };
            let Some(at) = self.choose(&known) else { continue };
            match self.connected(at).await {
                Ok(()) => return Ok(()),
                // The same address again until there is a new one: the failure may be transient.
                Err(Over::Gone) => drop(timeout(Duration::from_millis(10), address.changed()).await),
                Err(Over::Wrong(what)) => {
                    let last = self.requests.last();
                    return Err(format!(
                        "{}: {what} (status {:?}, last request {last:?})",
                        self.session_id, self.follow.fold.status
                    ));
                }
            }
        }
    }

    /// The next server: not the one that answered last, if there is another and it hops.
    fn choose(&mut self, known: &[SocketAddr]) -> Option<SocketAddr> {
        let others: Vec<SocketAddr> = known.iter().copied().filter(|at| Some(*at) != self.answered_at).collect();
        let from = if self.hops && !others.is_empty() { &others } else { known };
        self.tries += 1;
        from.get(self.tries % from.len().max(1)).copied()
    }

    async fn connected(&mut self, address: SocketAddr) -> Result<(), Over> {
        let mut conn = Conn::open(address, None).await?;
        self.connections += 1;
        (self.at, self.has_answered, self.events) = (Some(address), false, 0);
        if !self.requests.is_empty() {
            // Counted first: the effects of the request may now come before its answer.
            if let Some(request) = self.requests.last_mut().filter(|request| request.answer.is_none()) {
                request.sends += 1;
            }
            let subscribe = json!({ "type": "subscribe", "session_id": self.session_id, "after": self.follow.seq, "request_id": "subscribe" });
            conn.send(&subscribe).await?;
            conn.send(&json!({ "type": "ping" })).await?;
            while self.read(&mut conn).await? != "pong" {}
            if self.requests.last().is_some_and(|request| request.answer.is_none()) {
                self.send(&mut conn, address).await?;
            }
        }
        loop {
            if self.requests.last().is_none_or(|request| request.answer.is_some()) {
                if self.hops && self.has_answered {
                    return Err(Over::Gone);
                }
                match self.next_request() {
                    Next::Request(request) => {
                        self.requests.push(*request);
                        self.send(&mut conn, address).await?;
                        continue;
                    }
                    Next::Wait => {}
                    Next::Done => return Ok(()),
                }
            }
            self.read(&mut conn).await?;
        }
    }

    /// Sends the last request. A fork is made over HTTP, and answered at once.
    async fn send(&mut self, conn: &mut Conn, address: SocketAddr) -> Result<(), Over> {
        let Some(request) = self.requests.last() else { return Ok(()) };
        if !matches!(request.what, Asked::Fork { .. }) {
            return conn.send(&request.frame).await;
        }
        let path = format!("/v1/sessions/{}/fork", self.session_id);
        let (status, answer) = post(address, &path, &request.frame).await?;
        match status {
            200 | 201 => {
                let id = request.id.clone();
                self.answered(&json!({ "request_id": id }), Ok(()))
            }
            503 if self.patient => {
                self.refused.fetch_add(1, Ordering::SeqCst);
                Err(Over::Gone)
            }
            _ => Err(Over::Wrong(format!("a fork was refused: {status} {answer}"))),
        }
    }

    /// The forks of the session that were acknowledged.
    pub fn forked(&self) -> impl Iterator<Item = &str> {
        self.requests.iter().filter(|request| request.is_acked()).filter_map(|request| match &request.what {
            Asked::Fork { into } => Some(into.as_str()),
            _ => None,
        })
    }

    /// Takes one frame and returns its type.
    async fn read(&mut self, conn: &mut Conn) -> Result<String, Over> {
        let frame = conn.recv().await?;
        let kind = frame["type"].as_str().unwrap_or_default().to_owned();
        match kind.as_str() {
            "pong" => {}
            "ack" => self.answered(&frame, Ok(()))?,
            // Whether the request was stored is not known: it is sent again, on another connection.
            "error"
                if self.patient
                    && ["store_unavailable", "outcome_unknown", "store_closed"]
                        .iter()
                        .any(|code| frame["code"] == *code) =>
            {
                self.refused.fetch_add(1, Ordering::SeqCst);
                return Err(Over::Gone);
            }
            "error" if frame["request_id"] == "subscribe" => {
                if frame["code"] != "session_not_found"
                    || self.follow.seq > 0
                    || self.requests.iter().any(Request::is_acked)
                {
                    return Err(Over::Wrong(format!("R3: following the session again is refused: {frame}")));
                }
            }
            "error" => {
                let code = frame["code"].as_str().unwrap_or_default();
                let cancelled = matches!(self.requests.last(), Some(Request { what: Asked::Cancel, .. }));
                if !(cancelled && code == "nothing_to_cancel") {
                    return Err(Over::Wrong(format!("an unexpected refusal: {frame}")));
                }
                self.answered(&frame, Err(code.to_owned()))?;
            }
            _ => {
                self.ack_comes_first(&frame)?;
                self.follow.event(&frame).map_err(Over::Wrong)?;
                self.events += 1;
                if self.reconnects && self.events == FEW {
                    self.connected_anew += 1;
                    return Err(Over::Gone);
                }
            }
        }
        self.frames += 1;
        if Rng::of(self.seed, &format!("frame {} {}", self.session_id, self.frames)).percent(self.hang_ups) {
            self.hung_up += 1;
            return Err(Over::Gone);
        }
        Ok(kind)
    }

    fn answered(&mut self, frame: &Value, answer: Result<(), String>) -> Result<(), Over> {
        let request =
            self.requests.last_mut().filter(|request| request.answer.is_none() && frame["request_id"] == *request.id);
        let Some(request) = request else {
            return Err(Over::Wrong(format!("an answer to nothing that was asked: {frame}")));
        };
        let is_acked = answer.is_ok();
        request.answer = Some(answer);
        self.has_answered = true;
        let before = std::mem::replace(&mut self.answered_at, self.at);
        self.hopped += u64::from(self.hops && before.is_some_and(|before| Some(before) != self.at));
        if let Some(acks) = self.acks.as_ref().filter(|_| is_acked) {
            // There may be no listener.
            let _ = acks.send(());
        }
        Ok(())
    }

    /// An `ack` comes before its effects (spec W2). After a crash the effect may be older than this connection.
    fn ack_comes_first(&self, frame: &Value) -> Result<(), Over> {
        let early = self.requests.last().is_some_and(|request| {
            request.answer.is_none()
                && request.sends == 1
                && match &request.what {
                    Asked::Decision { .. } | Asked::Answers { .. } => {
                        frame["type"] == "approval_resolved" && frame["approval_key"] == request.frame["approval_key"]
                    }
                    Asked::Message { .. } => frame["type"] == "message_start" && frame["role"] == "user",
                    Asked::Cancel | Asked::Fork { .. } => false,
                }
        });
        if early { Err(Over::Wrong(format!("W2: an event came before the ack of its cause: {frame}"))) } else { Ok(()) }
    }

    fn messages_acked(&self) -> usize {
        let messages = self.requests.iter().filter(|request| matches!(request.what, Asked::Message { .. }));
        messages.filter(|request| request.is_acked()).count()
    }

    fn next_request(&mut self) -> Next {
        let sent = self.messages_acked();
        let cancels =
            self.requests.iter().filter(|request| request.what == Asked::Cancel && request.is_acked()).count();
        let cancelled = self.follow.fold.statuses.iter().filter(|status| *status == "cancelled").count();
        if self.follow.user_messages() < sent || cancelled < cancels {
            return Next::Wait;
        }
        let (status, pending) = match &self.follow.fold.status {
            Some((status, pending)) => (status.as_str(), pending.as_slice()),
            None => ("", &[][..]),
        };
        // Each message is a turn, and each turn ends once.
        let over = |status: &&String| matches!(status.as_str(), "completed" | "failed" | "cancelled");
        if self.follow.fold.statuses.iter().filter(over).count() >= sent {
            if let Some(fork) = self.fork_after(sent) {
                return fork;
            }
            if sent >= self.messages || (sent > 0 && self.enough.load(Ordering::SeqCst)) {
                return Next::Done;
            }
            let text = format!("errand {} of {}", sent + 1, self.session_id);
            let mut frame = json!({ "type": "message", "session_id": self.session_id, "content": text });
            if sent == 0 {
                frame["agent"] = self.agent.as_str().into();
            }
            return Next::Request(self.request(frame, Asked::Message { text }));
        }
        let moment = (sent, self.follow.seq);
        if self.cancels > 0 && self.last_try != Some(moment) {
            self.last_try = Some(moment);
            if Rng::of(self.seed, &format!("cancel {} {moment:?}", self.session_id)).percent(self.cancels) {
                let frame = json!({ "type": "cancel", "session_id": self.session_id });
                return Next::Request(self.request(frame, Asked::Cancel));
            }
        }
        if self.silent {
            return Next::Wait;
        }
        let waits =
            pending.iter().find(|key| !self.requests.iter().any(|r| r.is_acked() && r.frame["approval_key"] == **key));
        match waits.and_then(|key| Some((key, self.follow.asked.get(key)?))) {
            Some((key, asked)) if status == "awaiting_input" => {
                let n = key.rsplit('_').next().and_then(|n| n.parse().ok()).unwrap_or_default();
                let n = InterruptionNo::new(n);
                if asked["actions"].is_null()
                    && let Some((said, answers)) = answer(self.seed, key, asked)
                {
                    let frame = json!({ "type": "approval", "session_id": self.session_id, "approval_key": key, "answers": said, "digest": digest_of(asked) });
                    return Next::Request(self.request(frame, Asked::Answers { n, answers }));
                }
                let again = asked["kind"] == "in_doubt" && self.starts_again.swap(false, Ordering::SeqCst);
                let decisions = decide(self.seed, key, asked, again);
                let kinds = decisions.iter().map(|d| d["type"].as_str().unwrap_or_default().to_owned()).collect();
                let frame = json!({ "type": "approval", "session_id": self.session_id, "approval_key": key, "decisions": decisions, "digest": digest_of(asked) });
                Next::Request(self.request(frame, Asked::Decision { n, kinds }))
            }
            _ => Next::Wait,
        }
    }

    /// Makes a fork after some of the turns, and only when nothing runs: then the fork repeats nothing of the original.
    fn fork_after(&self, sent: usize) -> Option<Next> {
        let into = format!("{}-fork{sent}", self.session_id);
        let forks = self.requests.iter().filter(|request| matches!(request.what, Asked::Fork { .. })).count();
        let is_known = self.requests.last().is_some_and(|request| matches!(request.what, Asked::Fork { .. }));
        let wants = sent > 0 && forks < FORKS && !is_known && Rng::of(self.seed, &into).percent(self.forks);
        wants.then(|| Next::Request(self.request(json!({ "session_id": into }), Asked::Fork { into: into.clone() })))
    }

    fn request(&self, mut frame: Value, what: Asked) -> Box<Request> {
        let id = format!("q{}", self.requests.len() + 1);
        frame["request_id"] = id.as_str().into();
        Box::new(Request { id, frame, what, sends: 1, answer: None })
    }
}

enum Next {
    Request(Box<Request>),
    Wait,
    Done,
}

/// The digest that names a request: for questions their own, else that of its first action.
fn digest_of(asked: &Value) -> &Value {
    if asked["actions"].is_array() { &asked["actions"][0]["digest"] } else { &asked["digest"] }
}

/// This person's decision on a request: always the same. `again`: a call of unknown outcome gets another attempt.
#[must_use]
pub fn decide(seed: u64, key: &str, asked: &Value, again: bool) -> Vec<Value> {
    let Some(actions) = asked["actions"].as_array() else {
        // Questions can only be declined.
        return vec![json!({ "type": "reject" })];
    };
    let in_doubt = asked["kind"] == "in_doubt";
    let mut rng = Rng::of(seed, key);
    let decide = |action: &Value| {
        let kind = match (in_doubt, rng.below(100)) {
            _ if again => "approve",
            (true, 0..20) | (false, 80..90) => "respond",
            (true, 20..85) | (false, 0..40) => "approve",
            (_, 40..60) | (true, _) => "reject",
            (false, 60..80) => "edit",
            (false, _) => "defer",
        };
        // Where the policy or a rule could not be read, the default decisions are allowed.
        let allowed = |kind: &str| {
            asked["review_configs"].as_array().into_iter().flatten().any(|config| {
                config["action_name"] == action["name"]
                    && config["allowed_decisions"].as_array().is_some_and(|all| all.iter().any(|one| one == kind))
            })
        };
        let kind = if allowed(kind) { kind } else { "approve" };
        let mut decision = json!({ "type": kind });
        match kind {
            "respond" => decision["output"] = "a person says what came of it".into(),
            "edit" => {
                let mut args = action["args"].clone();
                args["n"] = (1000 + args["n"].as_i64().unwrap_or_default()).into();
                decision["edited_action"] = json!({ "name": action["name"], "args": args });
            }
            _ => {}
        }
        if rng.percent(50) {
            decision["args_digest"] = action["args_digest"].clone();
        }
        decision["digest"] = action["digest"].clone();
        decision
    };
    actions.iter().map(decide).collect()
}

/// This person's answer to questions, always the same: what is sent, and what must be recorded. `None` if they are
/// declined.
#[must_use]
pub fn answer(seed: u64, key: &str, asked: &Value) -> Option<(Value, Value)> {
    let mut rng = Rng::of(seed, &format!("answer {key}"));
    if rng.percent(25) {
        return None;
    }
    let (mut said, mut recorded) = (json!({}), json!({}));
    let questions = asked["action_requests"][0]["args"]["questions"].as_array().map(Vec::as_slice).unwrap_or_default();
    for question in questions {
        let text = question["question"].as_str().unwrap_or_default();
        let first = question["options"][0]["label"].as_str().unwrap_or_default();
        let (says, is) = match rng.below(4) {
            0 => (None, "[No preference]".to_owned()),
            1 if question["multiSelect"] == true => (Some(json!([first, "mine"])), format!("{first}, mine")),
            1 | 2 => (Some(json!(first)), first.to_owned()),
            _ => (Some(json!(format!("mine for {key}"))), format!("mine for {key}")),
        };
        if let Some(says) = says {
            said[text] = says;
        }
        recorded[text] = is.into();
    }
    Some((said, recorded))
}
