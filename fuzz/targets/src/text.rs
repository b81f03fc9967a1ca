//! Input from clients, models and providers.

use countersign_core::{
    call::{args::Args, json::Json},
    limits,
    wire::client::ClientMessage,
};
use countersign_models::sse::SseDecoder;

/// A client's frame (spec W1): an accepted one can be written and read again to the same; a refusal has a code, a text
/// and no more of the frame than its ids.
///
/// # Panics
/// The promise is broken.
pub fn frame(bytes: &[u8]) {
    let Ok(text) = std::str::from_utf8(bytes) else { return };
    match ClientMessage::parse(text) {
        Ok(message) => {
            let written = serde_json::to_string(&message).unwrap_or_default();
            let again = ClientMessage::parse(&written);
            assert!(again.is_ok(), "{again:?}: {written}");
            assert_eq!(again.ok().and_then(|again| serde_json::to_string(&again).ok()), Some(written));
        }
        Err(bad) => {
            assert!(serde_json::to_value(bad.refusal.code).is_ok_and(|code| code.is_string()));
            assert!(!bad.refusal.message.is_empty());
            for id in [bad.request_id, bad.session_id].into_iter().flatten() {
                assert!(id.len() <= text.len());
            }
        }
    }
}

/// Strict JSON: its canonical text is read to the same again and is what an ordinary parser takes too; an error is
/// within the text.
///
/// # Panics
/// The promise is broken.
pub fn json(bytes: &[u8]) {
    let Ok(text) = std::str::from_utf8(bytes) else { return };
    match Json::parse(text, limits::JSON_DEPTH) {
        Ok(json) => {
            let canonical = json.canonical();
            let again = Json::parse(&canonical, limits::JSON_DEPTH);
            assert_eq!(again.as_ref().map(Json::canonical), Ok(canonical.clone()));
            let (first, second) = (
                serde_json::from_str::<serde_json::Value>(text),
                serde_json::from_str::<serde_json::Value>(&canonical),
            );
            assert!(first.is_ok(), "{first:?}");
            assert_eq!(first.ok(), second.ok(), "what is shown is what runs");
        }
        Err(error) => assert!(error.offset <= text.len() && text.is_char_boundary(error.offset), "{error:?}"),
    }
}

/// A model's arguments (spec R1): the shown text is the one that is read, stored and digested.
///
/// # Panics
/// The promise is broken.
pub fn args(bytes: &[u8]) {
    let Ok(text) = std::str::from_utf8(bytes) else { return };
    match Args::parse(text) {
        Ok(args) => {
            assert!(args.text().starts_with('{'));
            let again = Args::parse(args.text());
            assert_eq!(again.as_ref().map(|again| (again.text(), again.digest())), Ok((args.text(), args.digest())));
            let stored: Result<Args, _> = serde_json::from_str(args.text());
            assert_eq!(stored.ok().as_ref(), Some(&args));
            assert!(args.value().is_object());
        }
        Err(error) => assert!(!error.0.is_empty()),
    }
}

/// A provider's stream: cut anywhere it gives the same events, and none is above the limit. The first byte says where
/// it is cut.
///
/// # Panics
/// The promise is broken.
pub fn events(bytes: &[u8]) {
    const LIMIT: usize = 64;
    let Some((cut, stream)) = bytes.split_first() else { return };
    let read = |parts: &[&[u8]]| {
        let (mut decoder, mut events) = (SseDecoder::new(LIMIT), Vec::new());
        let outcome = parts.iter().try_for_each(|part| decoder.feed(part, &mut events));
        (events, outcome)
    };
    let (whole, outcome) = read(&[stream]);
    assert!(whole.iter().all(|event| event.data.len() <= LIMIT * 3 && event.event.len() <= LIMIT * 3));
    let (first, second) = stream.split_at(usize::from(*cut).min(stream.len()));
    let single: Vec<&[u8]> = stream.chunks(1).collect();
    for parts in [vec![first, second], single] {
        assert_eq!(read(&parts), (whole.clone(), outcome), "cut at {cut}");
    }
}
