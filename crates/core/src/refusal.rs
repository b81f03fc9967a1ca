//! Typed refusals: what was wrong, by a stable code, changing nothing.

use std::{borrow::Cow, fmt};

use serde::Serialize;
use serde_json::{
    Value,
    value::{RawValue, to_raw_value},
};

use crate::{limits::ECHO_CHARS, plain};

/// The table of codes. `docs/errors.md` is generated from it, and a test fails when the two differ.
macro_rules! codes {
    ($($(#[doc = $meaning:literal])+ $code:ident = $status:literal, $remedy:literal;)+) => {
        /// The machine-readable reason of a refusal, the same on WebSocket and HTTP.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, schemars::JsonSchema)]
        #[serde(rename_all = "snake_case")]
        #[non_exhaustive]
        pub enum Code {
            $($(#[doc = $meaning])+ $code,)+
        }

        impl Code {
            /// Every code.
            pub const ALL: &[Code] = &[$(Code::$code),+];

            /// The HTTP status of the problem document (spec W8, RFC 9457).
            #[must_use]
            pub fn http_status(self) -> u16 {
                match self {
                    $(Code::$code => $status,)+
                }
            }

            /// What was wrong.
            #[must_use]
            pub fn meaning(self) -> &'static str {
                match self {
                    $(Code::$code => concat!($($meaning),+).trim_ascii(),)+
                }
            }

            /// What the sender can do.
            #[must_use]
            pub fn remedy(self) -> &'static str {
                match self {
                    $(Code::$code => $remedy,)+
                }
            }
        }
    };
}

codes! {
    /// The frame or body is not JSON, or not strict JSON.
    BadJson = 400, "Send one JSON object in UTF-8; the message says where it goes wrong. Send numbers that \
                    neither a double nor a 64-bit integer holds exactly as strings.";
    /// The message's `type` is not known.
    UnknownType = 400, "Use a `type` that the message lists.";
    /// A field is missing, of the wrong type or out of bounds.
    InvalidMessage = 400, "Correct the field that the message names.";
    /// The session id is not `[A-Za-z0-9._-]{1,128}`, or is `.` or `..`.
    InvalidSessionId = 400, "Choose another id, or let the server generate one.";
    /// No session with that id, or not yours; also where a new session was to have it.
    SessionNotFound = 404, "Check the id, and that the token is the right one.";
    /// The session with this id was deleted. Its id is never reused.
    SessionDeleted = 410, "Use another id.";
    /// A fork's id is that of another session, which you may see.
    SessionExists = 409, "Choose another id, or leave it out.";
    /// No agent with that name.
    UnknownAgent = 404, "Use a name from `GET /v1/agents`.";
    /// `cancel` while no turn is active.
    NothingToCancel = 409, "Nothing: the turn is over.";
    /// Nothing in the session has failed.
    NothingToRetry = 409, "Nothing: the turn has not failed, or has already resumed.";
    /// The turn has used up its model calls, and the retry adds none.
    MaxTurns = 409, "Give the turn more model calls (`more_calls`), or send a new message.";
    /// There is no such graph.
    UnknownGraph = 404, "Use a name from `GET /v1/graphs`.";
    /// The answer does not fit the question's schema.
    InvalidResume = 400, "Correct what `details.errors` point at, and send it again.";
    /// A node of a graph, or a call of a tool, waits for a value, not for decisions or answers.
    ResumeRequired = 400, "Send `resume`.";
    /// The message has an image that the model reading it does not take.
    ImagesNotSupported = 400, "Leave the image out, send its bytes if it was an address, or name an agent whose model takes images.";
    /// A message while a request is pending.
    ApprovalPending = 409, "Decide what `details` names, or send the message with `on_pending`: `reject` or `queue`.";
    /// A message while a turn is running; or a run, or a change of its state, while a run is going on.
    SessionBusy = 409, "Wait for the turn or the run, cancel it, or send the message with `on_pending`: `queue`.";
    /// The session has reached the largest size allowed.
    SessionFull = 409, "Continue in a new session, or in a fork from an earlier checkpoint.";
    /// The session's queue of messages is full.
    QueueFull = 429, "Wait until the turn has taken some messages.";
    /// The connection follows the largest number of sessions allowed.
    TooManyFollowed = 429, "Send `unsubscribe` for one of them, or use another connection.";
    /// The `request_id` was used in this session for something else.
    RequestIdReused = 409, "Give each input an id of its own.";
    /// No approval request with that key, or not yours.
    ApprovalNotFound = 404, "Check the key, and that the token is the right one.";
    /// No standing rule with that id, or not yours.
    RuleNotFound = 404, "Use an id from `GET /v1/rules`.";
    /// No webhook with that name, or not yours; or no failed message with that number.
    WebhookNotFound = 404, "Use a name from `GET /v1/webhooks`.";
    /// Another person, or the deadline, was first.
    ApprovalAlreadyResolved = 409, "Nothing: `details` say how it ended.";
    /// The decisions cannot be matched with the actions.
    DecisionsMismatch = 400, "Send one decision for each action, in their order.";
    /// `decisions`, or `resume`, where `answers` are needed.
    AnswersRequired = 400, "Send `answers`, or one reject to decline.";
    /// `answers` where `decisions` are needed; `resume` about a call or step whose outcome is unknown.
    DecisionsRequired = 400, "Send `decisions`.";
    /// The answers do not fit the questions.
    InvalidAnswers = 400, "Correct what `details.errors` name, and send them again.";
    /// The decision is not one of the action's `allowed_decisions`.
    DecisionNotAllowed = 400, "Use one of the allowed decisions.";
    /// The edited arguments do not fit the tool's schema, or the other tool may not be chosen.
    InvalidEdit = 400, "Correct what `details.errors` point at, and send it again.";
    /// The `digest` or `args_digest` is not that of the pending request.
    StaleAction = 409, "Show the person the current request, and ask again.";
    /// What was approved or forked cannot run: its agent or its tool no longer exists or cannot be reached.
    Unresolvable = 409, "Reject it, or try again when the tool is back.";
    /// The caller is not authenticated.
    Unauthenticated = 401, "Send a valid token.";
    /// The caller may not do this.
    Forbidden = 403, "Ask somebody who is allowed to.";
    /// There is nothing at this path.
    NotFound = 404, "Use a path from `/openapi.json`.";
    /// The resource does not support the HTTP method.
    MethodNotAllowed = 405, "Use a method from `/openapi.json`.";
    /// Too many of this person's requests that read a whole session, or preview an edit, are queued already.
    TooBusy = 429, "Try again when some of your requests have completed.";
    /// The frame or body is too large.
    TooLarge = 413, "Send less.";
    /// The body of a request did not arrive in time.
    RequestTimeout = 408, "Send it again, without pauses.";
    /// The body of a request is not declared as JSON in UTF-8.
    UnsupportedMediaType = 415, "Send JSON in UTF-8 with `Content-Type: application/json`.";
    /// The store could not be written or read; nothing happened.
    StoreUnavailable = 503, "Try again later or at another node, with the same `request_id`.";
    /// The store did not say whether this was stored.
    OutcomeUnknown = 503, "Check, or send it again with the same `request_id`; with another one it might happen twice.";
    /// A newer version has stored something in the session that this one does not know; nothing happened.
    NewerVersionRequired = 503, "Try a node of the newer version; upgrade this one.";
    /// The server is shutting down, and starts nothing new.
    ShuttingDown = 503, "Use another node, or wait for the restart.";
    /// The store was closed after a disk error, or because its database went back to an earlier state; requests in
    /// progress may or may not be stored.
    StoreClosed = 503, "Tell the operator; check what was stored after the restart.";
    /// A fault in the server; nothing is acknowledged.
    Internal = 500, "Tell the operator; the log has more.";
}

impl Code {
    /// The code as it is written on the wire.
    #[must_use]
    pub fn name(self) -> String {
        match serde_json::to_value(self) {
            Ok(Value::String(name)) => name,
            _ => "internal".to_owned(),
        }
    }

    /// Whether the store may succeed in a moment: a read is tried again.
    #[must_use]
    pub fn is_temporary(self) -> bool {
        matches!(self, Code::StoreUnavailable | Code::OutcomeUnknown)
    }
}

/// Why a turn fails: the code in `run_status` and in outcomes, what happened, and the remedy. Nothing was refused.
pub const FAILURES: &[(&str, &str, &str)] = &[
    (
        "model_error",
        "The model could not be reached, or its answer broke off.",
        "Look at the message and the log; send a message or retry.",
    ),
    (
        "max_turns",
        "The turn used up its model calls.",
        "Retry with `more_calls`, raise the agent's `max_turns`, or send a message.",
    ),
    ("budget_exceeded", "The run used up its budget of tokens or of cost.", "Raise the budget, and retry."),
    (
        "session_full",
        "The session has reached the largest size allowed.",
        "Continue in a new session, or in a fork from an earlier checkpoint.",
    ),
    (
        "unknown_agent",
        "The agent that should continue does not exist.",
        "Restore it, or send a message that names another.",
    ),
    ("instructions_failed", "The program could not create the agent's instructions.", "Look at the log."),
    ("invalid_output", "The last answer does not fit the agent's output schema.", "Send a message or retry."),
    (
        "input_guardrail",
        "A guardrail stopped the message.",
        "Fork the session before the message, or begin another one, and phrase it differently: the next message is checked together with it. The log says what was found.",
    ),
    ("output_guardrail", "A guardrail stopped the answer.", "Look at the log."),
    ("tool_input_guardrail", "A guardrail stopped a call.", "Look at the log."),
    ("tool_output_guardrail", "A guardrail stopped a call's result.", "Look at the log."),
    ("node_failed", "A node of a graph failed.", "Fix what the message names, and retry the run."),
    ("invalid_update", "A node changed the state in a way that does not fit it.", "Fix the node, and retry the run."),
    (
        "unreadable_answer",
        "A recorded answer, or the reported result of a step, does not fit what the node reads.",
        "Retry the run: the node asks again, unless it is fixed to read the answer.",
    ),
    (
        "step_given_up",
        "A person rejected a step whose outcome is unknown, and its node fails without it.",
        "Retry the run: a person is asked about the step again.",
    ),
    (
        "question_changed",
        "A node asks something else under the name of a recorded question.",
        "Undo the change, or give the new question a name of its own; then retry the run.",
    ),
    (
        "question_gone",
        "A node no longer asks a question that it was paused on.",
        "Bring the question back, or register a migration, and retry the run.",
    ),
    ("item_unreadable", "A recorded item does not fit the node's type.", "Correct the type, and retry the run."),
    (
        "join_unfinished",
        "A run would end while a join waits for nodes that never run.",
        "Fix the routes that lead to the join, and retry the run.",
    ),
    ("round_limit", "The run of a graph used up its rounds.", "Raise the limit, and retry the run."),
    ("too_deep", "Graphs are nested too deeply.", "Make the graph flatter."),
    ("too_many_tasks", "A round of a graph has more tasks than are allowed.", "Fan out over fewer items."),
    ("too_many_questions", "Nodes ask more questions at once than are allowed.", "Ask fewer questions at once."),
    (
        "too_many_steps",
        "A node has more steps, or more questions, than are allowed.",
        "Divide its work among several nodes, or fan out.",
    ),
    ("invalid_loop", "A node routes to a node the loop cannot reach.", "Fix its routes."),
    ("graph_gone", "This program no longer has the graph.", "Add it again, and retry the run."),
    ("node_gone", "The graph no longer has the node.", "Add it again, and retry the run."),
    (
        "state_unreadable",
        "The recorded state does not fit the graph's type.",
        "Upgrade it (`StateGraph::state_version`) or correct the type, and retry the run.",
    ),
    ("internal", "Internal error.", "Tell the operator; the log has more."),
];

/// Why an input was refused. Its target is unchanged.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
#[error("{message}")]
#[non_exhaustive]
pub struct Refusal {
    /// The stable code.
    pub code: Code,
    /// What is wrong, where, and how to correct it; in English.
    pub message: String,
    /// More for programs: pending keys, the winner of a race, schema errors.
    pub details: Option<Details>,
    cause: Cause,
}

/// What determines whether a retry makes sense.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
enum Cause {
    #[default]
    None,
    /// The session has changed since; retry against its current state.
    Overtaken,
    /// Another node carries out the session's effects now.
    Fenced,
    /// The session's stored form is unknown to this build; another may read it.
    Unreadable,
    /// The session could no longer be read if this were stored.
    Illegal,
    /// The same, and the turn has failed instead.
    Failed,
}

impl Refusal {
    /// A refusal without details.
    pub fn new(code: Code, message: impl Into<String>) -> Refusal {
        Refusal { code, message: message.into(), details: None, cause: Cause::None }
    }

    /// The same refusal, because another node has appended to the session in between.
    #[must_use]
    pub fn overtaken(self) -> Refusal {
        Refusal { cause: Cause::Overtaken, ..self }
    }

    /// The same refusal, because another node carries out the session's effects now.
    #[must_use]
    pub fn fenced(self) -> Refusal {
        Refusal { cause: Cause::Fenced, ..self }
    }

    /// Whether the same input may be accepted by the session as it is now.
    #[must_use]
    pub fn is_overtaken(&self) -> bool {
        self.cause == Cause::Overtaken
    }

    /// The same refusal, because the stored session cannot be read here, however often that is tried.
    #[must_use]
    pub fn unreadable(self) -> Refusal {
        Refusal { cause: Cause::Unreadable, ..self }
    }

    /// Whether the session cannot be read here.
    #[must_use]
    pub fn is_unreadable(&self) -> bool {
        self.cause == Cause::Unreadable
    }

    /// The refusal of an append that would break this rule of journals, which is a fault of the program. Nothing was
    /// stored, and the session is as it was.
    #[must_use]
    pub fn illegal(rule: impl fmt::Display) -> Refusal {
        let message = format!("nothing was stored, since the session's journal would break a rule: {rule}");
        Refusal { cause: Cause::Illegal, ..Refusal::new(Code::Internal, message) }
    }

    /// Whether the append would break a rule of journals, however often it is tried.
    #[must_use]
    pub fn is_illegal(&self) -> bool {
        self.cause == Cause::Illegal
    }

    /// The same refusal, because of which the turn has failed.
    #[must_use]
    pub fn turn_failed(self) -> Refusal {
        Refusal { cause: Cause::Failed, ..self }
    }

    /// Whether the turn has failed because of this refusal.
    #[must_use]
    pub fn has_failed_turn(&self) -> bool {
        self.cause == Cause::Failed
    }

    /// Whether the session cannot be read here, but a newer build can read it.
    #[must_use]
    pub fn is_for_newer(&self) -> bool {
        self.code == Code::NewerVersionRequired
    }

    /// Whether work for the session stops here: it no longer exists, is another node's, cannot be read, or its turn has
    /// failed because of this refusal.
    #[must_use]
    pub fn is_gone(&self) -> bool {
        matches!(self.code, Code::SessionNotFound | Code::SessionDeleted)
            || matches!(self.cause, Cause::Fenced | Cause::Unreadable | Cause::Failed)
    }

    /// The same refusal, with details: a JSON object.
    #[must_use]
    pub fn with_details(mut self, details: impl Serialize) -> Refusal {
        // Plain data with string keys always serialises.
        self.details = to_raw_value(&details).ok().map(Details);
        self
    }
}

/// What a refusal says to programs: a JSON object, kept as text, so that its numbers stay as they were written.
#[derive(Clone, Debug, Serialize)]
#[serde(transparent)]
pub struct Details(Box<RawValue>);

impl Details {
    /// The object's text.
    #[must_use]
    pub fn get(&self) -> &str {
        self.0.get()
    }

    /// The object, with numbers as 64-bit integers or doubles.
    #[must_use]
    pub fn value(&self) -> Value {
        plain::value(self.get()).unwrap_or_default()
    }
}

impl PartialEq for Details {
    fn eq(&self, other: &Details) -> bool {
        self.get() == other.get()
    }
}
impl Eq for Details {}

/// A text from outside, as an error repeats it: its first characters, if there are many.
#[must_use]
pub fn shortened(text: &str) -> Cow<'_, str> {
    match text.char_indices().nth(ECHO_CHARS) {
        Some((end, _)) => Cow::Owned(format!("{}…", &text[..end])),
        None => Cow::Borrowed(text),
    }
}
