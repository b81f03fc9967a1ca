//! `[policy]`: rules that say when approval is required, and by whom (spec P1).

use countersign_core::setting::SettingError;
use std::cell::Cell;

use countersign_core::call::{ask_check::role_error, gate::Ask, reviewer::Reviewer};
use countersign_engine::{
    policy::{Glob, RULES},
    tool::{condition::CelCondition, reserved},
};
use serde_json::json;

use super::{
    approval::{self, ConfigRequire, condition, require},
    reader::{Entry, Names, Section},
    table::{Kind, boolean, flat, list, short, table, tables, text},
};

/// Longest rule name, and longest denial message, in bytes.
const TEXT_BYTES: usize = 1024;
/// The declared hints of a tool, as keys, in the order of [`ConfigRule::hints`].
pub const HINTS: [&str; 4] = ["read_only", "destructive", "open_world", "idempotent"];

table! {
    /// A declared policy rule.
    #[derive(Clone, Debug, PartialEq)]
    pub struct ConfigRule(section) {
        /// The line it begins at.
        line: usize = flat(|section| Some(section.line()));
        /// Its name; reviewers see it as the `reason`, and it is in the log.
        name: Option<String> = short(TEXT_BYTES).optional("the condition");
        /// The tools it applies to: names in which `*` matches any characters. A name without `*` must exist; whether it
        /// is one of an MCP server only `check --connect` can tell.
        tools("tool"): Vec<String> = globs("tool", |names| (tools(names), names.mcp.is_empty() && !names.has_hosted)).or_as("all", Vec::new);
        /// The agents it applies to, in the same way.
        agents("agent"): Vec<String> = globs("agent", |names| (names.agents.clone(), true)).or_as("all", Vec::new);
        /// Hints that the tool must declare.
        hints: [Option<bool>; 4] = table(hints).or_as("not checked", || [None; 4]);
        /// The requester must hold one of these roles, as of the beginning of the turn. `user` is not allowed here:
        /// every requester is one.
        roles("role"): Vec<String> = one_or_more(|| text().and(role)).or_as("anybody", Vec::new);
        /// Condition for the rule to match.
        when: Option<String> = condition().optional("none");
        /// What happens to matching calls.
        then: ConfigThen = flat(then);
    }
}

/// What happens to calls that match the rule.
#[derive(Clone, Debug, PartialEq)]
pub enum ConfigThen {
    /// Approval is required when `require` says so.
    Require(ConfigRequire, Ask),
    /// It does not run; the model gets this message, or a default one.
    Deny(Option<String>),
}

/// Reads `[policy]`.
pub(super) fn read(section: &Section<'_>) -> Option<Vec<ConfigRule>> {
    let all = &Cell::new(None);
    let rules = tables(move |section| {
        let rule = ConfigRule::read(section)?;
        if let Some(line) = all.get() {
            let what = format!("this rule is never reached: the one at line {line} matches every call");
            section.document.warn(section.at, what);
        } else if rule.matches_everything() {
            all.set(Some(rule.line));
        }
        Some(rule)
    });
    let rules = rules.schema(json!({ "maxItems": RULES })).and(|entry, rules| {
        if let Some(first) = entry.items().get(RULES) {
            entry.section.document.error(first.at, format!("a policy has at most {RULES} rules"));
        }
        Some(rules)
    });
    let doc = "Checked in the order of the file; the first one that matches applies.";
    section.field("rules", doc, rules.or_as("none", Vec::new))
}

impl ConfigRule {
    fn matches_everything(&self) -> bool {
        let any = |globs: &[String]| globs.is_empty() || globs.iter().any(|glob| glob == "*");
        any(&self.tools) && any(&self.agents) && self.hints == [None; 4] && self.roles.is_empty() && self.when.is_none()
    }
}

fn hints(section: &Section<'_>) -> Option<[Option<bool>; 4]> {
    let said = HINTS.map(|key| section.field(key, "Whether it declares this.", boolean().optional("not checked")));
    let [read_only, destructive, open_world, idempotent] = said;
    Some([read_only?, destructive?, open_world?, idempotent?])
}

fn role(entry: &Entry<'_>, role: String) -> Option<String> {
    if let Some(what) = role_error(&role) {
        entry.bad(what);
    } else if Reviewer::is_owner_name(&role) {
        // Elsewhere `user` means the requester. Taken for a role, it would silently match almost nobody.
        entry.bad(format!("cannot be {role:?}: everybody who asks is the user; leave it out to match all"));
    }
    entry.section.document.requesters.borrow_mut().push((role.clone(), entry.at));
    Some(role)
}

fn then(section: &Section<'_>) -> Option<ConfigThen> {
    let doc = "`true`: a person is asked. A condition: if it is true. `false`: nobody is asked by this rule.";
    let require = section.field("require", doc, require().optional("required, or `deny`"))?;
    let doc = "`true`, or the message to the model: the call does not run, and nobody is asked.";
    let deny = section.field("deny", doc, deny().optional("none"))?;
    let ask = approval::ask(section)?;
    if section.has("deny").is_none() {
        if require == Some(ConfigRequire::Never) {
            approval::nobody_is_asked(section, "\"require = false\"");
        } else if section.has("require").is_none() {
            section.missing("\"require\"", ": true, false or a condition (or \"deny\")");
        }
        return Some(ConfigThen::Require(require.unwrap_or(ConfigRequire::Always), ask));
    }
    if section.has("require").is_some() {
        section.bad("require", "cannot be combined with \"deny\": what is refused does not run");
    }
    approval::nobody_is_asked(section, "\"deny\"");
    Some(ConfigThen::Deny(deny.flatten()))
}

fn deny<'k>() -> Kind<'k, Option<String>> {
    let whether = boolean().schema(json!({ "const": true })).called("`true`").try_map(|deny| match deny {
        true => Ok(None),
        false => Err("is false; leave it out, and say with \"require\" what is to happen".to_owned()),
    });
    let told = text().schema(json!({ "minLength": 1, "maxLength": TEXT_BYTES })).try_map(|text| {
        let is_right = !text.trim().is_empty() && text.len() <= TEXT_BYTES;
        if is_right { Ok(Some(text)) } else { Err(format!("must have 1 to {TEXT_BYTES} bytes, or be true")) }
    });
    whether.or_a(told).expected("true, or what the model is told")
}

/// The declared tools, and those by which agents hand off.
fn tools(names: &Names) -> Vec<String> {
    let handoffs = names.agents.iter().map(|agent| format!("transfer_to_{agent}"));
    names.tools.iter().cloned().chain(handoffs).collect()
}

/// Name patterns. Where all names are known, one without `*` must exist; one with it that matches none is warned of.
fn globs<'k>(what: &'k str, known: fn(&Names) -> (Vec<String>, bool)) -> Kind<'k, Vec<String>> {
    let pattern = move |entry: &Entry<'_>, pattern: String| {
        if what == "tool" && reserved::NAMES.contains(&pattern.as_str()) {
            // The rule would silently do nothing.
            entry.bad(format!("names {pattern:?}, which has nothing to approve: no rule matches it"));
        }
        let names = entry.section.document.names.borrow();
        let (known, are_all) = known(&names);
        let glob = Glob::new(pattern.as_str());
        // An unknown name may be a tool of an MCP server, of ours or of a model's provider.
        if are_all && !known.iter().any(|name| glob.matches(name)) {
            if glob.is_name() {
                entry.unknown(what, &pattern, known.iter().map(String::as_str));
            } else {
                let message = format!("no {what} matches {pattern:?}{}", entry.section.place());
                entry.section.document.warn(entry.at, message);
            }
        }
        Some(pattern)
    };
    one_or_more(move || text().and(pattern))
}

/// One item or a list.
fn one_or_more<'k>(item: impl Fn() -> Kind<'k, String>) -> Kind<'k, Vec<String>> {
    let all = list(item()).schema(json!({ "minItems": 1 })).and(|entry, listed| {
        if entry.items().is_empty() {
            entry.bad("must not be empty; leave it out to match all");
        }
        Some(listed)
    });
    item().map(|one| vec![one]).or_a(all).expected("a list of strings")
}

/// Compiles the rules.
///
/// # Errors
/// A condition that cannot be used; never after the configuration was loaded, which has checked them.
pub(super) fn policy(rules: &[ConfigRule]) -> Result<countersign_engine::policy::Policy, String> {
    use countersign_engine::policy::{HintFilter, Policy, PolicyRule, Then};
    let globs = |patterns: &[String]| patterns.iter().map(|pattern| Glob::new(pattern.as_str())).collect();
    let rules = rules.iter().map(|rule| {
        let at = |error: SettingError| format!("the rule at line {}: {error}", rule.line);
        let [read_only, destructive, open_world, idempotent] = rule.hints;
        Ok(PolicyRule {
            name: rule.name.clone(),
            tools: globs(&rule.tools),
            agents: globs(&rule.agents),
            hints: HintFilter { read_only, destructive, open_world, idempotent },
            roles: rule.roles.clone(),
            when: rule.when.as_deref().map(CelCondition::compile).transpose().map_err(at)?,
            then: match &rule.then {
                ConfigThen::Deny(text) => Then::Deny(text.clone()),
                ConfigThen::Require(ConfigRequire::Never, _) => Then::Allow,
                ConfigThen::Require(ConfigRequire::Always, ask) => Then::Ask(ask.clone()),
                ConfigThen::Require(ConfigRequire::When(expression), ask) => {
                    Then::AskWhen(CelCondition::compile(expression).map_err(at)?, ask.clone())
                }
            },
        })
    });
    Ok(Policy { rules: rules.collect::<Result<_, String>>()? })
}
