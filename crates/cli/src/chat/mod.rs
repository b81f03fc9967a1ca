//! `countersign chat`: a conversation in the terminal, with its approval requests and questions (spec U3).

mod decide;
mod here;
mod lines;
mod link;
mod place;
mod printer;
mod send;

use std::{
    collections::HashSet,
    sync::Arc,
    time::{Duration, Instant},
};

use clap::Args;
use reqwest::Method;
use serde_json::{Value, json};
use tokio::signal::unix::{Signal, SignalKind, signal};

use self::{
    lines::Lines,
    link::{Link, Lost, unique},
    place::Place,
    printer::Printer,
};
use crate::{
    Outcome,
    approvals::show::{self, list},
    conversation::Page,
    desk::Asked,
    failure::{Exit, Failure},
    remote::{check_id, of_code},
    terminal::{is_interactive, tell, visible},
};

/// How long to wait before each try to connect again, in seconds.
const AGAIN: [u64; 7] = [0, 1, 2, 4, 8, 15, 30];
/// A connection that has lasted this long is not lost because of what came over it.
const LASTING: Duration = Duration::from_secs(30);
/// How long the server may take to acknowledge a frame, or to send the existing events.
const ANSWERED: Duration = Duration::from_secs(60);
/// How much of a session is shown when it is resumed, in messages.
const SHOWN: &str = "20";

const HELP: &str = "\
a line is a message; while something is pending or running, it is queued
/pending   decide what you have not decided yet
/cancel    cancel the turn, as Ctrl-C does while it runs
/retry     retry a turn that has failed, or is held
/quit      end the chat";

/// Arguments of `chat`.
#[derive(Args)]
pub(crate) struct Chat {
    /// The first message
    message: Option<String>,
    /// Resume this session instead of beginning a new one
    #[arg(long, value_name = "ID")]
    session: Option<String>,
    /// The agent of a new session; the first of the configuration if absent
    #[arg(long, conflicts_with = "session")]
    agent: Option<String>,
    /// With --session and --json: first what came after this event, by its `seq`
    #[arg(long, value_name = "SEQ", requires = "session", requires = "json")]
    after: Option<u64>,
    #[command(flatten)]
    asked: Asked,
}

/// A running chat.
struct Talk {
    server: Place,
    link: Link,
    /// Whether a program reads the events, as JSON.
    json: bool,
    /// Whether a person can be asked.
    asks: bool,
    /// The subject and roles of this connection, as the server says.
    subject: Option<String>,
    roles: Vec<String>,
    /// The id of the server's event history, to which all seen events belong.
    history_id: Option<String>,
    /// When this connection was made.
    connected: Instant,
    /// The last event that was seen when the connection was lost, and how many of [`AGAIN`] are too short since: a server
    /// that soon breaks each connection at the same event is not asked without a pause.
    lost: Option<(u64, usize)>,
    session: String,
    /// The session that the first message creates, until that is acknowledged: a chat without messages leaves no
    /// session.
    new: Option<NewSession>,
    /// The last event that was seen.
    seq: u64,
    status: String,
    /// Whether a turn is held until it is resumed: in a fork, after crashes, or in a restored store.
    held: bool,
    /// The keys of pending requests.
    pending: Vec<String>,
    /// Those of them that were postponed, or left to others.
    later: HashSet<String>,
    /// The arguments as they were left in the editor, and the digests of what they change: if they are not sent, or
    /// refused, the editor opens with them.
    edited: Option<(Vec<String>, String)>,
    printer: Printer,
    lines: Lines,
    /// Whether the person has ended the chat.
    ended: bool,
    interrupts: Signal,
    /// A prefix that keeps the request ids of this program apart from others, and their count.
    unique: String,
    requests: u64,
    /// The request that is not acknowledged: it is sent again over a new connection.
    unacknowledged: Option<String>,
}

/// A session that is not created yet.
struct NewSession {
    /// The agent; the first of the configuration if absent.
    agent: Option<String>,
}

/// The outcome of asking for a line.
enum Typed {
    /// A line.
    Line(String),
    /// The end of the input.
    End,
    /// Ctrl-C.
    Stop,
    /// The request that it was about was resolved meanwhile.
    Overtaken,
}

/// Runs the chat.
pub(crate) fn run(chat: Chat) -> Outcome {
    let chat = Arc::new(chat);
    if let Some(at) = chat.asked.store() {
        return here::run(&chat, at);
    }
    let executor = tokio::runtime::Builder::new_current_thread().enable_all().build();
    let server = Place::There(chat.asked.server().clone());
    executor.map_err(|error| error.to_string())?.block_on(chat.talk(server))
}

impl Chat {
    async fn talk(&self, server: Place) -> Outcome {
        let interrupts =
            signal(SignalKind::interrupt()).map_err(|error| format!("signals cannot be handled: {error}"))?;
        let json = self.asked.json;
        let asks = !json && is_interactive();
        let (link, hello) = Link::open(&server, json).await?;
        let mut talk = Talk {
            server,
            link,
            json,
            asks,
            subject: hello["subject"].as_str().map(str::to_owned),
            roles: roles(&hello),
            history_id: history_id(&hello),
            connected: Instant::now(),
            lost: None,
            session: String::new(),
            new: None,
            seq: 0,
            status: String::new(),
            held: false,
            pending: Vec::new(),
            later: HashSet::new(),
            edited: None,
            printer: Printer::default(),
            lines: Lines::new(asks).map_err(|error| format!("the input cannot be read: {error}"))?,
            ended: false,
            interrupts,
            unique: unique(),
            requests: 0,
            unacknowledged: None,
        };
        match &self.session {
            Some(session) => talk.resume(session, self.after).await?,
            None => talk.begin(self.agent.clone()).await?,
        }
        if let Some(message) = &self.message {
            talk.say(message).await?;
        }
        let mut ended = talk.run().await;
        talk.printer.fresh();
        if let Err(failure) = &mut ended
            && !asks
            && talk.lines.has_more().await
        {
            failure.text.push_str("; the rest of the input was not sent");
        }
        ended
    }
}

impl Talk {
    /// Names a session, which its first message creates. An unknown agent is refused before anything is typed.
    async fn begin(&mut self, agent: Option<String>) -> Outcome {
        if let Some(agent) = &agent {
            self.server.answer(Method::GET, &["agents", agent, "graph"], &[], None).await?;
        }
        // Chosen here, so that a message that is sent again over another connection creates no second session.
        self.session = uuid::Uuid::now_v7().to_string();
        "idle".clone_into(&mut self.status);
        self.new = Some(NewSession { agent });
        Ok(())
    }

    /// Shows the end of a session, or to a program the events after a given one.
    async fn resume(&mut self, session: &str, after: Option<u64>) -> Outcome {
        check_id(session)?;
        let state = self.server.answer(Method::GET, &["sessions", session, "state"], &[], None).await?;
        let state: Value = self.server.read(&state)?;
        self.know(&state);
        if self.json {
            return self.catch_up(&state, after).await;
        }
        let query = [("direction", "backward".to_owned()), ("limit", SHOWN.to_owned())];
        let page = self.server.answer(Method::GET, &["sessions", session, "history"], &query, None).await?;
        let page: Page = self.server.read(&page)?;
        page.texts().ok_or_else(|| self.server.strange())?.iter().for_each(|text| self.printer.line(text));
        if let Some(why) = show::held(&state) {
            self.printer.line(&format!("[on hold: {why}]"));
        }
        self.subscribe().await;
        Ok(())
    }

    /// Follows the events after a given one, and reads those up to this state.
    async fn catch_up(&mut self, state: &Value, after: Option<u64>) -> Outcome {
        let there = self.seq;
        check_after(after, there)?;
        self.seq = after.unwrap_or(there);
        self.subscribe().await;
        let read = tokio::time::timeout(ANSWERED, self.read_up_to(there)).await;
        read.map_err(|_| self.silent())??;
        if self.seq == there {
            // Older events are outdated.
            self.know(state);
        }
        Ok(())
    }

    async fn read_up_to(&mut self, seq: u64) -> Outcome {
        while self.seq < seq {
            tokio::select! {
                frame = next(&self.server, &mut self.link) => self.take(frame).await?,
                _ = self.interrupts.recv() => return Err("the events were not read to their end".into()),
            }
        }
        Ok(())
    }

    fn silent(&self) -> Failure {
        Failure::new(Exit::Unreachable, format!("{} does not answer", self.server.name()))
    }

    /// Takes over the session's state from the server.
    fn know(&mut self, session: &Value) {
        let text = |field: &str| session[field].as_str().unwrap_or_default().to_owned();
        (self.session, self.status) = (text("session_id"), text("status"));
        self.seq = session["seq"].as_u64().unwrap_or_default();
        self.held = session["held"].is_object();
        self.pending = keys(session);
    }

    async fn subscribe(&mut self) {
        let frame = json!({ "type": "subscribe", "session_id": self.session, "after": self.seq });
        self.link.send(&frame.to_string()).await;
    }

    /// Continues until the person ends it, or the input does.
    async fn run(&mut self) -> Outcome {
        while !self.ended {
            if self.is_running() {
                self.follow().await?;
                continue;
            }
            let next = self.pending.iter().find(|key| !self.later.contains(*key)).cloned();
            if let Some(key) = next {
                if !self.asks {
                    let more = if self.json { format!(" --json --after {}", self.seq) } else { String::new() };
                    let text = self.server.after_pending(&key, &self.session, &more);
                    return Err(Failure::new(Exit::Pending, visible(&text)));
                }
                self.decide(&key).await?;
                continue;
            }
            let line = match self.line(None).await? {
                Typed::Line(line) => line,
                Typed::Overtaken => continue,
                Typed::Stop => return Ok(()),
                Typed::End if self.status == "failed" => return Err("the turn has failed".into()),
                Typed::End => return Ok(()),
            };
            self.entered(&line).await?;
        }
        Ok(())
    }

    /// Takes a line that does not answer a request: a command, or a message.
    async fn entered(&mut self, line: &str) -> Outcome {
        match line {
            "" => {}
            // A program has no commands: whatever its users write is a message.
            message if self.json => self.say(message).await?,
            "/quit" => self.ended = true,
            "/help" => tell(&visible(&format!("{HELP}{}", self.resuming()))),
            "/pending" => self.later.clear(),
            "/cancel" | "/retry" if self.new.is_some() => tell("nothing was said yet"),
            "/cancel" => self.cancel().await?,
            "/retry" => self.retry().await?,
            command if command.starts_with('/') => tell("there is no such command; /help lists them"),
            message => self.say(message).await?,
        }
        Ok(())
    }

    fn is_running(&self) -> bool {
        self.status == "running" && !self.held
    }

    /// Follows the turn until it pauses or ends. What a person types meanwhile is a command or a queued message.
    async fn follow(&mut self) -> Outcome {
        let mut cancelled = false;
        while self.is_running() && !self.ended {
            tokio::select! {
                frame = next(&self.server, &mut self.link) => self.take(frame).await?,
                line = self.lines.next(), if self.asks && !self.lines.has_ended() => match line? {
                    Some(line) => self.entered(line.text.trim()).await?,
                    None => self.lines.keep_end(),
                },
                _ = self.interrupts.recv() => {
                    if std::mem::replace(&mut cancelled, true) {
                        return Err("the turn is not over; the chat is".into());
                    }
                    self.cancel().await?;
                }
            }
        }
        self.printer.fresh();
        Ok(())
    }

    /// Takes what was typed before the request on the screen was shown, and so cannot be about it.
    async fn enter_early(&mut self) -> Outcome {
        while !self.ended
            && let Some(line) = self.lines.early().await?
        {
            self.entered(line.text.trim()).await?;
        }
        Ok(())
    }

    /// Asks for a line, and shows events meanwhile. `about` is the request that the line will be about, and its prompt.
    async fn line(&mut self, about: Option<(&str, &str)>) -> Result<Typed, Failure> {
        let mut overtaken = false;
        self.prompt(self.prompt_for(about));
        loop {
            tokio::select! {
                line = self.lines.next() => return Ok(match line? {
                    Some(line) if about.is_some() && self.lines.is_early(&line) => {
                        self.entered(line.text.trim()).await?;
                        if self.ended {
                            return Ok(Typed::End);
                        }
                        self.prompt(self.prompt_for(about));
                        continue;
                    }
                    _ if overtaken => Typed::Overtaken,
                    Some(line) if self.json => Typed::Line(line.text),
                    Some(line) => Typed::Line(line.text.trim().to_owned()),
                    None => Typed::End,
                }),
                frame = next(&self.server, &mut self.link) => {
                    self.take(frame).await?;
                    if !overtaken && about.is_some_and(|(key, _)| !self.pending.iter().any(|pending| pending == key)) {
                        overtaken = true;
                        self.printer.line("[somebody else, or the deadline, was first: press Enter]");
                    } else if !self.is_running() {
                        self.prompt(if overtaken { "" } else { self.prompt_for(about) });
                    }
                }
                _ = self.interrupts.recv() => return Ok(Typed::Stop),
            }
        }
    }

    /// Without a request it shows whether the session is pending or held.
    fn prompt_for<'a>(&self, about: Option<(&str, &'a str)>) -> &'a str {
        match about {
            Some((_, prompt)) => prompt,
            None if !self.pending.is_empty() => "(pending, /pending to decide) > ",
            None if self.held => "(held: a message, /retry or /cancel continues it) > ",
            None => "> ",
        }
    }

    fn prompt(&mut self, prompt: &str) {
        self.printer.fresh();
        if self.asks {
            eprint!("{prompt}");
        }
    }

    /// Takes in a frame.
    async fn take(&mut self, frame: Result<Value, Lost>) -> Outcome {
        let frame = match frame {
            Ok(frame) => frame,
            Err(Lost::Refused(failure)) => return Err(failure),
            Err(Lost::Closed) => return self.connect_again().await,
        };
        self.seq = frame["seq"].as_u64().unwrap_or(self.seq).max(self.seq);
        match frame["type"].as_str().unwrap_or_default() {
            // The rights of the connection's person have changed.
            "hello" => self.roles = roles(&frame),
            "error" => {
                let code = frame["code"].as_str().unwrap_or_default();
                let text = format!("{} ({code})", frame["message"].as_str().unwrap_or_default());
                match code {
                    // Sent again over another connection, its first message creates it.
                    "session_not_found" if self.new.is_some() => {}
                    "session_not_found" | "session_deleted" => return Err(Failure::new(of_code(code), visible(&text))),
                    _ if self.json => {}
                    _ => tell(&visible(&text)),
                }
            }
            "run_status" => {
                frame["status"].as_str().unwrap_or_default().clone_into(&mut self.status);
                self.pending = keys(&frame);
                self.held = frame["held"].is_object();
                self.show(&frame);
            }
            "approval_resolved" => {
                self.pending.retain(|key| frame["approval_key"] != key.as_str());
                if frame["resolution"] != "timeout" {
                    self.continued();
                }
                if self.pending.is_empty() && self.status == "awaiting_input" {
                    // The next status follows.
                    "running".clone_into(&mut self.status);
                }
                self.show(&frame);
            }
            "message_start" => {
                // None begins in a turn that is on hold: somebody has resumed it.
                self.continued();
                self.show(&frame);
            }
            _ => self.show(&frame),
        }
        Ok(())
    }

    /// Somebody has resumed the turn.
    fn continued(&mut self) {
        self.held = false;
    }

    /// Shows an event to a person. For a program it is printed already.
    fn show(&mut self, event: &Value) {
        if !self.json {
            self.printer.event(event);
        }
    }

    /// Connects again, and continues after the last event that was seen.
    async fn connect_again(&mut self) -> Outcome {
        tell("the connection is lost; connecting again");
        let is_same = |(seq, _): &(u64, usize)| *seq == self.seq && self.connected.elapsed() < LASTING;
        let short = self.lost.filter(is_same).map_or(0, |(_, short)| (short + 1).min(AGAIN.len() - 1));
        self.lost = Some((self.seq, short));
        for wait in AGAIN {
            tokio::time::sleep(Duration::from_secs(wait.max(AGAIN[short]))).await;
            match Link::open(&self.server, self.json).await {
                Ok((link, hello)) => {
                    let known = self.history_id.as_ref().zip(history_id(&hello));
                    if self.is_made() && known.is_some_and(|(before, now)| *before != now) {
                        let text = format!(
                            "the server has another history now, since its store was restored or replaced{}",
                            self.resuming()
                        );
                        return Err(Failure::new(Exit::Error, visible(&text)));
                    }
                    (self.link, self.connected) = (link, Instant::now());
                    self.subject = hello["subject"].as_str().map(str::to_owned);
                    self.roles = roles(&hello);
                    self.history_id = history_id(&hello).or_else(|| self.history_id.take());
                    if self.is_made() {
                        self.subscribe().await;
                    }
                    if let Some(frame) = &self.unacknowledged {
                        self.link.send(frame).await;
                    }
                    return Ok(());
                }
                Err(failure) if failure.is_temporary => {}
                Err(failure) => return Err(failure),
            }
        }
        let text = format!("{} is gone{}", self.server.name(), self.resuming());
        Err(Failure::new(Exit::Unreachable, visible(&text)))
    }

    /// Whether there is a session, or may be: its first message was sent.
    fn is_made(&self) -> bool {
        self.new.is_none() || self.unacknowledged.is_some()
    }

    /// How to resume the session later, to follow other words; empty if there is no session.
    fn resuming(&self) -> String {
        if self.is_made() { format!("; {}", self.server.resuming(&self.session)) } else { String::new() }
    }
}

/// Whether there can be events after this one in a session whose last one is `there`.
fn check_after(after: Option<u64>, there: u64) -> Outcome {
    match after {
        Some(after) if after > there => {
            let text = format!("--after {after} is not an event of the session: the last one is {there}");
            Err(Failure::new(Exit::Usage, text))
        }
        _ => Ok(()),
    }
}

fn history_id(hello: &Value) -> Option<String> {
    hello["history_id"].as_str().map(str::to_owned)
}

/// The roles that the server says the connection has.
fn roles(hello: &Value) -> Vec<String> {
    list(&hello["roles"]).iter().filter_map(Value::as_str).map(str::to_owned).collect()
}

/// The next frame. If this future is dropped, none is lost.
async fn next(server: &Place, link: &mut Link) -> Result<Value, Lost> {
    link.next(server).await
}

/// The keys of the pending requests.
fn keys(of: &Value) -> Vec<String> {
    list(&of["pending"]).iter().filter_map(Value::as_str).map(str::to_owned).collect()
}
