//! The state in which a reviewer has seen the files that a call changes, and whether they are still in it when the call
//! runs (spec S12).

use std::collections::BTreeMap;

use countersign_core::call::{args::Digest, preview::Preview};
use countersign_engine::tool::{ToolContext, ToolError};

use super::{
    diff::AROUND,
    place::Place,
    workspace::{Change, Recent, Span, There},
};

/// How much of a digest is kept, in hexadecimal digits.
const DIGITS: usize = 32;

/// The base of a preview ([`Preview::base`]): a line for each file, with digests of its path, its content, and the
/// part that a change replaces.
#[derive(Debug, Default)]
pub(super) struct Seen(BTreeMap<String, Was>);

/// A file as it was seen.
#[derive(Debug)]
struct Was {
    /// A digest of its whole content.
    there: String,
    /// The effect of a change on a part of it.
    change: Option<Replaced>,
}

/// The effect of a change on a text, as digests.
#[derive(Debug)]
struct Replaced {
    /// How many lines are above.
    at: usize,
    /// The removed and the added lines.
    lines: String,
    /// These lines, and those that are shown around them.
    around: String,
}

impl Seen {
    /// The state before these changes, and their effects.
    pub(super) fn of(changes: &[Change]) -> Seen {
        let was = |change: &Change| Was {
            there: of_file(&change.before),
            change: replaced(change).map(|(replaced, _)| replaced),
        };
        Seen(changes.iter().map(|change| (of_place(&change.place), was(change))).collect())
    }

    /// The state that a preview has shown: none, if it could not be made.
    pub(super) fn shown(preview: &Preview) -> Seen {
        let line = |line: &str| {
            let mut words = line.split(' ').map(str::to_owned);
            let (place, there) = (words.next()?, words.next()?);
            let change = words.next().and_then(|at| at.parse().ok()).zip(words.next()).zip(words.next());
            let change = change.map(|((at, lines), around)| Replaced { at, lines, around });
            Some((place, Was { there, change }))
        };
        Seen(preview.base.as_deref().unwrap_or_default().lines().filter_map(line).collect())
    }

    /// With the earlier states of the same files: an edit of a call does not show the files again, nor its effect on a
    /// file that has changed since.
    pub(super) fn or_earlier(mut self, earlier: Seen) -> Seen {
        for (place, was) in earlier.0 {
            self.0.entry(place).and_modify(|now| {
                now.change = now.change.take().filter(|_| now.there == was.there);
                now.there = was.there;
            });
        }
        self
    }

    /// As the base of a preview.
    pub(super) fn base(&self) -> String {
        let line = |(place, was): (&String, &Was)| {
            let change = was.change.as_ref();
            let change = change.map(|Replaced { at, lines, around }| format!(" {at} {lines} {around}"));
            format!("{place} {}{}\n", was.there, change.unwrap_or_default())
        };
        self.0.iter().map(line).collect()
    }

    /// Whether a file is as it was seen.
    pub(super) fn is(&self, place: &Place, there: &There) -> bool {
        self.0.get(&of_place(place)).is_some_and(|was| was.there == of_file(there))
    }

    /// Refuses changes that are not as shown, and remembers them otherwise.
    ///
    /// # Errors
    /// A file has changed since, and this change would not replace the same lines among the same lines, or would not
    /// keep the file.
    pub(super) fn check_and_note(
        &self,
        changes: &[Change],
        context: &ToolContext,
        recent: &mut Recent,
    ) -> Result<(), ToolError> {
        let answer = answer_of(context);
        if let Some(other) = changes.iter().find(|change| !self.has(change, answer, recent)) {
            return Err(changed(&other.place, WHEN_SHOWN));
        }
        changes.iter().for_each(|change| self.note(change, context, recent));
        Ok(())
    }

    /// Whether a change is as shown: the file is unchanged; or the same lines change among the same lines; or the
    /// same lines change in a file that only other calls of the answer have changed.
    fn has(&self, change: &Change, answer: &str, recent: &Recent) -> bool {
        let (place, there) = (&change.place, of_file(&change.before));
        let Some(was) = self.0.get(&of_place(place)) else { return false };
        let same = |(shown, (now, span)): (&Replaced, (Replaced, Span))| {
            now.around == shown.around
                || now.lines == shown.lines
                    && recent.line_when_shown(place, [answer, &was.there, &there], span) == Some(shown.at)
        };
        was.there == there || was.change.as_ref().zip(replaced(change)).is_some_and(same)
    }

    /// Remembers a change of a file that was shown.
    pub(super) fn note(&self, change: &Change, context: &ToolContext, recent: &mut Recent) {
        if let (Some(was), Some((_, span)), Some(after)) =
            (self.0.get(&of_place(&change.place)), replaced(change), &change.after)
        {
            recent.note(&change.place, [answer_of(context), &was.there], [of_file(&change.before), short(after)], span);
        }
    }
}

/// Shared by the calls of one answer and by no others (copied calls: of one fork): the last part of the key,
/// `SESSION/cN/NONCE`.
fn answer_of(context: &ToolContext) -> &str {
    context.idempotency_key.rsplit('/').next().unwrap_or_default()
}

/// The error for a file that is not as it was.
pub(super) fn changed(place: &Place, since: &str) -> ToolError {
    ToolError::new(format!(
        "{place} may not be as it was {since}; nothing was changed. Read it, and make the call again if that is still right"
    ))
}

/// The time since which a file is compared, in an error.
pub(super) const WHEN_SHOWN: &str = "when the change was shown";

/// The part of a text that a change replaces; `None` where there is no text before or after it.
fn replaced(change: &Change) -> Option<(Replaced, Span)> {
    let (There::Text(before), Some(after)) = (&change.before, &change.after) else { return None };
    let (before, after): (Vec<&str>, Vec<&str>) =
        (before.text.split_inclusive('\n').collect(), after.split_inclusive('\n').collect());
    let span @ Span { at, old, new } = Span::between(&before, &after);
    let digest = |parts: [&[&str]; 4]| {
        // Their lengths are a part of it: no line moves from one to another.
        let lengths = parts.map(|lines| lines.len().to_string()).join(" ");
        short(&format!("{lengths}\n{}", parts.concat().concat()))
    };
    let (gone, come) = (&before[at..at + old], &after[at..at + new]);
    let above = &before[at.saturating_sub(AROUND)..at];
    let below = &before[at + old..before.len().min(at + old + AROUND)];
    let (lines, around) = (digest([&[], gone, come, &[]]), digest([above, gone, come, below]));
    Some((Replaced { at, lines, around }, span))
}

fn of_place(place: &Place) -> String {
    short(&place.to_string())
}

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
