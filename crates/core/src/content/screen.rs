//! The screenshot in the result of a call: the computer tool returns it as a `data:` address.

use super::{Image, MediaType};

/// The tool that controls a computer.
pub const TOOL: &str = "computer";
/// Its older name.
pub const OLDER_TOOL: &str = "computer_use_preview";
/// What a screenshot begins with; it fills a line.
pub const DATA_URL: &str = "data:image/png;base64,";

/// A result that has a screenshot.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct WithScreenshot<'a> {
    before: &'a str,
    data: &'a str,
    after: &'a str,
}

impl<'a> WithScreenshot<'a> {
    /// The parts of the result of a tool; `None` if it has no screenshot.
    #[must_use]
    pub(crate) fn of(tool: &str, text: &'a str) -> Option<WithScreenshot<'a>> {
        if ![TOOL, OLDER_TOOL].contains(&tool) {
            return None;
        }
        // A note about an edit may come before it.
        let begins = |(at, _): &(usize, &str)| *at == 0 || text[..*at].ends_with('\n');
        let (at, _) = text.match_indices(DATA_URL).find(begins)?;
        let data = &text[at + DATA_URL.len()..];
        let (data, after) = data.split_at(data.find('\n').unwrap_or(data.len()));
        Some(WithScreenshot { before: &text[..at], data, after })
    }

    /// The screenshot; `None` if it cannot be read.
    #[must_use]
    pub(crate) fn image(&self) -> Option<Image> {
        Image::base64(MediaType::Png, self.data).ok()
    }

    /// The result with a note in place of the screenshot.
    #[must_use]
    pub(crate) fn noted(&self, note: &str) -> String {
        format!("{}{note}{}", self.before, self.after)
    }
}
