//! What a provider says of an answer that genai does not pass on.

use std::sync::{Arc, Mutex, PoisonError};

use ::genai::chat::ChatOptions;
use serde::Deserialize;

use crate::http::ErrorObject;

/// Why there is no more of an answer.
#[derive(Debug)]
pub(super) enum Said {
    /// Ollama failed in the middle of it.
    Error(ErrorObject),
    /// Gemini blocked the prompt.
    Blocked,
}

/// Listens to the events of one answer as they come.
#[derive(Default)]
pub(super) struct Heard(Arc<Mutex<Option<Said>>>);

#[derive(Deserialize)]
struct Event {
    #[serde(rename = "promptFeedback")]
    feedback: Option<Feedback>,
}

#[derive(Deserialize)]
struct Feedback {
    #[serde(rename = "blockReason")]
    block_reason: Option<String>,
}

impl Heard {
    /// These options, with which it listens.
    pub(super) fn listening(&self, options: ChatOptions) -> ChatOptions {
        let heard = self.0.clone();
        options.with_raw_frame_fn(move |_, frame| {
            if let Some(said) = read(frame.data) {
                *heard.lock().unwrap_or_else(PoisonError::into_inner) = Some(said);
            }
        })
    }

    pub(super) fn said(&self) -> Option<Said> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).take()
    }
}

fn read(data: &str) -> Option<Said> {
    if data.contains("\"blockReason\"") {
        let event: Event = serde_json::from_str(data).ok()?;
        return event.feedback?.block_reason.map(|_| Said::Blocked);
    }
    if data.contains("\"error\"") { ErrorObject::in_answer(data).map(Said::Error) } else { None }
}
