//! The text of the block that a model is writing, which no record holds yet: from this node's model, or received from
//! another node ([`super::feed`]).
//!
//! Followers see no text twice, and no wrong text: a part from another node is shown only where it continues the text
//! known here. Missing text is shown with the finished block.

use std::sync::atomic::{AtomicU64, Ordering};

use countersign_core::{journal::record::Block, limits};

use crate::store::nodes::{Epoch, TextId, TextPlace};

/// The number of the newest text that this process has begun.
static TEXTS: AtomicU64 = AtomicU64::new(0);

/// The text so far of the open block. Lost in a crash.
#[derive(Debug, Default)]
pub(super) struct OpenText {
    written: Option<Block>,
    /// Followers have seen void text of that block: it starts over before they get more of it.
    void: bool,
    /// The id of this text, or of the last one.
    id: TextId,
}

/// An update for followers.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Shows {
    /// The block with its text so far; `over`: it starts over.
    Begins { over: bool },
    /// More of it.
    More(Block),
}

/// An update for followers before a block ends.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Rest {
    /// The rest of the text, as a separate block.
    More(Block),
    /// The whole text: they have seen none.
    All,
    /// The whole text, after the block has started over.
    Over,
}

impl OpenText {
    pub(super) fn written(&self) -> Option<&Block> {
        self.written.as_ref()
    }

    /// The end of the known text.
    pub(super) fn place(&self) -> TextPlace {
        let written = |block: &Block| TextPlace { text: self.id, offset: block.content().len() };
        self.written.as_ref().map(written).unwrap_or_default()
    }

    /// Forgets the text: another node drives the turn now, and writes all of it again.
    pub(super) fn unwrite(&mut self) {
        self.void |= self.written.take().is_some_and(|written| !written.content().is_empty());
    }

    /// This node's model writes the block that began at this `seq`.
    pub(super) fn write(&mut self, seq: u64, epoch: Epoch, block: &Block) -> Shows {
        let n = TEXTS.fetch_add(1, Ordering::Relaxed) + 1;
        self.begin(TextId { block: seq, epoch: epoch.0, n }, block.clone())
    }

    fn begin(&mut self, id: TextId, block: Block) -> Shows {
        self.id = id;
        let before = self.written.replace(block);
        let over = std::mem::take(&mut self.void) | before.is_some_and(|before| !before.content().is_empty());
        Shows::Begins { over }
    }

    /// Adds text; `None` if no block is being written.
    pub(super) fn write_more(&mut self, more: &str) -> Option<Shows> {
        let written = self.written.as_mut()?;
        let added = written.begun().with(more);
        written.write(more);
        Some(Shows::More(added))
    }

    /// Takes a part of the text of the block `begun`, at a place, from another node.
    pub(super) fn hear(&mut self, begun: &Block, at: TextPlace, part: &str) -> Option<Shows> {
        if at.text < self.id || part.is_empty() || at.offset.saturating_add(part.len()) > limits::RESPONSE_BYTES {
            return None;
        }
        match self.written.as_ref().filter(|_| at.text == self.id) {
            Some(written) => {
                let known = written.content().len().checked_sub(at.offset)?;
                let more = part.get(known..).filter(|more| !more.is_empty())?;
                self.write_more(more)
            }
            // Another text, from its beginning.
            None => (at.offset == 0).then(|| self.begin(at.text, begun.begun().with(part))),
        }
    }

    /// The block ends, with its recorded text.
    pub(super) fn end(&mut self, block: &Block) -> Rest {
        let void = std::mem::take(&mut self.void);
        match self.written.take() {
            None if !void => Rest::All,
            Some(written) if !void && written.begins_as(block) => {
                let rest = block.content().strip_prefix(written.content());
                rest.map_or(Rest::Over, |rest| Rest::More(block.begun().with(rest)))
            }
            _ => Rest::Over,
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn text(content: &str) -> Block {
        Block::text(content)
    }

    fn id(n: u64) -> TextId {
        TextId { block: 1, epoch: 1, n }
    }

    fn at(n: u64, offset: usize) -> TextPlace {
        TextPlace { text: id(n), offset }
    }

    /// The text that a follower of these updates sees.
    fn show(seen: &mut String, open: &OpenText, shown: Option<Shows>) {
        match shown {
            Some(Shows::Begins { over }) => {
                assert!(over || seen.is_empty(), "other text was seen: {seen:?}");
                *seen = open.written().map_or("", Block::content).to_owned();
            }
            Some(Shows::More(more)) => seen.push_str(more.content()),
            None => {}
        }
    }

    #[test]
    fn r5_a_part_is_shown_where_it_continues_what_is_known_and_nowhere_else() {
        let mut open = OpenText::default();
        let mut hear = |n, offset, part: &str| open.hear(&text(""), at(n, offset), part);
        assert_eq!(hear(1, 3, "def"), None, "its beginning is not known");
        assert_eq!(hear(1, 0, "abc"), Some(Shows::Begins { over: false }));
        assert_eq!(hear(1, 0, "abc"), None, "known");
        assert_eq!(hear(1, 4, "e"), None, "a gap");
        assert_eq!(hear(1, 1, "bcd"), Some(Shows::More(text("d"))));
        assert_eq!(hear(2, 4, "z"), None, "another text, not from its beginning");
        assert_eq!(hear(2, 0, "éy"), Some(Shows::Begins { over: true }));
        assert_eq!(hear(2, 0, "xxéz"), None, "within a character");
        assert_eq!(hear(1, 4, "e"), None, "an older text");
        assert_eq!(hear(2, limits::RESPONSE_BYTES, "e"), None, "too long");
        assert_eq!(open.place(), at(2, 3));
        assert_eq!(open.end(&text("éyz")), Rest::More(text("z")));
        assert_eq!(open.end(&text("more")), Rest::All, "nothing of this one was seen");
    }

    #[test]
    fn r5_what_was_seen_of_a_text_that_is_void_starts_over() {
        let mut open = OpenText::default();
        open.hear(&text(""), at(1, 0), "abc");
        open.unwrite();
        assert_eq!(open.hear(&text(""), at(2, 0), "ab"), Some(Shows::Begins { over: true }));
        assert_eq!(open.end(&text("ac")), Rest::Over);
        open.hear(&text(""), at(3, 0), "abc");
        open.unwrite();
        assert_eq!(open.end(&text("abc")), Rest::Over);
        let thinking = Block::thinking("abc");
        open.hear(&text(""), at(4, 0), "abc");
        assert_eq!(open.end(&thinking), Rest::Over);
    }

    proptest! {
        /// Parts of a block's texts are lost, repeated, and late. A follower always sees the beginning of a text, never
        /// an older one than before, and at the end the recorded block.
        #[test]
        fn r5_whatever_parts_are_lost_or_repeated_what_is_seen_is_right(
            texts in prop::collection::vec("[abé]{1,12}", 1..4),
            told in prop::collection::vec((0usize..4, 0usize..14, 0usize..14, any::<bool>()), 0..60),
        ) {
            let mut open = OpenText::default();
            let mut seen = String::new();
            let mut newest = 0;
            for (which, from, to, retold) in told {
                let n = which % texts.len();
                let whole = &texts[n];
                let from = whole.floor_char_boundary(if retold { 0 } else { from.min(whole.len()) });
                let to = whole.ceil_char_boundary(to.clamp(from, whole.len()));
                let before = (newest, seen.len());
                let shown = open.hear(&text(""), at(n as u64 + 1, from), &whole[from..to]);
                if shown.is_some() {
                    prop_assert!(n >= newest);
                    newest = n;
                }
                show(&mut seen, &open, shown);
                prop_assert!(texts[newest].starts_with(&seen));
                prop_assert!(before.0 < newest || before.1 <= seen.len());
                // If a part begins within the known text, its rest is shown.
                let continues = n == newest && from <= before.1 && before.0 == newest && !seen.is_empty();
                prop_assert!(!continues || seen.len() >= to, "{} {}", seen, to);
            }
            let last = text(texts.last().expect("one"));
            match open.end(&last) {
                Rest::More(rest) => seen.push_str(rest.content()),
                Rest::All => {
                    prop_assert!(seen.is_empty());
                    seen = last.content().to_owned();
                }
                Rest::Over => seen = last.content().to_owned(),
            }
            prop_assert_eq!(seen, last.content());
        }
    }
}
