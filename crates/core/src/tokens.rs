//! The number of tokens of a text, as far as it can be known without the model's own tokenizer.
//!
//! An estimate by the letters, in quarters of a token: a byte of ASCII is one quarter (English prose has about four
//! letters to a token, and JSON a little fewer), a letter of Latin with marks, or of Cyrillic, Greek and the like,
//! three, a character of Chinese, Japanese or Korean four, anything beyond (emoji) eight. Vietnamese, where a quarter
//! of the letters have marks, comes to about two and a half letters a token. Real tokenizers differ by a third either
//! way, so a provider's own count is used where there is one; the estimate is for the messages after it.

use crate::content::{Content, Part, screen::WithScreenshot};

/// The cost of a message besides its text.
pub const MESSAGE: u64 = 4;
/// The cost of an image: about what the large providers count for one that fills the size to which they scale images
/// down. Its real size is behind its compression, or at an address that nothing here reads.
pub const IMAGE: u64 = 1600;

/// Quarters of a token by the first byte of a character; bytes within one count nothing.
const QUARTERS: [u8; 256] = {
    let mut table = [0; 256];
    let mut byte = 0;
    while byte < 256 {
        table[byte] = match byte {
            0x00..=0x7f => 1,
            // Vietnamese letters with two marks begin with E1, as others of Latin and Greek do.
            0xc2..=0xe1 => 3,
            0xe2..=0xef => 4,
            0xf0..=0xf4 => 8,
            _ => 0,
        };
        byte += 1;
    }
    table
};

/// The tokens of a text, rounded up.
#[must_use]
pub fn of(text: &str) -> u64 {
    if text.is_ascii() {
        return (text.len() as u64).div_ceil(4);
    }
    let quarters: u64 = text.bytes().map(|byte| u64::from(QUARTERS[usize::from(byte)])).sum();
    quarters.div_ceil(4)
}

/// The tokens of a person's message.
#[must_use]
pub fn of_content(content: &Content) -> u64 {
    let of_part = |part: &Part| match part {
        Part::Text(text) => of(text),
        Part::Image(_) => IMAGE,
    };
    content.parts().iter().map(of_part).sum()
}

/// The tokens of the result of a tool.
#[must_use]
pub fn of_result(tool: &str, text: &str) -> u64 {
    WithScreenshot::of(tool, text).map_or_else(|| of(text), |screenshot| IMAGE + of(&screenshot.noted("")))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Counts of OpenAI's `o200k_base` and `cl100k_base` are beside each text; the estimate is close to them, and
    /// rather high than low.
    #[test]
    fn g5_the_estimate_is_of_the_right_size_in_every_language() {
        let english = "The quick brown fox jumps over the lazy dog, and then it goes home to sleep.";
        let vietnamese = "Tôi muốn mua một trăm cổ phiếu của công ty này vào ngày mai.";
        let chinese = "我想明天买入这家公司的一百股股票,请帮我确认价格。";
        let json = r#"{"symbol":"VNM","quantity":100,"limit":71.5}"#;
        for (text, least, most) in [(english, 17, 24), (vietnamese, 16, 36), (chinese, 16, 32), (json, 11, 22)] {
            let tokens = of(text);
            assert!((least..=most).contains(&tokens), "{text}: {tokens}");
        }
        assert_eq!((of(""), of("a"), of("🙂")), (0, 1, 2));
    }
}
