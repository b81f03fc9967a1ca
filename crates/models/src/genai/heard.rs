//! Statements of a provider about an answer that genai does not pass on.

use std::sync::{
    Arc, Mutex, PoisonError,
    atomic::{AtomicUsize, Ordering},
};

use ::genai::chat::ChatOptions;
use countersign_core::journal::record::Usage;
use serde::Deserialize;

use crate::{
    http::ErrorObject,
    reading::{self, Count},
};

/// Why there is no more of an answer.
#[derive(Debug)]
pub(super) enum Said {
    /// Ollama failed in the middle of it.
    Error(ErrorObject),
    /// Gemini blocked the prompt, which has used this many tokens.
    Blocked(Option<Usage>),
}

/// Listens to the events of one answer as they come.
#[derive(Default)]
pub(super) struct Heard(Arc<Kept>);

#[derive(Default)]
struct Kept {
    said: Mutex<Option<Said>>,
    /// The bytes of the events since they were last asked for.
    bytes: AtomicUsize,
}

#[derive(Deserialize)]
struct Event {
    #[serde(rename = "promptFeedback")]
    feedback: Option<Feedback>,
    #[serde(rename = "usageMetadata")]
    tokens: Option<Tokens>,
}

#[derive(Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
struct Tokens {
    prompt_token_count: Count,
    candidates_token_count: Count,
}

#[derive(Deserialize)]
struct Feedback {
    #[serde(rename = "blockReason")]
    block_reason: Option<String>,
}

impl Heard {
    /// Adds to the options a callback that reads each raw frame of the answer and keeps what [`Heard::said`] returns.
    pub(super) fn listening(&self, options: ChatOptions) -> ChatOptions {
        let heard = self.0.clone();
        options.with_raw_frame_fn(move |_, frame| {
            heard.bytes.fetch_add(frame.data.len(), Ordering::Relaxed);
            if let Some(said) = read(frame.data) {
                *heard.said.lock().unwrap_or_else(PoisonError::into_inner) = Some(said);
            }
        })
    }

    pub(super) fn said(&self) -> Option<Said> {
        self.0.said.lock().unwrap_or_else(PoisonError::into_inner).take()
    }

    /// The bytes that have come since the last time.
    pub(super) fn bytes(&self) -> usize {
        self.0.bytes.swap(0, Ordering::Relaxed)
    }
}

fn read(data: &str) -> Option<Said> {
    if data.contains("\"blockReason\"") {
        let event: Event = serde_json::from_str(data).ok()?;
        event.feedback?.block_reason?;
        let Tokens { prompt_token_count: read, candidates_token_count: written } = event.tokens.unwrap_or_default();
        return Some(Said::Blocked(reading::usage((read, written), (None, None))));
    }
    if data.contains("\"error\"") { ErrorObject::in_answer(data).map(Said::Error) } else { None }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn s22_a_prompt_that_gemini_blocked_counts_its_tokens() {
        let blocked = |rest: &str| read(&format!(r#"{{"promptFeedback":{{"blockReason":"SAFETY"}}{rest}}}"#));
        for (rest, want) in [
            (r#","usageMetadata":{"promptTokenCount":5}"#, Some((5, 0))),
            (r#","usageMetadata":{"promptTokenCount":5,"candidatesTokenCount":2}"#, Some((5, 2))),
            (r#","usageMetadata":{}"#, None),
            (r#","usageMetadata":null"#, None),
            ("", None),
        ] {
            let Some(Said::Blocked(usage)) = blocked(rest) else { panic!("not blocked: {rest}") };
            assert_eq!(usage.map(|usage| (usage.input_tokens, usage.output_tokens)), want, "{rest}");
        }
    }
}
