//! The server's log, and the spans of its runs.

use std::{fmt, io::IsTerminal as _};

use countersign_server::config::{Config, LogFormat};
use tracing::field::Field;
use tracing_subscriber::{
    EnvFilter, Layer, Registry,
    field::MakeExt as _,
    fmt::format::{FormatFields, Writer, debug_fn},
    layer::SubscriberExt as _,
    util::SubscriberInitExt as _,
};

use crate::terminal::visible;

/// The default filter of a server. The MCP client, and the genai crate, print foreign input unchanged, secrets and
/// megabytes included, even in warnings and errors; this program logs what operators need of it.
const INFO: &str = "info,rmcp=off,genai=off";
/// The same, for other commands.
const WARN: &str = "warn,rmcp=off,genai=off";
/// How much of a field is printed in a line, in bytes.
const FIELD_BYTES: usize = 8 * 1024;

/// Where the log goes.
type Log = Box<dyn Layer<Registry> + Send + Sync>;

/// Exports spans, if configured.
pub(crate) struct Traces {
    #[cfg(feature = "otlp")]
    otlp: Option<(countersign_runtime::otlp::Traces, countersign_runtime::otlp::Sending)>,
}

/// Starts the log, and the export of spans if configured.
pub(crate) fn log(config: &Config) -> Result<Traces, String> {
    let lines =
        tracing_subscriber::fmt::layer().with_ansi(std::io::stderr().is_terminal()).with_writer(std::io::stderr);
    let log = match config.tracing.log_format {
        LogFormat::Text => lines.fmt_fields(fields()).boxed(),
        // The fields of spans are for collectors.
        LogFormat::Json => lines.json().flatten_event(true).with_current_span(false).with_span_list(false).boxed(),
    };
    begin(config, log.with_filter(filter(INFO)?).boxed())
}

/// Prints warnings, and starts the export of spans if configured: for a server in a terminal that people type in.
pub(crate) fn beside_a_prompt(config: &Config) -> Result<Traces, String> {
    begin(config, lines()?)
}

/// Prints warnings, for a command that serves nothing.
pub(crate) fn warnings() -> Result<(), String> {
    tracing_subscriber::registry().with(lines()?).init();
    Ok(())
}

/// Warnings, a line each.
fn lines() -> Result<Log, String> {
    let lines = tracing_subscriber::fmt::layer().without_time().with_target(false);
    let lines = lines.with_ansi(std::io::stderr().is_terminal()).with_writer(std::io::stderr).fmt_fields(fields());
    Ok(lines.with_filter(filter(WARN)?).boxed())
}

/// The fields of a line. They contain foreign texts, such as errors of providers: none may look like a separate line,
/// or control the terminal that shows it.
fn fields() -> impl for<'w> FormatFields<'w> + Send + Sync + 'static {
    let field = |writer: &mut Writer<'_>, field: &Field, value: &dyn fmt::Debug| {
        let value = visible(&beginning(value));
        match field.name() {
            "message" => write!(writer, "{}", value.replace('\n', "\n    ")),
            name => write!(writer, "{name}={}", value.replace('\n', "\\n")),
        }
    };
    debug_fn(field).delimited(" ")
}

/// A field's text, cut where it is too long: it is not even written beyond that.
fn beginning(value: &dyn fmt::Debug) -> String {
    let mut room = Room(String::new());
    if fmt::Write::write_fmt(&mut room, format_args!("{value:?}")).is_err() {
        room.0.push_str(" […]");
    }
    room.0
}

/// A text that takes no more than [`FIELD_BYTES`].
struct Room(String);

impl fmt::Write for Room {
    fn write_str(&mut self, text: &str) -> fmt::Result {
        let part = &text[..text.floor_char_boundary(FIELD_BYTES - self.0.len().min(FIELD_BYTES))];
        self.0.push_str(part);
        if part.len() == text.len() { Ok(()) } else { Err(fmt::Error) }
    }
}

/// The filter: this default, with `RUST_LOG` on top of it.
fn filter(default: &str) -> Result<EnvFilter, String> {
    let given = std::env::var_os(EnvFilter::DEFAULT_ENV).unwrap_or_default();
    given.to_str().and_then(|given| filter_with(default, given)).ok_or_else(|| {
        "RUST_LOG is not a filter of the log: give a level, such as warn, or info,countersign_server=debug".to_owned()
    })
}

/// This filter with those directives in place of its own for the same targets. Other targets keep their levels: a
/// misspelt level, which reads like the name of a module, silences nothing, and what is off stays off unless it is
/// named. `None` if `given` is no filter.
fn filter_with(default: &str, given: &str) -> Option<EnvFilter> {
    let given = given.trim().trim_matches(',');
    let filter = if given.is_empty() { default.to_owned() } else { format!("{default},{given}") };
    EnvFilter::try_new(filter).ok()
}

fn begin(config: &Config, log: Log) -> Result<Traces, String> {
    let subscriber = tracing_subscriber::registry().with(log);
    #[cfg(feature = "otlp")]
    let (subscriber, traces) = {
        let otlp = config.tracing.otlp_endpoint.as_deref().map(countersign_runtime::otlp::traces).transpose();
        let otlp = otlp.map_err(|error| format!("\"otlp_endpoint\" in [tracing] {error}"))?;
        (subscriber.with(otlp.as_ref().map(|(traces, _)| traces.layer())), Traces { otlp })
    };
    #[cfg(not(feature = "otlp"))]
    // A configuration with an endpoint was refused.
    let traces = {
        let _ = &config.tracing;
        Traces {}
    };
    subscriber.init();
    Ok(traces)
}

impl Traces {
    /// Exports spans while a future runs, and the remaining ones afterwards.
    #[cfg(feature = "otlp")]
    pub(crate) async fn send_while<T>(self, going_on: impl Future<Output = T>) -> T {
        /// How long to wait for a collector at the end.
        const LAST: std::time::Duration = std::time::Duration::from_secs(2);
        let Some((traces, sending)) = self.otlp else { return going_on.await };
        tokio::spawn(sending.run());
        let ended = going_on.await;
        if tokio::time::timeout(LAST, traces.flush()).await.is_err() {
            tracing::warn!("the last spans could not be sent in time");
        }
        ended
    }

    #[cfg(not(feature = "otlp"))]
    pub(crate) async fn send_while<T>(self, going_on: impl Future<Output = T>) -> T {
        going_on.await
    }
}

#[cfg(test)]
mod tests {
    use std::{
        io::{self, Write},
        sync::{Arc, Mutex},
    };

    use super::*;

    #[derive(Clone, Default)]
    struct Written(Arc<Mutex<Vec<u8>>>);

    impl Write for Written {
        fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
            self.0.lock().unwrap().write(bytes)
        }
        fn flush(&mut self) -> io::Result<()> {
            Ok(())
        }
    }

    #[test]
    fn x_the_log_of_a_server_has_nothing_that_mcp_servers_and_providers_say_of_themselves() {
        let written = Written::default();
        let to = written.clone();
        let lines = tracing_subscriber::fmt::layer().with_ansi(false).with_writer(move || to.clone());
        let subscriber = tracing_subscriber::registry().with(lines.with_filter(EnvFilter::new(INFO)));
        tracing::subscriber::with_default(subscriber, || {
            tracing::info!(target: "rmcp::service", peer_info = "instructions", "Service initialized as client");
            tracing::warn!(target: "rmcp::service::client", notification = "instructions", "unexpected message");
            tracing::error!(target: "rmcp::transport", "instructions");
            tracing::error!(target: "genai::adapter::adapters::gemini::streamer", "instructions");
            tracing::info!("what the server itself says");
        });
        let text = String::from_utf8(written.0.lock().unwrap().clone()).unwrap();
        assert!(!text.contains("instructions"), "{text}");
        assert!(text.contains("what the server itself says"), "{text}");
    }

    #[test]
    fn x_a_filter_of_ones_own_does_not_turn_on_what_mcp_servers_say_or_silence_warnings_by_mistake() {
        let told = |given: &str| {
            let written = Written::default();
            let to = written.clone();
            let lines = tracing_subscriber::fmt::layer().with_ansi(false).with_writer(move || to.clone());
            let filter = filter_with(INFO, given).expect("a filter");
            let subscriber = tracing_subscriber::registry().with(lines.with_filter(filter));
            tracing::subscriber::with_default(subscriber, || {
                tracing::warn!(target: "rmcp::transport::worker", "challenge");
                tracing::warn!(target: "countersign_server", "warning");
                tracing::debug!(target: "countersign_server", "detail");
            });
            let text = String::from_utf8(written.0.lock().unwrap().clone()).unwrap();
            ["challenge", "warning", "detail"].map(|what| text.contains(what))
        };
        for (given, expected) in [
            ("", [false, true, false]),
            (" ,", [false, true, false]),
            ("trace", [false, true, true]),
            ("debug,hyper=info", [false, true, true]),
            ("countersign_server=debug", [false, true, true]),
            ("wran", [false, true, false]),
            ("off", [false, false, false]),
            ("error", [false, false, false]),
            ("warn,rmcp=warn", [true, true, false]),
            ("rmcp::transport=warn", [true, true, false]),
        ] {
            assert_eq!(told(given), expected, "{given}");
        }
        for wrong in ["info,a=lolwut", "a=b=c", "warn,=,"] {
            assert!(filter_with(INFO, wrong).is_none(), "{wrong}");
        }
    }

    #[test]
    fn x_a_long_text_of_others_is_cut_in_a_line_of_the_log() {
        let written = Written::default();
        let to = written.clone();
        let lines = tracing_subscriber::fmt::layer().with_ansi(false).with_writer(move || to.clone());
        let subscriber = tracing_subscriber::registry().with(lines.fmt_fields(fields()));
        tracing::subscriber::with_default(subscriber, || {
            let error = "ơ".repeat(1 << 20);
            tracing::warn!(%error, "it failed: {error}");
            tracing::warn!("{}", "x".repeat(FIELD_BYTES));
        });
        let text = String::from_utf8(written.0.lock().unwrap().clone()).unwrap();
        assert!(text.len() < 4 * FIELD_BYTES, "{}", text.len());
        assert_eq!(text.matches(" […]").count(), 2, "what fits is not cut");
    }

    #[test]
    fn x_no_text_of_others_looks_like_a_line_of_the_log_or_commands_a_terminal() {
        let written = Written::default();
        let to = written.clone();
        let lines = tracing_subscriber::fmt::layer().with_ansi(false).with_writer(move || to.clone());
        let subscriber = tracing_subscriber::registry().with(lines.fmt_fields(fields()));
        tracing::subscriber::with_default(subscriber, || {
            let error = "oops\n2026-01-01T00:00:00Z  INFO forged\r\u{1b}[31m";
            tracing::warn!(%error, session = "s\n1", attempt = 2, "it failed: {error}");
        });
        let text = String::from_utf8(written.0.lock().unwrap().clone()).unwrap();
        assert_eq!(text.lines().filter(|line| !line.starts_with("    ")).count(), 1, "{text}");
        assert!(!text.contains(['\r', '\u{1b}']), "{text:?}");
        assert!(text.contains(" error=oops\\n2026-01-01T00:00:00Z") && text.contains("attempt=2"), "{text}");
        assert!(text.contains(r#"session="s\n1""#), "{text}");
    }
}
