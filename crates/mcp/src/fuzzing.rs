//! Parses the output of an MCP server's program without running one.

use futures::FutureExt as _;
use rmcp::{
    model::{CallToolResult, JsonRpcMessage},
    transport::Transport as _,
};

use super::{pipes::Pipes, result};

/// One message.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Line {
    /// The result of a call, as the model gets it: `Err` if the server reports a failure.
    Result(Result<String, String>),
    /// An error, with the server's text or ours.
    Error(String),
    /// Anything else.
    Other,
}

/// The messages in a program's output.
pub fn lines(written: &[u8]) -> Vec<Line> {
    let mut pipes = Pipes::new(written, tokio::io::sink(), std::sync::Arc::default());
    // Nothing is awaited: all of it is there.
    let mut next = || pipes.receive().now_or_never().flatten();
    let mut lines = Vec::new();
    while let Some(message) = next() {
        lines.push(match message {
            JsonRpcMessage::Response(response) => {
                let value = serde_json::to_value(&response.result).unwrap_or_default();
                match serde_json::from_value::<CallToolResult>(value) {
                    Ok(called) => Line::Result(result::text(&called)),
                    Err(_) => Line::Other,
                }
            }
            JsonRpcMessage::Error(error) => Line::Error(error.error.message.into_owned()),
            _ => Line::Other,
        });
    }
    lines
}
