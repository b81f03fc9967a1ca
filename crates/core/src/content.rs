//! A person's message to a model: texts and images.
//!
//! An image stays in its record, in Base64: a session is its journal, and a separate store of bytes would be a second
//! source of truth to copy, encrypt, fork and delete. The bounds on a message and on a session make that bearable.

mod image;
mod pixels;
pub mod screen;

use std::{fmt, sync::Arc};

use serde::{
    Deserialize, Deserializer, Serialize, Serializer,
    de::{self, MapAccess, Visitor, value::MapAccessDeserializer},
};

pub use self::image::{Image, ImageError, ImageSource, MediaType, TakesImages};

/// The separator of a message's texts where they are joined.
const BETWEEN: &str = "\n\n";
/// The placeholder of an image in plain text.
const MARK: &str = "[image]";

/// The content of a person's message: texts and images, in order.
///
/// ```
/// use countersign_core::content::{Content, Image};
///
/// let chart = Image::url("https://example.com/chart.png")?;
/// let content = Content::from("What does this show?").with(chart);
/// assert_eq!((content.text().as_str(), content.images().count()), ("What does this show?", 1));
/// # Ok::<(), countersign_core::content::ImageError>(())
/// ```
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Content(Vec<Part>);

/// One part of a person's message.
///
/// In journals, a text is a string, and an image is its source as an object.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Part {
    /// A text.
    Text(Arc<str>),
    /// An image.
    Image(Image),
}

impl Content {
    /// The same content with this part appended.
    #[must_use]
    pub fn with(mut self, part: impl Into<Part>) -> Content {
        self.0.push(part.into());
        self
    }

    /// Its parts.
    #[must_use]
    pub fn parts(&self) -> &[Part] {
        &self.0
    }

    /// Its texts.
    pub fn texts(&self) -> impl Iterator<Item = &Arc<str>> {
        self.0.iter().filter_map(|part| match part {
            Part::Text(text) => Some(text),
            Part::Image(_) => None,
        })
    }

    /// Its images.
    pub fn images(&self) -> impl Iterator<Item = &Image> {
        self.0.iter().filter_map(|part| match part {
            Part::Text(_) => None,
            Part::Image(image) => Some(image),
        })
    }

    /// Whether it has an image.
    #[must_use]
    pub fn has_images(&self) -> bool {
        self.images().next().is_some()
    }

    /// Whether it is empty: no image, and no text but white space.
    #[must_use]
    pub fn is_blank(&self) -> bool {
        self.0.iter().all(|part| matches!(part, Part::Text(text) if text.trim().is_empty()))
    }

    /// Its texts as one, without its images.
    #[must_use]
    pub fn text(&self) -> String {
        joined(self.texts().map(|text| &**text))
    }

    /// All of it as text: this note replaces each image.
    #[must_use]
    pub fn in_words(&self, note: &str) -> String {
        joined(self.0.iter().map(|part| match part {
            Part::Text(text) => &**text,
            Part::Image(_) => note,
        }))
    }

    /// As read by a model that takes these images: adjacent texts are joined, and this note replaces each other image.
    #[must_use]
    pub fn read_by(&self, takes: TakesImages, note: &str) -> Content {
        let part = |part: &Part| match part {
            Part::Image(image) if !takes.takes(image) => note.into(),
            part => part.clone(),
        };
        self.0.iter().map(part).collect::<Content>().joined()
    }

    /// The same with adjacent texts joined.
    #[must_use]
    pub fn joined(&self) -> Content {
        if let [_] = &*self.0 {
            return self.clone();
        }
        let runs = self.0.chunk_by(|a, b| matches!((a, b), (Part::Text(_), Part::Text(_))));
        let run = |run: &[Part]| match run {
            [Part::Text(_), ..] => Part::Text(Content(run.to_vec()).text().into()),
            [Part::Image(image), ..] => Part::Image(image.clone()),
            [] => Part::Text("".into()),
        };
        Content(runs.map(run).collect())
    }

    /// The same without the bytes of its images, for code that only counts and names them.
    #[must_use]
    pub fn without_image_bytes(&self) -> Content {
        let part = |part: &Part| if matches!(part, Part::Image(_)) { Image::empty().into() } else { part.clone() };
        self.0.iter().map(part).collect()
    }

    /// How many bytes it takes in storage.
    #[must_use]
    pub fn stored_bytes(&self) -> usize {
        let of = |part: &Part| match part {
            Part::Text(text) => text.len(),
            Part::Image(image) => image.stored_bytes(),
        };
        self.0.iter().map(of).sum()
    }

    /// Whether its images are valid, for unchecked content.
    ///
    /// # Errors
    /// As [`Image::base64`] and [`Image::url`].
    pub fn check_images(&self) -> Result<(), ImageError> {
        for image in self.images() {
            match image.source() {
                ImageSource::Base64 { media_type, data } => drop(Image::base64(*media_type, data.clone())?),
                ImageSource::Url { url } => drop(Image::url(url.clone())?),
            }
        }
        Ok(())
    }

    /// How many bytes its inline images have.
    #[must_use]
    pub fn image_bytes(&self) -> usize {
        self.images().map(Image::bytes).sum()
    }
}

fn joined<'a>(texts: impl Iterator<Item = &'a str>) -> String {
    texts.collect::<Vec<_>>().join(BETWEEN)
}

impl fmt::Display for Content {
    /// All of it as text, with `[image]` for each image.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(&self.in_words(MARK))
    }
}

/// Types that convert to a part, and to a content of one part.
macro_rules! is_part {
    ($($from:ty, $part:ident => $made:expr;)+) => {$(
        impl From<$from> for Part {
            fn from($part: $from) -> Part {
                $made
            }
        }

        impl From<$from> for Content {
            fn from(part: $from) -> Content {
                Content(vec![part.into()])
            }
        }

        impl From<Vec<$from>> for Content {
            fn from(parts: Vec<$from>) -> Content {
                parts.into_iter().collect()
            }
        }
    )+};
}

is_part! {
    &str, text => Part::Text(text.into());
    String, text => Part::Text(text.into());
    Arc<str>, text => Part::Text(text);
    Image, image => Part::Image(image);
}

impl From<Vec<Part>> for Content {
    fn from(parts: Vec<Part>) -> Content {
        Content(parts)
    }
}

impl From<Part> for Content {
    fn from(part: Part) -> Content {
        Content(vec![part])
    }
}

impl<T: Into<Part>> FromIterator<T> for Content {
    fn from_iter<I: IntoIterator<Item = T>>(parts: I) -> Content {
        Content(parts.into_iter().map(Into::into).collect())
    }
}

impl Serialize for Part {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        match self {
            Part::Text(text) => text.serialize(serializer),
            Part::Image(image) => image.serialize(serializer),
        }
    }
}

impl<'de> Deserialize<'de> for Part {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Part, D::Error> {
        struct Stored;
        impl<'de> Visitor<'de> for Stored {
            type Value = Part;
            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a text, or the source of an image")
            }
            fn visit_str<E: de::Error>(self, text: &str) -> Result<Part, E> {
                Ok(text.into())
            }
            fn visit_map<A: MapAccess<'de>>(self, map: A) -> Result<Part, A::Error> {
                Image::deserialize(MapAccessDeserializer::new(map)).map(Part::Image)
            }
        }
        deserializer.deserialize_any(Stored)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The smallest PNG, of one pixel.
    pub(super) const DOT: &str =
        "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR4nGNgYGBgAAAABQABpfZFQAAAAABJRU5ErkJggg==";

    #[test]
    fn x_in_a_journal_a_text_is_a_string_and_an_image_the_object_of_its_source() {
        let texts: Content = serde_json::from_str(r#"["one","two"]"#).expect("texts");
        assert_eq!(texts, Content::from(vec!["one", "two"]));
        assert_eq!(serde_json::to_string(&texts).expect("json"), r#"["one","two"]"#);
        let both =
            texts.with(Image::url("https://a/b").expect("url")).with(Image::base64(MediaType::Png, DOT).expect("dot"));
        let text = serde_json::to_string(&both).expect("json");
        assert!(text.starts_with(
            r#"["one","two",{"type":"url","url":"https://a/b"},{"type":"base64","media_type":"image/png","#
        ));
        assert_eq!(serde_json::from_str::<Content>(&text).expect("both"), both);
    }

    #[test]
    fn x_an_image_is_no_text() {
        let image = || Image::url("https://a/b").expect("url");
        let content = Content::from("a").with("b").with(image()).with("c");
        assert_eq!(content.text(), "a\n\nb\n\nc");
        assert_eq!(content.in_words("(x)"), "a\n\nb\n\n(x)\n\nc");
        assert_eq!(content.to_string(), "a\n\nb\n\n[image]\n\nc");
        let (none, inline) = (content.read_by(TakesImages::None, "(x)"), content.read_by(TakesImages::Inline, "(x)"));
        assert_eq!((none.to_string().as_str(), &none, none.parts().len()), ("a\n\nb\n\n(x)\n\nc", &inline, 1));
        assert_eq!(content.read_by(TakesImages::All, "(x)"), content.joined());
        let here = Content::from(Image::base64(MediaType::Png, DOT).expect("dot"));
        assert_eq!((here.read_by(TakesImages::Inline, ""), here.has_images()), (here.clone(), true));
        assert_eq!(content.joined(), Content::from("a\n\nb").with(image()).with("c"));
        assert_eq!((Content::from(image()).text().as_str(), Content::from(image()).is_blank()), ("", false));
        assert!(Content::from(" \n").is_blank() && Content::default().is_blank());
    }
}
