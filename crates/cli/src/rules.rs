//! The policy of a configuration, as `check` prints it: its version, and each rule in one line.

use countersign_core::{
    call::{
        gate::{Ask, Risk},
        reviewer::Reviewer,
    },
    journal::record::Kind,
};
use countersign_engine::policy::Judge;
use countersign_server::config::{Config, ConfigRequire, ConfigRule, ConfigThen, HINTS};
use serde_json::{Value, json};

use crate::matches::Matches;

/// The lines of the rules that may apply to a tool.
pub(crate) fn lines_for(config: &Config, rules: &[usize]) -> String {
    let lines: Vec<String> =
        rules.iter().filter_map(|i| config.rules.get(*i)).map(|rule| rule.line.to_string()).collect();
    match lines.len() {
        0 => String::new(),
        1 => format!("; or as the rule at line {} says, if that is stricter", lines[0]),
        _ => format!(
            "; or as the first that matches of the rules at lines {} says, if that is stricter",
            lines.join(", ")
        ),
    }
}

/// The version, and a line for each rule; only the version if there are none.
pub(crate) fn in_words(config: &Config, judge: &Judge, matches: &Matches<'_>) -> String {
    let mut text = format!("\npolicy {}", judge.version());
    match config.rules.len() {
        0 => text.push_str(": only the tools' own approvals, since there are no [[policy.rules]]"),
        1 => text.push_str(", 1 rule"),
        n => text.push_str(&format!(", {n} rules: the first that matches counts")),
    }
    for (i, rule) in config.rules.iter().enumerate() {
        let name = rule.name.as_ref().map(|name| format!(" {name:?}")).unwrap_or_default();
        let idle = if matches.is_idle(i) { " (no agent has such a tool)" } else { "" };
        text.push_str(&format!("\n  line {}{name}: {}: {}{idle}", rule.line, calls(rule), outcome(&rule.then)));
    }
    text
}

/// Whether any decision needs people with a role, not only the session's owner.
pub(crate) fn needs_roles(config: &Config) -> bool {
    let approvals = config
        .tools
        .iter()
        .filter_map(|tool| tool.approval.as_ref())
        .chain(config.models.iter().flat_map(|model| model.hosted_mcp.iter().map(|server| &server.approval)));
    let asks = approvals.map(|approval| &approval.ask).chain(config.rules.iter().filter_map(|rule| match &rule.then {
        ConfigThen::Require(_, ask) => Some(ask),
        ConfigThen::Deny(_) => None,
    }));
    asks.flat_map(|ask| ask.levels.iter().chain(&ask.escalate)).any(|reviewer| !reviewer.is_owner())
}

/// The calls that it matches.
fn calls(rule: &ConfigRule) -> String {
    let mut said = if rule.tools.is_empty() { "every tool".to_owned() } else { rule.tools.join(", ") };
    if !rule.agents.is_empty() {
        said.push_str(&format!(" of {}", rule.agents.join(", ")));
    }
    for (hint, value) in HINTS.iter().zip(rule.hints).filter_map(|(hint, value)| Some((hint, value?))) {
        said.push_str(&format!(", {hint} = {value}"));
    }
    if !rule.roles.is_empty() {
        said.push_str(&format!(", requested by {}", rule.roles.join(" or ")));
    }
    if let Some(when) = &rule.when {
        said.push_str(&format!(", when {when}"));
    }
    said
}

/// What happens to them.
fn outcome(then: &ConfigThen) -> String {
    match then {
        ConfigThen::Deny(None) => "refused".to_owned(),
        ConfigThen::Deny(Some(text)) => format!("refused, saying {text:?}"),
        ConfigThen::Require(ConfigRequire::Never, _) => "no approval beyond the tool's own".to_owned(),
        ConfigThen::Require(ConfigRequire::Always, ask) => how(ask),
        ConfigThen::Require(ConfigRequire::When(condition), ask) => format!("{} if {condition}", how(ask)),
    }
}

/// Who is asked, and how.
fn how(ask: &Ask) -> String {
    let mut said = if ask.levels.is_empty() { "the user".to_owned() } else { Reviewer::join(&ask.levels, ", then ") };
    said.push_str(if ask.levels.len() > 1 { " decide" } else { " decides" });
    if ask.quorum > 1 {
        said.push_str(&format!(", {} people each", ask.quorum));
    }
    if ask.not_self {
        said.push_str(", not the requester");
    }
    if let Some((risk, _)) = Risk::NAMED.iter().find(|(_, risk)| Some(*risk) == ask.risk) {
        said.push_str(&format!(", at {risk} risk"));
    }
    match seconds(ask) {
        // The tool's own timeout counts, or else the default.
        None => {}
        Some(0) => said.push_str(", without a deadline"),
        Some(seconds) => said.push_str(&format!(", in {seconds} s")),
    }
    if !ask.escalate.is_empty() {
        said.push_str(&format!(", then {} instead", Reviewer::join(&ask.escalate, ", then ")));
    }
    said
}

/// The timeout that a rule itself sets, 0 for none.
fn seconds(ask: &Ask) -> Option<u32> {
    (!ask.timeout.is_default()).then(|| Kind::Approval.timeout_seconds(ask.timeout))
}

/// The policy as JSON, with the file's keys; what people are asked is called as on the wire (`escalate`).
pub(crate) fn as_json(config: &Config, judge: &Judge, matches: &Matches<'_>) -> Value {
    let rule = |(i, rule): (usize, &ConfigRule)| {
        let hints: serde_json::Map<String, Value> = HINTS
            .iter()
            .zip(rule.hints)
            .filter_map(|(hint, value)| Some(((*hint).to_owned(), json!(value?))))
            .collect();
        let mut said = json!({
            "line": rule.line,
            "name": rule.name,
            "tool": rule.tools,
            "agent": rule.agents,
            "hints": hints,
            "role": rule.roles,
            "when": rule.when,
            "matches_no_tool": matches.is_idle(i),
        });
        match &rule.then {
            ConfigThen::Deny(text) => said["deny"] = text.as_ref().map_or(json!(true), |text| json!(text)),
            ConfigThen::Require(ConfigRequire::Never, _) => said["require"] = json!(false),
            ConfigThen::Require(require, ask) => {
                said["require"] = match require {
                    ConfigRequire::When(condition) => json!(condition),
                    _ => json!(true),
                };
                said["levels"] = json!(ask.levels);
                said["quorum"] = json!(ask.quorum);
                said["not_self"] = json!(ask.not_self);
                said["allowed_decisions"] = json!(ask.allowed());
                said["timeout"] = json!(seconds(ask));
                said["escalate"] = json!(ask.escalate);
                said["reminders"] = json!(ask.reminders);
                said["reassign"] = json!(ask.reassign);
                said["risk"] = json!(ask.risk);
            }
        }
        said
    };
    json!({ "version": judge.version(), "rules": config.rules.iter().enumerate().map(rule).collect::<Vec<_>>() })
}
