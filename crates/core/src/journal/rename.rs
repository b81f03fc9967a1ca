//! The title that a person gives a session, in place of the one that follows from its first message.
//!
//! It is a record like any other: it is stored, sealed, copied and forked with the journal, and the last one counts. It
//! makes no event, since it is not part of the conversation; clients read it in the list of sessions.

use std::sync::Arc;

use unicode_normalization::UnicodeNormalization as _;

use super::{
    draft::{Draft, Transition},
    record::{Record, Renamed},
    state::State,
};
use crate::{
    call::shown,
    limits,
    refusal::{Code, Refusal},
};

/// A title as it is kept: in Unicode's NFC, without white space around it. `None` for an empty text, which gives the
/// automatic title back.
///
/// # Errors
/// `invalid_message`: longer than [`limits::TITLE_CHARS`], or with a character that would break or turn the line.
pub fn title(text: &str) -> Result<Option<Arc<str>>, Refusal> {
    let kept: String = text.trim().nfc().collect();
    let wrong = |what: String| Err(Refusal::new(Code::InvalidMessage, format!("title: {what}")));
    if let Some(c) = kept.chars().find(|c| breaks_or_turns(*c)) {
        let code = u32::from(c);
        return wrong(format!(
            "has the character U+{code:04X}; a title is one line of plain text, without control characters or ones that change its direction"
        ));
    }
    let chars = kept.chars().count();
    if chars > limits::TITLE_CHARS {
        return wrong(format!("has {chars} characters; a title has at most {}", limits::TITLE_CHARS));
    }
    Ok((!kept.is_empty()).then(|| kept.into()))
}

/// Whether a character ends a line, or changes the direction of what others wrote beside it in a list.
fn breaks_or_turns(c: char) -> bool {
    c.is_control() || matches!(c, '\u{2028}' | '\u{2029}') || shown::is_bidirectional(c)
}

impl Draft {
    /// Gives the session a title that [`title`] has checked.
    pub fn rename(mut self, title: Option<Arc<str>>, by: Option<Arc<str>>) -> Transition {
        self.push(Record::Renamed(Renamed { title, by }));
        self.finish()
    }
}

impl State {
    /// The title in lists: the one that a person gave it, or the beginning of its first message.
    #[must_use]
    pub fn title(&self) -> Option<&Arc<str>> {
        self.given_title.as_ref().or(self.first_words.as_ref())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn u1_a_title_is_one_short_line_in_one_spelling() {
        let kept = |text: &str| title(text).expect("a title").map(|kept| kept.to_string());
        assert_eq!(kept("  Hoá đơn tháng 11 \n"), Some("Hoá đơn tháng 11".to_owned()));
        assert_eq!(kept("e\u{301}"), Some("\u{e9}".to_owned()), "NFC");
        assert_eq!(kept("👩‍💻 发票"), Some("👩‍💻 发票".to_owned()));
        for empty in ["", "   ", "\n\t"] {
            assert_eq!(kept(empty), None);
        }
        assert_eq!(kept(&"字".repeat(limits::TITLE_CHARS)).map(|kept| kept.chars().count()), Some(limits::TITLE_CHARS));
        let refused = |text: &str| title(text).expect_err("refused").message;
        assert_eq!(
            refused(&"字".repeat(limits::TITLE_CHARS + 1)),
            "title: has 201 characters; a title has at most 200"
        );
        for (text, code) in
            [("a\nb", "U+000A"), ("a\u{0}b", "U+0000"), ("a\u{202e}b", "U+202E"), ("a\u{2028}b", "U+2028")]
        {
            let said = format!(
                "title: has the character {code}; a title is one line of plain text, without control characters or ones that change its direction"
            );
            assert_eq!(refused(text), said);
        }
    }
}
