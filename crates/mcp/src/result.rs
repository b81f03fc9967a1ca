//! Converts a server's result into text for the model.

use std::borrow::Cow;

use countersign_core::{plain::as_plain, values::Values};
use rmcp::model::{CallToolResult, ContentBlock, CustomResult, ResourceContents, ServerResult};
use serde_json::{Value, json};

use super::digits;

/// How much of an error is passed on, in characters.
pub(super) const ERROR_CHARS: usize = 2000;
/// How much of the name, type or address of described content, in characters.
const LABEL_CHARS: usize = 200;
/// The kinds of content that the protocol has.
const KINDS: [&str; 5] = ["text", "image", "audio", "resource", "resource_link"];
/// Replaces any other kind.
const UNKNOWN: &str = "[content of an unknown kind]";

/// The result as text: texts unchanged, structured content as JSON, everything else as a line with its kind and size.
/// `Err` if the server reports a failure.
pub(super) fn text(result: &CallToolResult) -> Result<String, String> {
    let blocks: Vec<Cow<'_, str>> = result.content.iter().map(block).collect();
    let mut text = blocks.join("\n");
    if let Some(structured) = &result.structured_content {
        let texts = result.content.iter().all(|block| matches!(block, ContentBlock::Text(_)));
        if !(texts && is_said(&blocks, &text, structured)) {
            if !text.is_empty() {
                text.push('\n');
            }
            text.push_str(&as_plain(structured).to_string());
        }
    }
    if result.is_error == Some(true) { Err(text) } else { Ok(text) }
}

/// A call's result that the protocol's library does not recognise: it is empty, or has content of unknown kinds, each
/// replaced by a text that says so. `None` for anything else.
pub(super) fn read(result: ServerResult) -> Option<CallToolResult> {
    let mut value = match result {
        ServerResult::EmptyResult(_) | ServerResult::TaskAckResult(_) => json!({}),
        ServerResult::CustomResult(CustomResult(value)) => value,
        _ => return None,
    };
    let members = value.as_object_mut()?;
    if let Some(Value::Array(blocks)) = members.get_mut("content") {
        for block in blocks {
            if block["type"].as_str().is_some_and(|kind| !KINDS.contains(&kind)) {
                *block = json!({ "type": "text", "text": UNKNOWN });
            }
        }
    } else if members.iter().all(|(name, value)| matches!(&**name, "resultType" | "_meta") || value.is_null()) {
        members.insert("content".to_owned(), json!([]));
    }
    serde_json::from_value(value).ok()
}

/// Whether the texts say exactly what the structured content does. Servers should write it into a text, too; those
/// whose tools do not return an object wrap it as `result`, and write each item of a list into a separate text.
fn is_said(blocks: &[Cow<'_, str>], text: &str, structured: &Value) -> bool {
    if is(text, structured) {
        return true;
    }
    let wrapped = structured.as_object().filter(|members| members.len() == 1).and_then(|members| members.get("result"));
    wrapped.is_some_and(|result| match result {
        Value::Null => blocks.is_empty(),
        Value::Array(items) => {
            is(text, result)
                || items.len() == blocks.len() && items.iter().zip(blocks).all(|(item, block)| is(block, item))
        }
        result => is(text, result),
    })
}

/// Whether a text is this value: a string unchanged, or JSON, with its numbers as far as the value has kept them.
fn is(text: &str, value: &Value) -> bool {
    if value.as_str() == Some(text) {
        return true;
    }
    // The message was counted, and in it this is one value.
    if Values::are_too_many_in(text) {
        return false;
    }
    let json = digits::as_strings(text);
    serde_json::from_str::<Value>(json.as_deref().unwrap_or(text)).is_ok_and(|said| as_plain(&said) == as_plain(value))
}

fn block(block: &ContentBlock) -> Cow<'_, str> {
    let described = match block {
        ContentBlock::Text(text) => return Cow::Borrowed(&text.text),
        ContentBlock::Image(image) => media("image", &image.mime_type, &image.data),
        ContentBlock::Audio(audio) => media("audio", &audio.mime_type, &audio.data),
        ContentBlock::Resource(embedded) => match &embedded.resource {
            ResourceContents::TextResourceContents { uri, text, .. } => format!("[resource {}]\n{text}", label(uri)),
            ResourceContents::BlobResourceContents { uri, mime_type, blob, .. } => {
                let of = mime_type.as_deref().unwrap_or("application/octet-stream");
                format!("[resource {}: {}, {} bytes]", label(uri), label(of), bytes(blob))
            }
            _ => "[resource of an unknown kind]".to_owned(),
        },
        ContentBlock::ResourceLink(link) => {
            let size = link.size.map(|size| format!(", {size} bytes")).unwrap_or_default();
            format!("[link to the resource {} ({}){size}]", label(&link.uri), label(&link.name))
        }
        _ => return Cow::Borrowed(UNKNOWN),
    };
    Cow::Owned(described)
}

fn media(what: &str, of: &str, data: &str) -> String {
    format!("[{what}: {}, {} bytes]", label(of), bytes(data))
}

fn label(text: &str) -> String {
    text.chars().take(LABEL_CHARS).collect()
}

/// The decoded size of base64.
fn bytes(data: &str) -> usize {
    let data = data.trim_end_matches('=');
    data.len() * 3 / 4
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn of(result: Value) -> Result<String, String> {
        text(&serde_json::from_value(result).unwrap())
    }

    #[test]
    fn s13_texts_are_joined_and_other_content_is_described_with_its_size() {
        let result = of(json!({ "content": [
            { "type": "text", "text": "Here:" },
            { "type": "image", "mimeType": "image/png", "data": "aGVsbG8=" },
            { "type": "audio", "mimeType": "audio/wav", "data": "aGVsbG8h" },
            { "type": "resource", "resource": { "uri": "file:///a.txt", "text": "in it" } },
            { "type": "resource", "resource": { "uri": "file:///b", "mimeType": "x/y", "blob": "AAAA" } },
            { "type": "resource_link", "uri": "file:///c", "name": "c", "size": 7 },
        ]}));
        let lines = [
            "Here:",
            "[image: image/png, 5 bytes]",
            "[audio: audio/wav, 6 bytes]",
            "[resource file:///a.txt]",
            "in it",
            "[resource file:///b: x/y, 3 bytes]",
            "[link to the resource file:///c (c), 7 bytes]",
        ];
        assert_eq!(result.unwrap(), lines.join("\n"));
    }

    #[test]
    fn s13_content_of_an_unknown_kind_costs_only_itself() {
        let of = |result: Value| read(serde_json::from_value(result).unwrap()).map(|result| text(&result));
        let done = json!({ "type": "text", "text": "DONE id 77" });
        let both = json!({ "content": [{ "type": "video", "text": 5 }, done] });
        assert_eq!(of(both), Some(Ok(format!("{UNKNOWN}\nDONE id 77"))));
        let failed = json!({ "resultType": "complete", "content": [{ "type": "" }], "isError": true });
        assert_eq!(of(failed), Some(Err(UNKNOWN.to_owned())));
        for empty in
            [json!({}), json!({ "resultType": "complete" }), json!({ "content": null }), json!({ "_meta": {} })]
        {
            assert_eq!(of(empty.clone()), Some(Ok(String::new())), "{empty}");
        }
        // Malformed content of a known kind is not guessed at, and nothing else is a result of a call.
        for other in [
            json!({ "content": [{ "type": "text" }, { "type": "video" }] }),
            json!({ "content": [{ "kind": "video" }] }),
            json!({ "content": "DONE" }),
            json!({ "output": "DONE" }),
            json!({ "resultType": "other" }),
            json!("DONE"),
            json!({ "tools": [] }),
        ] {
            assert_eq!(of(other.clone()), None, "{other}");
        }
    }

    #[test]
    fn s13_structured_content_is_said_once() {
        let both = json!({ "content": [{ "type": "text", "text": "{\"a\": 1}" }], "structuredContent": { "a": 1 } });
        assert_eq!(of(both).unwrap(), "{\"a\": 1}");
        let other = json!({ "content": [{ "type": "text", "text": "done" }], "structuredContent": { "a": 1 } });
        assert_eq!(of(other).unwrap(), "done\n{\"a\":1}");
        assert_eq!(of(json!({ "content": [], "structuredContent": [1] })).unwrap(), "[1]");
    }

    #[test]
    fn s13_a_wrapped_result_that_a_text_says_too_is_said_once() {
        let of = |texts: Value, result: Value| {
            let texts = texts.as_array().unwrap().iter();
            let blocks: Vec<Value> = texts.map(|text| json!({ "type": "text", "text": text })).collect();
            of(json!({ "content": blocks, "structuredContent": { "result": result } })).unwrap()
        };
        assert_eq!(of(json!(["xin chào"]), json!("xin chào")), "xin chào");
        assert_eq!(of(json!(["3"]), json!(3)), "3");
        assert_eq!(of(json!(["true"]), json!(true)), "true");
        assert_eq!(of(json!(["[\n  1,\n  \"b\"\n]"]), json!([1, "b"])), "[\n  1,\n  \"b\"\n]");
        assert_eq!(of(json!(["a", "2", "{\"x\": [1]}"]), json!(["a", 2, { "x": [1] }])), "a\n2\n{\"x\": [1]}");
        assert_eq!(of(json!([]), json!(null)), "");
        assert_eq!(of(json!([]), json!([])), "");
        // If they differ, both are passed on.
        assert_eq!(of(json!(["a b"]), json!("a  b")), "a b\n{\"result\":\"a  b\"}");
        assert_eq!(of(json!(["a"]), json!(["a", "b"])), "a\n{\"result\":[\"a\",\"b\"]}");
        assert_eq!(of(json!(["a", "c"]), json!(["a", "b"])), "a\nc\n{\"result\":[\"a\",\"b\"]}");
        assert_eq!(of(json!(["done"]), json!(null)), "done\n{\"result\":null}");
    }

    #[test]
    fn s13_a_wrapped_result_beside_something_else_is_said_too() {
        let two =
            json!({ "content": [{ "type": "text", "text": "3" }], "structuredContent": { "result": 3, "of": 4 } });
        assert_eq!(of(two).unwrap(), "3\n{\"of\":4,\"result\":3}");
        let image = json!({
            "content": [{ "type": "text", "text": "3" }, { "type": "image", "mimeType": "image/png", "data": "AAAA" }],
            "structuredContent": { "result": 3 },
        });
        assert_eq!(of(image).unwrap(), "3\n[image: image/png, 3 bytes]\n{\"result\":3}");
    }

    #[test]
    fn s13_a_result_that_is_an_error_is_one() {
        let failed = json!({ "content": [{ "type": "text", "text": "no such file" }], "isError": true });
        assert_eq!(of(failed), Err("no such file".to_owned()));
    }
}
