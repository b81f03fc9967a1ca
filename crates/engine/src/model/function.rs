//! A model in this process: an async function of the conversation, for custom models and for tests.

use std::{fmt::Display, sync::Arc};

use countersign_core::conversation::Message;
use futures::{FutureExt as _, StreamExt as _, stream, stream::BoxStream};
use serde::Serialize;

use super::{Model, ModelError, ModelEvent, ModelRequest, TakesImages};

/// A function's answer: text, tool calls, or both.
///
/// ```
/// # use countersign_engine::model::ModelResponse;
/// let answer = ModelResponse::text("Let me see.").call("get_weather", &serde_json::json!({ "city": "Hue" }));
/// ```
#[derive(Clone, Debug, Default)]
pub struct ModelResponse {
    text: String,
    /// Tools and arguments.
    calls: Vec<(String, Result<String, String>)>,
}

impl ModelResponse {
    /// An answer that is this text.
    pub fn text(text: impl Into<String>) -> ModelResponse {
        ModelResponse { text: text.into(), calls: Vec::new() }
    }

    /// Adds a tool call. If its arguments cannot be serialised as JSON, the model call fails.
    #[must_use]
    pub fn call(mut self, tool: impl Into<String>, args: &impl Serialize) -> ModelResponse {
        self.calls.push((tool.into(), serde_json::to_string(args).map_err(|error| error.to_string())));
        self
    }

    fn events(self) -> Result<Vec<ModelEvent>, ModelError> {
        let mut events = vec![ModelEvent::Text(self.text)];
        for (name, args) in self.calls {
            let args = args.map_err(|error| ModelError::permanent(format!("the arguments of {name:?}: {error}")))?;
            events.extend([ModelEvent::ToolUse { id: String::new(), name }, ModelEvent::Input(args)]);
        }
        events.push(ModelEvent::Stop);
        Ok(events)
    }
}

/// Types that a model function may return: a [`ModelResponse`], a text, or a `Result` of either. An error fails the
/// model call without a retry.
pub trait IntoAnswer {
    /// The answer.
    ///
    /// # Errors
    /// The error that the function returned.
    fn into_answer(self) -> Result<ModelResponse, ModelError>;
}

impl IntoAnswer for ModelResponse {
    fn into_answer(self) -> Result<ModelResponse, ModelError> {
        Ok(self)
    }
}

impl IntoAnswer for &str {
    fn into_answer(self) -> Result<ModelResponse, ModelError> {
        Ok(ModelResponse::text(self))
    }
}

impl IntoAnswer for String {
    fn into_answer(self) -> Result<ModelResponse, ModelError> {
        Ok(ModelResponse::text(self))
    }
}

impl<A: IntoAnswer, E: Display> IntoAnswer for Result<A, E> {
    fn into_answer(self) -> Result<ModelResponse, ModelError> {
        self.map_err(|error| ModelError::permanent(error.to_string()))?.into_answer()
    }
}

/// An async function of the conversation is a model named `function`; for another name, pass a pair: `("mine", model)`.
///
/// ```
/// # use countersign_core::conversation::Message;
/// # use countersign_engine::model::{ModelResponse, Model};
/// let adds = |messages: Vec<Message>| async move {
///     match messages.last() {
///         Some(Message::ToolResult(sum)) => ModelResponse::text(format!("It is {}.", sum.text)),
///         _ => ModelResponse::default().call("add", &serde_json::json!({ "a": 2, "b": 3 })),
///     }
/// };
/// assert_eq!(adds.name(), "function");
/// ```
impl<F, Fut, A> Model for F
where
    F: Fn(Vec<Message>) -> Fut + Clone + Send + Sync + 'static,
    Fut: Future<Output = A> + Send + 'static,
    A: IntoAnswer + 'static,
{
    fn call(&self, request: ModelRequest) -> BoxStream<'static, Result<ModelEvent, ModelError>> {
        let answers = self.clone();
        let answer = async move {
            let messages = request.conversation.messages().await?;
            let answer = answers(Arc::unwrap_or_clone(messages)).await.into_answer();
            answer.and_then(ModelResponse::events)
        };
        let events = answer.map(|events| match events {
            Ok(events) => events.into_iter().map(Ok).collect(),
            Err(error) => vec![Err(error)],
        });
        events.map(stream::iter).flatten_stream().boxed()
    }

    fn name(&self) -> &str {
        "function"
    }

    /// It gets the messages unchanged.
    fn images(&self) -> TakesImages {
        TakesImages::All
    }
}
