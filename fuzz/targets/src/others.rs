//! Input from third-party servers and models: answers, MCP messages, tokens, patches, questions.

use countersign_core::{
    approval::{
        key::{approval_key, parse_approval_key},
        question::Questions,
    },
    call::args::Args,
    limits,
    locale::Locale,
};
use countersign_engine::model::ModelEvent;
use countersign_mcp::fuzzing::{Line, lines};
use countersign_models::fuzzing::answer;
use countersign_server::fuzzing;
use countersign_tools::builtin::patched;
use serde_json::Value;

/// A provider's answer (spec M1): cut anywhere it gives the same events, with no more text than was sent; errors are
/// reported. The first byte says of which API it is, the second where it is cut.
///
/// # Panics
/// The promise is broken.
pub fn answers(bytes: &[u8]) {
    let [api, cut, stream @ ..] = bytes else { return };
    let (whole, outcome) = answer(*api, &[stream]);
    let (first, second) = stream.split_at(usize::from(*cut).min(stream.len()));
    let (parts, same) = answer(*api, &[first, second]);
    assert_eq!((format!("{parts:?}"), &same), (format!("{whole:?}"), &outcome), "cut at {cut}");
    let said = |event: &ModelEvent| match event {
        ModelEvent::Text(text) | ModelEvent::Thinking(text) | ModelEvent::Input(text) => text.len(),
        _ => 0,
    };
    // A character of three bytes may stand for one that was none.
    assert!(whole.iter().map(said).sum::<usize>() <= stream.len() * 3);
    match outcome {
        Ok(()) => assert!(matches!(whole.last(), Some(ModelEvent::Stop)), "{whole:?}"),
        Err(why) => assert!(!why.is_empty() && why.len() <= limits::RESPONSE_BYTES),
    }
}

/// What a program that is an MCP server writes (spec S13): each line costs itself only, and no text is many times as long as
/// what it was made of.
///
/// # Panics
/// The promise is broken.
pub fn mcp(bytes: &[u8]) {
    let all = lines(bytes);
    assert!(all.len() <= bytes.split(|byte| *byte == b'\n').count());
    for line in &all {
        match line {
            // An item that is only described has a name and a type.
            Line::Result(Ok(text) | Err(text)) => assert!(text.len() <= bytes.len() * 8 + 64, "{text}"),
            Line::Error(text) => assert!(text.len() <= bytes.len() * 3 + 64),
            Line::Other => {}
        }
    }
    // A valid line is read whatever precedes it.
    let right = br#"{"jsonrpc":"2.0","id":1,"result":{"content":[{"type":"text","text":"right"}]}}"#;
    let more = [bytes, b"\n", right, b"\n"].concat();
    assert_eq!(lines(&more).last(), Some(&Line::Result(Ok("right".to_owned()))));
}

/// The public key of RFC 8037, appendix A, whose private key is not used here.
const KEYS: &[u8] =
    br#"{"keys":[{"kty":"OKP","crv":"Ed25519","kid":"a","x":"11qYAYKxCrfVS_7TyWQHOg7hcvPapiMlrwIaaPcHURo"}]}"#;

/// A token and a JWK Set of others (spec P1): only the holder of the key can have made an accepted token; the set has a
/// bounded number of keys, or is none. The first line is the token, the rest the set.
///
/// # Panics
/// The promise is broken.
pub fn jwt(bytes: &[u8]) {
    let line = bytes.iter().position(|byte| *byte == b'\n').unwrap_or(bytes.len());
    let (token, set) = bytes.split_at(line);
    let token = String::from_utf8_lossy(token);
    match fuzzing::jwt(KEYS, &token) {
        Ok(who) => panic!("{token} is taken for {who:?}"),
        Err(why) => assert!(!why.is_empty() && why.len() < 4096, "{why}"),
    }
    match fuzzing::keys(set) {
        Ok(keys) => {
            assert!(keys <= set.len());
            // Keys of the sender's own choice: whatever the result, it does not panic.
            let _ = fuzzing::jwt(set, &token);
        }
        Err(why) => assert!(!why.is_empty() && why.len() < 4096, "{why}"),
    }
}

/// A patch of a model's, and the file (spec S12): it applies, or the error says why not, and nothing grows beyond both
/// of them. A line of `====` is between the two.
///
/// # Panics
/// The promise is broken.
pub fn patch(bytes: &[u8]) {
    let Ok(text) = std::str::from_utf8(bytes) else { return };
    let (patch, file) = text.split_once("\n====\n").unwrap_or((text, ""));
    match patched(patch, file) {
        Ok(texts) => {
            // A line may get the line end of the file, which is longer by one.
            let most = 2 * (patch.len() + file.len()) + 2;
            assert!(texts.iter().all(|text| text.len() <= most), "{texts:?}");
        }
        Err(why) => assert!(!why.is_empty()),
    }
}

/// A model's questions, and the answers (spec Q1): accepted questions can be recorded, read again and answered; each
/// question has its answer. The first line is the questions, the rest the answers.
///
/// # Panics
/// The promise is broken.
pub fn questions(bytes: &[u8]) {
    let Ok(text) = std::str::from_utf8(bytes) else { return };
    let (asked, answers) = text.split_once('\n').unwrap_or((text, "{}"));
    let Ok(args) = Args::parse(asked) else { return };
    match Questions::read(&args, Locale::default()) {
        Ok(questions) => {
            let recorded = questions.args();
            assert!(recorded.is_some(), "{asked}");
            let again = recorded.as_ref().and_then(Questions::recorded);
            assert_eq!(
                again.as_ref().and_then(Questions::args).as_ref().map(Args::text),
                recorded.as_ref().map(Args::text)
            );
            let answers: Value = serde_json::from_str(answers).unwrap_or_default();
            match questions.check(&answers) {
                Ok(all) => assert_eq!(all.0.len(), questions.questions.len()),
                Err(refusal) => assert!(!refusal.message.is_empty()),
            }
        }
        Err(errors) => assert!(!errors.is_empty() && errors.iter().all(|error| !error.is_empty())),
    }
}

/// An approval key (spec W4), as a client names it: an accepted key is written the same.
///
/// # Panics
/// The promise is broken.
pub fn key(bytes: &[u8]) {
    let Ok(text) = std::str::from_utf8(bytes) else { return };
    if let Some((session, n)) = parse_approval_key(text) {
        assert_eq!(approval_key(session, n), text);
    }
}
