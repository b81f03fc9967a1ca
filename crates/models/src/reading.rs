//! Reading an answer: what all providers share.

use std::collections::VecDeque;

use countersign_core::{
    journal::record::{Cut, Usage},
    limits, plain,
    values::Values,
};
use countersign_engine::model::{ModelError, ModelEvent};
use serde::{Deserialize, Deserializer, Serialize, de::DeserializeOwned};
use serde_json::value::RawValue;

use super::{http::ErrorObject, sse::SseEvent};

/// The size that a block counts besides its text, so that empty ones are bounded too.
pub(super) const BLOCK_BYTES: usize = 64;
/// The largest event, and the largest answer in one piece, in bytes of JSON: several times the size of an answer. JSON
/// may write a character of two bytes with six, and the last event of the Responses API repeats the whole answer, with
/// the instructions and tools of the request.
pub(super) const EVENT_BYTES: usize = 4 * limits::RESPONSE_BYTES;
/// The data of the event with which many servers end a stream.
pub(super) const DONE: &str = "[DONE]";

/// Reads one answer and emits its events, one block open at a time.
pub(super) trait Reader: Send + 'static {
    /// Takes one event, of which the values were counted ([`take`]). True when nothing that follows matters.
    fn take(&mut self, event: &SseEvent, ready: &mut VecDeque<ModelEvent>) -> Result<bool, ReadError>;

    /// Takes an answer that came in one piece, of which the values were counted ([`take_whole`]).
    fn take_whole(&mut self, json: &str, ready: &mut VecDeque<ModelEvent>) -> Result<(), ReadError>;

    /// The size of the answer so far. What does not add to it only keeps the connection alive.
    fn size(&self) -> usize;

    /// Whether the provider has said that the answer is complete.
    fn is_finished(&self) -> bool;

    /// Ends a complete answer.
    fn finish(&mut self, ready: &mut VecDeque<ModelEvent>) -> Result<(), ModelError>;
}

/// Gives the next event of a stream to its reader.
pub(super) fn take(
    reader: &mut impl Reader,
    event: &SseEvent,
    ready: &mut VecDeque<ModelEvent>,
) -> Result<bool, ReadError> {
    bounded("an event", &event.data)?;
    reader.take(event, ready)
}

/// Gives an answer that came in one piece to its reader.
pub(super) fn take_whole(
    reader: &mut impl Reader,
    json: &str,
    ready: &mut VecDeque<ModelEvent>,
) -> Result<(), ReadError> {
    bounded("an answer", json)?;
    reader.take_whole(json, ready)
}

/// Refuses what has too many values, or some that nobody has counted, before any of it is parsed.
fn bounded(what: &str, json: &str) -> Result<(), ModelError> {
    let wrong = if Values::are_too_many_in(json) {
        format!("of more than {} JSON values", limits::JSON_VALUES)
    } else if plain::has_own_members(json) {
        "with a member whose name is reserved".to_owned()
    } else {
        return Ok(());
    };
    Err(ModelError::permanent(format!("the provider sent {what} {wrong}")))
}

/// Why an answer could not be read.
#[derive(Debug)]
pub(super) enum ReadError {
    /// The provider reports that it failed.
    Said(ErrorObject),
    /// Its data cannot be read or used.
    Other(ModelError),
}

impl From<ModelError> for ReadError {
    fn from(error: ModelError) -> ReadError {
        ReadError::Other(error)
    }
}

/// The next event of an API whose events name their kind, in their JSON or beside it; `None` where there is nothing to
/// read. `own` is the prefix of the API's kinds.
pub(super) fn named_event<E: DeserializeOwned>(
    event: &SseEvent,
    what: &str,
    own: &[&str],
    kind: impl FnOnce(&mut E) -> &mut Option<String>,
) -> Result<Option<E>, ReadError> {
    let data = event.data.trim();
    // Some servers end their streams like chat completions.
    if data.is_empty() || data == DONE {
        return Ok(None);
    }
    if event.event == "error" {
        return Err(ReadError::Said(ErrorObject::said(data)));
    }
    let mut read = serde_json::from_str(data).map_err(|e| unreadable(what, data, &e))?;
    let kind = kind(&mut read).get_or_insert_with(|| event.event.clone());
    if kind == "error" {
        return Err(ReadError::Said(ErrorObject::said(data)));
    }
    // Errors that are not of this API have their own types, or none.
    if !own.iter().any(|own| kind.starts_with(own))
        && let Some(error) = ErrorObject::in_answer(data)
    {
        return Err(ReadError::Said(error));
    }
    Ok(Some(read))
}

/// How an answer ended, for the reasons of any provider.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Ending {
    /// Completely.
    Whole,
    /// Completely, because of its calls; without any it is not whole ([`no_call`]).
    Calls,
    /// For a reason that is not known here: its content must show whether it is whole ([`cut_in`]).
    Unknown,
    /// Cut off.
    Cut(Cut),
    /// The provider failed in the middle of it: a retry may help.
    Failed,
}

/// Reads a stop reason.
pub(super) fn ending(reason: &str) -> Ending {
    Ending::Cut(match &*reason.to_ascii_lowercase() {
        "length" | "max_tokens" | "max_output_tokens" | "model_length" | "model_context_window_exceeded" => {
            Cut::MaxTokens
        }
        "refusal" => Cut::Refusal,
        "content_filter"
        | "content-filter"
        | "safety"
        | "recitation"
        | "blocklist"
        | "prohibited_content"
        | "spii"
        | "image_safety"
        | "language"
        | "sensitive"
        | "error_toxic"
        | "guardrail_intervened" => Cut::ContentFilter,
        "incomplete" | "pause_turn" | "malformed_function_call" | "unexpected_tool_call" | "other" => Cut::Incomplete,
        // vLLM and SGLang give up a request with `abort`.
        "error" | "network_error" | "insufficient_system_resource" | "abort" | "aborted" | "cancelled" | "canceled" => {
            return Ending::Failed;
        }
        "stop" | "end_turn" | "stop_sequence" | "eos" | "eos_token" | "complete" | "completed" => return Ending::Whole,
        "tool_use" | "tool_call" | "tool_calls" | "function_call" => return Ending::Calls,
        _ => return Ending::Unknown,
    })
}

/// Why an answer is not whole, given whether the arguments of all its calls are, if its provider did not say how it
/// ended. Servers have their own names for a proper end, and some send none, so an answer counts as whole unless it
/// visibly stops in a call, which need not be the last one: arguments that were never begun would otherwise run as `{}`.
pub(super) fn cut_in(are_calls_whole: bool) -> Option<Cut> {
    (!are_calls_whole).then_some(Cut::Incomplete)
}

/// An answer that ended for calls, but has none, nor anything else that people would see.
pub(super) fn no_call(reason: &str) -> ModelError {
    ModelError::transient(format!("the provider ended its answer for a call ({reason}) and sent neither call nor text"))
}

/// An answer whose provider failed in the middle of it.
pub(super) fn failed_in_the_middle(reason: &str) -> ModelError {
    ModelError::transient(format!("the provider failed in the middle of its answer: {reason}"))
}

/// The size of an answer so far.
#[derive(Default)]
pub(super) struct Size(usize);

impl Size {
    /// In bytes.
    pub(super) fn bytes(&self) -> usize {
        self.0
    }

    /// Counts more of it.
    ///
    /// # Errors
    /// It is larger than an answer may be.
    pub(super) fn grow(&mut self, bytes: usize) -> Result<(), ModelError> {
        self.0 += bytes;
        if self.0 > limits::RESPONSE_BYTES {
            let limit = limits::RESPONSE_BYTES;
            return Err(ModelError::permanent(format!("the model's answer is larger than {limit} bytes")));
        }
        Ok(())
    }
}

/// A number of tokens as servers send it: a whole number, or a float with a whole value. Anything else is `None`, since
/// unreadable usage is no reason to lose an answer.
#[derive(Clone, Copy, Default)]
pub(super) struct Count(pub(super) Option<u64>);

impl<'de> Deserialize<'de> for Count {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Count, D::Error> {
        let text = Box::<RawValue>::deserialize(deserializer)?;
        let text = text.get().trim_matches('"');
        // A float above the largest number of tokens saturates.
        let float = || text.parse::<f64>().ok().filter(|n| *n >= 0.0).map(|n| n as u64);
        Ok(Count(text.parse().ok().or_else(float)))
    }
}

/// OpenAI's details of token counts.
#[derive(Default, Deserialize)]
pub(super) struct Details {
    #[serde(default)]
    cached_tokens: Count,
    #[serde(default)]
    reasoning_tokens: Count,
}

/// Tokens read and written, with the details of each; `None` if neither is reported.
pub(super) fn usage(told: (Count, Count), details: (Option<Details>, Option<Details>)) -> Option<Usage> {
    let (Count(input_tokens), Count(output_tokens)) = told;
    let of = |details: Option<Details>| details.unwrap_or_default();
    (input_tokens.is_some() || output_tokens.is_some()).then(|| Usage {
        input_tokens: input_tokens.unwrap_or(0),
        output_tokens: output_tokens.unwrap_or(0),
        cached_input_tokens: of(details.0).cached_tokens.0.unwrap_or(0),
        reasoning_tokens: of(details.1).reasoning_tokens.0.unwrap_or(0),
    })
}

/// Ends an answer with its usage and its kept data.
pub(super) fn end(
    ready: &mut VecDeque<ModelEvent>,
    usage: Option<Usage>,
    opaque: Option<&impl Serialize>,
) -> Result<(), ModelError> {
    ready.extend(usage.map(ModelEvent::Usage));
    if let Some(opaque) = opaque {
        let raw = serde_json::value::to_raw_value(opaque).map_err(|e| malformed("answer", &e))?;
        ready.push_back(ModelEvent::Opaque(raw));
    }
    ready.push_back(ModelEvent::Stop);
    Ok(())
}

/// Describes malformed input from the provider without repeating its text: it may be an argument or a secret, and
/// errors are logged. `what` names what was expected.
pub(super) fn malformed(what: &str, error: &serde_json::Error) -> ModelError {
    let text = error.to_string();
    let wrong = match (text.find("string \""), text.rfind("\", expected ")) {
        (Some(begin), Some(end)) if begin < end => format!("{}string{}", &text[..begin], &text[end + 1..]),
        _ => text,
    };
    ModelError::transient(format!("the provider sent a malformed {what}: {wrong}"))
}

/// The error for data that cannot be read as `what`: the provider's error, if it is one.
pub(super) fn unreadable(what: &str, json: &str, error: &serde_json::Error) -> ReadError {
    ErrorObject::in_answer(json).map_or_else(|| malformed(what, error).into(), ReadError::Said)
}

/// The error for other JSON in place of an answer: which form it does not have, what it lacks, whose API is needed.
pub(super) fn unrelated(what: &str, lacks: &str, api: &str) -> ModelError {
    ModelError::permanent(format!(
        "the provider answered with JSON that is no {what}: it has {lacks}; is `base_url` that of a server with the \
         {api} API?"
    ))
}
