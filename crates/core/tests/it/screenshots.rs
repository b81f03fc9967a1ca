//! Pictures of screens in the results of calls, as models read them (spec S14, G5).

use countersign_core::{
    content::{Part, TakesImages, screen::DATA_URL},
    conversation::{Conversation, Message, tokens_of},
    journal::record::Record,
    locale::{Locale, Text},
};
use serde_json::{Value, json};

/// The smallest PNG, of one pixel.
const DOT: &str = "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR4nGNgYGBgAAAABQABpfZFQAAAAABJRU5ErkJggg==";

fn take(conversation: &mut Conversation, record: Value) {
    conversation.take(&serde_json::from_value::<Record>(record).expect("a record"), 1);
}

/// An answer with a call of each of these tools, and their results.
fn answer(conversation: &mut Conversation, first: u32, results: &[(&str, &str)]) {
    let call = |(name, _): &(&str, &str)| json!({ "tool_use": { "id": *name, "name": *name, "input": "{}" } });
    let blocks: Vec<Value> = results.iter().map(call).collect();
    take(conversation, json!({ "model_responded": { "model": "m", "blocks": blocks, "first_call": first } }));
    for (call, (name, output)) in (first..).zip(results) {
        let finished =
            json!({ "call": call, "tool_use_id": *name, "name": *name, "status": "success", "output": *output });
        take(conversation, json!({ "call_finished": finished }));
    }
}

/// A question, and this many answers that look at the screen.
fn looked(answers: u32) -> Conversation {
    let mut conversation = Conversation::new();
    take(&mut conversation, json!({ "user_message": { "content": ["look"] } }));
    for n in 0..answers {
        let screenshot = format!("{DATA_URL}{DOT}\n(screenshot {n})");
        answer(&mut conversation, 2 * n + 1, &[("computer", &screenshot), ("other", "done")]);
    }
    conversation
}

/// What a model reads, a line a part.
fn words(conversation: &Conversation, takes: TakesImages) -> Vec<String> {
    let mut words = Vec::new();
    for message in &*conversation.read(takes, &[], |_, name| name == "other") {
        match message {
            Message::User(content) => words.extend(content.parts().iter().map(|part| match part {
                Part::Text(text) => format!("user {text}"),
                Part::Image(image) => format!("user {}", image.as_url()),
            })),
            Message::Assistant(_) => words.push("answer".to_owned()),
            Message::ToolResult(result) => words.push(format!("{} {}", result.name, result.text)),
        }
    }
    words
}

#[test]
fn s14_a_model_sees_the_newest_screenshots_as_images_after_the_results() {
    let mut expected = vec!["user look".to_owned()];
    for n in 0..5 {
        let note = if n < 2 { "[An image was left out here]" } else { "[A screenshot: it comes after the results]" };
        // The provider makes the calls of `other`, and what came of the latest is not told here.
        let other = if n == 4 { Locale::En.text(Text::OutcomeUnknown) } else { "done" };
        expected.extend(["answer".to_owned(), format!("computer {note}\n(screenshot {n})"), format!("other {other}")]);
        if n >= 2 {
            expected.push("user [The screenshot from computer. No person wrote it.]".to_owned());
            expected.push(format!("user {DATA_URL}{DOT}"));
        }
    }
    for takes in [TakesImages::Inline, TakesImages::All] {
        assert_eq!(words(&looked(5), takes), expected);
    }
    let mut more = looked(5);
    take(&mut more, json!({ "user_message": { "content": ["and now?"] } }));
    expected.push("user and now?".to_owned());
    assert_eq!(words(&more, TakesImages::Inline), expected, "before what a person says next");
}

#[test]
fn s14_a_model_without_images_reads_a_note_and_no_base64() {
    let read = words(&looked(2), TakesImages::None);
    let note = "computer [An image was left out here]\n(screenshot 1)";
    assert!(read.iter().any(|word| word == note) && !read.iter().any(|word| word.contains("iVBOR")), "{read:?}");
    // Nor does the one that summarises.
    let mut conversation = looked(2);
    take(&mut conversation, json!({ "turn_ended": { "reason": "end_turn" } }));
    take(&mut conversation, json!({ "user_message": { "content": ["and now?"] } }));
    let text = conversation.cut(1).text(100_000);
    assert!(text.contains("(screenshot 1)") && !text.contains("iVBOR"), "{text}");
}

#[test]
fn s14_only_what_is_a_screenshot_of_the_computer_is_shown_as_one() {
    let whole = format!("{DATA_URL}{DOT}");
    let (within, broken) = (format!("see {whole}"), format!("{DATA_URL}AAAA"));
    for (result, is_shown) in [
        (("computer", &*whole), true),
        (("computer_use_preview", &*whole), true),
        (("computer", &*format!("[Edited by a person: computer {{}}]\n{whole}")), true),
        (("computer", &*within), false),
        (("computer", &*broken), false),
        (("read_file", &*whole), false),
    ] {
        let mut conversation = Conversation::new();
        answer(&mut conversation, 1, &[result]);
        let read = words(&conversation, TakesImages::Inline);
        assert_eq!(read.iter().any(|word| word.starts_with("user data:")), is_shown, "{read:?}");
        let is_noted = read[1].contains("[An image was left out here]");
        assert_eq!(is_noted, result.1 == broken, "what cannot be read is no use as a text either: {read:?}");
    }
}

#[test]
fn g5_r9_old_screenshots_are_forgotten_and_each_counts_as_an_image() {
    let (mut kept, all) = (looked(20), looked(20));
    kept.forget_old_images();
    for takes in [TakesImages::None, TakesImages::Inline, TakesImages::All] {
        assert_eq!(words(&kept, takes), words(&all, takes));
    }
    assert!(kept.bytes() + 17 * (DOT.len() - 10) < all.bytes(), "{} of {}", kept.bytes(), all.bytes());
    let mut large = Conversation::new();
    answer(&mut large, 1, &[("computer", &format!("{DATA_URL}{}", "A".repeat(200_000)))]);
    assert!(tokens_of(&large.into_messages()) < 2_000);
}
