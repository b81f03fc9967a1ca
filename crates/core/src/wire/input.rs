//! The content of a client's message: read strictly, and converted to what a session stores.

use std::{fmt, sync::Arc};

use schemars::JsonSchema;
use serde::{
    Deserialize, Deserializer, Serialize,
    de::{Error as _, SeqAccess, Visitor, value::SeqAccessDeserializer},
};

use crate::{
    content::{Content, Image, ImageSource, MediaType, Part},
    journal::fits::check_message,
    refusal::{Code, Refusal},
};

/// The content of a message.
#[derive(Clone, Debug, Serialize, JsonSchema)]
#[serde(untagged)]
#[schemars(rename = "Content")]
pub enum InputContent {
    /// One text.
    Text(String),
    /// Blocks.
    Blocks(Vec<InputBlock>),
}

/// A content block from a client.
#[derive(Clone, Debug, Serialize, JsonSchema)]
#[serde(tag = "type", rename_all = "snake_case", deny_unknown_fields)]
pub enum InputBlock {
    /// Text.
    #[schemars(title = "InputText")]
    Text {
        /// The text.
        text: String,
    },
    /// An image, for a model that takes images.
    #[schemars(title = "InputImage")]
    Image {
        /// The image's bytes or address.
        source: ImageSource,
    },
}

impl InputContent {
    /// The content that a session stores: texts and images, none of them empty. `place` is the field that it came in.
    ///
    /// # Errors
    /// `invalid_message` if it is empty, an image is invalid, or it exceeds a message's limits; the error names the
    /// block.
    pub fn into_content(self, place: &str) -> Result<Content, Refusal> {
        let content = match self {
            InputContent::Text(text) => Content::from(text),
            InputContent::Blocks(blocks) => {
                let parts = blocks.into_iter().enumerate().map(|(at, block)| part(block, place, at));
                parts.collect::<Result<_, _>>()?
            }
        };
        if content.is_blank() {
            let what = "is empty; it must be a text, or an array of {\"type\":\"text\",\"text\"} and \
                        {\"type\":\"image\",\"source\"} blocks";
            return Err(Refusal::new(Code::InvalidMessage, format!("{place}: {what}")));
        }
        check_message(&content, place)?;
        let is_empty = |part: &Part| matches!(part, Part::Text(text) if text.is_empty());
        Ok(content.parts().iter().filter(|part| !is_empty(part)).cloned().collect())
    }
}

fn part(block: InputBlock, place: &str, at: usize) -> Result<Part, Refusal> {
    let image = match block {
        InputBlock::Text { text } => return Ok(text.into()),
        InputBlock::Image { source: ImageSource::Base64 { media_type, data } } => Image::base64(media_type, data),
        InputBlock::Image { source: ImageSource::Url { url } } => Image::url(url),
    };
    let refuse = |error| Refusal::new(Code::InvalidMessage, format!("{place}[{at}].source.{error}"));
    image.map(Part::Image).map_err(refuse)
}

impl<'de> Deserialize<'de> for InputContent {
    /// By hand, since serde's untagged enums report only that no variant matches.
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<InputContent, D::Error> {
        struct Given;
        impl<'de> Visitor<'de> for Given {
            type Value = InputContent;
            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a text, or an array of content blocks")
            }
            fn visit_str<E>(self, text: &str) -> Result<InputContent, E> {
                Ok(InputContent::Text(text.to_owned()))
            }
            fn visit_string<E>(self, text: String) -> Result<InputContent, E> {
                Ok(InputContent::Text(text))
            }
            fn visit_seq<A: SeqAccess<'de>>(self, blocks: A) -> Result<InputContent, A::Error> {
                Vec::deserialize(SeqAccessDeserializer::new(blocks)).map(InputContent::Blocks)
            }
        }
        deserializer.deserialize_any(Given)
    }
}

/// A block with all possible keys. Its type decides which are required, so every error has a location, which serde
/// loses where it looks at the type first.
#[derive(Deserialize)]
#[serde(deny_unknown_fields, expecting = "a content block, an object with a `type`")]
struct GivenBlock {
    #[serde(rename = "type")]
    kind: BlockType,
    #[serde(default)]
    text: Option<String>,
    #[serde(default)]
    source: Option<GivenSource>,
}

#[derive(Deserialize)]
#[serde(rename_all = "snake_case")]
enum BlockType {
    Text,
    Image,
}

impl<'de> Deserialize<'de> for InputBlock {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<InputBlock, D::Error> {
        let no_key =
            |key: &str, kind: &str| D::Error::custom(format!("{key:?} is not a key of a block of the type {kind:?}"));
        let GivenBlock { kind, text, source } = GivenBlock::deserialize(deserializer)?;
        match (kind, text, source) {
            (BlockType::Text, Some(text), None) => Ok(InputBlock::Text { text }),
            (BlockType::Text, None, _) => Err(D::Error::missing_field("text")),
            (BlockType::Text, _, Some(_)) => Err(no_key("source", "text")),
            (BlockType::Image, None, Some(GivenSource(source))) => Ok(InputBlock::Image { source }),
            (BlockType::Image, _, None) => Err(D::Error::missing_field("source")),
            (BlockType::Image, Some(_), _) => Err(no_key("text", "image")),
        }
    }
}

struct GivenSource(ImageSource);

#[derive(Deserialize)]
#[serde(rename_all = "snake_case")]
enum SourceType {
    Base64,
    Url,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields, expecting = "the source of an image, an object with a `type`")]
struct GivenKeys {
    #[serde(rename = "type")]
    kind: SourceType,
    #[serde(default)]
    media_type: Option<MediaType>,
    #[serde(default)]
    data: Option<Arc<str>>,
    #[serde(default)]
    url: Option<Arc<str>>,
}

impl<'de> Deserialize<'de> for GivenSource {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<GivenSource, D::Error> {
        let no_key =
            |key: &str, kind: &str| D::Error::custom(format!("{key:?} is not a key of a source of the type {kind:?}"));
        let GivenKeys { kind, media_type, data, url } = GivenKeys::deserialize(deserializer)?;
        let source = match (kind, media_type, data, url) {
            (SourceType::Base64, _, _, Some(_)) => return Err(no_key("url", "base64")),
            (SourceType::Base64, Some(media_type), Some(data), None) => ImageSource::Base64 { media_type, data },
            (SourceType::Base64, None, ..) => return Err(D::Error::missing_field("media_type")),
            (SourceType::Base64, _, None, _) => return Err(D::Error::missing_field("data")),
            (SourceType::Url, None, None, Some(url)) => ImageSource::Url { url },
            (SourceType::Url, Some(_), ..) => return Err(no_key("media_type", "url")),
            (SourceType::Url, _, Some(_), _) => return Err(no_key("data", "url")),
            (SourceType::Url, .., None) => return Err(D::Error::missing_field("url")),
        };
        Ok(GivenSource(source))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{limits, wire::client::ClientMessage};

    const DOT: &str =
        "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR4nGNgYGBgAAAABQABpfZFQAAAAABJRU5ErkJggg==";

    fn content(content: &str) -> Result<Content, String> {
        let frame = format!(r#"{{"type":"message","content":{content}}}"#);
        let read = ClientMessage::parse(&frame).map_err(|bad| bad.refusal).and_then(|message| match message {
            ClientMessage::Message(message) => message.content.into_content("content"),
            other => panic!("{other:?}"),
        });
        read.map_err(|refusal| {
            assert_eq!(refusal.code, Code::InvalidMessage);
            refusal.message
        })
    }

    #[test]
    fn w1_a_message_is_a_text_or_blocks_of_text_and_images() {
        assert_eq!(content(r#""hi""#), Ok("hi".into()));
        let text = r#"{"type":"text","text":"what is this?"}"#;
        assert_eq!(content(&format!("[{text}]")), Ok("what is this?".into()));
        let dot = format!(r#"{{"type":"image","source":{{"type":"base64","media_type":"image/png","data":"{DOT}"}}}}"#);
        let url = r#"{"source":{"url":"https://example.com/a.png","type":"url"},"type":"image"}"#;
        let dot_image = Image::base64(MediaType::Png, DOT).expect("a dot");
        let url_image = Image::url("https://example.com/a.png").expect("an address");
        assert_eq!(
            content(&format!(r#"[{dot},{text},{{"type":"text","text":""}},{url}]"#)),
            Ok(Content::from(dot_image.clone()).with("what is this?").with(url_image)),
            "in their order, without what is empty"
        );
        assert_eq!(content(&format!("[{dot}]")), Ok(dot_image.into()), "an image needs no words");
    }

    #[test]
    fn x_what_is_no_content_is_refused_by_the_name_of_its_place() {
        let source = |source: &str| format!(r#"[{{"type":"text","text":"x"}},{{"type":"image","source":{source}}}]"#);
        let base64 = |media_type: &str, data: &str| {
            source(&format!(r#"{{"type":"base64","media_type":"{media_type}","data":"{data}"}}"#))
        };
        let many =
            vec![r#"{"type":"image","source":{"type":"url","url":"https://a/b"}}"#; limits::IMAGES + 1].join(",");
        for (given, want) in [
            ("7".to_owned(), "content: invalid type: integer `7`, expected a text, or an array of content blocks"),
            ("{}".to_owned(), "content: invalid type: map, expected a text, or an array of content blocks"),
            ("[]".to_owned(), "content: is empty; it must be a text, or an array of"),
            (r#"["x"]"#.to_owned(), "content[0]: invalid type: string \"x\", expected a content block"),
            (r#"[{"text":"x"}]"#.to_owned(), "content[0]: missing field `type`"),
            (
                r#"[{"type":"text","text":"x"},{"type":"video"}]"#.to_owned(),
                "content[1].type: unknown variant `video`, expected `text` or `image`",
            ),
            (r#"[{"type":"text"}]"#.to_owned(), "content[0]: missing field `text`"),
            (r#"[{"type":"text","text":7}]"#.to_owned(), "content[0].text: invalid type: integer `7`"),
            (
                r#"[{"type":"text","text":"x","cache":1}]"#.to_owned(),
                "content[0].cache: unknown field `cache`, expected one of `type`, `text`, `source`",
            ),
            (
                r#"[{"type":"text","text":"x","source":{"type":"url","url":"https://a"}}]"#.to_owned(),
                "content[0]: \"source\" is not a key of a block of the type \"text\"",
            ),
            (r#"[{"type":"image"}]"#.to_owned(), "content[0]: missing field `source`"),
            (source("{}"), "content[1].source: missing field `type`"),
            (source(r#"{"type":"file","file_id":"f"}"#), "content[1].source.type: unknown variant `file`"),
            (source(r#"{"type":"url"}"#), "content[1].source: missing field `url`"),
            (
                source(r#"{"type":"url","url":"https://a","data":"x"}"#),
                "content[1].source: \"data\" is not a key of a source of the type \"url\"",
            ),
            (source(r#"{"type":"base64","data":"x"}"#), "content[1].source: missing field `media_type`"),
            (
                source(r#"{"type":"base64","media_type":"image/png","data":"x","url":"y"}"#),
                "content[1].source: \"url\" is not a key",
            ),
            (
                base64("image/svg+xml", "PHN2Zz4="),
                "content[1].source.media_type: unknown variant `image/svg+xml`, expected one of `image/png`",
            ),
            (base64("image/png", "!"), "content[1].source.data: is not standard Base64"),
            (base64("image/gif", DOT), "content[1].source.data: begins as image/png does"),
            (source(r#"{"type":"url","url":"ftp://a/b"}"#), "content[1].source.url: must be an http or https URL"),
            (format!("[{many}]"), "content: has 21 images; a message has at most 20"),
        ] {
            let error = content(&given).expect_err(&given);
            assert!(error.starts_with(want), "{given}: {error}");
        }
        let mut gif = b"GIF89a\x01\0\x01\0\0\0\0".to_vec();
        gif.resize(limits::IMAGE_BYTES, 0);
        let image = InputBlock::Image { source: Image::new(&gif).expect("a large one").source().clone() };
        let one = InputContent::Blocks(vec![image.clone()]).into_content("content");
        assert!(one.is_ok());
        let two = InputContent::Blocks(vec![image.clone(), image]).into_content("edit.message").expect_err("too much");
        assert!(two.message.starts_with("edit.message: has 7864320 bytes of images; a message has at most"), "{two}");
    }
}
