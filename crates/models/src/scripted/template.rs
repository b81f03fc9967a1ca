//! `{{ last_user }}` and `{{ last_tool_result }}` in a script's strings.

use countersign_core::limits;

use super::Entry;
use countersign_engine::model::{ModelError, Transcript};

/// What a placeholder stands for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Name {
    LastUser,
    LastToolResult,
}

const NAMES: [(&str, Name); 2] = [("last_user", Name::LastUser), ("last_tool_result", Name::LastToolResult)];

/// A text with placeholders; most have none.
#[derive(Debug)]
pub(super) struct Template {
    source: String,
    /// The placeholders and their ranges in `source`, in order.
    holes: Vec<(std::ops::Range<usize>, Name)>,
}

/// The values of the placeholders that an entry uses.
#[derive(Debug, Default)]
pub(super) struct Fills {
    last_user: String,
    last_tool_result: String,
}

impl Fills {
    /// Asks the conversation only for what the entry uses.
    pub(super) async fn load(entry: &Entry, conversation: &dyn Transcript) -> Result<Fills, ModelError> {
        let uses = |name| entry.templates().any(|template| template.holes.iter().any(|(_, hole)| *hole == name));
        let mut fills = Fills::default();
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
        }
    }
}

impl Template {
    /// Finds the placeholders. Other text in double braces stays as it is, unless it is nearly one.
    ///
    /// # Errors
    /// The name that was written and the one that was probably meant.
    pub(super) fn new(source: String) -> Result<Template, (String, &'static str)> {
        let mut holes = Vec::new();
        let mut from = 0;
        while let Some(start) = source[from..].find("{{").map(|at| from + at) {
            let Some(len) = source[start + 2..].find("}}") else { break };
            let written = source[start + 2..start + 2 + len].trim();
            let end = start + len + 4;
            if let Some((_, name)) = NAMES.iter().find(|(name, _)| *name == written) {
                holes.push((start..end, *name));
                from = end;
                continue;
            }
            let is_name = written.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"_-.".contains(&byte));
            let near = |name: &str| is_name && strsim::damerau_levenshtein(name, written) <= 2;
            if let Some((meant, _)) = NAMES.iter().find(|(name, _)| near(name)) {
                return Err((written.to_owned(), meant));
            }
            // `{{{ last_user }}` holds a placeholder too.
            from = start + 1;
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
        self.fill(|out, _, name| out.push_str(fills.get(name)))
    }

    /// The argument text, filled in: escaped where a placeholder stands in a JSON string.
    pub(super) fn json(&self, fills: &Fills) -> String {
        let mut in_string = false;
        let mut escaped = false;
        self.fill(|out, before, name| {
            for byte in before.bytes() {
                match byte {
                    _ if escaped => escaped = false,
                    b'\\' if in_string => escaped = true,
                    b'"' => in_string = !in_string,
                    _ => {}
                }
            }
            if in_string {
                let quoted = serde_json::Value::from(fills.get(name)).to_string();
                out.push_str(&quoted[1..quoted.len() - 1]);
            } else {
                out.push_str(fills.get(name));
            }
        })
    }

    /// `put` gets the output, the text since the previous placeholder, and the placeholder. Output beyond the limit of
    /// an answer is dropped: an answer of that size is refused anyway.
    fn fill(&self, mut put: impl FnMut(&mut String, &str, Name)) -> String {
        let mut out = String::with_capacity(self.source.len());
        let mut from = 0;
        for (range, name) in &self.holes {
            if out.len() > limits::RESPONSE_BYTES {
                return out;
            }
            let before = &self.source[from..range.start];
            out.push_str(before);
            put(&mut out, before, *name);
            from = range.end;
        }
        out.push_str(&self.source[from..]);
        out
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn r9_a_script_that_repeats_a_long_result_is_bounded_while_it_is_filled_in() {
        let fills = Fills { last_user: String::new(), last_tool_result: "\"".repeat(limits::RESULT_BYTES) };
        let text = format!("[\"{}\"]", "{{ last_tool_result }}".repeat(1000));
        let template = Template::new(text).expect("template");
        for filled in [template.text(&fills), template.json(&fills)] {
            // Enough to be refused, and no more than one value beyond that.
            let len = filled.len();
            assert!(len > limits::RESPONSE_BYTES && len <= limits::RESPONSE_BYTES + 2 * limits::RESULT_BYTES, "{len}");
        }
    }
}
