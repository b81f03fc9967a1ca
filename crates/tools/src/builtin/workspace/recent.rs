//! The changes of files by calls since people were shown the files.

use std::collections::VecDeque;

use super::super::place::Place;

/// Most files that are remembered.
const FILES: usize = 256;
/// Most changes of one file.
const CHANGES: usize = 64;

/// The lines of a text that a change replaces, from the first to the last that differs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Span {
    /// How many lines are above.
    pub(crate) at: usize,
    /// How many are replaced.
    pub(crate) old: usize,
    /// By how many they are replaced.
    pub(crate) new: usize,
}

impl Span {
    /// The difference between the lines of two texts.
    pub(crate) fn between(before: &[&str], after: &[&str]) -> Span {
        let at = before.iter().zip(after).take_while(|(a, b)| a == b).count();
        let (before, after) = (&before[at..], &after[at..]);
        let below = before.iter().rev().zip(after.iter().rev()).take_while(|(a, b)| a == b).count();
        Span { at, old: before.len() - below, new: after.len() - below }
    }
}

/// Where the lines that people were shown are now. The calls of one answer are all shown with the same state of a file,
/// and each changes it for the next; changes by a call of another answer were not shown with them. The file changed
/// last comes last.
#[derive(Debug, Default)]
pub(crate) struct Recent(VecDeque<(Place, Made)>);

/// A file that was shown with the calls of an answer, and its state now.
#[derive(Debug)]
struct Made {
    answer: String,
    shown: String,
    now: String,
    /// The changes, at their places now.
    changes: Vec<Span>,
}

impl Recent {
    /// Where lines that are now in a file were when it was shown; `None` if something else may have changed it, or these
    /// are not the lines that were there.
    pub(crate) fn line_when_shown(&self, place: &Place, [answer, shown, now]: [&str; 3], span: Span) -> Option<usize> {
        let (_, made) = self.0.iter().find(|known| is(known, place, answer, shown) && known.1.now == now)?;
        let mut at = span.at;
        for change in &made.changes {
            if change.at + change.new <= span.at {
                at = (at + change.old).checked_sub(change.new)?;
            } else if change.at < span.at + span.old {
                return None;
            }
        }
        Some(at)
    }

    /// Remembers a change of a file that was shown in one state and is changed from another to a third.
    pub(crate) fn note(&mut self, place: &Place, [answer, shown]: [&str; 2], [before, after]: [String; 2], span: Span) {
        let known = self.0.iter().position(|known| is(known, place, answer, shown)).and_then(|at| self.0.remove(at));
        let made = known.map(|(_, made)| made).filter(|made| made.now == before);
        let mut made = match made {
            Some(made) if made.changes.len() < CHANGES => made,
            // Something else has changed it, or this is too much to remember.
            _ if before != shown => return,
            _ => Made { answer: answer.to_owned(), shown: before.clone(), now: before, changes: Vec::new() },
        };
        for change in made.changes.iter_mut().filter(|change| change.at >= span.at + span.old) {
            change.at = change.at - span.old + span.new;
        }
        made.changes.push(span);
        made.now = after;
        if self.0.len() == FILES {
            self.0.pop_front();
        }
        self.0.push_back((place.clone(), made));
    }
}

fn is((of, made): &(Place, Made), place: &Place, answer: &str, shown: &str) -> bool {
    of == place && made.answer == answer && made.shown == shown
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn s12_lines_are_where_they_were_shown_less_what_calls_have_changed_above() {
        let place = Place::file("a").expect("place");
        let span = |at, old, new| Span { at, old, new };
        let state = |name: &str| name.to_owned();
        let mut recent = Recent::default();
        recent.note(&place, ["a", "0"], [state("0"), state("1")], span(4, 1, 3));
        recent.note(&place, ["a", "0"], [state("1"), state("2")], span(1, 2, 0));
        // Of the lines shown, those at 1, 2 and 4 are changed by now; the new ones of the last are at 2 to 4.
        let was = |now: &str, span: Span| recent.line_when_shown(&place, ["a", "0", now], span);
        for (now, then) in [(0, Some(0)), (1, Some(3)), (2, None), (4, None), (5, Some(5)), (6, Some(6))] {
            assert_eq!(was("2", span(now, 1, 1)), then, "{now}");
        }
        assert_eq!((was("2", span(0, 2, 1)), was("2", span(1, 2, 1))), (None, None), "over what was changed");
        assert_eq!(was("3", span(0, 1, 1)), None, "something else has changed it");
        assert_eq!(recent.line_when_shown(&place, ["b", "0", "2"], span(5, 1, 1)), None, "another answer's calls have");
        recent.note(&place, ["a", "0"], [state("3"), state("4")], span(0, 1, 1));
        assert_eq!(recent.line_when_shown(&place, ["a", "0", "4"], span(5, 1, 1)), None);
    }

    #[test]
    fn r9_the_files_that_were_changed_last_are_remembered() {
        let span = Span { at: 4, old: 1, new: 1 };
        let mut recent = Recent::default();
        let mut note = |name: String| {
            let place = Place::file(&name).expect("place");
            recent.note(&place, ["a", "0"], ["0".to_owned(), "1".to_owned()], span);
            recent.0.len()
        };
        let first = (0..FILES).map(|n| note(format!("f{n}"))).last();
        assert_eq!((first, note("A".to_owned()), note("z".to_owned())), (Some(FILES), FILES, FILES));
        let known = |name: &str| {
            let place = Place::file(name).expect("place");
            recent.line_when_shown(&place, ["a", "0", "1"], Span { at: 9, ..span }).is_some()
        };
        assert!(known("A") && known("z") && !known("f0"));
    }
}
