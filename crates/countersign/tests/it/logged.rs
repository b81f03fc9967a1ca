//! What a test's thread logs.

use std::{
    fmt,
    sync::{Arc, Mutex},
};

use tracing::{Event, Level, Subscriber, field::Visit, subscriber::DefaultGuard};
use tracing_subscriber::{Layer, layer::Context, layer::SubscriberExt as _};

/// Everything that this thread logs from now on, at every level that operators see by default: a line for each event.
pub struct Log {
    lines: Lines,
    _default: DefaultGuard,
}

#[derive(Clone, Default)]
struct Lines(Arc<Mutex<String>>);

impl Log {
    pub fn start() -> Log {
        let lines = Lines::default();
        let subscriber = tracing_subscriber::registry().with(lines.clone());
        Log { lines, _default: tracing::subscriber::set_default(subscriber) }
    }

    pub fn text(&self) -> String {
        self.lines.0.lock().expect("log").clone()
    }
}

impl Visit for Lines {
    fn record_debug(&mut self, field: &tracing::field::Field, value: &dyn fmt::Debug) {
        self.0.lock().expect("log").push_str(&format!("{field}={value:?} "));
    }
}

impl<S: Subscriber> Layer<S> for Lines {
    fn on_event(&self, event: &Event<'_>, _: Context<'_, S>) {
        if *event.metadata().level() <= Level::INFO {
            event.record(&mut self.clone());
            self.0.lock().expect("log").push('\n');
        }
    }
}
