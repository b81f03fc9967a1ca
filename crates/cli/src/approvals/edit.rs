//! `countersign approvals edit`: other arguments, written in an editor.

use std::{fs, io::Write as _, process::Command};

use clap::Args;
use countersign_core::{
    approval::decision::Decision,
    call::{args::Args as Arguments, json::Json, shown::line},
    limits,
};
use serde::{Deserialize, Serialize};
use similar::TextDiff;

use super::{Sure, pending, send, show};
use crate::{
    Outcome,
    desk::Asked,
    failure::{Exit, Failure},
    terminal,
};

/// Arguments of `edit`.
#[derive(Args)]
pub(crate) struct Edit {
    /// The request's key
    key: String,
    /// Your message, for the model and the history
    #[arg(long, value_name = "TEXT")]
    reason: Option<String>,
    #[command(flatten)]
    sure: Sure,
    #[command(flatten)]
    asked: Asked,
}

/// The calls of a request, with all digits of their numbers.
#[derive(Deserialize)]
pub(crate) struct Calls {
    #[serde(default)]
    actions: Vec<Call>,
}

#[derive(Deserialize)]
struct Call {
    name: String,
    args: Arguments,
    digest: String,
}

/// The result of an edit.
pub(crate) struct Edited {
    /// One for each call: unchanged ones are approved.
    pub(crate) decisions: Vec<Decision>,
    /// The changes, as a unified diff.
    pub(crate) diff: String,
}

/// The body of a decision.
#[derive(Serialize)]
struct Body<'a> {
    decisions: Vec<Decision>,
    #[serde(skip_serializing_if = "Option::is_none")]
    user_edit_content: Option<&'a String>,
}

impl Edit {
    /// Opens the editor, and sends the result.
    pub(crate) fn run(&self) -> Outcome {
        let instead = "give --digest with the digest of what was shown, or --yes for what is pending now";
        // Before the editor opens: the text written there would be lost.
        if self.sure.digest.is_none() {
            terminal::can_confirm(self.sure.yes, instead)?;
        }
        let desk = self.asked.to_change()?;
        let (text, request) = pending(&desk, &self.key)?;
        let calls: Calls = desk.read(&text)?;
        let named = match &self.sure.digest {
            Some(digest) if !calls.actions.iter().any(|call| call.digest == *digest) => {
                let text = format!("{} has another digest than that: look at it again", self.key);
                return Err(Failure::new(Exit::Overtaken, text));
            }
            digest => digest.is_some(),
        };
        if !named {
            terminal::tell(show::card(&request).trim_end());
        }
        let mut text = calls.text();
        loop {
            let edited = calls.edit(&mut text)?;
            terminal::tell(edited.diff.trim_end());
            terminal::confirm("approve it with these changes?", self.sure.yes || named, instead)?;
            let body = Body { decisions: edited.decisions, user_edit_content: self.reason.as_ref() };
            let body = serde_json::to_string(&body).map_err(|error| error.to_string())?;
            match send(&desk, self.asked.json, &self.key, body) {
                // What was written would be lost.
                Err(failure) if failure.exit == Exit::Refused && !self.sure.yes && terminal::is_interactive() => {
                    terminal::tell(&failure.text);
                    let again = terminal::confirm("open the editor again?", false, "");
                    again.map_err(|declined| Failure::new(failure.exit, declined.text))?;
                }
                sent => return sent,
            }
        }
    }
}

impl Calls {
    /// The digests of what is edited.
    pub(crate) fn digests(&self) -> Vec<String> {
        self.actions.iter().map(|call| call.digest.clone()).collect()
    }

    /// Opens the editor with this text until it is right, or the person gives up. The text is then as they left it.
    pub(crate) fn edit(&self, text: &mut String) -> Result<Edited, Failure> {
        if self.actions.is_empty() {
            return Err("it has no arguments to edit: answer it, or reject it".into());
        }
        loop {
            *text = in_editor(text)?;
            match self.edited(text) {
                Ok(Some(edited)) => return Ok(edited),
                Ok(None) => return Err("the arguments were left as they are; nothing was sent".into()),
                Err(wrong) => {
                    terminal::tell(&terminal::visible(&wrong));
                    if !terminal::is_interactive() {
                        return Err("nothing was sent".into());
                    }
                    terminal::confirm("open the editor again?", false, "")?;
                }
            }
        }
    }

    /// The text that the editor opens first: the arguments, or a list of them where several calls are pending.
    pub(crate) fn text(&self) -> String {
        match self.actions.as_slice() {
            [call] => pretty(&call.args),
            calls => {
                let all: Vec<String> = calls.iter().map(|call| call.args.text().to_owned()).collect();
                let all = Json::parse(&format!("[{}]", all.join(",")), limits::JSON_DEPTH + 1);
                all.map(|all| written(&all)).unwrap_or_default()
            }
        }
    }

    /// The decisions that a text means; `None` if it changes nothing.
    fn edited(&self, text: &str) -> Result<Option<Edited>, String> {
        let read = |text: &str| Arguments::parse(text).map_err(|error| error.to_string());
        let new = match self.actions.len() {
            1 => vec![read(text)?],
            count => {
                let all =
                    Json::parse(text, limits::JSON_DEPTH + 1).map_err(|error| format!("not valid JSON: {error}"))?;
                match all {
                    Json::Array(items) if items.len() == count => {
                        items.iter().map(|item| read(&item.canonical())).collect::<Result<_, _>>()?
                    }
                    _ => return Err(format!("the text must stay a list of {count} objects, one for each call")),
                }
            }
        };
        let mut edited = Edited { decisions: Vec::new(), diff: String::new() };
        for (call, args) in self.actions.iter().zip(new) {
            let same = args == call.args;
            if !same {
                let (before, after) = (pretty(&call.args), pretty(&args));
                let diff = TextDiff::from_lines(&before, &after);
                let diff = diff.unified_diff().context_radius(3).header("pending", "edited").to_string();
                edited.diff.push_str(&format!("{}\n{}", show::one(&call.name), terminal::visible(&diff)));
            }
            let decision = if same { Decision::approve() } else { Decision::edit(call.name.as_str(), args) };
            edited.decisions.push(decision.for_request(call.digest.as_str()));
        }
        Ok((!edited.diff.is_empty()).then_some(edited))
    }
}

/// Lets the person's editor change a text.
fn in_editor(text: &str) -> Result<String, Failure> {
    let failed = |error: std::io::Error| Failure::from(format!("the arguments cannot be given to an editor: {error}"));
    let mut file = tempfile::Builder::new().prefix("countersign-").suffix(".json").tempfile().map_err(failed)?;
    file.write_all(text.as_bytes()).and_then(|()| file.flush()).map_err(failed)?;
    let editor =
        ["VISUAL", "EDITOR"].iter().filter_map(|name| std::env::var(name).ok()).find(|value| !value.is_empty());
    let editor = editor.unwrap_or_else(|| "vi".to_owned());
    // As git does: the variable may hold arguments for the editor.
    let mut command = Command::new("sh");
    command.args(["-c", &format!("{editor} \"$1\""), "editor"]).arg(file.path());
    let status = command.status().map_err(failed)?;
    if !status.success() {
        return Err(format!("the editor {editor:?} ended with {status}; nothing was sent").into());
    }
    // By its name: some editors put another file in its place.
    fs::read_to_string(file.path()).map_err(failed)
}

/// Arguments as JSON on several lines.
fn pretty(args: &Arguments) -> String {
    Json::parse(args.text(), limits::JSON_DEPTH).map(|json| written(&json)).unwrap_or_default()
}

/// JSON on several lines, numbers as they were written. Invisible and lookalike characters are escaped, as on every
/// screen that shows the request.
fn written(json: &Json) -> String {
    let mut out = String::new();
    write(json, 0, &mut out);
    out.push('\n');
    out
}

fn write(json: &Json, level: usize, out: &mut String) {
    let (inner, outer) = ("  ".repeat(level + 1), "  ".repeat(level));
    match json {
        Json::Array(items) if !items.is_empty() => {
            out.push('[');
            for (i, item) in items.iter().enumerate() {
                out.push_str(&format!("{}\n{inner}", if i > 0 { "," } else { "" }));
                write(item, level + 1, out);
            }
            out.push_str(&format!("\n{outer}]"));
        }
        Json::Object(members) if !members.is_empty() => {
            out.push('{');
            for (i, (name, value)) in members.iter().enumerate() {
                out.push_str(&format!("{}\n{inner}{}: ", if i > 0 { "," } else { "" }, string(name)));
                write(value, level + 1, out);
            }
            out.push_str(&format!("\n{outer}}}"));
        }
        Json::String(text) => out.push_str(&string(text)),
        scalar => out.push_str(&scalar.canonical()),
    }
}

/// A JSON string with the escapes that reviewers see: `\u{HEX}` there is `\uHEX` here.
fn string(text: &str) -> String {
    let shown = line(text);
    let mut out = String::from("\"");
    let mut rest = shown.as_str();
    while let Some(c) = rest.chars().next() {
        let hex = rest.strip_prefix("\\u{").and_then(|after| after.split_once('}'));
        let code = hex.and_then(|(hex, after)| Some((char::from_u32(u32::from_str_radix(hex, 16).ok()?)?, after)));
        if let Some((c, after)) = code {
            for unit in c.encode_utf16(&mut [0; 2]) {
                out.push_str(&format!("\\u{unit:04x}"));
            }
            rest = after;
        } else if rest.starts_with("\\\\") {
            out.push_str("\\\\");
            rest = &rest[2..];
        } else {
            if c == '"' {
                out.push('\\');
            }
            out.push(c);
            rest = &rest[c.len_utf8()..];
        }
    }
    out.push('"');
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    fn calls(args: &[&str]) -> Calls {
        let call = |args: &&str| {
            let args = Arguments::parse(args).unwrap_or_else(|error| panic!("{error}"));
            Call { name: "pay".to_owned(), args, digest: "d".to_owned() }
        };
        Calls { actions: args.iter().map(call).collect() }
    }

    #[test]
    fn x_what_an_editor_opens_is_the_same_json_with_nothing_hidden() {
        let args = r#"{"a":"раypal \"x\" C:\\u{41}\n\t😀\u200b","big":[9007199254740993,1.10,{}],"é":{"n":null}}"#;
        let (calls, original) = (calls(&[args]), Arguments::parse(args).unwrap_or_else(|error| panic!("{error}")));
        let text = calls.text();
        assert_eq!(Arguments::parse(&text).ok(), Some(original), "{text}");
        assert!(text.contains("\\u0440\\u0430ypal") && text.contains("\\u200b") && text.contains("😀"), "{text}");
        assert!(text.contains("1.10") && text.contains("9007199254740993"), "{text}");
        assert!(calls.edited(&text).is_ok_and(|edited| edited.is_none()), "{text}");
    }

    #[test]
    fn u3_of_several_calls_those_that_were_left_as_they_were_are_approved() {
        let calls = calls(&[r#"{"n":1.10}"#, r#"{"n":2}"#]);
        let edited = calls.edited(&calls.text().replace("2", "3.00")).ok().flatten();
        let edited = edited.unwrap_or_else(|| panic!("not edited"));
        let sent = serde_json::to_string(&edited.decisions).unwrap_or_default();
        assert_eq!(
            sent,
            r#"[{"type":"approve","digest":"d"},{"type":"edit","edited_action":{"name":"pay","args":{"n":3.00}},"digest":"d"}]"#
        );
        assert!(edited.diff.contains("-  \"n\": 2\n+  \"n\": 3.00\n"), "{}", edited.diff);
        for wrong in ["[]", "{}", r#"[{"n":1},{"n":1,"n":2}]"#, "x"] {
            assert!(calls.edited(wrong).is_err(), "{wrong}");
        }
    }
}
