//! `{{ last_user }}`, `{{ last_tool_result }}` and the captures of a rule, in a script's strings.

use std::{borrow::Cow, ops::Range};

use countersign_core::limits;

use super::Entry;
use countersign_engine::model::{ModelError, Transcript};

/// The value of a placeholder.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Name {
    LastUser,
    LastToolResult,
    /// The group of this number among those that the entry's rule captures.
    Capture(usize),
}

const NAMES: [(&str, Name); 2] = [("last_user", Name::LastUser), ("last_tool_result", Name::LastToolResult)];

/// A filter for a value before it is filled in.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Filter {
    None,
    /// Capital letters.
    Upper,
    /// Only the digits 0 to 9: `82.000` becomes `82000`.
    Digits,
}

const FILTERS: [(&str, Filter); 2] = [("upper", Filter::Upper), ("digits", Filter::Digits)];

impl Filter {
    fn of(self, value: &str) -> Cow<'_, str> {
        match self {
            Filter::None => value.into(),
            Filter::Upper => value.to_uppercase().into(),
            Filter::Digits => value.chars().filter(char::is_ascii_digit).collect(),
        }
    }
}

/// A placeholder in a text.
#[derive(Clone, Debug)]
struct Hole {
    range: Range<usize>,
    name: Name,
    filter: Filter,
}

/// A text with placeholders; most have none.
#[derive(Debug)]
pub(super) struct Template {
    source: String,
    /// The placeholders and their ranges in `source`, in order.
    holes: Vec<Hole>,
}

/// The values of the placeholders that an entry uses.
#[derive(Debug, Default)]
pub(super) struct Fills {
    last_user: String,
    last_tool_result: String,
    captures: Vec<String>,
}

impl Fills {
    /// Asks the conversation only for what the entry uses. `captures` are those of its rule.
    pub(super) async fn load(
        entry: &Entry,
        captures: Vec<String>,
        conversation: &dyn Transcript,
    ) -> Result<Fills, ModelError> {
        let uses = |name| entry.templates().any(|template| template.holes.iter().any(|hole| hole.name == name));
        let mut fills = Fills { captures, ..Fills::default() };
        if uses(Name::LastUser) {
            fills.last_user = conversation.last_user().await?;
        }
        if uses(Name::LastToolResult) {
            fills.last_tool_result = conversation.last_tool_result().await?;
        }
        Ok(fills)
    }

    fn get(&self, name: Name) -> &str {
        match name {
            Name::LastUser => &self.last_user,
            Name::LastToolResult => &self.last_tool_result,
            Name::Capture(i) => self.captures.get(i).map_or("", String::as_str),
        }
    }
}

impl Template {
    /// Finds the placeholders, those of these captures among them. Other text in double braces stays as it is, unless
    /// it is nearly one.
    ///
    /// # Errors
    /// Why a placeholder is invalid, and what was probably meant.
    pub(super) fn new(source: String, captures: &[String]) -> Result<Template, String> {
        let mut holes = Vec::new();
        let mut from = 0;
        while let Some(start) = source[from..].find("{{").map(|at| from + at) {
            let Some(len) = source[start + 2..].find("}}") else { break };
            let written = &source[start + 2..start + 2 + len];
            let range = start..start + len + 4;
            // `{{{ last_user }}` holds a placeholder too.
            from = start + 1;
            if let Some((name, filter)) = placeholder(written, captures)? {
                from = range.end;
                holes.push(Hole { range, name, filter });
            }
        }
        Ok(Template { source, holes })
    }

    /// A text without placeholders.
    pub(super) fn plain(source: String) -> Template {
        Template { source, holes: Vec::new() }
    }

    pub(super) fn is_plain(&self) -> bool {
        self.holes.is_empty()
    }

    /// The text as it is in the script.
    pub(super) fn source(&self) -> &str {
        &self.source
    }

    /// The text, filled in.
    pub(super) fn text(&self, fills: &Fills) -> String {
        self.fill(|out, _, hole| out.push_str(&hole.filter.of(fills.get(hole.name))))
    }

    /// The argument text, filled in: escaped where a placeholder is in a JSON string.
    pub(super) fn json(&self, fills: &Fills) -> String {
        let mut in_string = false;
        let mut escaped = false;
        self.fill(|out, before, hole| {
            for byte in before.bytes() {
                match byte {
                    _ if escaped => escaped = false,
                    b'\\' if in_string => escaped = true,
                    b'"' => in_string = !in_string,
                    _ => {}
                }
            }
            let value = hole.filter.of(fills.get(hole.name));
            if in_string {
                let quoted = serde_json::Value::from(&*value).to_string();
                out.push_str(&quoted[1..quoted.len() - 1]);
            } else {
                out.push_str(&value);
            }
        })
    }

    /// `put` gets the output, the text since the previous placeholder, and the placeholder. Output beyond the limit of
    /// an answer is dropped: an answer of that size is refused anyway.
    fn fill(&self, mut put: impl FnMut(&mut String, &str, &Hole)) -> String {
        let mut out = String::with_capacity(self.source.len());
        let mut from = 0;
        for hole in &self.holes {
            if out.len() > limits::RESPONSE_BYTES {
                return out;
            }
            let before = &self.source[from..hole.range.start];
            out.push_str(before);
            put(&mut out, before, hole);
            from = hole.range.end;
        }
        out.push_str(&self.source[from..]);
        out
    }
}

/// The placeholder between double braces, `NAME` or `NAME | FILTER`; `None` if it is not a placeholder.
fn placeholder(written: &str, captures: &[String]) -> Result<Option<(Name, Filter)>, String> {
    let (name, filter) = match written.split_once('|') {
        Some((name, filter)) => (name.trim(), Some(filter.trim())),
        None => (written.trim(), None),
    };
    let captured = captures.iter().enumerate().map(|(i, name)| (name.as_str(), Name::Capture(i)));
    let known: Vec<(&str, Name)> = NAMES.into_iter().chain(captured).collect();
    let Some((_, found)) = known.iter().find(|(one, _)| *one == name) else {
        let is_name = name.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"_-.".contains(&byte));
        let near = |one: &str| is_name && one.len() > 3 && strsim::damerau_levenshtein(one, name) <= 2;
        return match known.iter().find(|(one, _)| near(one)) {
            Some((meant, _)) => {
                Err(format!("unknown placeholder `{{{{ {name} }}}}`; did you mean `{{{{ {meant} }}}}`?"))
            }
            None => Ok(None),
        };
    };
    let Some(filter) = filter else { return Ok(Some((*found, Filter::None))) };
    match FILTERS.into_iter().find(|(one, _)| *one == filter) {
        Some((_, filter)) => Ok(Some((*found, filter))),
        None => Err(format!("unknown filter `{filter}` of `{name}`; there are `upper` and `digits`")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn r9_a_script_that_repeats_a_long_result_is_bounded_while_it_is_filled_in() {
        let fills = Fills { last_tool_result: "\"".repeat(limits::RESULT_BYTES), ..Fills::default() };
        let text = format!("[\"{}\"]", "{{ last_tool_result }}".repeat(1000));
        let template = Template::new(text, &[]).expect("template");
        for filled in [template.text(&fills), template.json(&fills)] {
            // Enough to be refused, and no more than one value beyond that.
            let len = filled.len();
            assert!(len > limits::RESPONSE_BYTES && len <= limits::RESPONSE_BYTES + 2 * limits::RESULT_BYTES, "{len}");
        }
    }
}
