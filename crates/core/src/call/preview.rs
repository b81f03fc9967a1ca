//! What a reviewer is shown of what a call would do, beside its arguments (SPEC S12).

use std::sync::Arc;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::shown;
use crate::limits;

/// What a call would do, as it was when a person was asked. It is recorded as it is, and shown by [`Preview::shown`].
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Preview {
    /// How it is read.
    pub kind: PreviewKind,
    /// The text; at most [`limits::PREVIEW_BYTES`].
    pub text: Arc<str>,
    /// How many lines at the end are left out.
    #[serde(default, skip_serializing_if = "is_none_left")]
    pub left_out: u32,
    /// What it was made against, in the tool's own words, for the tool to compare when the call runs: a digest of the
    /// file. It is not shown.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub base: Option<Arc<str>>,
}

fn is_none_left(lines: &u32) -> bool {
    *lines == 0
}

/// How a preview is read.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum PreviewKind {
    /// A unified diff of files.
    Diff,
    /// A text.
    Text,
    /// Why there is no preview.
    Failed,
}

/// A [`Preview`] as reviewers see it, the same on every screen. It is made from the record each time.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, JsonSchema)]
pub struct ShownPreview {
    /// How it is read.
    pub kind: PreviewKind,
    /// The text, for a fixed-width font, its spaces and line ends kept. What a screen draws as nothing, in another
    /// place, or like something else is written as `\\u{HEX}`.
    pub text: String,
    /// How many lines at the end are left out.
    pub left_out: u32,
}

impl Preview {
    /// A unified diff.
    #[must_use]
    pub fn diff(text: &str) -> Preview {
        Preview::of(PreviewKind::Diff, text)
    }

    /// A text.
    #[must_use]
    pub fn text(text: &str) -> Preview {
        Preview::of(PreviewKind::Text, text)
    }

    /// Why there is none.
    #[must_use]
    pub fn failed(why: &str) -> Preview {
        Preview::of(PreviewKind::Failed, why)
    }

    /// Says what it was made against.
    #[must_use]
    pub fn against(mut self, base: &str) -> Preview {
        self.base = Some(base.into());
        self
    }

    /// As much of the text as there is room for, in whole lines if there is one.
    fn of(kind: PreviewKind, text: &str) -> Preview {
        let text = text.strip_suffix('\n').unwrap_or(text);
        let most = limits::PREVIEW_BYTES;
        if text.len() <= most {
            return Preview { kind, text: text.into(), left_out: 0, base: None };
        }
        let kept = &text[..text.floor_char_boundary(most)];
        let kept = kept.rfind('\n').map_or(kept, |end| &kept[..end]);
        let left_out = text[kept.len()..].trim_start_matches('\n').split('\n').count();
        let left_out = u32::try_from(left_out).unwrap_or(u32::MAX);
        Preview { kind, text: kept.into(), left_out, base: None }
    }

    /// The form that reviewers see.
    #[must_use]
    pub fn shown(&self) -> ShownPreview {
        let mut text = String::with_capacity(self.text.len() + 16);
        for (i, line) in self.text.split('\n').enumerate() {
            if i > 0 {
                text.push('\n');
            }
            // The first column of a diff says what the line is; the line is what stands behind it.
            let sign = usize::from(self.kind == PreviewKind::Diff && line.starts_with([' ', '+', '-', '\\']));
            text.push_str(&line[..sign]);
            text.push_str(&shown::source(&line[sign..]));
        }
        ShownPreview { kind: self.kind, text, left_out: self.left_out }
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
    fn w4_what_cannot_be_seen_is_seen_in_a_preview() {
        let shown = |text: &str| Preview::diff(text).shown().text;
        assert_eq!(shown("+a\u{202e}b\n-\ta  b\n \n+x \n+c\r"), "+a\\u{202E}b\n-\ta  b\n \n+x\\u{20}\n+c\\u{D}");
        // What a text says with the letters of an escape is not one.
        assert_eq!(shown("+\\u{202E} \\n \\d"), "+\\u{5C}u{202E} \\n \\d");
        assert_eq!(Preview::text("    four\n$ x").shown().text, "    four\n$ x");
        let far = format!("+a{}rm -rf", " ".repeat(200));
        assert!(shown(&far).contains("\\u{20}\\u{20}"), "{}", shown(&far));
    }
}
