//! What a reviewer has seen of the files that a call changes, and whether they are still so when it runs (spec S12).

use std::collections::BTreeMap;

use countersign_core::call::{args::Digest, preview::Preview};
use countersign_engine::tool::ToolError;

use super::{
    place::Place,
    workspace::{Change, There},
};

/// How much of a digest is kept, in hexadecimal digits.
const DIGITS: usize = 32;

/// The base of a preview ([`Preview::base`]): a line for each file, with a digest of its path and of what was there.
#[derive(Debug, Default)]
pub(super) struct Seen(BTreeMap<String, String>);

impl Seen {
    /// What is there before these changes.
    pub(super) fn of(changes: &[Change]) -> Seen {
        Seen(changes.iter().map(|change| (short(&change.place.to_string()), of_file(&change.before))).collect())
    }

    /// What a preview has shown: nothing, if it could not be made.
    pub(super) fn shown(preview: &Preview) -> Seen {
        let lines = preview.base.as_deref().unwrap_or_default().lines();
        Seen(lines.filter_map(|line| line.split_once(' ')).map(|(at, what)| (at.into(), what.into())).collect())
    }

    /// With what was seen earlier of the same files: an edit of a call does not show them anew.
    pub(super) fn or_earlier(mut self, earlier: Seen) -> Seen {
        for (place, was) in earlier.0 {
            self.0.entry(place).and_modify(|now| *now = was);
        }
        self
    }

    /// As the base of a preview.
    pub(super) fn base(&self) -> String {
        self.0.iter().map(|(place, what)| format!("{place} {what}\n")).collect()
    }

    /// Whether a file is as it was seen.
    pub(super) fn is(&self, place: &Place, there: &There) -> bool {
        self.0.get(&short(&place.to_string())).is_some_and(|seen| *seen == of_file(there))
    }
}

/// The error for a file that is not as it was.
pub(super) fn changed(place: &Place, since: &str) -> ToolError {
    ToolError::new(format!(
        "{place} may not be as it was {since}; nothing was changed. Read it, and make the call again if that is still right"
    ))
}

/// The time since which a file is compared, in an error.
pub(super) const WHEN_SHOWN: &str = "when the change was shown";

fn of_file(there: &There) -> String {
    match there {
        There::Nothing => "nothing".to_owned(),
        There::Text(found) => short(&found.text),
        There::Other(stamp, _) => short(&format!("{stamp:?}")),
    }
}

fn short(text: &str) -> String {
    let mut digest = Digest::of(text.as_bytes()).to_string();
    digest.truncate(DIGITS);
    digest
}
