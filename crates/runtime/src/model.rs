//! Models: the trait, and its implementations for providers. An async function of the conversation is a model too:
//!
//! ```
//! use countersign::{Agent, Message, model::Answer, run, tool};
//!
//! /// Adds.
//! #[tool]
//! async fn add(a: i64, b: i64) -> i64 {
//!     a + b
//! }
//!
//! # tokio::runtime::Builder::new_current_thread().enable_all().build()?.block_on(async {
//! let agent = Agent::new("Adder", |messages: Vec<Message>| async move {
//!     match messages.last() {
//!         Some(Message::ToolResult(sum)) => Answer::text(format!("It is {}.", sum.text)),
//!         _ => Answer::default().call("add", &serde_json::json!({ "a": 2, "b": 3 })),
//!     }
//! })
//! .tool(add);
//! assert_eq!(run(&agent, "How much is 2 + 3?").await?.final_output, "It is 5.");
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! # })?;
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```

pub use countersign_engine::{key::ApiKey, model::*, tool::ToolSpec};
#[cfg(feature = "genai")]
pub use countersign_models::genai;
pub use countersign_models::{COMPATIBLE_PROVIDERS, GENAI_PROVIDERS, default_base_url, default_images, scripted};
#[cfg(feature = "http")]
pub use countersign_models::{anthropic, openai, openai_chat, sse};
