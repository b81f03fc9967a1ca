//! What a server answers, as text for the model.

use countersign_core::call::plain::as_plain;
use rmcp::model::{CallToolResult, ContentBlock, ResourceContents};
use serde_json::Value;

/// How much of an error is told, in characters.
pub(super) const ERROR_CHARS: usize = 2000;
/// How much of a name, a type or an address of a thing that is only described, in characters.
const LABEL_CHARS: usize = 200;

/// The result as text: texts as they are, structured content as JSON, everything else as a line that says what it is and
/// how large. `Err` if the server says that the call failed.
pub(super) fn text(result: &CallToolResult) -> Result<String, String> {
    let mut text = result.content.iter().map(block).collect::<Vec<_>>().join("\n");
    if let Some(structured) = &result.structured_content {
        // Servers are told to write it into a text, too; then it is said once.
        let said = serde_json::from_str::<Value>(&text).is_ok_and(|said| as_plain(&said) == as_plain(structured));
        if !said {
            if !text.is_empty() {
                text.push('\n');
            }
            text.push_str(&as_plain(structured).to_string());
        }
    }
    if result.is_error == Some(true) { Err(text) } else { Ok(text) }
}

fn block(block: &ContentBlock) -> String {
    match block {
        ContentBlock::Text(text) => text.text.clone(),
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
        _ => "[content of an unknown kind]".to_owned(),
    }
}

fn media(what: &str, of: &str, data: &str) -> String {
    format!("[{what}: {}, {} bytes]", label(of), bytes(data))
}

fn label(text: &str) -> String {
    text.chars().take(LABEL_CHARS).collect()
}

/// The size of what base64 stands for.
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
    fn s13_texts_are_joined_and_what_is_no_text_is_described_with_its_size() {
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
    fn s13_structured_content_is_said_once() {
        let both = json!({ "content": [{ "type": "text", "text": "{\"a\": 1}" }], "structuredContent": { "a": 1 } });
        assert_eq!(of(both).unwrap(), "{\"a\": 1}");
        let other = json!({ "content": [{ "type": "text", "text": "done" }], "structuredContent": { "a": 1 } });
        assert_eq!(of(other).unwrap(), "done\n{\"a\":1}");
        assert_eq!(of(json!({ "content": [], "structuredContent": [1] })).unwrap(), "[1]");
    }

    #[test]
    fn s13_a_result_that_is_an_error_is_one() {
        let failed = json!({ "content": [{ "type": "text", "text": "no such file" }], "isError": true });
        assert_eq!(of(failed), Err("no such file".to_owned()));
    }
}
