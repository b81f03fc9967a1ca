//! How many pixels an image has, read from its header as browsers do. Nothing is decoded.
//!
//! Libraries for this read only a GIF's screen, which a frame may exceed, and no JPEG with fill bytes: a small file
//! could show one size here and another where it is drawn.

use super::MediaType;

/// Its width and height; `None` if it has none, or only beyond its end.
pub(super) fn size(media_type: MediaType, bytes: &[u8]) -> Option<(usize, usize)> {
    match media_type {
        MediaType::Png => png(bytes),
        MediaType::Jpeg => jpeg(bytes),
        MediaType::Gif => gif(bytes),
        MediaType::Webp => webp(bytes),
    }
}

/// A big-endian number of this many bytes.
fn big(bytes: &[u8], at: usize, count: usize) -> Option<usize> {
    let bytes = bytes.get(at..at.checked_add(count)?)?;
    Some(bytes.iter().fold(0, |number, byte| number << 8 | usize::from(*byte)))
}

/// A little-endian number of this many bytes.
fn little(bytes: &[u8], at: usize, count: usize) -> Option<usize> {
    let bytes = bytes.get(at..at.checked_add(count)?)?;
    Some(bytes.iter().rev().fold(0, |number, byte| number << 8 | usize::from(*byte)))
}

/// The first chunk is `IHDR` (PNG, 11.2.1).
fn png(bytes: &[u8]) -> Option<(usize, usize)> {
    (bytes.get(12..16)? == b"IHDR").then_some(())?;
    Some((big(bytes, 16, 4)?, big(bytes, 20, 4)?))
}

/// The frame header, after segments with their lengths (ITU T.81, B.1 and B.2.2).
fn jpeg(bytes: &[u8]) -> Option<(usize, usize)> {
    let mut at = 2;
    loop {
        (*bytes.get(at)? == 0xff).then_some(())?;
        match *bytes.get(at + 1)? {
            // Any number of these may precede a marker.
            0xff => at += 1,
            // These have no length; a new image or an end is invalid here.
            0x01 | 0xd0..=0xd7 => at += 2,
            0x00 | 0xd8 | 0xd9 => return None,
            0xc4 | 0xc8 | 0xcc => at += 2 + big(bytes, at + 2, 2)?,
            0xc0..=0xcf => return Some((big(bytes, at + 7, 2)?, big(bytes, at + 5, 2)?)),
            _ => at += 2 + big(bytes, at + 2, 2)?,
        }
    }
}

/// The screen and all frames, whichever extend further (GIF89a, 18 to 20).
fn gif(bytes: &[u8]) -> Option<(usize, usize)> {
    let mut size = (little(bytes, 6, 2)?, little(bytes, 8, 2)?);
    let mut next = Some(13 + table(*bytes.get(10)?));
    // A frame is drawn even if the file ends after its position and size.
    while let Some(at) = next {
        next = match bytes.get(at) {
            Some(0x21) => after_blocks(bytes, at + 2),
            Some(0x2c) => {
                let end = |place: usize| Some(little(bytes, at + place, 2)? + little(bytes, at + place + 4, 2)?);
                size = (size.0.max(end(1).unwrap_or(0)), size.1.max(end(3).unwrap_or(0)));
                bytes.get(at + 9).and_then(|flags| after_blocks(bytes, at + 11 + table(*flags)))
            }
            _ => None,
        };
    }
    Some(size)
}

/// The size of a colour table in bytes.
fn table(flags: u8) -> usize {
    if flags & 0x80 == 0 { 0 } else { 3 << ((flags & 7) + 1) }
}

/// The end of a sequence of blocks: each begins with its length, and the last one has length 0.
fn after_blocks(bytes: &[u8], mut at: usize) -> Option<usize> {
    loop {
        match *bytes.get(at)? {
            0 => return Some(at + 1),
            length => at += 1 + usize::from(length),
        }
    }
}

/// The first chunk, of one of three kinds (RFC 9649, 2.5 to 2.7).
fn webp(bytes: &[u8]) -> Option<(usize, usize)> {
    match bytes.get(12..16)? {
        b"VP8 " => Some((little(bytes, 26, 2)? & 0x3fff, little(bytes, 28, 2)? & 0x3fff)),
        b"VP8L" => {
            let packed = little(bytes, 21, 4)?;
            Some(((packed & 0x3fff) + 1, (packed >> 14 & 0x3fff) + 1))
        }
        b"VP8X" => Some((little(bytes, 24, 3)? + 1, little(bytes, 27, 3)? + 1)),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn x_the_size_of_an_image_is_read_as_browsers_read_it() {
        let png = [&b"\x89PNG\r\n\x1a\n\0\0\0\rIHDR"[..], &[0, 0, 0x2e, 0xe0, 0, 0, 0, 7]].concat();
        assert_eq!(size(MediaType::Png, &png), Some((12_000, 7)));
        assert_eq!(size(MediaType::Png, b"\x89PNG\r\n\x1a\n\0\0\0\rIDAT\0\0\0\x01\0\0\0\x01"), None);

        let frame = [0xff, 0xc2, 0, 11, 8, 0x23, 0x28, 0x2e, 0xe0, 1, 1, 0x11, 0];
        let jpeg = |before: &[u8]| [&[0xff, 0xd8][..], before, &frame].concat();
        let comment = [&[0xff, 0xfe, 0, 15][..], &[0xff, 0xc0, 0, 11, 8, 0, 1, 0, 1, 1, 1, 0x11, 0]].concat();
        // A length of 0xc000 would lead over the header to wherever the file wants.
        for before in [&[][..], &[0xff, 0xff], &comment, &[0xff, 0xe0, 0, 2, 0xff, 0xc4, 0, 3, 1, 0xff, 0xd0]] {
            assert_eq!(size(MediaType::Jpeg, &jpeg(before)), Some((12_000, 9_000)), "{before:x?}");
        }
        for none in [&[0xff, 0xd9][..], &[0xff, 0xda, 0xff, 0xff], &[7]] {
            assert_eq!(size(MediaType::Jpeg, &jpeg(none)), None, "{none:x?}");
        }

        // A screen of one pixel, a table of two colours, an extension, and a frame of 12,000 by 9,000.
        let screen = b"GIF89a\x01\0\x01\0\x80\0\0\0\0\0\xff\xff\xff";
        let frame = b"!\xf9\x04\0\0\0\0\0,\0\0\0\0\xe0\x2e\x28\x23\0\x02\x02\x44\x01\0;";
        assert_eq!(size(MediaType::Gif, &[&screen[..], frame].concat()), Some((12_000, 9_000)));
        let second = b",\0\0\0\0\x01\0\x01\0\0\x02\0,\x01\0\x02\0\x05\0\x05\0\0\x02\0;";
        assert_eq!(size(MediaType::Gif, &[&screen[..], second].concat()), Some((6, 7)));
        assert_eq!(size(MediaType::Gif, screen), Some((1, 1)));

        let webp = |chunk: &[u8]| [&b"RIFF\0\0\0\0WEBP"[..], chunk].concat();
        let of = |chunk: &[u8]| size(MediaType::Webp, &webp(chunk));
        assert_eq!(of(b"VP8 \0\0\0\0\0\0\0\x9d\x01\x2a\xe0\x2e\x28\xe3"), Some((12_000, 9_000)));
        assert_eq!(of(b"VP8L\0\0\0\0\x2f\x07\x40\0\0"), Some((8, 2)));
        assert_eq!(of(b"VP8X\0\0\0\0\0\0\0\0\xdf\x2e\0\x27\x23\0"), Some((12_000, 9_000)));
        assert_eq!(of(b"ALPH\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0"), None);
    }

    proptest! {
        #[test]
        fn r9_any_bytes_have_a_size_or_none(bytes in prop::collection::vec(prop_oneof![Just(0xff), Just(0), any::<u8>()], 0..200)) {
            for media_type in [MediaType::Png, MediaType::Jpeg, MediaType::Gif, MediaType::Webp] {
                size(media_type, &bytes);
                let begin = [&b"GIF89a"[..], &bytes].concat();
                size(media_type, &begin);
            }
        }
    }
}
