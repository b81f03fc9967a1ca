//! Reading a script: the format, its errors and the cutting into parts.

use std::{
    fmt,
    path::{Path, PathBuf},
    sync::Arc,
    time::Duration,
};

use countersign_core::journal::record::{CallStatus, Cut};
use regex::{Regex, RegexBuilder};
use serde::Deserialize;
use serde_json::value::RawValue;

use super::{
    Entry, Part, Script, Source,
    rules::{Rule, When},
    template::Template,
};

/// The text after the end of the script (spec M4).
const END: &str = "(end of script)";
/// The text where no rule applies (spec M4).
const NO_RULE: &str = "(no rule applies)";
/// The compiled size of a rule's expression, in bytes; expressions of people are far below.
const PATTERN_BYTES: usize = 1024 * 1024;

/// Why a script was refused. Its text says where, and how to fix it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ScriptError {
    /// The file, if it came from one.
    pub file: Option<PathBuf>,
    /// The line, from 1; 0 if it is not about a line.
    pub line: usize,
    /// The column in bytes, from 1; 0 if it is not about a line.
    pub column: usize,
    /// What is wrong.
    pub message: String,
}

impl fmt::Display for ScriptError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if let Some(file) = &self.file {
            write!(f, "{}: ", file.display())?;
        }
        if self.line > 0 {
            write!(f, "line {}, column {}: ", self.line, self.column)?;
        }
        f.write_str(&self.message)
    }
}

impl std::error::Error for ScriptError {}

impl ScriptError {
    pub(super) fn unreadable(path: &Path, error: &std::io::Error) -> ScriptError {
        let message = format!("the script cannot be read: {error}");
        ScriptError { file: Some(path.to_owned()), line: 0, column: 0, message }
    }

    pub(super) fn in_file(self, path: &Path) -> ScriptError {
        ScriptError { file: Some(path.to_owned()), ..self }
    }

    /// An error at a byte of the text.
    fn at(text: &str, offset: usize, message: String) -> ScriptError {
        let before = text.get(..offset).unwrap_or(text);
        let line = before.bytes().filter(|byte| *byte == b'\n').count() + 1;
        let column = before.len() - before.rfind('\n').map_or(0, |at| at + 1) + 1;
        ScriptError { file: None, line, column, message }
    }

    fn from_serde(error: &serde_json::Error) -> ScriptError {
        let message = error.to_string();
        // serde_json ends its messages with the place, which is already at the beginning.
        let place = format!(" at line {} column {}", error.line(), error.column());
        let message = message.strip_suffix(&place).unwrap_or(&message);
        ScriptError { file: None, line: error.line(), column: error.column(), message: with_nearest(message) }
    }
}

/// Adds the nearest valid name to serde's "unknown field" and "unknown variant".
fn with_nearest(message: &str) -> String {
    let mut names = message.split('`').skip(1).step_by(2);
    let unknown = message.starts_with("unknown ").then(|| names.next()).flatten();
    let near = unknown.and_then(|unknown| {
        let distance = |name: &&str| strsim::damerau_levenshtein(name, unknown);
        names.filter(|name| distance(name) <= 3).min_by_key(distance)
    });
    let message = message.replacen("unknown field", "unknown key", 1);
    match near {
        Some(near) => format!("{message}; did you mean `{near}`?"),
        None => message,
    }
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct ScriptFile<'a> {
    #[serde(borrow)]
    turns: Option<Vec<TurnFile<'a>>>,
    #[serde(borrow)]
    rules: Option<Vec<TurnFile<'a>>>,
    at_end: Option<AtEnd>,
    chunk_chars: Option<usize>,
}

#[derive(Deserialize)]
#[serde(rename_all = "snake_case")]
enum AtEnd {
    Repeat,
    Stop,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct TurnFile<'a> {
    #[serde(borrow)]
    when: Option<WhenFile<'a>>,
    #[serde(borrow)]
    thinking: Option<&'a RawValue>,
    #[serde(borrow)]
    text: Option<&'a RawValue>,
    #[serde(borrow, default)]
    tool_calls: Vec<CallFile<'a>>,
    #[serde(borrow)]
    error: Option<&'a RawValue>,
    stop_reason: Option<Cut>,
    #[serde(default)]
    delay_ms: u64,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct WhenFile<'a> {
    #[serde(borrow)]
    user: Option<&'a RawValue>,
    after: Option<String>,
    status: Option<CallStatus>,
    #[serde(borrow)]
    result: Option<&'a RawValue>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct CallFile<'a> {
    id: Option<String>,
    name: String,
    #[serde(borrow)]
    args: &'a RawValue,
}

pub(super) fn script(text: &str) -> Result<Script, ScriptError> {
    // Some editors leave a byte order mark.
    let text = text.strip_prefix('\u{feff}').unwrap_or(text);
    let file: ScriptFile<'_> = serde_json::from_str(text).map_err(|e| ScriptError::from_serde(&e))?;
    if file.chunk_chars == Some(0) {
        let at = text.find("\"chunk_chars\"").unwrap_or(0);
        return Err(ScriptError::at(text, at, "`chunk_chars` must be at least 1; leave it out for whole texts".into()));
    }
    let chunk_chars = file.chunk_chars.unwrap_or(0);
    let reader = Reader { text, chunk_chars };
    let source = match (&file.turns, &file.rules) {
        (Some(turns), None) => Source::Turns {
            entries: turns.iter().map(|turn| reader.turn(turn)).collect::<Result<_, _>>()?,
            end: reader.plain(END),
            repeat: matches!(file.at_end, Some(AtEnd::Repeat)),
        },
        (None, Some(rules)) if file.at_end.is_none() => Source::Rules {
            rules: rules.iter().map(|rule| reader.rule(rule)).collect::<Result<_, _>>()?,
            otherwise: reader.plain(NO_RULE),
        },
        (None, Some(_)) => {
            let at = text.find("\"at_end\"").unwrap_or(0);
            return Err(ScriptError::at(text, at, "`at_end` is for `turns`; `rules` have no end".into()));
        }
        (Some(_), Some(_)) => {
            let at = text.find("\"rules\"").unwrap_or(0);
            return Err(ScriptError::at(text, at, "a script has `turns` or `rules`, not both".into()));
        }
        (None, None) => {
            let message = "the script has neither `turns`, answers in order, nor `rules`, answers by condition";
            return Err(ScriptError::at(text, 0, message.into()));
        }
    };
    Ok(Script { source, chunk_chars })
}

struct Reader<'a> {
    text: &'a str,
    chunk_chars: usize,
}

impl Reader<'_> {
    /// An answer of this text.
    fn plain(&self, text: &str) -> Arc<Entry> {
        let parts = self.cut_plain(text).map(Part::Text).collect();
        Arc::new(Entry { parts, error: None, cut: None, delay: Duration::ZERO, dynamic: false })
    }

    fn turn(&self, turn: &TurnFile<'_>) -> Result<Arc<Entry>, ScriptError> {
        if turn.when.is_some() {
            let at = self.text.find("\"when\"").unwrap_or(0);
            let message = "`when` is for `rules`; the answers of `turns` come in order";
            return Err(ScriptError::at(self.text, at, message.to_owned()));
        }
        self.entry(turn, &[]).map(Arc::new)
    }

    fn rule(&self, rule: &TurnFile<'_>) -> Result<Rule, ScriptError> {
        let mut captures = Vec::new();
        let mut when = When::default();
        if let Some(file) = &rule.when {
            when.after.clone_from(&file.after);
            when.status = file.status;
            when.user = file.user.map(|raw| self.pattern(raw, "user", &mut captures)).transpose()?;
            when.result = file.result.map(|raw| self.pattern(raw, "result", &mut captures)).transpose()?;
        }
        Ok(Rule { when, entry: Arc::new(self.entry(rule, &captures)?) })
    }

    /// An expression, whose named groups become captures.
    fn pattern(&self, raw: &RawValue, key: &str, captures: &mut Vec<String>) -> Result<Regex, ScriptError> {
        let text: String = serde_json::from_str(raw.get())
            .map_err(|_| self.error(raw, format!("`{key}` must be a regular expression, a string")))?;
        let regex = RegexBuilder::new(&text).size_limit(PATTERN_BYTES).build().map_err(|error| {
            // The last line says what, those before draw where.
            let why = error.to_string();
            let why = why.lines().last().unwrap_or_default().trim_start_matches("error: ");
            self.error(raw, format!("`{key}` is not a regular expression: {why}"))
        })?;
        for name in regex.capture_names().flatten() {
            if captures.iter().any(|one| one == name) {
                return Err(
                    self.error(raw, format!("the group `{name}` is in `user` and in `result`; name one otherwise"))
                );
            }
            captures.push(name.to_owned());
        }
        Ok(regex)
    }

    fn entry(&self, turn: &TurnFile<'_>, captures: &[String]) -> Result<Entry, ScriptError> {
        let mut parts = Vec::new();
        if let Some(thinking) = turn.thinking {
            self.push(self.string(thinking, "thinking", captures)?, Part::Thinking, &mut parts);
        }
        if let Some(text) = turn.text {
            self.push(self.string(text, "text", captures)?, Part::Text, &mut parts);
        }
        for (i, call) in turn.tool_calls.iter().enumerate() {
            let args = match call.args.get().as_bytes().first() {
                Some(b'{') => self.template(call.args, call.args.get().to_owned(), captures)?,
                Some(b'"') => self.string(call.args, "args", captures)?,
                _ => {
                    let message = "`args` must be an object, or a string with the argument text itself";
                    return Err(self.error(call.args, message.to_owned()));
                }
            };
            parts.push(Part::Call { i: i + 1, id: call.id.clone(), name: call.name.clone() });
            self.push(args, Part::Input, &mut parts);
        }
        let error = turn.error.map(|error| self.string(error, "error", captures)).transpose()?;
        let mut entry =
            Entry { parts, error, cut: turn.stop_reason, delay: Duration::from_millis(turn.delay_ms), dynamic: false };
        let dynamic = entry.templates().any(|template| !template.is_plain());
        entry.dynamic = dynamic;
        Ok(entry)
    }

    /// Appends a text, cut if it is plain; a template is cut once it is filled in.
    fn push(&self, template: Template, part: fn(Template) -> Part, parts: &mut Vec<Part>) {
        if template.is_plain() {
            parts.extend(self.cut_plain(template.source()).map(part));
        } else {
            parts.push(part(template));
        }
    }

    fn cut_plain<'t>(&self, text: &'t str) -> impl Iterator<Item = Template> + use<'t> {
        cut(text, self.chunk_chars).map(|part| Template::plain(part.to_owned()))
    }

    fn string(&self, raw: &RawValue, key: &str, captures: &[String]) -> Result<Template, ScriptError> {
        let text = serde_json::from_str(raw.get())
            .map_err(|_| self.error(raw, format!("`{key}` must be a string of valid Unicode")))?;
        self.template(raw, text, captures)
    }

    fn template(&self, raw: &RawValue, text: String, captures: &[String]) -> Result<Template, ScriptError> {
        Template::new(text, captures).map_err(|message| self.error(raw, message))
    }

    /// An error at a value, which is borrowed from the text.
    fn error(&self, raw: &RawValue, message: String) -> ScriptError {
        let offset = (raw.get().as_ptr() as usize).saturating_sub(self.text.as_ptr() as usize);
        ScriptError::at(self.text, offset, message)
    }
}

/// Cuts a text into parts of this many characters; 0 is one part. An empty text has none.
pub(super) fn cut(text: &str, chars: usize) -> impl Iterator<Item = &str> {
    let mut rest = text;
    std::iter::from_fn(move || {
        if rest.is_empty() {
            return None;
        }
        let end = if chars == 0 { None } else { rest.char_indices().nth(chars) };
        let (part, tail) = rest.split_at(end.map_or(rest.len(), |(at, _)| at));
        rest = tail;
        Some(part)
    })
}
