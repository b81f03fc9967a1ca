//! Standing rules: "always", as rules that are stored, listed and revocable (spec S7).
//!
//! A rule is made by a decision, in its session's journal, and ends there too. It decides in place of one person: where
//! more than one must approve, or another role, it does not apply.
//!
//! Rules are records (`Decided.rules`, `RuleRevoked`); stores keep only an index of them over sessions. So each has an
//! author, a place in the log and an end, and there is no hidden flag. Its role is checked for each call: where the
//! policy needs somebody else, the rule does not apply. A rule that approves names the digest of the tool that was
//! shown with it and does not apply to another one; a rule that rejects applies however the tool has
//! changed.

use std::sync::Arc;

use schemars::JsonSchema;
use serde::{Deserialize, Deserializer, Serialize, Serializer, de::Error as _};

use super::key::approval_key;
use crate::{
    call::{args::Args, reviewer::Reviewer},
    number::InterruptionNo,
    time::{Millis, of_rfc3339, rfc3339},
};

/// The scope of a standing decision: `true` and `{"scope": "session"}` are the same.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum Always {
    /// `false`, or absent: no rule is made.
    #[default]
    No,
    /// `true`, or `{"scope": "session"}`: later calls of this tool by this agent in this session.
    Session,
    /// `{"scope": "arguments", "until"?}`: later calls with the same arguments, in all sessions of this user.
    Arguments {
        /// When it ends; never, if absent.
        until: Option<Millis>,
    },
    /// `{"scope": "tool", "until"}`: later calls of this tool by this agent, in all sessions of this user.
    Tool {
        /// When it ends.
        until: Millis,
    },
}

/// The written form of "always".
#[derive(Serialize, Deserialize, JsonSchema)]
#[serde(untagged)]
enum Written {
    Flag(bool),
    Scope(WrittenScope),
}

#[derive(Serialize, Deserialize, JsonSchema)]
#[serde(tag = "scope", rename_all = "snake_case", deny_unknown_fields)]
enum WrittenScope {
    /// Later calls of this tool by this agent in this session.
    #[schemars(title = "SessionScope")]
    Session {},
    /// Later calls with the same arguments, in all sessions of this user.
    #[schemars(title = "ArgumentsScope")]
    Arguments {
        /// RFC 3339.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        until: Option<String>,
    },
    /// Later calls of this tool by this agent, in all sessions of this user.
    #[schemars(title = "ToolScope")]
    Tool {
        /// RFC 3339.
        until: String,
    },
}

impl Serialize for Always {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let written = match self {
            Always::No => Written::Flag(false),
            Always::Session => Written::Flag(true),
            Always::Arguments { until } => Written::Scope(WrittenScope::Arguments { until: until.map(rfc3339) }),
            Always::Tool { until } => Written::Scope(WrittenScope::Tool { until: rfc3339(*until) }),
        };
        written.serialize(serializer)
    }
}

impl<'de> Deserialize<'de> for Always {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Always, D::Error> {
        let wrong = "\"always\" is true, {\"scope\": \"session\"}, {\"scope\": \"arguments\"} or \
                     {\"scope\": \"tool\", \"until\": an RFC 3339 time}";
        let time = |text: &str| {
            of_rfc3339(text)
                .ok_or_else(|| D::Error::custom(format!("{text:?} is no RFC 3339 time, such as 2027-01-31T00:00:00Z")))
        };
        Ok(match Written::deserialize(deserializer).map_err(|_| D::Error::custom(wrong))? {
            Written::Flag(false) => Always::No,
            Written::Flag(true) | Written::Scope(WrittenScope::Session {}) => Always::Session,
            Written::Scope(WrittenScope::Arguments { until }) => {
                Always::Arguments { until: until.as_deref().map(time).transpose()? }
            }
            Written::Scope(WrittenScope::Tool { until }) => Always::Tool { until: time(&until)? },
        })
    }
}

impl JsonSchema for Always {
    fn schema_name() -> std::borrow::Cow<'static, str> {
        "Always".into()
    }
    fn json_schema(generator: &mut schemars::SchemaGenerator) -> schemars::Schema {
        Written::json_schema(generator)
    }
}

impl Always {
    /// When it ends, if it does.
    #[must_use]
    pub fn until(&self) -> Option<Millis> {
        match self {
            Always::No | Always::Session => None,
            Always::Arguments { until } => *until,
            Always::Tool { until } => Some(*until),
        }
    }
}

/// Where a rule was made: the interruption's number, and which of its actions.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub struct RuleId {
    /// The interruption's number in its session.
    pub n: InterruptionNo,
    /// The action's index.
    pub action: u32,
}

impl RuleId {
    /// The id on the wire: `{approval_key}.{action}`.
    #[must_use]
    pub fn name(self, session_id: &str) -> String {
        format!("{}.{}", approval_key(session_id, self.n), self.action)
    }

    /// The session and the rule that an id names; `None` if it is not an id.
    #[must_use]
    pub fn parse(id: &str) -> Option<(&str, RuleId)> {
        let (key, action) = id.rsplit_once('.')?;
        let (session_id, n) = super::key::parse_approval_key(key)?;
        let plain = action == "0" || !action.starts_with('0');
        if !plain || !action.bytes().all(|b| b.is_ascii_digit()) {
            return None;
        }
        Some((session_id, RuleId { n, action: action.parse().ok()? }))
    }
}

/// A standing decision.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Rule {
    /// Where it was made.
    pub id: RuleId,
    /// The agent it covers.
    pub agent: Arc<str>,
    /// The tool it covers.
    pub tool: Arc<str>,
    /// What it decides.
    pub decision: RuleDecision,
    /// Which calls it covers.
    pub scope: RuleScope,
    /// The message to the model, when it rejects.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub message: Option<String>,
    /// The reviewer in whose place it decides.
    #[serde(default, skip_serializing_if = "Reviewer::is_owner")]
    pub role: Reviewer,
    /// It rejects, and the sessions' owner may not decide in this reviewer's place, whatever roles they hold.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub not_self: bool,
    /// Who made it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub by: Option<Arc<str>>,
    /// The arguments it covers, if that is its scope.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub args: Option<Args>,
    /// When it ends.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub until: Option<Millis>,
    /// The signature of the tool that was shown when it was made: an approving rule covers that tool, not another of
    /// the same name.
    pub tool_digest: Arc<str>,
}

impl Rule {
    /// Whether it covers the same calls, in the same reviewer's place, as an older rule of the same session or user, which
    /// ends with it.
    #[must_use]
    pub fn replaces(&self, older: &Rule) -> bool {
        (&self.agent, &self.tool, &self.role) == (&older.agent, &older.tool, &older.role)
            && (self.scope, &self.args) == (older.scope, &older.args)
    }

    /// Whether it covers all sessions of the user, not only the one it was made in.
    #[must_use]
    pub fn is_everywhere(&self) -> bool {
        self.scope != RuleScope::Session
    }
}

/// What a standing rule decides.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum RuleDecision {
    /// It approves the calls that it covers.
    Approve,
    /// It rejects them.
    Reject,
}

/// The scope of a standing rule.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum RuleScope {
    /// Its session.
    Session,
    /// Calls with its arguments, in all sessions of the user.
    Arguments,
    /// All calls of the tool, in all sessions of the user.
    Tool,
}

impl RuleScope {
    /// Its name on the wire.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            RuleScope::Session => "session",
            RuleScope::Arguments => "arguments",
            RuleScope::Tool => "tool",
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn s7_a_rule_replaces_one_for_the_same_calls_in_the_same_place_only() {
        let text = r#"{"id":{"n":1,"action":0},"agent":"a","tool":"pay","decision":"reject","scope":"session","tool_digest":"d"}"#;
        let older: Rule = serde_json::from_str(text).expect("a rule");
        let approves = Rule { decision: RuleDecision::Approve, ..older.clone() };
        assert!(approves.replaces(&older));
        assert!(!Rule { role: "lead".into(), ..approves.clone() }.replaces(&older), "it does not decide for the owner");
        assert!(!Rule { scope: RuleScope::Tool, ..approves }.replaces(&older));
    }

    #[test]
    fn s7_always_is_true_or_a_scope() {
        let read = |text: &str| serde_json::from_str::<Always>(text).map_err(|e| e.to_string());
        assert_eq!(read("true"), Ok(Always::Session));
        assert_eq!(read("false"), Ok(Always::No));
        assert_eq!(read(r#"{"scope":"session"}"#), Ok(Always::Session));
        assert_eq!(read(r#"{"scope":"arguments"}"#), Ok(Always::Arguments { until: None }));
        let until = read(r#"{"scope":"tool","until":"2027-01-31T00:00:00Z"}"#);
        assert_eq!(until, Ok(Always::Tool { until: 1_801_353_600_000 }));
        for wrong in [
            r#""session""#,
            r#"{"scope":"tool"}"#,
            r#"{"scope":"world"}"#,
            "1",
            r#"{"scope":"tool","until":"tomorrow"}"#,
            r#"{"scope":"session","until":"2027-01-31T00:00:00Z"}"#,
        ] {
            assert!(read(wrong).is_err(), "{wrong}");
        }
        for always in [Always::Session, Always::Arguments { until: Some(0) }, Always::Tool { until: 1000 }] {
            let text = serde_json::to_string(&always).expect("text");
            assert_eq!(read(&text), Ok(always), "{text}");
        }
    }

    #[test]
    fn s7_an_id_names_one_rule() {
        let id = RuleId { n: InterruptionNo::new(12), action: 0 };
        assert_eq!(id.name("a.b_1"), "a.b_1_12.0");
        assert_eq!(RuleId::parse("a.b_1_12.0"), Some(("a.b_1", id)));
        for wrong in ["a_1", "a_1.", "a_1.00", "a_1.+1", "a_01.1", "a.1", ""] {
            assert_eq!(RuleId::parse(wrong), None, "{wrong}");
        }
    }
}
