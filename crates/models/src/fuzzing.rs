//! Reads providers' answers without a connection.

use std::collections::VecDeque;

use super::{
    anthropic,
    call::read_error,
    openai, openai_chat,
    reading::{self, EVENT_BYTES, Reader},
    sse::SseDecoder,
};
use countersign_engine::model::ModelEvent;

/// Reads a provider's stream, in these parts: of chat completions (0), responses (1) or messages (2).
///
/// # Errors
/// It cannot be read, or is incomplete: the user's error text.
pub fn answer(api: u8, parts: &[&[u8]]) -> (Vec<ModelEvent>, Result<(), String>) {
    match api % 3 {
        0 => read(openai_chat::reader(), parts),
        1 => read(openai::reader(), parts),
        _ => read(anthropic::reader(), parts),
    }
}

fn read<R: Reader>(mut reader: R, parts: &[&[u8]]) -> (Vec<ModelEvent>, Result<(), String>) {
    let mut said = VecDeque::new();
    let outcome = take(&mut reader, parts, &mut said);
    (said.into(), outcome)
}

fn take<R: Reader>(reader: &mut R, parts: &[&[u8]], said: &mut VecDeque<ModelEvent>) -> Result<(), String> {
    let told = |error| read_error(error, &[]).message;
    let mut decoder = SseDecoder::new(EVENT_BYTES);
    'parts: for part in parts {
        let mut events = Vec::new();
        let fed = decoder.feed(part, &mut events);
        for event in &events {
            if reading::take(reader, event, said).map_err(told)? {
                break 'parts;
            }
        }
        fed.map_err(|error| error.to_string())?;
    }
    if !reader.is_finished() {
        return Err("it is not whole".to_owned());
    }
    reader.finish(said).map_err(|error| error.message)
}
