//! `[tracing]`: how the log is written, where spans are sent, and what they contain (spec S22).

use super::table::{boolean, choice, text};

/// How the log is written.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum LogFormat {
    /// Lines for people.
    #[default]
    Text,
    /// A JSON object a line.
    Json,
}

table! {
    /// The log and the spans.
    #[derive(Clone, Debug, Default, PartialEq, Eq)]
    pub struct ConfigTracing(section) {
        /// How the [log](operations.md#logs) is written.
        log_format: LogFormat = choice("format", vec![("text", LogFormat::Text), ("json", LogFormat::Json)])
            .or_as("`\"text\"`", LogFormat::default);
        /// Where spans are sent: the full address of an OpenTelemetry collector, for OTLP over HTTP in JSON, such as
        /// `http://127.0.0.1:4318/v1/traces`, without user and password. Needs a build with `--features otlp`; others
        /// refuse it.
        otlp_endpoint: Option<String> = text().try_map(endpoint).optional("nowhere");
        /// Whether spans contain the arguments and results of calls and the models' answers. Of a longer text they
        /// contain the first 64 KiB.
        content: bool = boolean().or(false);
    }
}

#[cfg(feature = "otlp")]
fn endpoint(endpoint: String) -> Result<String, String> {
    countersign_runtime::otlp::check(&endpoint).map(|()| endpoint).map_err(|error| error.to_string())
}

#[cfg(not(feature = "otlp"))]
fn endpoint(_: String) -> Result<String, String> {
    Err("cannot be used in this build (it was built without the feature \"otlp\"); build it with --features otlp, or \
         take it out"
        .to_owned())
}
