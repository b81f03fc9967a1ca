use countersign_core::{conversation::ToolResult, journal::record::CallStatus};

use super::*;

fn origin(url: &str) -> Origin {
    Origin::new("claude", url).unwrap()
}

/// The content of the answer that is sent, whose call has these arguments.
fn sent(origin: &Origin, arguments: &str, opaque: &Opaque) -> Value {
    let blocks = vec![Block::thinking("hm"), Block::ToolUse(ToolUse::new("toolu_1", "buy", arguments))];
    let opaque = Some(to_raw_value(opaque).unwrap());
    let result = ToolResult::new("toolu_1", "buy", "no", CallStatus::Error);
    let conversation = [AssistantMessage::new("m", blocks).opaque(opaque).into(), result.into()];
    // As the body is written, which a parsed value could not show.
    serde_json::from_slice(&serde_json::to_vec(&messages(origin, &[], &conversation)).unwrap()).unwrap()
}

fn kept(at: Option<&Origin>) -> Opaque {
    let content = vec![kept::Content::Thinking(2, "SIGNATURE".to_owned()), kept::Content::Call];
    Opaque { by: kept::BY.to_owned(), model: "claude".to_owned(), at: at.map(|at| at.at.to_string()), content }
}

#[test]
fn m1_anthropic_thinking_goes_back_only_to_the_address_that_it_came_from() {
    let (one, two) = (origin("https://one.example/v1"), origin("https://two.example/v1"));
    for (to, from, goes) in [(&one, Some(&one), true), (&two, Some(&one), false), (&two, None, true)] {
        let sent = sent(to, "{}", &kept(from));
        assert_eq!(sent[0]["content"][0]["type"] == "thinking", goes, "{sent}");
    }
}

#[test]
fn m3_anthropic_arguments_that_were_refused_here_do_not_go_back() {
    let here = origin("https://one.example/v1");
    let deep = format!(r#"{{"note": {}{}}}"#, "[".repeat(100), "]".repeat(100));
    for refused in [r#"{"note":"\ud83d"}"#, &*deep, r#"{"n":1e400}"#] {
        assert!(ToolUse::new("t", "buy", refused).args().is_err(), "{refused}");
        assert_eq!(sent(&here, refused, &kept(None))[0]["content"][1]["input"], json!({}), "{refused}");
    }
    assert_eq!(sent(&here, r#"{"n":1.5}"#, &kept(None))[0]["content"][1]["input"], json!({"n": 1.5}));
}
