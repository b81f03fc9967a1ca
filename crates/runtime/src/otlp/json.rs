//! The OTLP JSON encoding: ids in hexadecimal digits, integers and times as strings.

use serde_json::{Value, json};

use super::{Finished, Happened};

/// The body of one request.
pub(super) fn request(spans: &[Finished]) -> Value {
    let resource = attributes(&[("service.name", json!("countersign"))]);
    let scope = json!({ "name": "countersign", "version": env!("CARGO_PKG_VERSION") });
    let spans: Vec<Value> = spans.iter().map(span).collect();
    json!({ "resourceSpans": [{
        "resource": { "attributes": resource },
        "scopeSpans": [{ "scope": scope, "spans": spans }],
    }] })
}

fn span(span: &Finished) -> Value {
    // 1: internal, 3: client.
    let kind = if span.client { 3 } else { 1 };
    let failed = span.attributes.iter().any(|(key, _)| *key == "error.type");
    let links: Vec<Value> = span.link.iter().map(|link| json!({ "traceId": span.trace_id, "spanId": link })).collect();
    json!({
        "traceId": span.trace_id,
        "spanId": span.span_id,
        "parentSpanId": span.parent_id.as_deref().unwrap_or_default(),
        "name": span.name,
        "kind": kind,
        "startTimeUnixNano": span.start.to_string(),
        "endTimeUnixNano": span.end.to_string(),
        "attributes": attributes(&span.attributes),
        "events": span.events.iter().map(event).collect::<Vec<_>>(),
        "links": links,
        "status": if failed { json!({ "code": 2 }) } else { json!({}) },
    })
}

fn event(event: &Happened) -> Value {
    json!({
        "timeUnixNano": event.at.to_string(),
        "name": event.name,
        "attributes": attributes(&event.attributes),
    })
}

fn attributes(all: &[(&'static str, Value)]) -> Vec<Value> {
    let typed = |value: &Value| match value {
        Value::Bool(yes) => json!({ "boolValue": yes }),
        Value::Number(number) if number.is_f64() => json!({ "doubleValue": number }),
        // A larger one is none of the format's integers, and a collector would refuse the whole request.
        Value::Number(number) => json!({ "intValue": number.as_i64().unwrap_or(i64::MAX).to_string() }),
        Value::String(text) => json!({ "stringValue": text }),
        other => json!({ "stringValue": other.to_string() }),
    };
    all.iter().map(|(key, value)| json!({ "key": key, "value": typed(value) })).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn s22_a_count_that_is_larger_than_the_formats_integers_costs_no_other_span() {
        for (count, told) in [(u64::MAX, "9223372036854775807"), (1 << 63, "9223372036854775807"), (7, "7")] {
            let told = json!([{ "key": "tokens", "value": { "intValue": told } }]);
            assert_eq!(json!(attributes(&[("tokens", json!(count))])), told);
        }
        let below = json!([{ "key": "left", "value": { "intValue": "-9223372036854775808" } }]);
        assert_eq!(json!(attributes(&[("left", json!(i64::MIN))])), below);
    }
}
