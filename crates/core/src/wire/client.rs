//! Client → server: reading messages, strictly, with errors that name the place (spec W1).

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::{Value, value::RawValue};

use super::{fields, input::InputContent};
use crate::{
    approval::decision::Decision,
    call::json::Json,
    journal::{
        draft::OnPending,
        run::{Raw, given},
    },
    limits,
    refusal::{Code, Refusal, shortened},
    wire::schema::GivenAnswers,
};

/// A message from a client. The JSON object's `type` names the variant.
#[derive(Clone, Debug, Serialize, JsonSchema)]
#[serde(tag = "type", rename_all = "snake_case")]
pub enum ClientMessage {
    /// Starts a turn.
    #[schemars(title = "MessageCommand")]
    Message(SendMessage),
    /// Decides or answers a pending request.
    #[schemars(title = "ApprovalCommand")]
    Approval(SendApproval),
    /// Comments on a pending request, for the other people.
    #[schemars(title = "CommentCommand")]
    Comment(SendComment),
    /// Reassigns a pending request.
    #[schemars(title = "ReassignCommand")]
    Reassign(SendReassign),
    /// Follows a session.
    #[schemars(title = "SubscribeCommand")]
    Subscribe(Subscribe),
    /// Stops following a session.
    #[schemars(title = "UnsubscribeCommand")]
    Unsubscribe(Unsubscribe),
    /// Stops the turn.
    #[schemars(title = "CancelCommand")]
    Cancel(Cancel),
    /// Asks for a `pong`.
    #[schemars(title = "PingCommand")]
    Ping,
}

/// `message`
#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
pub struct SendMessage {
    /// The session, `[A-Za-z0-9._-]{1,128}` but not `.` or `..`; created if it is unknown, with an id from the server if
    /// absent.
    #[serde(default)]
    pub session_id: Option<String>,
    /// The agent that answers from now on; the default agent if the session is new.
    #[serde(default)]
    pub agent: Option<String>,
    /// The text, or blocks of text and images.
    pub content: InputContent,
    /// Makes a retry of the request safe.
    #[serde(default)]
    pub request_id: Option<String>,
    /// What to do if the session is running or has pending requests.
    #[serde(default)]
    pub on_pending: Option<OnPending>,
}

/// `approval`
#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
pub struct SendApproval {
    /// The session.
    pub session_id: String,
    /// The key of the approval request.
    pub approval_key: String,
    /// For actions: one decision for each; missing ones take the first.
    #[serde(default)]
    pub decisions: Option<Vec<Decision>>,
    /// For questions: question text → answer.
    #[serde(default)]
    #[schemars(with = "Option<GivenAnswers>")]
    pub answers: Option<Box<RawValue>>,
    /// For a question of a graph's node: its answer, any JSON value; `null` is one too. For actions: "yes" or "no", for
    /// all of them.
    #[serde(default, deserialize_with = "given", skip_serializing_if = "Option::is_none")]
    #[schemars(with = "Value")]
    pub resume: Option<Raw>,
    /// The `digest` of one of the actions, or of the questions, that were shown; refused as `stale_action` if the
    /// pending request has another.
    #[serde(default)]
    pub digest: Option<String>,
    /// The reviewer's message, shown in history and passed to the model; refused beside a reply to a node of a graph.
    #[serde(default)]
    pub user_edit_content: Option<String>,
    /// Makes a retry of the request safe.
    #[serde(default)]
    pub request_id: Option<String>,
}

/// `comment`
#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
pub struct SendComment {
    /// The session.
    pub session_id: String,
    /// The key of the approval request.
    pub approval_key: String,
    /// The comment; at most 4 KiB. The model does not read it.
    pub text: String,
    /// Makes a retry of the request safe.
    #[serde(default)]
    pub request_id: Option<String>,
}

/// `reassign`
#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
pub struct SendReassign {
    /// The session.
    pub session_id: String,
    /// The key of the approval request.
    pub approval_key: String,
    /// The role whose holders decide it from now on: one of the action's `reassign`, or the current one.
    #[serde(default)]
    pub role: Option<String>,
    /// The only person who decides it, who must hold the role too; absent: any holder of the role.
    #[serde(default)]
    pub subject: Option<String>,
    /// Why.
    #[serde(default)]
    pub text: Option<String>,
    /// Makes a retry of the request safe.
    #[serde(default)]
    pub request_id: Option<String>,
}

/// `subscribe`
#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
pub struct Subscribe {
    /// The session.
    pub session_id: String,
    /// Replay events after this `seq`; 0: from the start; absent: only new events.
    #[serde(default)]
    pub after: Option<u64>,
    /// In place of `after`: replay the end of the session, from the start of the newest turn with at least this many
    /// messages from there on; 1 to 1000. The `seq` of the first event tells where the replay begins.
    #[serde(default)]
    #[schemars(range(min = 1, max = 1000))]
    pub last: Option<u32>,
    /// Echoed if it is refused.
    #[serde(default)]
    pub request_id: Option<String>,
}

/// `unsubscribe`
#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
pub struct Unsubscribe {
    /// The session.
    pub session_id: String,
    /// Echoed if it is refused; nothing else answers it.
    #[serde(default)]
    pub request_id: Option<String>,
}

/// `cancel`
#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
pub struct Cancel {
    /// The session.
    pub session_id: String,
    /// Makes a retry of the request safe.
    #[serde(default)]
    pub request_id: Option<String>,
}

/// `ping`
#[derive(Deserialize)]
struct Ping {}

/// A refused frame, with its readable ids so that the error can refer to it.
#[derive(Clone, Debug, PartialEq)]
pub struct BadFrame {
    /// What is wrong.
    pub refusal: Refusal,
    /// Its `request_id`, if it has a readable one.
    pub request_id: Option<String>,
    /// Its `session_id`, if it has a readable one.
    pub session_id: Option<String>,
    /// Its `approval_key`, if it has a readable one.
    pub approval_key: Option<String>,
}

impl ClientMessage {
    /// Reads one frame.
    ///
    /// # Errors
    /// `bad_json`, `unknown_type`, `invalid_message`, `invalid_session_id`, `too_large` (more than
    /// [`limits::FRAME_BYTES`], and no `message`).
    pub fn parse(text: &str) -> Result<ClientMessage, BadFrame> {
        let bare = |refusal| BadFrame { refusal, request_id: None, session_id: None, approval_key: None };
        let json = Json::parse(text, limits::JSON_DEPTH)
            .map_err(|e| bare(Refusal::new(Code::BadJson, format!("the frame is not valid JSON: {e}"))))?;
        let string = |key: &str| json.get(key).and_then(Json::as_str).map(str::to_owned);
        let refuse = |refusal| BadFrame {
            refusal,
            request_id: string("request_id"),
            session_id: string("session_id"),
            approval_key: string("approval_key"),
        };
        if !matches!(json, Json::Object(_)) {
            return Err(refuse(Refusal::new(Code::InvalidMessage, "a frame must be a JSON object with a \"type\"")));
        }
        let kind = match json.get("type") {
            Some(Json::String(kind)) => kind.as_str(),
            Some(_) => return Err(refuse(invalid("type", "must be a string"))),
            None => return Err(refuse(invalid("type", "is missing"))),
        };
        if kind != "message" && text.len() > limits::FRAME_BYTES {
            let kind = shortened(kind);
            let most = format!("a frame of the type {kind:?} has at most {} bytes", limits::FRAME_BYTES);
            return Err(refuse(Refusal::new(Code::TooLarge, most)));
        }
        let message = match kind {
            "message" => ClientMessage::Message(frame(text, &json).map_err(refuse)?),
            "approval" => ClientMessage::Approval(frame(text, &json).map_err(refuse)?),
            "comment" => ClientMessage::Comment(frame(text, &json).map_err(refuse)?),
            "reassign" => ClientMessage::Reassign(frame(text, &json).map_err(refuse)?),
            "subscribe" => ClientMessage::Subscribe(frame(text, &json).map_err(refuse)?),
            "unsubscribe" => ClientMessage::Unsubscribe(frame(text, &json).map_err(refuse)?),
            "cancel" => ClientMessage::Cancel(frame(text, &json).map_err(refuse)?),
            "ping" => {
                frame::<Ping>(text, &json).map_err(refuse)?;
                ClientMessage::Ping
            }
            other => {
                let other = shortened(other);
                return Err(refuse(Refusal::new(
                    Code::UnknownType,
                    format!(
                        "unknown type {other:?}; known: message, approval, comment, reassign, subscribe, unsubscribe, cancel, ping"
                    ),
                )));
            }
        };
        message.check().map_err(refuse)?;
        Ok(message)
    }

    fn check(&self) -> Result<(), Refusal> {
        let (session_id, request_id) = match self {
            ClientMessage::Message(m) => (m.session_id.as_ref(), m.request_id.as_ref()),
            ClientMessage::Approval(m) => (Some(&m.session_id), m.request_id.as_ref()),
            ClientMessage::Comment(m) => (Some(&m.session_id), m.request_id.as_ref()),
            ClientMessage::Reassign(m) => (Some(&m.session_id), m.request_id.as_ref()),
            ClientMessage::Subscribe(m) => (Some(&m.session_id), m.request_id.as_ref()),
            ClientMessage::Unsubscribe(m) => (Some(&m.session_id), m.request_id.as_ref()),
            ClientMessage::Cancel(m) => (Some(&m.session_id), m.request_id.as_ref()),
            ClientMessage::Ping => (None, None),
        };
        session_id.map_or(Ok(()), |id| check_session_id(id))?;
        request_id.map_or(Ok(()), |id| check_request_id(id))
    }
}

/// Reads a body that has passed the strict parser.
///
/// # Errors
/// `bad_json` or `invalid_message`, naming the field.
pub fn read<T: for<'de> Deserialize<'de>>(text: &str) -> Result<T, Refusal> {
    let json = Json::parse(text, limits::JSON_DEPTH)
        .map_err(|e| Refusal::new(Code::BadJson, format!("the body is not valid JSON: {e}")))?;
    if !matches!(json, Json::Object(_)) {
        return Err(Refusal::new(Code::InvalidMessage, "the body must be a JSON object"));
    }
    fields::check::<T>(&json, false)?;
    body(text)
}

fn frame<T: for<'de> Deserialize<'de>>(text: &str, json: &Json) -> Result<T, Refusal> {
    fields::check::<T>(json, true)?;
    body(text)
}

fn body<T: for<'de> Deserialize<'de>>(text: &str) -> Result<T, Refusal> {
    let mut reader = serde_json::Deserializer::from_str(text);
    serde_path_to_error::deserialize(&mut reader).map_err(|e| {
        let path = e.path().to_string();
        let message = e.into_inner().to_string();
        // The position in the text says less than the field, and a missing field already names itself.
        let message = message.split(" at line ").next().unwrap_or_default();
        let at = if path == "." { String::new() } else { format!("{}: ", shortened(&path)) };
        Refusal::new(Code::InvalidMessage, format!("{at}{}", in_words(message)))
    })
}

/// serde's message, with types named as in JSON, not as in Rust, and with a bounded part of the input.
fn in_words(message: &str) -> String {
    let Some((found, expected)) = message.rsplit_once(", expected ") else {
        return shortened(message).into_owned();
    };
    let expected = match expected {
        "u8" | "u16" | "u32" | "u64" | "usize" => "a whole number from 0",
        "a nonzero u32" | "a nonzero u64" => "a whole number from 1",
        "a sequence" => "an array",
        "a map" => "an object",
        other if other.starts_with("struct ") => "an object",
        other => other,
    };
    format!("{}, expected {expected}", shortened(found))
}

/// Checks a session id.
///
/// # Errors
/// `invalid_session_id`.
pub fn check_session_id(id: &str) -> Result<(), Refusal> {
    let allowed = |b: u8| b.is_ascii_alphanumeric() || matches!(b, b'.' | b'_' | b'-');
    // URL clients remove the segments `.` and `..` from a path before they send it.
    let is_path = matches!(id, "." | "..");
    if id.is_empty() || id.len() > limits::SESSION_ID_CHARS || !id.bytes().all(allowed) || is_path {
        let most = limits::SESSION_ID_CHARS;
        let what = format!("a session id has 1 to {most} of the characters A-Z a-z 0-9 . _ - and is neither . nor ..");
        return Err(Refusal::new(Code::InvalidSessionId, what));
    }
    Ok(())
}

/// Checks a `request_id` or `Idempotency-Key`.
///
/// # Errors
/// `invalid_message`.
pub fn check_request_id(id: &str) -> Result<(), Refusal> {
    if id.is_empty() || id.len() > limits::REQUEST_ID_BYTES {
        return Err(invalid("request_id", &format!("must have 1 to {} bytes", limits::REQUEST_ID_BYTES)));
    }
    if id.contains(char::is_control) {
        return Err(invalid("request_id", "must have no control characters"));
    }
    Ok(())
}

fn invalid(field: &str, problem: &str) -> Refusal {
    Refusal::new(Code::InvalidMessage, format!("{field}: {problem}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(frame: &str, code: Code, part: &str) {
        let bad = ClientMessage::parse(frame).expect_err(frame);
        assert_eq!(bad.refusal.code, code, "{frame}: {}", bad.refusal);
        assert!(bad.refusal.message.contains(part), "{frame}: {}", bad.refusal);
    }

    #[test]
    fn w1_bad_frames_are_named() {
        check("", Code::BadJson, "ends where a value");
        check("[]", Code::InvalidMessage, "must be a JSON object");
        check("{}", Code::InvalidMessage, "type: is missing");
        check(r#"{"type":1}"#, Code::InvalidMessage, "type: must be a string");
        check(r#"{"type":"hi"}"#, Code::UnknownType, "\"hi\"");
        check(r#"{"type":"message"}"#, Code::InvalidMessage, "content");
        check(r#"{"type":"message","content":"x","session_id":7}"#, Code::InvalidMessage, "session_id");
        check(r#"{"type":"message","content":"x","session_id":"a b"}"#, Code::InvalidSessionId, "A-Z");
        check(r#"{"type":"message","content":"x","session_id":""}"#, Code::InvalidSessionId, "A-Z");
        check(r#"{"type":"approval","session_id":"a"}"#, Code::InvalidMessage, "approval_key");
        check(
            r#"{"type":"approval","session_id":"a","approval_key":"a_1","decisions":[{"type":"maybe"}]}"#,
            Code::InvalidMessage,
            "decisions[0].type",
        );
        check(
            r#"{"type":"approval","session_id":"a","approval_key":"a_1","decisions":[{"type":"edit","edited_action":{"name":"t","args":[]}}]}"#,
            Code::InvalidMessage,
            "decisions[0].edited_action.args",
        );
        for (frame, part) in [
            (r#"{"type":"ping","x":1}"#, "x: is not a key here; it has none"),
            (r#"{"type":"message","content":"x","agnet":"b"}"#, "agnet: is not a key here; known: session_id, agent"),
            (r#"{"type":"subscribe","session_id":"a","From":1}"#, "From: is not a key here; known: session_id, after"),
            (
                r#"{"type":"approval","session_id":"a","approval_key":"a_1","decisions":[{"type":"approve","alwyas":true}]}"#,
                "decisions[0].alwyas: unknown field `alwyas`, expected one of",
            ),
            (
                r#"{"type":"approval","session_id":"a","approval_key":"a_1","decisions":[{"type":"edit","edited_action":{"name":"t","args":{},"arg":{}}}]}"#,
                "decisions[0].edited_action.arg: unknown field `arg`",
            ),
            (r#"{"type":"message","content":[{"type":"text","text":"x","cache":1}]}"#, "content[0].cache"),
        ] {
            check(frame, Code::InvalidMessage, part);
        }
        check(r#"{"type":"subscribe","session_id":"a","after":-1}"#, Code::InvalidMessage, "a whole number from 0");
        check(r#"{"type":"ping","type":"ping"}"#, Code::BadJson, "duplicate key");
        check(
            &format!(r#"{{"type":"ping","x":{}1{}}}"#, "[".repeat(10_000), "]".repeat(10_000)),
            Code::BadJson,
            "too deeply",
        );
    }

    #[derive(Debug, Deserialize)]
    struct Calls {
        #[expect(dead_code, reason = "it is only read")]
        more_calls: std::num::NonZeroU32,
    }

    #[test]
    fn r9_what_is_wrong_is_said_in_the_words_of_json_and_repeats_little_of_what_was_sent() {
        let wrong = |frame: &str| ClientMessage::parse(frame).expect_err("wrong").refusal.message;
        let subscribe = |more: &str| wrong(&format!(r#"{{"type":"subscribe","session_id":"a",{more}}}"#));
        assert_eq!(subscribe(r#""after":-1"#), "after: invalid value: integer `-1`, expected a whole number from 0");
        assert_eq!(subscribe(r#""last":"5""#), "last: invalid type: string \"5\", expected a whole number from 0");
        let zero = read::<Calls>(r#"{"more_calls":0}"#).expect_err("zero").message;
        assert_eq!(zero, "more_calls: invalid value: integer `0`, expected a whole number from 1");
        let approval = |decisions: &str| {
            wrong(&format!(r#"{{"type":"approval","session_id":"a","approval_key":"a_1","decisions":{decisions}}}"#))
        };
        assert_eq!(approval("7"), "decisions: invalid type: integer `7`, expected an array");
        assert_eq!(
            approval(r#"[{"type":"edit","edited_action":1}]"#),
            "decisions[0].edited_action: invalid type: integer `1`, expected an object"
        );
        let long = "x".repeat(100_000);
        for told in [
            wrong(&format!(r#"{{"type":"{long}"}}"#)),
            wrong(&format!(r#"{{"type":"ping","{long}":1}}"#)),
            subscribe(&format!(r#""after":"{long}""#)),
            approval(&format!(r#"[{{"type":"{long}"}}]"#)),
            approval(&format!(r#"[{{"type":"approve","{long}":1}}]"#)),
        ] {
            assert!(told.len() < 1000 && told.contains("xxx…"), "{told}");
        }
    }

    #[test]
    fn w1_the_answer_to_a_bad_frame_can_name_its_request() {
        let bad =
            ClientMessage::parse(r#"{"type":"message","request_id":"r1","session_id":"s"}"#).expect_err("no content");
        assert_eq!((bad.request_id.as_deref(), bad.session_id.as_deref()), (Some("r1"), Some("s")));
        for decision in [
            r#"{"type":"maybe"}"#,
            r#"{"type":"edit"}"#,
            r#"{"type":"edit","edited_action":{"name":"t","args":{}},"always":true}"#,
            r#"{"type":"approve","message":"yes"}"#,
        ] {
            let frame =
                format!(r#"{{"type":"approval","session_id":"s","approval_key":"s_1","decisions":[{decision}]}}"#);
            let bad = ClientMessage::parse(&frame).expect_err(decision);
            assert_eq!(bad.approval_key.as_deref(), Some("s_1"), "{decision}");
        }
        let bad = ClientMessage::parse(r#"{"type":"approval","session_id":"s","approval_key":7}"#).expect_err("no key");
        assert_eq!(bad.approval_key, None);
    }

    #[test]
    fn w1_an_answer_of_null_is_an_answer_and_numbers_keep_their_text() {
        let read = |more: &str| {
            let frame = format!(r#"{{"type":"approval","session_id":"a","approval_key":"a_1"{more}}}"#);
            let Ok(ClientMessage::Approval(approval)) = ClientMessage::parse(&frame) else { panic!("{frame}") };
            approval.resume.map(|resume| resume.get().to_owned())
        };
        assert_eq!(read(""), None);
        for value in ["null", "false", "0", r#""""#, "{}", "[]", "1.10", "9007199254740993"] {
            assert_eq!(read(&format!(r#","resume":{value}"#)).as_deref(), Some(value));
        }
    }

    #[test]
    fn w5_edited_arguments_keep_every_digit() {
        let frame = r#"{"type":"approval","session_id":"a","approval_key":"a_1","decisions":[{"type":"edit","edited_action":{"name":"t","args":{"p":1.10,"n":9007199254740993}}}]}"#;
        let Ok(ClientMessage::Approval(approval)) = ClientMessage::parse(frame) else { panic!("approval") };
        let edited = approval.decisions.expect("decisions")[0].edited().cloned().expect("edit");
        assert_eq!(edited.args.text(), r#"{"n":9007199254740993,"p":1.10}"#);
    }
}
