//! Random answers of a model: their content, where the streams break off, and the next answer after that.

use proptest::prelude::*;

use crate::paced::{self, Part, TOOLS};

/// A block of an answer.
#[derive(Clone, Debug, PartialEq)]
pub enum Said {
    Text(u8),
    Thinking(u8),
    Call(u8, u8),
}

/// The content of one stream.
#[derive(Clone, Debug)]
pub enum Stream {
    /// Another answer.
    New(Vec<Said>),
    /// The one before once more.
    Same,
    /// Its beginning.
    Less(u8),
    /// Its beginning, then something else.
    Otherwise(u8, Vec<Said>),
}

fn said() -> impl Strategy<Value = Vec<Said>> {
    let block = prop_oneof![
        3 => any::<u8>().prop_map(Said::Text),
        3 => any::<u8>().prop_map(Said::Thinking),
        6 => (0..TOOLS.len() as u8, any::<u8>()).prop_map(|(tool, n)| Said::Call(tool, n)),
    ];
    proptest::collection::vec(block, 0..5)
}

/// Streams, each with the place where it breaks off, if it does.
pub fn streams() -> impl Strategy<Value = Vec<(Stream, Option<u8>)>> {
    let stream = prop_oneof![
        4 => said().prop_map(Stream::New),
        3 => Just(Stream::Same),
        1 => (0..4_u8).prop_map(Stream::Less),
        2 => (0..4_u8, said()).prop_map(|(kept, said)| Stream::Otherwise(kept, said)),
    ];
    proptest::collection::vec((stream, proptest::option::weighted(0.4, any::<u8>())), 1..12)
}

/// A few letters by number, not all of them ASCII.
fn words(n: u8) -> String {
    // Sometimes so many parts that a slow reader falls behind.
    let length = if n > 250 { 300 } else { usize::from(n % 7) };
    ["a", "ă", "b ", "共", "\n"].into_iter().cycle().skip(usize::from(n) % 5).take(length).collect()
}

fn input(tool: &str, n: u8) -> String {
    match (tool, n % 4) {
        ("ask_user_question", 0) => r#"{"questions":[]}"#.to_owned(),
        ("ask_user_question", n) => format!(
            r#"{{"questions":[{{"question":"Q{n}","header":"H","options":[{{"label":"A"}},{{"label":"B","description":"b"}}]}},{{"question":"R","multiSelect":true,"options":[{{"label":"C","input":true}}]}}]}}"#
        ),
        ("write_todos", 0) => r#"{"todos":[{"content":"t","status":"pending"}]}"#.to_owned(),
        ("write_todos", 1) => r#"{"todos":[],"tool_content_message":7}"#.to_owned(),
        ("write_todos", n) => {
            format!(r#"{{"todos":[{{"content":"t","status":"completed"}}],"tool_content_message":"list {n}"}}"#)
        }
        ("share_thought", 0) => r#"{"text":""}"#.to_owned(),
        ("share_thought", n) => format!(r#"{{"text":"thought {n}"}}"#),
        (_, 0) => "{\"n\":".to_owned(),
        (_, n) => format!(r#"{{ "n": {n} }}"#),
    }
}

/// The parts of an answer, a few characters each.
fn parts(said: &[Said]) -> Vec<Part> {
    let mut parts = Vec::new();
    let chunks = |text: &str, len: usize| -> Vec<String> {
        let chars: Vec<char> = text.chars().collect();
        chars.chunks(len).map(|chunk| chunk.iter().collect()).collect()
    };
    for (i, block) in said.iter().enumerate() {
        match block {
            Said::Text(n) => parts.extend(chunks(&words(*n), 2).iter().map(|part| paced::text(part))),
            Said::Thinking(n) => parts.extend(chunks(&words(*n), 2).iter().map(|part| paced::thinking(part))),
            Said::Call(tool, n) => {
                let name = TOOLS[usize::from(*tool) % TOOLS.len()];
                parts.push(paced::call(&format!("x{i}"), name));
                parts.extend(chunks(&input(name, *n), 9).iter().map(|part| paced::input(part)));
            }
        }
    }
    parts
}

pub fn prepared(streams: &[(Stream, Option<u8>)]) -> Vec<Vec<Part>> {
    let mut before: Vec<Said> = Vec::new();
    let mut all = Vec::new();
    for (stream, cut) in streams {
        let kept = |n: u8| before.iter().take(usize::from(n)).cloned();
        before = match stream {
            Stream::New(said) => said.clone(),
            Stream::Same => before.clone(),
            Stream::Less(n) => kept(*n).collect(),
            Stream::Otherwise(n, said) => kept(*n).chain(said.iter().cloned()).collect(),
        };
        let mut parts = parts(&before);
        match cut {
            Some(cut) => {
                parts.truncate(usize::from(*cut) % (parts.len() + 1));
                // Some streams fail, others just end.
                if cut % 3 > 0 {
                    parts.push(paced::broken());
                }
            }
            None => parts.push(paced::stop()),
        }
        all.push(parts);
    }
    all
}
