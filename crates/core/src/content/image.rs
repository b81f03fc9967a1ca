//! An image in a message, as its bytes or its address.
//!
//! An [`Image`] exists only if it is valid: its constructors check its first bytes, its encoding and its size, so that
//! later code need not. Nothing here, or anywhere else in this program, fetches the address of an image: the provider
//! does.

use std::{borrow::Cow, fmt, sync::Arc};

use base64::{Engine as _, engine::general_purpose::STANDARD};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::pixels;
use crate::limits;

/// An image that a model may get: within [`limits::IMAGE_BYTES`], and of its declared type. Only a journal is trusted
/// without a check: its content was checked before.
#[derive(Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Image(ImageSource);

/// An image's bytes or address.
#[derive(Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(tag = "type", rename_all = "snake_case")]
pub enum ImageSource {
    /// Inline.
    #[schemars(title = "Base64Source")]
    Base64 {
        /// Their type, which their first bytes must match.
        media_type: MediaType,
        /// The bytes in standard Base64, with padding and without line breaks.
        data: Arc<str>,
    },
    /// At an address, from which the model's provider fetches them. This server never does.
    #[schemars(title = "UrlSource")]
    Url {
        /// An http or https URL without a password.
        url: Arc<str>,
    },
}

/// The types of images that models take.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[non_exhaustive]
pub enum MediaType {
    /// PNG
    #[serde(rename = "image/png")]
    Png,
    /// JPEG
    #[serde(rename = "image/jpeg")]
    Jpeg,
    /// GIF
    #[serde(rename = "image/gif")]
    Gif,
    /// WebP
    #[serde(rename = "image/webp")]
    Webp,
}

/// Which images a model takes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub enum TakesImages {
    /// None.
    #[default]
    None,
    /// Those whose bytes are in the message; its provider fetches nothing from elsewhere.
    Inline,
    /// Those, and those at an address.
    All,
}

impl TakesImages {
    /// One of `none`, `inline` and `all`, as configurations write them.
    #[must_use]
    pub fn named(name: &str) -> Option<TakesImages> {
        Some(match name {
            "none" => TakesImages::None,
            "inline" => TakesImages::Inline,
            "all" => TakesImages::All,
            _ => return None,
        })
    }

    /// Whether it takes this one.
    #[must_use]
    pub fn takes(self, image: &Image) -> bool {
        match self {
            TakesImages::None => false,
            TakesImages::Inline => matches!(image.0, ImageSource::Base64 { .. }),
            TakesImages::All => true,
        }
    }
}

impl MediaType {
    /// Its name: `image/png`.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            MediaType::Png => "image/png",
            MediaType::Jpeg => "image/jpeg",
            MediaType::Gif => "image/gif",
            MediaType::Webp => "image/webp",
        }
    }

    /// The type of an image, judged by its first bytes.
    #[must_use]
    pub fn of(bytes: &[u8]) -> Option<MediaType> {
        match bytes {
            [0x89, b'P', b'N', b'G', 0x0d, 0x0a, 0x1a, 0x0a, ..] => Some(MediaType::Png),
            [0xff, 0xd8, 0xff, ..] => Some(MediaType::Jpeg),
            [b'G', b'I', b'F', b'8', b'7' | b'9', b'a', ..] => Some(MediaType::Gif),
            [b'R', b'I', b'F', b'F', _, _, _, _, b'W', b'E', b'B', b'P', ..] => Some(MediaType::Webp),
            _ => None,
        }
    }
}

/// Why something is not an image that a model can get.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{field}: {problem}")]
#[non_exhaustive]
pub struct ImageError {
    /// The field of the source: `data` or `url`.
    pub field: &'static str,
    /// What is wrong and how to correct it.
    pub problem: String,
}

impl Image {
    /// An image from the bytes of its file, which show its type.
    ///
    /// # Errors
    /// They are not a PNG, JPEG, GIF or WebP, exceed [`limits::IMAGE_BYTES`], or have more pixels than
    /// [`limits::IMAGE_SIDE`] and [`limits::IMAGE_PIXELS`] allow.
    pub fn new(bytes: &[u8]) -> Result<Image, ImageError> {
        let media_type = check_bytes(bytes, None)?;
        Ok(Image(ImageSource::Base64 { media_type, data: STANDARD.encode(bytes).into() }))
    }

    /// An image from its bytes in standard Base64.
    ///
    /// # Errors
    /// As [`Image::new`]; the text is not Base64, or the bytes are of another type.
    pub fn base64(media_type: MediaType, data: impl Into<Arc<str>>) -> Result<Image, ImageError> {
        let data = data.into();
        // Nothing is decoded that is too large in any case.
        if data.len().div_ceil(4) > limits::IMAGE_BYTES.div_ceil(3) {
            return Err(too_large());
        }
        let bytes = STANDARD.decode(&*data).map_err(|error| ImageError {
            field: "data",
            problem: format!("is not standard Base64 with padding: {}", at_end(&error)),
        })?;
        check_bytes(&bytes, Some(media_type))?;
        Ok(Image(ImageSource::Base64 { media_type, data }))
    }

    /// An image at an address, from which the model's provider fetches it.
    ///
    /// # Errors
    /// It is not an http or https URL, has a password or a character that must be percent-encoded, or is longer than
    /// [`limits::IMAGE_URL_BYTES`].
    pub fn url(url: impl Into<Arc<str>>) -> Result<Image, ImageError> {
        let url = url.into();
        match wrong_with(&url) {
            Some(problem) => Err(ImageError { field: "url", problem }),
            None => Ok(Image(ImageSource::Url { url })),
        }
    }

    /// A placeholder for an image whose bytes are not needed.
    pub(super) fn empty() -> Image {
        Image(ImageSource::Url { url: "".into() })
    }

    /// Its bytes or address.
    #[must_use]
    pub fn source(&self) -> &ImageSource {
        &self.0
    }

    /// Its address: the given one, or all of it as a `data:` URL.
    #[must_use]
    pub fn as_url(&self) -> Cow<'_, str> {
        match &self.0 {
            ImageSource::Base64 { media_type, data } => Cow::Owned(format!("data:{};base64,{data}", media_type.name())),
            ImageSource::Url { url } => Cow::Borrowed(url),
        }
    }

    /// How many bytes it takes in storage.
    #[must_use]
    pub fn stored_bytes(&self) -> usize {
        match &self.0 {
            ImageSource::Base64 { data, .. } => data.len(),
            ImageSource::Url { url } => url.len(),
        }
    }

    /// How many bytes the inline image has.
    pub(super) fn bytes(&self) -> usize {
        match &self.0 {
            ImageSource::Base64 { data, .. } => {
                (data.len() / 4 * 3).saturating_sub(data.bytes().rev().take_while(|byte| *byte == b'=').count())
            }
            ImageSource::Url { .. } => 0,
        }
    }
}

/// The type of an image's bytes.
fn check_bytes(bytes: &[u8], said: Option<MediaType>) -> Result<MediaType, ImageError> {
    if bytes.len() > limits::IMAGE_BYTES {
        return Err(too_large());
    }
    let wrong = |problem: String| ImageError { field: "data", problem };
    let media_type = match (MediaType::of(bytes), said) {
        (Some(found), Some(said)) if found != said => Err(wrong(format!(
            "begins as {} does, and \"media_type\" is {}; say what it is",
            found.name(),
            said.name()
        ))),
        (Some(found), _) => Ok(found),
        (None, Some(said)) => Err(wrong(format!("does not begin as {} does", said.name()))),
        (None, None) => Err(wrong("is no PNG, JPEG, GIF or WebP".to_owned())),
    }?;
    match pixels::size(media_type, bytes) {
        None | Some((0, _) | (_, 0)) => {
            let name = media_type.name();
            Err(wrong(format!("begins as {name} does, and no width and height can be read: it is not whole")))
        }
        Some((width, height))
            if width.max(height) > limits::IMAGE_SIDE || width.saturating_mul(height) > limits::IMAGE_PIXELS =>
        {
            Err(wrong(format!(
                "is {width} pixels wide and {height} high; an image may have {} on a side and {} in all",
                limits::IMAGE_SIDE,
                limits::IMAGE_PIXELS
            )))
        }
        Some(_) => Ok(media_type),
    }
}

fn too_large() -> ImageError {
    let problem = format!("has more than {} bytes, which is the most of one image", limits::IMAGE_BYTES);
    ImageError { field: "data", problem }
}

/// An error of the decoder, without repeating its input.
fn at_end(error: &base64::DecodeError) -> String {
    match error {
        base64::DecodeError::InvalidByte(at, _) => format!("the character at {at} is not of it"),
        base64::DecodeError::InvalidLength(_) => "its length is not a multiple of 4".to_owned(),
        _ => "its end is not as it must be".to_owned(),
    }
}

fn wrong_with(url: &str) -> Option<String> {
    if url.len() > limits::IMAGE_URL_BYTES {
        return Some(format!("has {} bytes; it may have {}", url.len(), limits::IMAGE_URL_BYTES));
    }
    let (scheme, rest) = url.split_once("://").unwrap_or_default();
    if !scheme.eq_ignore_ascii_case("https") && !scheme.eq_ignore_ascii_case("http") {
        return Some("must be an http or https URL; bytes go in a source of the type \"base64\"".to_owned());
    }
    if !url.bytes().all(|byte| byte.is_ascii_graphic()) {
        return Some("has a character that must be percent-encoded".to_owned());
    }
    let authority = rest.split(['/', '?', '#', '\\']).next().unwrap_or_default();
    if authority.is_empty() || authority.starts_with(':') {
        return Some("names no host".to_owned());
    }
    authority
        .contains('@')
        .then(|| "must have no user and no password: everybody who reads the session sees it".to_owned())
}

/// An address up to its query.
fn without_query(url: &str) -> &str {
    url.split(['?', '#']).next().unwrap_or_default()
}

impl fmt::Debug for Image {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

impl fmt::Debug for ImageSource {
    /// Without its bytes, which would fill a log, and without the query of an address, which may be a credential.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            ImageSource::Base64 { media_type, data } => {
                write!(f, "Image({}, {} bytes of Base64)", media_type.name(), data.len())
            }
            ImageSource::Url { url } => write!(f, "Image({:?})", without_query(url)),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::{super::tests::DOT, *};

    fn wrong(image: Result<Image, ImageError>) -> String {
        image.expect_err("no image").to_string()
    }

    #[test]
    fn x_an_image_is_of_the_type_that_it_says_and_no_larger_than_one_may_be() {
        let dot = Image::base64(MediaType::Png, DOT).expect("a dot");
        assert_eq!(dot.as_url(), format!("data:image/png;base64,{DOT}"));
        let again = Image::new(&STANDARD.decode(DOT).expect("bytes")).expect("a dot");
        assert_eq!((&again, again.bytes()), (&dot, STANDARD.decode(DOT).expect("bytes").len()));
        assert_eq!(format!("{dot:?}"), format!("Image(image/png, {} bytes of Base64)", DOT.len()));

        let of = |media_type, data: &str| wrong(Image::base64(media_type, data));
        assert_eq!(
            of(MediaType::Jpeg, DOT),
            "data: begins as image/png does, and \"media_type\" is image/jpeg; say what it is"
        );
        assert_eq!(of(MediaType::Webp, ""), "data: does not begin as image/webp does");
        assert_eq!(of(MediaType::Gif, "PHN2Zz4="), "data: does not begin as image/gif does");
        assert!(of(MediaType::Png, "iVBORw0KGgo").starts_with("data: is not standard Base64 with padding"));
        assert!(of(MediaType::Png, "iVBO Rw0KGgo=").contains("the character at 4"), "no line breaks, no spaces");
        assert!(of(MediaType::Png, "iVBORw0KGgp=").contains("its end"), "one text for the same bytes");
        assert_eq!(wrong(Image::new(b"<svg/>")), "data: is no PNG, JPEG, GIF or WebP");

        let mut bytes = b"GIF89a\x01\0\x01\0\0\0\0".to_vec();
        bytes.resize(limits::IMAGE_BYTES, 0);
        let most = Image::new(&bytes).expect("as large as one may be");
        assert_eq!((most.bytes(), most.stored_bytes()), (limits::IMAGE_BYTES, limits::IMAGE_BYTES.div_ceil(3) * 4));
        assert!(Image::base64(MediaType::Gif, STANDARD.encode(&bytes)).is_ok());
        bytes.push(0);
        assert!(wrong(Image::new(&bytes)).starts_with("data: has more than"));
        assert!(of(MediaType::Gif, &STANDARD.encode(&bytes)).starts_with("data: has more than"));
        assert!(of(MediaType::Gif, &"!".repeat(limits::IMAGE_BYTES * 2)).starts_with("data: has more than"));

        for (width, height, right) in [
            (8_000_u16, 5_000_u16, true),
            (8_001, 1, false),
            (1, 8_001, false),
            (8_000, 5_001, false),
            (0, 1, false),
            (1, 0, false),
        ] {
            let bytes = [&b"GIF89a"[..], &width.to_le_bytes(), &height.to_le_bytes(), &[0; 3]].concat();
            assert_eq!(Image::new(&bytes).is_ok(), right, "{width} by {height}");
        }
        let large = wrong(Image::new(b"GIF89a\x50\xc3\x01\0\0\0\0"));
        assert_eq!(
            large,
            "data: is 50000 pixels wide and 1 high; an image may have 8000 on a side and 40000000 in all"
        );
        for cut in [&b"GIF89a"[..], b"\xff\xd8\xff\xe0\0\x10JFIF", b"RIFF\x01\x02\x03\x04WEBPVP8 "] {
            assert!(wrong(Image::new(cut)).ends_with("no width and height can be read: it is not whole"), "{cut:?}");
        }

        for (bytes, want) in [
            (&b"\xff\xd8\xff\xe0"[..], MediaType::Jpeg),
            (b"GIF87a", MediaType::Gif),
            (b"RIFF\x01\x02\x03\x04WEBPVP8 ", MediaType::Webp),
        ] {
            assert_eq!(MediaType::of(bytes), Some(want));
        }
        assert_eq!(MediaType::of(b"RIFF\x01\x02\x03\x04WAVE"), None);
    }

    #[test]
    fn x_the_address_of_an_image_is_http_and_has_no_password() {
        let signed = Image::url("https://example.com/a.png?signature=s3cret").expect("an address");
        assert_eq!(format!("{signed:?}"), "Image(\"https://example.com/a.png\")");
        for right in ["https://example.com/a.png?b=c#d", "HTTP://example.com", "https://[::1]:8080/x@y"] {
            assert_eq!(Image::url(right).expect(right).as_url(), right);
        }
        for (url, part) in [
            ("file:///etc/passwd", "must be an http or https URL"),
            ("data:image/png;base64,AAAA", "must be an http or https URL"),
            ("javascript://x/%0aalert(1)", "must be an http or https URL"),
            ("example.com/a.png", "must be an http or https URL"),
            ("https://", "names no host"),
            ("https:///a", "names no host"),
            ("https://:80/a", "names no host"),
            ("https://ann:pass@example.com/", "no password"),
            ("https://example.com/a b", "percent-encoded"),
            ("https://example.com/\n", "percent-encoded"),
            ("https://exämple.com/", "percent-encoded"),
        ] {
            let error = wrong(Image::url(url));
            assert!(error.starts_with("url: ") && error.contains(part), "{url}: {error}");
        }
        let long = format!("https://example.com/{}", "a".repeat(limits::IMAGE_URL_BYTES));
        assert!(wrong(Image::url(long)).contains("bytes; it may have"));
    }
}
