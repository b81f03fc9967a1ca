//! Previews: the effect of a call as reviewers see it, besides its arguments (spec S12).
//!
//! A preview is computed with the verdict, and again for an edited call; it is recorded raw and bounded, and escaped
//! when it is shown, as arguments are. Calls of the same answer that need no approval run before people are asked, so a
//! preview may be out of date: tools check again when they run.

use std::{fmt, sync::Arc};

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::shown;
use crate::limits;

/// The effect of a call, as of when a person was asked. It is recorded raw, and shown by [`Preview::shown`].
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Preview {
    /// Its format.
    pub kind: PreviewKind,
    /// The text; at most [`limits::PREVIEW_BYTES`].
    pub text: Arc<str>,
    /// How many lines at the end are omitted.
    #[serde(default, skip_serializing_if = "is_none_left")]
    pub left_out: u32,
    /// The state that the preview is based on, in the tool's own terms, such as digests of files. The tool compares it
    /// when the call runs; it is not shown.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub base: Option<Arc<str>>,
}

fn is_none_left(lines: &u32) -> bool {
    *lines == 0
}

/// The format of a preview.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum PreviewKind {
    /// A unified diff of files.
    Diff,
    /// A text.
    Text,
    /// Why there is no preview.
    Failed,
}

/// The effect of a call as reviewers see it, the same on every screen. Derived from the record each time.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, JsonSchema)]
pub struct ShownPreview {
    /// Its format.
    pub kind: PreviewKind,
    /// The text, for a fixed-width font, its spaces and line ends kept. A character that is drawn as nothing, in
    /// another place, or like another one is written as `\\u{HEX}`.
    pub text: String,
    /// How many lines at the end are omitted.
    pub left_out: u32,
}

impl Preview {
    /// A unified diff.
    #[must_use]
    pub fn diff(text: &str) -> Preview {
        PreviewText::from(text).of_kind(PreviewKind::Diff)
    }

    /// A text.
    #[must_use]
    pub fn text(text: &str) -> Preview {
        PreviewText::from(text).of_kind(PreviewKind::Text)
    }

    /// Why there is none.
    #[must_use]
    pub fn failed(why: &str) -> Preview {
        PreviewText::from(why).of_kind(PreviewKind::Failed)
    }

    /// Records what it is based on.
    #[must_use]
    pub fn against(mut self, base: &str) -> Preview {
        self.base = Some(base.into());
        self
    }

    /// The form that reviewers see.
    #[must_use]
    pub fn shown(&self) -> ShownPreview {
        let mut text = String::with_capacity(self.text.len() + 16);
        for (i, line) in self.text.split('\n').enumerate() {
            if i > 0 {
                text.push('\n');
            }
            // The first column of a diff is the sign; the line's text follows it.
            let sign = usize::from(self.kind == PreviewKind::Diff && line.starts_with([' ', '+', '-', '\\']));
            text.push_str(&line[..sign]);
            text.push_str(&shown::source(&line[sign..]));
        }
        ShownPreview { kind: self.kind, text, left_out: self.left_out }
    }
}

/// The text of a preview, built piece by piece: it keeps no more than is shown, and only counts the lines of the rest.
#[derive(Clone, Debug, Default)]
pub struct PreviewText {
    kept: String,
    /// Line ends in the part that is not kept.
    more: usize,
    full: bool,
    ends_a_line: bool,
}

impl From<&str> for PreviewText {
    fn from(text: &str) -> PreviewText {
        let mut written = PreviewText::default();
        written.push(text);
        written
    }
}

impl fmt::Write for PreviewText {
    fn write_str(&mut self, text: &str) -> fmt::Result {
        self.push(text);
        Ok(())
    }
}

impl PreviewText {
    /// More of the text.
    pub fn push(&mut self, text: &str) {
        if text.is_empty() {
            return;
        }
        // One line end more than is shown: the last one of a text does not count.
        let room = if self.full { 0 } else { (limits::PREVIEW_BYTES + 1).saturating_sub(self.kept.len()) };
        let end = text.floor_char_boundary(room);
        self.full |= end < text.len();
        self.kept.push_str(&text[..end]);
        self.more += text.as_bytes()[end..].iter().filter(|byte| **byte == b'\n').count();
        self.ends_a_line = text.ends_with('\n');
    }

    /// The preview: as much of the text as fits, in whole lines if at least one fits.
    #[must_use]
    pub fn of_kind(self, kind: PreviewKind) -> Preview {
        let line_ends = |text: &str| text.bytes().filter(|byte| *byte == b'\n').count();
        let most = limits::PREVIEW_BYTES;
        if !self.full {
            let text = self.kept.strip_suffix('\n').unwrap_or(&self.kept);
            if text.len() <= most {
                return Preview { kind, text: text.into(), left_out: 0, base: None };
            }
        }
        let all = (line_ends(&self.kept) + self.more).saturating_sub(usize::from(self.ends_a_line));
        let kept = &self.kept[..self.kept.floor_char_boundary(most)];
        let (kept, left_out) = match kept.rfind('\n') {
            Some(end) => (&kept[..end], all.saturating_sub(line_ends(&kept[..end]))),
            // Part of the first line is omitted too.
            None => (kept, all + 1),
        };
        Preview { kind, text: kept.into(), left_out: u32::try_from(left_out).unwrap_or(u32::MAX), base: None }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn s12_a_preview_is_bounded_and_says_how_much_is_left_out() {
        let long = "+0123456789\n".repeat(limits::PREVIEW_BYTES / 12 + 10);
        let preview = Preview::diff(&long);
        assert!(preview.text.len() <= limits::PREVIEW_BYTES);
        let kept = preview.text.split('\n').count();
        assert_eq!(kept + preview.left_out as usize, long.lines().count());
        let short = Preview { kind: PreviewKind::Diff, text: "+a".into(), left_out: 0, base: None };
        assert_eq!(Preview::diff("+a\n"), short);
        let wide = Preview::text(&"é".repeat(limits::PREVIEW_BYTES));
        assert_eq!((wide.text.len(), wide.left_out), (limits::PREVIEW_BYTES, 1));
    }

    #[test]
    fn r9_a_preview_that_is_made_in_pieces_keeps_no_more_than_is_shown() {
        let long = "+é0123456789\n\n".repeat(limits::PREVIEW_BYTES / 10);
        for piece in [1, 7, 1000, limits::PREVIEW_BYTES - 1, limits::PREVIEW_BYTES, long.len()] {
            let mut text = PreviewText::default();
            let mut rest = &*long;
            while !rest.is_empty() {
                let (now, then) = rest.split_at(rest.ceil_char_boundary(piece));
                text.push(now);
                rest = then;
            }
            assert!(text.kept.len() <= limits::PREVIEW_BYTES + 1, "{}", text.kept.len());
            assert_eq!(text.of_kind(PreviewKind::Diff), Preview::diff(&long), "in pieces of {piece}");
        }
        // A text that fits to the byte is complete, with or without its last line end.
        let whole = "x".repeat(limits::PREVIEW_BYTES);
        assert_eq!(Preview::text(&whole).left_out, 0);
        assert_eq!(Preview::text(&format!("{whole}\n")), Preview::text(&whole));
        assert_eq!(Preview::text(&format!("{whole}\n\n")).left_out, 2);
    }

    #[test]
    fn w4_what_cannot_be_seen_is_seen_in_a_preview() {
        let shown = |text: &str| Preview::diff(text).shown().text;
        assert_eq!(shown("+a\u{202e}b\n-\ta  b\n \n+x \n+c\r"), "+a\\u{202E}b\n-\ta  b\n \n+x\\u{20}\n+c\\u{D}");
        // A text that spells an escape is not one.
        assert_eq!(shown("+\\u{202E} \\n \\d"), "+\\u{5C}u{202E} \\n \\d");
        assert_eq!(Preview::text("    four\n$ x").shown().text, "    four\n$ x");
        let far = format!("+a{}rm -rf", " ".repeat(200));
        assert!(shown(&far).contains("\\u{20}\\u{20}"), "{}", shown(&far));
    }
}
