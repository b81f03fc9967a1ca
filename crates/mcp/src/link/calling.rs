//! One attempt of a call: sent once, followed to its end or to its questions (spec S13, R4).

use std::sync::{Arc, atomic::Ordering};

use countersign_core::{
    journal::{
        permit::Permit,
        record::{InputQuestion, input::distinct_names},
        run::Raw,
        state::input::{AskedQuestion, CallInput, KeptAnswer, take_answer},
    },
    locale::Text,
};
use rmcp::model::{
    CallToolRequestParams, CallToolResponse, ElicitRequestParams, ErrorCode, ErrorData, InputRequest,
    InputRequiredResult, InputResponses, JsonObject,
};
use serde_json::{Value, json};
use tokio::{
    sync::OwnedSemaphorePermit,
    time::{Instant, timeout_at},
};

use super::{
    Connection, Link,
    listed::ListedTool,
    listing::unlisted,
    running::{ASKS_OF_A_CALL, Elicited, Running, Waiting},
};
use crate::{
    asks,
    failure::Failure,
    pipes::{TOO_LONG, TOO_MANY},
    result,
};
use countersign_engine::tool::{Asks, ToolError};

/// Most rounds of one attempt without questions for people.
const ROUNDS: usize = 10;
/// Longest state that a server gets back with the answers, in bytes: it is kept in the journal.
const STATE_BYTES: usize = 64 * 1024;
/// The error of servers until 2025-11-25 that require an address to be opened before the call is retried.
const URL_REQUIRED: i32 = -32042;

/// What a call needs before it is sent.
struct Ready {
    turn: Option<OwnedSemaphorePermit>,
    connection: Arc<Connection>,
    /// Whether the list of tools is new enough to send it.
    listed: Result<(), Failure>,
}

/// How an attempt continues.
enum Step {
    Ended(Result<String, ToolError>),
    /// The server requires the call again, with these, and these earlier answers are left.
    Again(Box<CallToolRequestParams>, Vec<KeptAnswer>),
    /// There is no answer.
    Failed(Failure),
    /// The server has forgotten its questions, which were answered.
    Forgotten,
}

impl Link {
    /// Makes one attempt of a call. It is sent once; a second time only where that has no second effect: the server
    /// says that it did nothing, it never received it, or the operator declared the tool idempotent.
    pub(crate) async fn call(
        self: &Arc<Link>,
        tool: &ListedTool,
        idempotent: bool,
        permit: &Permit,
    ) -> Result<String, ToolError> {
        let input = permit.input();
        let parked = |input| self.parked.take(permit.session_id(), permit.call(), input);
        if let Some(waiting) = input.and_then(parked) {
            let Waiting { mut running, reply, name, .. } = waiting;
            running.was_taken_back(&reply);
            running.go_on(self.turns.take(self.settings.time_limit).await);
            let until = self.until();
            let answer = input.and_then(|input| input.answer(&name)).map_or_else(asks::cancelled, asks::result);
            // A call that no longer waits has its result, or is ending.
            let _ = reply.send(answer);
            return match self.follow(running, permit, None, until).await {
                Step::Ended(outcome) => outcome,
                Step::Again(params, _) => self.rounds(*params, tool, idempotent, permit, Some(until)).await,
                Step::Failed(failure) => Err(self.failed(&failure, permit, true)),
                Step::Forgotten => Err(ToolError::forgotten()),
            };
        }
        if !idempotent && input.is_some_and(|input| input.live && !input.begins_anew()) {
            // It was parked when its start was recorded, and is not any more. It was sent, so it is not sent again.
            return Err(ToolError::forgotten());
        }
        let arguments: JsonObject = serde_json::from_str(permit.args().text())
            .map_err(|error| self.say(permit, Text::FunctionArgs, &[("error", &error.to_string())]))?;
        let mut params = CallToolRequestParams::new(tool.name.to_string()).with_arguments(arguments);
        if let Some(input) = input.filter(|input| !input.live) {
            params.request_state = input.state.as_deref().map(str::to_owned);
            params.input_responses = responses(input);
        }
        self.rounds(params, tool, idempotent, permit, None).await
    }

    /// The end of the time of a call that is sent, or continues, now.
    fn until(&self) -> Instant {
        Instant::now() + self.settings.time_limit
    }

    /// Sends a call until it comes to an end. `until`: the end of its time, if it was sent in this attempt; it is the
    /// same for all rounds.
    async fn rounds(
        self: &Arc<Link>,
        mut params: CallToolRequestParams,
        tool: &ListedTool,
        idempotent: bool,
        permit: &Permit,
        mut until: Option<Instant>,
    ) -> Result<String, ToolError> {
        let (mut sent_again, mut forgotten, mut connected_again) = (false, false, false);
        // The remaining earlier answers, if the server requires the call again.
        let mut left: Option<Vec<KeptAnswer>> = None;
        // Whether anything was sent that the server may have acted on, also in an attempt before this one.
        let mut was_sent = permit.attempt() > 1;
        for _ in 0..ROUNDS {
            let ready = match until {
                Some(until) => timeout_at(until, self.ready(permit)).await.map_err(|_| self.late(permit))?,
                None => self.ready(permit).await,
            };
            let ready = ready.map_err(|why| self.unmade(permit, was_sent, Text::McpDown, &why))?;
            let Ready { turn, connection, listed } = ready;
            if let Err(failure) = listed {
                let is_refused = matches!(failure, Failure::Refused(_)) && connection.is_usable();
                if is_refused || connected_again {
                    self.warn_of_failure(&unlisted(&failure));
                    return Err(self.unmade(permit, was_sent, Text::McpUnlisted, &failure.to_string()));
                }
                // A new one begins with a list. An unusable one is replaced, which is logged.
                if connection.is_usable() {
                    self.forget(&connection);
                }
                connected_again = true;
                continue;
            }
            if !self.listed().contains(tool) {
                // A restarted server may have a different tool of this name, which nobody has approved.
                self.warn_of_change(tool);
                return Err(self.unmade(permit, was_sent, Text::ToolChanged, "its tool has changed meanwhile"));
            }
            if !connection.has_rounds() {
                // Only newer servers know these members; older ones are simply called again.
                (params.input_responses, params.request_state) = (None, None);
            }
            // What is sent a second time after it was lost gets the same answers.
            let earlier =
                left.clone().unwrap_or_else(|| earlier_answers(permit, &params, connection.has_rounds(), forgotten));
            let running = Running::start(connection, permit.session_id().into(), params.clone(), turn, earlier);
            let ends = until.unwrap_or_else(|| self.until());
            let step = self.follow(running, permit, Some(&params), ends).await;
            // What was refused had no effect either, and what was sent before may have had one.
            if !matches!(step, Step::Failed(Failure::Gone | Failure::NotSent(_) | Failure::Refused(_))) {
                (was_sent, until) = (true, Some(ends));
            }
            match step {
                Step::Ended(outcome) => return outcome,
                Step::Again(next, earlier) => (params, left) = (*next, Some(earlier)),
                Step::Failed(failure) if !sent_again && failure.is_harmless(idempotent) => sent_again = true,
                Step::Failed(failure) => return Err(self.failed(&failure, permit, was_sent)),
                Step::Forgotten if !sent_again && idempotent => {
                    tracing::warn!(
                        server = &*self.settings.name,
                        "the MCP server forgot its question; the call starts over"
                    );
                    (params.input_responses, params.request_state) = (None, None);
                    (sent_again, forgotten, left) = (true, true, None);
                }
                Step::Forgotten => return Err(ToolError::forgotten()),
            }
        }
        Err(self.given_up(permit, "it never came to an end"))
    }

    /// Waits for what a call needs before it is sent. An error says why there is no connection.
    async fn ready(self: &Arc<Link>, permit: &Permit) -> Result<Ready, String> {
        let turn = self.turns.take(self.settings.time_limit).await;
        let connection = self.connection_of_call().await?;
        let listed = self.list_for_call(&connection, permit.needed_approval()).await;
        Ok(Ready { turn, connection, listed })
    }

    /// The model's text for a call that is not sent, or not again: this one, which says that it was not made, unless
    /// part of it was sent before.
    fn unmade(&self, permit: &Permit, was_sent: bool, text: Text, why: &str) -> ToolError {
        let error = self.settings.redact(why);
        if was_sent {
            return ToolError::new(format!("{} ({error})", self.say(permit, Text::McpLost, &[])));
        }
        self.say(permit, text, &[("error", &error)])
    }

    /// The model's text for a call without an answer.
    fn failed(&self, failure: &Failure, permit: &Permit, was_sent: bool) -> ToolError {
        let error = self.settings.redact(&failure.to_string());
        self.warn_of_failure(&error);
        match failure {
            Failure::Gone | Failure::NotSent(_) => self.unmade(permit, was_sent, Text::McpDown, &error),
            Failure::Refused(_) => self.unmade(permit, was_sent, Text::McpRefused, &error),
            Failure::Unreadable => self.say(permit, Text::McpUnreadable, &[]),
            Failure::Lost(_) => self.unmade(permit, true, Text::McpLost, &error),
        }
    }

    /// The model's text for a call that was sent, and is not followed to its end.
    fn given_up(&self, permit: &Permit, why: &str) -> ToolError {
        self.failed(&Failure::Lost(why.to_owned()), permit, true)
    }

    /// The same for one whose time is over.
    fn late(&self, permit: &Permit) -> ToolError {
        let seconds = self.settings.time_limit.as_secs();
        self.warn_of_failure(&format!("it did not answer within {seconds} seconds"));
        self.say(permit, Text::McpTooLong, &[("seconds", &seconds.to_string())])
    }

    /// Warns operators of a call without an answer: the cause may be theirs to fix, such as an expired token.
    fn warn_of_failure(&self, why: &str) {
        if let Some(left_out) = self.warned.calls.due() {
            let (server, error) = (&*self.settings.name, self.settings.redact(why));
            tracing::warn!(server, error, left_out, "a call of a tool of the MCP server has failed");
        }
    }

    /// Warns operators of what has changed: the calls of a server that describes a tool differently each time never
    /// run.
    fn warn_of_change(&self, tool: &ListedTool) {
        let Some(left_out) = self.warned.changed.due() else { return };
        let listed = self.listed();
        let differs =
            listed.iter().find(|now| now.name == tool.name).map_or("all: it is gone", |now| tool.differs(now));
        let (server, tool) = (&*self.settings.name, &tool.name);
        tracing::warn!(server, ?tool, differs, left_out, "a tool of the MCP server has changed; its call is not sent");
    }

    /// Follows a call to its end, or until it asks a person, or its time is over: its questions do not postpone that.
    async fn follow(
        self: &Arc<Link>,
        mut running: Running,
        permit: &Permit,
        params: Option<&CallToolRequestParams>,
        until: Instant,
    ) -> Step {
        let connection = running.connection.clone();
        let answer = loop {
            tokio::select! {
                biased;
                Some(Elicited { question, reply }) = running.questions.recv() => {
                    if running.was_taken_back(&reply) {
                        continue;
                    }
                    if let Some(answer) = take_answer(&mut running.earlier, &question) {
                        // It was asked and answered before the call was lost.
                        let _ = reply.send(asks::result(&answer));
                        continue;
                    }
                    if permit.attempt() > ASKS_OF_A_CALL || running.takes_back_too_many() {
                        let _ = reply.send(asks::cancelled());
                        continue;
                    }
                    let (session_id, call) = (permit.session_id().into(), permit.call());
                    running.park();
                    let name = question.name.clone();
                    self.parked.put(Waiting { session_id, call, running, reply, name, watched: None });
                    return Step::Ended(Err(self.asks(vec![question], None, true)));
                }
                answer = timeout_at(until, &mut running.answer) => break answer,
            }
        };
        let earlier = std::mem::take(&mut running.earlier);
        drop(running);
        // Dropping a sent call cancels it.
        let Ok(answer) = answer else {
            connection.may_hang.store(true, Ordering::SeqCst);
            return Step::Ended(Err(self.late(permit)));
        };
        let given_up = |why: &str| Step::Ended(Err(self.given_up(permit, why)));
        match answer {
            Ok(Ok(CallToolResponse::Complete(result))) => {
                let redacted = |text| self.settings.secrets.redact_said(text);
                let text = result::text(&result).map(redacted);
                Step::Ended(text.map_err(|error| ToolError::new(redacted(error))))
            }
            Ok(Ok(CallToolResponse::InputRequired(required))) => match params {
                Some(params) => self.required(required, params.clone(), earlier, permit),
                None => given_up("it asks in two ways at once"),
            },
            Ok(Ok(_)) => given_up("it wants something that is not offered"),
            Ok(Err(error)) if params.is_some_and(|params| is_forgotten(&error, params)) => Step::Forgotten,
            Ok(Err(error)) => Step::Ended(Err(self.addresses(&error, permit).unwrap_or_else(|| {
                let error = match &*error.message {
                    ours @ (TOO_LONG | TOO_MANY) => ours.to_owned(),
                    said => format!("{said} ({})", error.code.0),
                };
                self.say(permit, Text::McpRefused, &[("error", &self.settings.redact(&error))])
            }))),
            Err(failure) => {
                if failure != Failure::Unreadable {
                    // Whatever the reason, the next call uses a new connection.
                    self.forget(&connection);
                }
                // A call that has asked something was sent.
                let was_sent = params.is_none() && matches!(failure, Failure::Gone | Failure::NotSent(_));
                Step::Failed(if was_sent { Failure::Lost(failure.to_string()) } else { failure })
            }
        }
    }

    /// Since 2026-07-28 a call ends with its questions, and is made again with the answers.
    fn required(
        &self,
        required: InputRequiredResult,
        mut params: CallToolRequestParams,
        mut earlier: Vec<KeptAnswer>,
        permit: &Permit,
    ) -> Step {
        let given_up = |why: &str| Step::Ended(Err(self.given_up(permit, why)));
        let state = required.request_state;
        if state.as_ref().is_some_and(|state| state.len() > STATE_BYTES) {
            return given_up("it wants too much to be kept for it");
        }
        let mut questions: Vec<InputQuestion> = Vec::new();
        let mut ready = InputResponses::new();
        for (name, request) in required.input_requests.unwrap_or_default() {
            match request {
                InputRequest::Elicitation(request) => match self.question(&name, &request.params) {
                    Some(question) => match take_answer(&mut earlier, &question).and_then(|answer| response(&answer)) {
                        Some(answer) => drop(ready.insert(name, answer)),
                        None => questions.push(question),
                    },
                    None => drop(ready.insert(name, json!({ "action": "cancel" }))),
                },
                InputRequest::ListRoots(_) => drop(ready.insert(name, json!({ "roots": [] }))),
                _ => return given_up("it wants something that is not offered"),
            }
        }
        if questions.is_empty() {
            params.request_state = state;
            params.input_responses = (!ready.is_empty()).then_some(ready);
            return Step::Again(Box::new(params), earlier);
        }
        if permit.attempt() > ASKS_OF_A_CALL {
            return given_up("it asks without end");
        }
        if !ready.is_empty() {
            return given_up("it asks people, and for something that is not offered, at once");
        }
        Step::Ended(Err(self.asks(questions, state, false)))
    }

    /// Servers until 2025-11-25 may require addresses to be opened first, and then the call again.
    fn addresses(&self, error: &ErrorData, permit: &Permit) -> Option<ToolError> {
        if error.code.0 != URL_REQUIRED {
            return None;
        }
        let mut questions = Vec::new();
        for one in error.data.as_ref()?.get("elicitations")?.as_array()? {
            let name = one["elicitationId"].as_str().unwrap_or("url");
            let params: ElicitRequestParams = serde_json::from_value(one.clone()).ok()?;
            questions.push(self.question(name, &params)?);
        }
        // A server may give the same id to several.
        distinct_names(&mut questions);
        // After a decline it is not asked again forever, under whatever ids. Only addresses have ended an attempt here.
        let is_accepted = |asked: &AskedQuestion| {
            let answer = asked.answer.as_ref().and_then(|answer| serde_json::from_str::<Value>(answer.get()).ok());
            answer.is_none_or(|answer| answer["action"] == "accept")
        };
        let latest = permit.input().filter(|input| !input.live);
        let is_declined = latest.is_some_and(|input| !input.questions.iter().all(is_accepted));
        if questions.is_empty() || permit.attempt() > ASKS_OF_A_CALL || is_declined {
            return None;
        }
        Some(self.asks(questions, None, false))
    }

    /// A question for people, or none if it cannot be asked: it is then answered with `cancel`.
    pub(crate) fn question(&self, name: &str, params: &ElicitRequestParams) -> Option<InputQuestion> {
        asks::question(&self.settings.name, name, params, &self.settings.secrets)
            .inspect_err(|why| {
                if let Some(left_out) = self.warned.questions.due() {
                    let server = &*self.settings.name;
                    tracing::warn!(server, why, left_out, "the MCP server asks what people cannot be asked");
                }
            })
            .ok()
    }

    fn asks(&self, questions: Vec<InputQuestion>, state: Option<String>, live: bool) -> ToolError {
        let state = state.map(Arc::from);
        ToolError::asks(Asks { questions, state, live, timeout: self.settings.answer_timeout })
    }

    /// A text for the model.
    fn say(&self, permit: &Permit, text: Text, values: &[(&str, &str)]) -> ToolError {
        let server = format!("{:?}", &*self.settings.name);
        let values = [&[("server", server.as_str())], values].concat();
        ToolError::new(permit.locale().fill(text, &values))
    }
}

/// Whether the error says that the server cannot read the state that it got back: its key ended with its process, or
/// the state has expired.
fn is_forgotten(error: &ErrorData, params: &CallToolRequestParams) -> bool {
    params.request_state.is_some()
        && error.code == ErrorCode::INVALID_PARAMS
        && error.message.to_ascii_lowercase().contains("state")
}

/// People's answers from an earlier run of the call, if it is restarted with these: each answers its question once
/// more, so that nobody is asked twice. A call that continues has none: its questions are new.
fn earlier_answers(
    permit: &Permit,
    params: &CallToolRequestParams,
    has_rounds: bool,
    forgotten: bool,
) -> Vec<KeptAnswer> {
    let begins = params.request_state.is_none() && params.input_responses.is_none();
    let Some(input) = permit.input().filter(|_| begins) else { return Vec::new() };
    // The process that it waited in has ended, or its server has forgotten it.
    let mut earlier = if input.live || forgotten { input.answers() } else { Vec::new() };
    // Questions that end an attempt get the answers of a lost attempt from the journal.
    if !has_rounds && (input.live || input.begins_anew()) {
        earlier.extend(input.replay.iter().cloned());
    }
    earlier
}

fn response(answer: &Raw) -> Option<Value> {
    serde_json::to_value(asks::result(answer)).ok()
}

/// The answers to the questions of the previous attempt.
fn responses(input: &CallInput) -> Option<InputResponses> {
    let mut responses = InputResponses::new();
    for asked in &input.questions {
        let answer = asked.answer.as_ref()?;
        responses.insert(asked.question.name.to_string(), response(answer)?);
    }
    (!responses.is_empty()).then_some(responses)
}
