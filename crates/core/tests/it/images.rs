//! Images in people's messages: how a session handles them.

use std::sync::Arc;

use countersign_core::{
    content::{Content, Image, TakesImages},
    conversation::{Conversation, Message, compression::summary_message},
    journal::{
        draft::{Catalog, Draft, MessageInput, OnPending, ToolFacts},
        record::{Entry, Record, SessionCreated},
        state::State,
    },
    limits,
    locale::Locale,
    refusal::Code,
    session::Session,
    tokens,
    wire::{
        event::{ContentBlock, Event},
        expand::expand,
        fold::{Fold, history},
        history::HistoryBlock,
    },
};

/// One agent, `a`, whose model `m` takes these images; `b`'s takes all.
struct Takes(TakesImages);

impl Catalog for Takes {
    fn has_agent(&self, agent: &str) -> bool {
        matches!(agent, "a" | "b")
    }
    fn max_turns(&self, _: &str) -> u32 {
        9
    }
    fn tool(&self, _: &str, _: &str) -> Option<ToolFacts> {
        None
    }
    fn images(&self, agent: &str) -> Option<(Arc<str>, TakesImages)> {
        (agent == "a").then(|| ("m".into(), self.0))
    }
}

fn here() -> Image {
    Image::new(b"GIF89a\x01\0\x01\0\0\0\0").expect("an image")
}

fn elsewhere() -> Image {
    Image::url("https://example.com/a.png").expect("an address")
}

fn session() -> (Session, Vec<Arc<Entry>>) {
    let mut draft = Draft::new(&State::new("s".into()), 1);
    draft.create(SessionCreated {
        agent: "a".into(),
        locale: Locale::En,
        birth: "b".into(),
        ..SessionCreated::default()
    });
    let made = Session::new("s".into()).place(draft.finish()).expect("legal").commit();
    (made.after, made.entries)
}

fn says(content: impl Into<Content>) -> MessageInput {
    MessageInput { content: content.into(), ..MessageInput::default() }
}

#[test]
fn x_an_image_that_no_model_would_look_at_is_refused_before_anything_is_stored() {
    let (state, _) = session();
    let refused = |takes, input| {
        let refusal = Draft::new(&state, 1).message(input, &Takes(takes)).expect_err("refused");
        assert_eq!(refusal.code, Code::ImagesNotSupported);
        let details = refusal.details.expect("details").get().to_owned();
        assert_eq!(details, r#"{"agent":"a","model":"m"}"#);
        refusal.message
    };
    let takes_none = refused(TakesImages::None, says(here()));
    assert!(takes_none.contains("the model \"m\" of the agent \"a\" takes none"), "{takes_none}");
    refused(TakesImages::None, says(Content::from("look").with(elsewhere())));
    let inline = refused(TakesImages::Inline, says(Content::from(here()).with(elsewhere())));
    assert!(inline.contains("takes only images that are in the message"), "{inline}");
    // A queued message is for the same model.
    refused(TakesImages::None, MessageInput { on_pending: Some(OnPending::Queue), ..says(here()) });

    let taken = |takes, input| Draft::new(&state, 1).message(input, &Takes(takes)).expect("taken");
    let _ = taken(TakesImages::All, says(elsewhere()));
    let _ = taken(TakesImages::Inline, says(here()));
    let _ = taken(TakesImages::None, says("words"));
    // The agent that the message names reads it.
    let _ = taken(TakesImages::None, MessageInput { agent: Some("b".into()), ..says(here()) });

    let many = vec![elsewhere(); limits::IMAGES + 1];
    let refusal = Draft::new(&state, 1).message(says(many), &Takes(TakesImages::All)).expect_err("too many");
    assert_eq!(refusal.code, Code::InvalidMessage);
}

#[test]
fn x_an_image_is_no_title_and_is_counted_where_sizes_are() {
    let (state, _) = session();
    let after = |content: Content| {
        let made = Draft::new(&state, 1).message(says(content), &Takes(TakesImages::All)).expect("taken");
        State::clone(made.state())
    };
    assert_eq!(after(here().into()).title(), None);
    assert_eq!(after(Content::from(here()).with("what is this?")).title().map(|title| &**title), Some("what is this?"));
    let mut bytes = b"GIF89a\x01\0\x01\0\0\0\0".to_vec();
    bytes.resize(300_000, 7);
    let large = Image::new(&bytes).expect("large");
    assert!(after(large.clone().into()).bytes - after(here().into()).bytes > 390_000, "a session's size counts it");
    let cost = |content: Content| countersign_core::conversation::tokens_of(&[Message::User(content)]);
    assert_eq!(cost(large.into()), tokens::MESSAGE + tokens::IMAGE, "its bytes are no letters");
    assert_eq!(cost(Content::from(here()).with("abcd")), tokens::MESSAGE + tokens::IMAGE + 1);
}

#[test]
fn w2_an_image_is_one_block_in_the_stream_and_in_history_and_goes_to_the_model_where_it_stood() {
    let (state, mut entries) = session();
    let said = Content::from("before").with("and").with(here()).with("after").with(elsewhere());
    let made = Draft::new(&state, 1).message(says(said), &Takes(TakesImages::All)).expect("taken");
    entries.extend(state.place(made).expect("legal").commit().entries);
    // As a store returns them.
    let text: Vec<String> = entries.iter().map(|entry| serde_json::to_string(&**entry).expect("json")).collect();
    let entries: Vec<Entry> =
        (1..).zip(&text).map(|(pos, text)| Entry { pos, ..serde_json::from_str(text).expect("entry") }).collect();

    let last = entries.iter().rfind(|entry| matches!(entry.records[0], Record::UserMessage(_))).expect("it is there");
    let starts = expand(&"s".into(), last).into_iter().filter_map(|event| match event.event {
        Event::ContentBlockStart { content_block: ContentBlock::Text, index, .. } => Some((index, "text".to_owned())),
        Event::ContentBlockStart { content_block: ContentBlock::Image { source }, index, .. } => {
            Some((index, source.as_url().into_owned()))
        }
        _ => None,
    });
    let gif = here().as_url().into_owned();
    let want = ["text", "text", &gif, "text", "https://example.com/a.png"];
    assert_eq!(starts.collect::<Vec<_>>(), (0..).zip(want.map(str::to_owned)).collect::<Vec<_>>());
    let frame = serde_json::to_value(&expand(&"s".into(), last)[7]).expect("json");
    assert_eq!(
        frame["content_block"],
        serde_json::json!({
            "type": "image", "source": { "type": "base64", "media_type": "image/gif", "data": "R0lGODlhAQABAAAAAA==" },
        })
    );

    let messages = history("s", &entries);
    assert_eq!((messages.len(), messages[0].content.len()), (1, 5));
    assert!(matches!(&messages[0].content[2], HistoryBlock::Image { source } if *source == here()));

    let mut conversation = Conversation::new();
    entries.iter().for_each(|entry| conversation.apply(entry));
    let [Message::User(read)] = &conversation.into_messages()[..] else { panic!("one message") };
    assert_eq!(*read, Content::from("before\n\nand").with(here()).with("after").with(elsewhere()));
}

#[test]
fn h6_a_page_of_history_counts_images_and_a_look_ahead_keeps_none() {
    let (state, mut entries) = session();
    let made = Draft::new(&state, 1).message(says(Content::from("x").with(here())), &Takes(TakesImages::All));
    entries.extend(state.place(made.expect("taken")).expect("legal").commit().entries);
    let fold = |lean: bool| {
        let mut fold = Fold::new("s", &Default::default());
        if lean {
            fold.look_ahead(0);
        }
        entries.iter().for_each(|entry| fold.entry(entry));
        fold
    };
    assert_eq!(fold(false).bytes(0), 1 + here().stored_bytes());
    let kept = fold(true).messages(0..1);
    assert!(kept[0].content.iter().all(|block| !matches!(block, HistoryBlock::Image { .. })));
}

/// A summary is a text, and a model that takes no images may write it.
#[test]
fn g5_of_an_image_that_is_summarised_there_is_a_note() {
    let (mut state, mut entries) = session();
    for content in [Content::from("look").with(here()), "and now?".into()] {
        let made = Draft::new(&state, 1).message(says(content), &Takes(TakesImages::All)).expect("taken");
        let made = state.place(made).expect("legal").commit();
        entries.extend(made.entries);
        let ended = Draft::new(&made.after, 1).cancel(None, None, None, &Takes(TakesImages::All)).expect("active");
        let ended = made.after.place(ended).expect("legal").commit();
        entries.extend(ended.entries);
        state = ended.after;
    }
    let mut conversation = Conversation::new();
    entries.iter().for_each(|entry| conversation.apply(entry));
    let text = conversation.cut(1).text(10_000);
    assert_eq!(text, "<user>\nlook\n\n[An image was left out here]\n</user>\n");
    assert!(matches!(summary_message(Locale::En, "short"), Message::User(said) if !said.has_images()));
}

#[test]
fn r9_messages_with_images_wait_as_long_as_there_is_room_for_their_bytes() {
    let (state, _) = session();
    let take = |state: &State, content: Content, on_pending| {
        let input = MessageInput { on_pending, ..says(content) };
        Draft::new(state, 1).message(input, &Takes(TakesImages::All)).map(|taken| taken.state().clone())
    };
    let image = || {
        let mut bytes = b"GIF89a\x01\0\x01\0\0\0\0".to_vec();
        bytes.resize(limits::IMAGE_BYTES, 0);
        Content::from(Image::new(&bytes).expect("an image"))
    };
    let mut state = take(&state, "go".into(), None).expect("the turn begins");
    for _ in 0..limits::QUEUED_BYTES / image().stored_bytes() {
        state = take(&state, image(), Some(OnPending::Queue)).expect("there is room");
    }
    let refused = take(&state, image(), Some(OnPending::Queue)).expect_err("there is none");
    assert_eq!(refused.code, Code::QueueFull);
    assert!(refused.message.contains("more than 16777216 bytes"), "{refused}");
    take(&state, "words".into(), Some(OnPending::Queue)).expect("there is room for words");
}
