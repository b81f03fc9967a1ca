//! When calls of a server's tools need approval: `require_approval` in all its forms (spec S13).

use std::{collections::BTreeMap, sync::Arc};

use futures::future::BoxFuture;
use serde_json::{Value, json};

use super::McpError;
use countersign_engine::tool::{CallFacts, Condition, Require};

/// When calls of a server's tools need approval (spec S13).
///
/// The default is yes: tools that no list and no map names need it, and so does everything if nothing is set. A server
/// can add tools at any time, and nobody has reviewed those.
#[derive(Clone, Default)]
#[non_exhaustive]
pub enum RequireApproval {
    /// Every call does.
    #[default]
    Always,
    /// No call does.
    Never,
    /// By lists of tools, in the server's own names. Those in neither list need it.
    Lists {
        /// Tools whose calls need it.
        always: Vec<String>,
        /// Tools whose calls do not.
        never: Vec<String>,
    },
    /// By tool, in the server's own names: whether its calls need it. Those not in the map need it.
    Tools(BTreeMap<String, bool>),
    /// A function decides for each call; if it fails or panics, a person is asked (spec S26).
    When(Arc<dyn Condition>),
}

impl RequireApproval {
    /// Tools whose calls need approval, and tools whose calls do not.
    pub fn lists(
        always: impl IntoIterator<Item = impl Into<String>>,
        never: impl IntoIterator<Item = impl Into<String>>,
    ) -> RequireApproval {
        let names = |names: &mut dyn Iterator<Item = String>| names.collect();
        RequireApproval::Lists {
            always: names(&mut always.into_iter().map(Into::into)),
            never: names(&mut never.into_iter().map(Into::into)),
        }
    }

    /// For each of these tools, whether its calls need approval.
    pub fn tools(tools: impl IntoIterator<Item = (impl Into<String>, bool)>) -> RequireApproval {
        RequireApproval::Tools(tools.into_iter().map(|(name, needs)| (name.into(), needs)).collect())
    }

    /// An async function, such as a [`countersign_engine::tool::condition::FnCondition`]; it sees the tool's own name.
    pub fn when(condition: impl Condition + 'static) -> RequireApproval {
        RequireApproval::When(Arc::new(condition))
    }

    /// Parses its JSON, as used in configurations.
    ///
    /// ```
    /// # use countersign_mcp::RequireApproval;
    /// # use serde_json::json;
    /// for right in [
    ///     json!("always"),
    ///     json!("never"),
    ///     json!({ "always": ["delete_file"], "never": ["read_file"] }),
    ///     json!({ "delete_file": "always", "read_file": "never" }),
    /// ] {
    ///     assert!(RequireApproval::from_json(&right).is_ok());
    /// }
    /// ```
    ///
    /// # Errors
    /// An unknown word or key, a tool that is named twice: what is wrong, and how to fix it.
    pub fn from_json(value: &Value) -> Result<RequireApproval, McpError> {
        let bad = |what: String| Err(McpError::new(what));
        match value {
            Value::String(word) => match word.as_str() {
                "always" => Ok(RequireApproval::Always),
                "never" => Ok(RequireApproval::Never),
                _ => bad(format!(
                    "is {word:?}; it is \"always\", \"never\", lists such as {{ always = [\"delete_file\"] }}, or one of the \
                     two for each tool"
                )),
            },
            Value::Object(members) if members.is_empty() => {
                bad("is empty; name tools in it, or say \"always\" or \"never\"".to_owned())
            }
            Value::Object(members) if members.values().all(Value::is_array) => {
                let (mut always, mut never) = (Vec::new(), Vec::new());
                for (key, names) in members {
                    let into = match key.as_str() {
                        "always" => &mut always,
                        "never" => &mut never,
                        _ => {
                            return bad(format!(
                                "has the unknown list {key:?}; the lists are \"always\" and \"never\""
                            ));
                        }
                    };
                    for name in names.as_array().into_iter().flatten() {
                        match name {
                            Value::String(name) => into.push(name.clone()),
                            other => return bad(format!("has {other} in {key:?}, which lists names of tools")),
                        }
                    }
                }
                let lists = RequireApproval::Lists { always, never };
                lists.check().map(|()| lists)
            }
            Value::Object(members) => {
                let mut tools = BTreeMap::new();
                for (tool, word) in members {
                    let needs = match word.as_str() {
                        Some("always") => true,
                        Some("never") => false,
                        _ if word.is_array() => {
                            return bad(format!("has the list {tool:?} beside single tools; it is one or the other"));
                        }
                        _ => return bad(format!("has {word} for {tool:?}; it is \"always\" or \"never\"")),
                    };
                    tools.insert(tool.clone(), needs);
                }
                Ok(RequireApproval::Tools(tools))
            }
            other => {
                bad(format!("is {other}; it is \"always\", \"never\", lists of tools, or one of the two for each tool"))
            }
        }
    }

    /// Checks it without knowing the tools.
    pub(super) fn check(&self) -> Result<(), McpError> {
        let RequireApproval::Lists { always, never } = self else { return Ok(()) };
        for (key, names) in [("always", always), ("never", never)] {
            if let Some((i, name)) = names.iter().enumerate().find(|(i, name)| names[..*i].contains(name)) {
                return Err(McpError::new(format!("has {name:?} twice in {key:?} (number {})", i + 1)));
            }
        }
        match always.iter().find(|name| never.contains(name)) {
            Some(name) => Err(McpError::new(format!("has {name:?} both in \"always\" and in \"never\""))),
            None => Ok(()),
        }
    }

    /// The tools that it names.
    pub(super) fn names(&self) -> Vec<&str> {
        match self {
            RequireApproval::Always | RequireApproval::Never | RequireApproval::When(_) => Vec::new(),
            RequireApproval::Lists { always, never } => always.iter().chain(never).map(String::as_str).collect(),
            RequireApproval::Tools(tools) => tools.keys().map(String::as_str).collect(),
        }
    }

    /// Its requirement for one tool, in the server's own name.
    #[must_use]
    pub fn of(&self, tool: &str) -> Require {
        let needs = |needs: bool| if needs { Require::Always } else { Require::Never };
        match self {
            RequireApproval::Always => Require::Always,
            RequireApproval::Never => Require::Never,
            RequireApproval::Lists { never, .. } => needs(!never.iter().any(|name| name == tool)),
            RequireApproval::Tools(tools) => needs(tools.get(tool).copied().unwrap_or(true)),
            RequireApproval::When(condition) => {
                Require::When(Arc::new(Named { tool: tool.to_owned(), condition: condition.clone() }))
            }
        }
    }

    /// Its description, for the policy's version.
    pub(super) fn describe(&self) -> Value {
        match self {
            RequireApproval::Always => json!("always"),
            RequireApproval::Never => json!("never"),
            RequireApproval::Lists { always, never } => json!({ "always": always, "never": never }),
            RequireApproval::Tools(tools) => json!(tools),
            RequireApproval::When(condition) => json!({ "when": condition.describe() }),
        }
    }
}

/// A condition that sees the server's own name of a tool.
struct Named {
    tool: String,
    condition: Arc<dyn Condition>,
}

impl Condition for Named {
    fn check<'a>(&'a self, call: &'a CallFacts<'a>) -> BoxFuture<'a, Result<bool, String>> {
        Box::pin(async move {
            let call = CallFacts { tool: &self.tool, ..*call };
            self.condition.check(&call).await
        })
    }

    fn describe(&self) -> Option<&str> {
        self.condition.describe()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn needs(rule: &RequireApproval, tool: &str) -> bool {
        matches!(rule.of(tool), Require::Always)
    }

    #[test]
    fn s13_m148_tools_in_no_list_need_approval() {
        let rule = RequireApproval::from_json(&json!({ "never": ["read"] })).unwrap();
        assert_eq!(["read", "delete", "added_later"].map(|tool| needs(&rule, tool)), [false, true, true]);
        let rule = RequireApproval::from_json(&json!({ "read": "never", "delete": "always" })).unwrap();
        assert_eq!(["read", "delete", "added_later"].map(|tool| needs(&rule, tool)), [false, true, true]);
        assert!(needs(&RequireApproval::default(), "anything"));
        assert!(!needs(&RequireApproval::from_json(&json!("never")).unwrap(), "anything"));
    }

    /// The Python SDK's `mapping_allows_policy_keyword_tool_names`.
    #[test]
    fn m148_tools_may_be_called_always_and_never() {
        let rule = RequireApproval::from_json(&json!({ "always": "never", "never": "always" })).unwrap();
        assert_eq!(["always", "never"].map(|tool| needs(&rule, tool)), [false, true]);
    }

    #[test]
    fn m148_m149_an_invalid_rule_is_refused_with_how_to_fix_it() {
        let of = |value: Value| RequireApproval::from_json(&value).err().map(|error| error.to_string()).unwrap();
        for (value, says) in [
            (json!("sometimes"), "\"always\", \"never\""),
            (json!({ "sometimes": ["a"] }), "the lists are \"always\" and \"never\""),
            (json!({ "always": ["a"], "never": ["b", "a"] }), "\"a\" both in \"always\" and in \"never\""),
            (json!({ "never": ["a", "a"] }), "twice"),
            (json!({ "a": "maybe" }), "\"maybe\" for \"a\""),
            (json!({ "a": "never", "always": ["b"] }), "one or the other"),
            (json!({ "always": [1] }), "names of tools"),
            (json!({}), "is empty"),
            (json!(true), "is true"),
            (json!(null), "is null"),
        ] {
            let said = of(value.clone());
            assert!(said.contains(says), "{value}: {said}");
        }
        let twice = RequireApproval::lists(["a"], ["a"]);
        assert!(twice.check().is_err(), "even if it was not parsed from JSON");
    }
}
