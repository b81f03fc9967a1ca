//! A conversation that is kept and extended always equals one folded from the start, even while readers hold an earlier
//! version.

use std::{
    collections::HashMap,
    sync::{Arc, LazyLock},
};

use countersign_core::{
    content::{Content, Image, Part, TakesImages},
    conversation::{Conversation, Message},
    journal::record::{Record, UserMessage},
    limits,
    number::CallNo,
};
use proptest::prelude::*;

use crate::world::{Op, World, ops};

/// Everything that a reader can distinguish.
fn read(conversation: &Conversation) -> String {
    let cut = |keep| format!("{:?} {}", conversation.cut(keep).messages(), conversation.cut(keep).text(10_000));
    let cuts: Vec<String> = (1..3).map(cut).collect();
    format!("{:?} {cuts:?}", conversation.read(TakesImages::All, &[], |_, _| false))
}

/// The conversations of a session, as a runtime keeps them.
#[derive(Default)]
struct Kept {
    own: Conversation,
    /// How many records are in it.
    until: usize,
    /// For nested agents: the position at which they began, and how far they are folded.
    nested: HashMap<CallNo, (u64, usize, Conversation)>,
}

impl Kept {
    fn extend(&mut self, world: &World) {
        world.journal[self.until..].iter().for_each(|entry| self.own.apply(entry));
        self.until = world.journal.len();
        for nested in &world.state.nested {
            let begin = nested.began as usize - 1;
            let anew = || (nested.began, begin, Conversation::nested(world.state.locale, nested));
            let known = self.nested.entry(nested.call).or_insert_with(anew);
            if known.0 != nested.began {
                *known = anew();
            }
            world.journal[known.1..].iter().for_each(|entry| known.2.apply(entry));
            known.1 = world.journal.len();
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(400))]

    /// Spec G5, W9: calls, decisions, edits, compressions, retried turns, nested agents; a fork starts over.
    #[test]
    fn g5_a_kept_conversation_is_at_any_moment_the_one_folded_anew(ops in ops()) {
        let (mut world, mut kept) = (World::new(), Kept::default());
        let mut held: Vec<(Arc<Vec<Message>>, String)> = Vec::new();
        for (n, op) in ops.iter().enumerate() {
            let made = world.apply(op).is_ok();
            if made && matches!(op, Op::Fork(..) | Op::Restore(_)) {
                kept = Kept::default();
            }
            kept.extend(&world);
            prop_assert_eq!(read(&kept.own), read(&world.conversation()));
            for nested in &world.state.nested {
                let anew = world.nested_conversation(nested.call.run());
                prop_assert_eq!(read(&kept.nested[&nested.call].2), read(&anew));
            }
            if n % 3 == 0 {
                let messages = kept.own.read(TakesImages::All, &[], |_, _| false);
                let text = format!("{messages:?}");
                held.push((messages, text));
            }
        }
        for (messages, then) in held {
            prop_assert_eq!(format!("{messages:?}"), then, "what was read stays as it was");
        }
    }

    /// Spec G5: images that no model sees any more may be dropped at any time, and no model can tell.
    #[test]
    fn g5_which_images_are_forgotten_no_model_can_tell(
        said in proptest::collection::vec(proptest::collection::vec(0..4_u8, 1..12), 1..8)
    ) {
        let (mut kept, mut all) = (Conversation::new(), Conversation::new());
        for parts in &said {
            let record = Record::UserMessage(screenshot(parts));
            all.take(&record, 1);
            kept.take(&record, 1);
            kept.forget_old_images();
            for takes in [TakesImages::None, TakesImages::Inline, TakesImages::All] {
                let mut anew = all.clone();
                anew.keep_images_for(takes);
                let anew = format!("{:?}", anew.into_messages());
                prop_assert_eq!(format!("{:?}", kept.read(takes, &[], |_, _| false)), anew);
            }
        }
    }
}

/// An image of this many bytes.
fn image(bytes: usize) -> Image {
    let mut gif = b"GIF89a\x01\0\x01\0\0\0\0".to_vec();
    gif.resize(bytes, 0);
    Image::new(&gif).expect("an image")
}

static SMALL: LazyLock<Image> = LazyLock::new(|| image(20));
/// A few of these reach the limit for any model.
static LARGE: LazyLock<Image> = LazyLock::new(|| image(limits::SHOWN_IMAGES_BYTES / 10));

/// A message of texts, small images, large ones, and addresses of images.
fn screenshot(parts: &[u8]) -> UserMessage {
    let part = |part: &u8| -> Part {
        match part {
            0 => "words".into(),
            1 => SMALL.clone().into(),
            2 => LARGE.clone().into(),
            _ => Image::url("https://example.com/a.png").expect("an image").into(),
        }
    };
    let content: Content = parts.iter().map(part).collect();
    UserMessage { content, ..UserMessage::default() }
}

/// The counted size of a conversation is about the size of its texts.
#[test]
fn r9_the_size_of_a_conversation_is_that_of_its_texts() {
    let mut conversation = Conversation::new();
    let said = |text: String| UserMessage { content: text.into(), ..UserMessage::default() };
    let empty = conversation.bytes();
    for _ in 0..100 {
        conversation.take(&Record::UserMessage(said("x".repeat(1_000))), 1);
    }
    let full = conversation.bytes() - empty;
    assert!((100_000..120_000).contains(&full), "{full}");
}
