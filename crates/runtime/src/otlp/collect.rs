//! Collects spans of the `tracing` crate until they end.

use std::{
    borrow::Cow,
    fmt,
    time::{SystemTime, UNIX_EPOCH},
};

use serde_json::Value;
use tracing::{
    Event, Subscriber,
    field::{Field, Visit},
    span::{Attributes, Id, Record},
};
use tracing_subscriber::{Layer, layer::Context, registry::LookupSpan};

use super::{ATTRIBUTE_BYTES, Finished, Happened, Traces};

/// See [`Traces::layer`].
pub(super) struct Collector {
    traces: Traces,
}

impl Collector {
    pub(super) fn new(traces: Traces) -> Collector {
        Collector { traces }
    }
}

/// Nanoseconds since 1970.
fn now() -> u128 {
    SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |since| since.as_nanos())
}

/// A unique span id of 16 hexadecimal digits.
fn fresh() -> String {
    // The second half of a version 7 UUID is random, except for two bits.
    format!("{:016x}", uuid::Uuid::now_v7().as_u64_pair().1)
}

/// The recorded fields of a span or an event.
#[derive(Default)]
struct Fields(Vec<(&'static str, Value)>);

impl Fields {
    fn put(&mut self, field: &Field, value: Value) {
        let name = field.name();
        match self.0.iter_mut().find(|(known, _)| *known == name) {
            Some((_, old)) => *old = value,
            None => self.0.push((name, value)),
        }
    }

    /// Takes out a field that is not an attribute.
    fn take(&mut self, name: &str) -> Option<String> {
        let at = self.0.iter().position(|(known, _)| *known == name)?;
        match self.0.remove(at).1 {
            Value::String(text) => Some(text),
            other => Some(other.to_string()),
        }
    }
}

/// A text as it is kept: its beginning, if it is long.
fn cut(text: &str) -> Cow<'_, str> {
    if text.len() <= ATTRIBUTE_BYTES {
        return text.into();
    }
    let mark = format!("… (cut: {} bytes)", text.len());
    let end = text.floor_char_boundary(ATTRIBUTE_BYTES - mark.len());
    format!("{}{mark}", &text[..end]).into()
}

impl Visit for Fields {
    fn record_debug(&mut self, field: &Field, value: &dyn fmt::Debug) {
        self.record_str(field, &format!("{value:?}"));
    }
    fn record_str(&mut self, field: &Field, value: &str) {
        self.put(field, cut(value).into());
    }
    fn record_u64(&mut self, field: &Field, value: u64) {
        self.put(field, value.into());
    }
    fn record_i64(&mut self, field: &Field, value: i64) {
        self.put(field, value.into());
    }
    fn record_bool(&mut self, field: &Field, value: bool) {
        self.put(field, value.into());
    }
    fn record_f64(&mut self, field: &Field, value: f64) {
        self.put(field, value.into());
    }
}

/// An open span.
struct Open {
    /// Determined when the first child needs them or the span ends: some are recorded only after its start.
    ids: Option<Ids>,
    parent: Option<Id>,
    start: u128,
    fields: Fields,
    events: Vec<Happened>,
}

#[derive(Clone)]
struct Ids {
    trace: String,
    span: String,
    parent: Option<String>,
    link: Option<String>,
}

impl<S: Subscriber + for<'a> LookupSpan<'a>> Layer<S> for Collector {
    fn on_new_span(&self, attributes: &Attributes<'_>, id: &Id, context: Context<'_, S>) {
        let Some(span) = context.span(id) else { return };
        let mut fields = Fields::default();
        attributes.record(&mut fields);
        let parent = span.parent().map(|parent| parent.id());
        let mut open = Open { ids: None, parent, start: now(), fields, events: Vec::new() };
        if open.parent.is_some() {
            ids(&mut open, &context);
        }
        span.extensions_mut().insert(open);
    }

    fn on_record(&self, id: &Id, values: &Record<'_>, context: Context<'_, S>) {
        let Some(span) = context.span(id) else { return };
        if let Some(open) = span.extensions_mut().get_mut::<Open>() {
            values.record(&mut open.fields);
        }
    }

    fn on_event(&self, event: &Event<'_>, context: Context<'_, S>) {
        let Some(span) = context.event_span(event) else { return };
        let mut fields = Fields::default();
        event.record(&mut fields);
        let name = fields.take("otel.name").unwrap_or_else(|| event.metadata().name().to_owned());
        if let Some(open) = span.extensions_mut().get_mut::<Open>() {
            open.events.push(Happened { name, at: now(), attributes: fields.0 });
        }
    }

    fn on_close(&self, id: Id, context: Context<'_, S>) {
        let Some(span) = context.span(&id) else { return };
        let Some(mut open) = span.extensions_mut().remove::<Open>() else { return };
        let Some(Ids { trace, span: span_id, parent, link }) = ids(&mut open, &context) else { return };
        let name = open.fields.take("otel.name").unwrap_or_else(|| span.metadata().name().to_owned());
        let client = open.fields.take("otel.kind").is_some_and(|kind| kind == "client");
        self.traces.give(Finished {
            trace_id: trace,
            span_id,
            parent_id: parent,
            link,
            name,
            client,
            start: open.start,
            end: now(),
            attributes: open.fields.0,
            events: open.events,
        });
    }
}

/// The ids of a span: those of a turn's first span are recorded fields, all others belong to the parent's trace.
fn ids<S: Subscriber + for<'a> LookupSpan<'a>>(open: &mut Open, context: &Context<'_, S>) -> Option<Ids> {
    if open.ids.is_none() {
        let own = |trace, span, parent: Option<String>, link| Ids { trace, span, parent, link };
        let above = open.parent.as_ref().and_then(|parent| context.span(parent));
        open.ids = match above {
            Some(above) => {
                let mut extensions = above.extensions_mut();
                let above = ids(extensions.get_mut::<Open>()?, context)?;
                Some(own(above.trace, fresh(), Some(above.span), None))
            }
            None => {
                let trace = open.fields.take("countersign.trace_id")?;
                let span = open.fields.take("countersign.span_id").unwrap_or_else(fresh);
                let first = open.fields.take("countersign.first_span_id");
                Some(own(trace, span, first.clone(), first))
            }
        };
    }
    open.ids.clone()
}
