//! `[policy]`: rules that say when a person is needed, and whom (spec P1).

use countersign::{
    policy::{Glob, RULES},
    tool::condition::CelCondition,
};
use countersign_core::{
    approval::reviewer::Reviewer,
    call::{ask_check::role_error, gate::Ask},
};
use toml::de::DeValue;

use super::{
    approval::{self, ConfigRequire, RoleAt},
    error::nearest,
    reader::{At, Section},
};

/// Longest name of a rule, and longest text of a refusal, in bytes.
const TEXT_BYTES: usize = 1024;
/// The declared hints of a tool, as keys, in the order of [`ConfigRule::hints`].
pub const HINTS: [&str; 4] = ["read_only", "destructive", "open_world", "idempotent"];

/// The keys that say how a person is asked.
const HOW: [&str; 8] =
    ["levels", "quorum", "not_self", "allowed_decisions", "timeout", "on_timeout", "reminders", "reassign"];

/// One rule of the policy, as it is written.
#[derive(Clone, Debug, PartialEq)]
pub struct ConfigRule {
    /// The line of the file it begins at.
    pub line: usize,
    /// What it is called.
    pub name: Option<String>,
    /// The tools it is for, with `*`; empty means all.
    pub tools: Vec<String>,
    /// The agents it is for, with `*`; empty means all.
    pub agents: Vec<String>,
    /// What must be declared about the tool, in the order of [`HINTS`].
    pub hints: [Option<bool>; 4],
    /// Who asked must hold one of these; empty means anybody.
    pub roles: Vec<String>,
    /// A CEL expression that must be true.
    pub when: Option<String>,
    /// What is to happen.
    pub then: ConfigThen,
}

/// What is to happen to calls that a rule matches.
#[derive(Clone, Debug, PartialEq)]
pub enum ConfigThen {
    /// A person is asked when `require` says so.
    Require(ConfigRequire, Ask),
    /// It does not run; the model is told this, or that the policy refuses it.
    Deny(Option<String>),
}

/// What names the rules may use.
pub(super) struct Names<'n> {
    pub(super) tools: &'n [&'n str],
    pub(super) agents: &'n [&'n str],
    /// Whether these are all tools; those of MCP servers are not known before they are reached.
    pub(super) all: bool,
}

/// Reads `[policy]`. The second part is each role it names, with its place in the file.
pub(super) fn read(root: &Section<'_>, names: &Names<'_>) -> (Vec<ConfigRule>, Vec<RoleAt>) {
    let Some(policy) = root.table("policy") else { return (Vec::new(), Vec::new()) };
    let (mut rules, mut roles) = (Vec::new(), Vec::new());
    let mut all: Option<usize> = None;
    for section in policy.tables("rules") {
        if rules.len() == RULES {
            section.document.error(section.at, format!("a policy has at most {RULES} rules"));
            break;
        }
        let (rule, named) = rule(&section, names);
        if let Some(line) = all {
            let what = format!("this rule is never reached: the one at line {line} matches every call");
            section.document.warn(section.at, what);
        }
        if all.is_none() && rule.matches_everything() {
            all = Some(rule.line);
        }
        rules.push(rule);
        roles.extend(named);
    }
    policy.finish();
    (rules, roles)
}

impl ConfigRule {
    fn matches_everything(&self) -> bool {
        let any = |globs: &[String]| globs.is_empty() || globs.iter().any(|glob| glob == "*");
        any(&self.tools) && any(&self.agents) && self.hints == [None; 4] && self.roles.is_empty() && self.when.is_none()
    }
}

fn rule(section: &Section<'_>, names: &Names<'_>) -> (ConfigRule, Vec<RoleAt>) {
    let name = section.string("name");
    if let Some(name) = &name
        && (name.value.trim().is_empty() || name.value.len() > TEXT_BYTES || name.value.contains(char::is_control))
    {
        section.bad(name.at, "name", format!("must have 1 to {TEXT_BYTES} bytes and no control characters"));
    }
    let tools = globs(section, "tool", names.tools, names.all);
    let agents = globs(section, "agent", names.agents, true);
    let mut hints = [None; 4];
    if let Some(table) = section.table("hints") {
        for (key, hint) in HINTS.into_iter().zip(&mut hints) {
            *hint = table.boolean(key);
        }
        table.finish();
    }
    let asked_by = one_or_more(section, "role").unwrap_or_default();
    for At { value, at } in &asked_by {
        if let Some(what) = role_error(value) {
            section.bad(*at, "role", what);
        } else if Reviewer::is_owner_name(value) {
            // Elsewhere it means who asked. Taken for a role it would match almost nobody, and nobody would notice.
            let what = format!("cannot be {value:?}: everybody who asks is the user; leave it out to match all");
            section.bad(*at, "role", what);
        }
    }
    let when = section.string("when");
    if let Some(when) = &when
        && let Err(error) = CelCondition::compile(&when.value)
    {
        section.document.error(when.at, format!("\"when\"{}: {error}", section.place()));
    }
    let (then, mut roles) = then(section);
    section.finish();
    roles.extend(asked_by.iter().map(|role| (role.value.clone(), role.at)));
    let rule = ConfigRule {
        line: section.line(),
        name: name.map(|name| name.value),
        tools,
        agents,
        hints,
        roles: asked_by.into_iter().map(|role| role.value).collect(),
        when: when.map(|when| when.value),
        then,
    };
    (rule, roles)
}

fn then(section: &Section<'_>) -> (ConfigThen, Vec<RoleAt>) {
    let (ask, roles) = approval::ask(section);
    let require = section.has("require").map(|_| approval::require(section));
    let Some(deny) = section.value("deny") else {
        if require == Some(ConfigRequire::Never) {
            nobody_is_asked(section, "\"require = false\"");
        } else if require.is_none() {
            let what = format!("missing \"require\"{}: true, false or a condition (or \"deny\")", section.place());
            section.document.error(section.at, what);
        }
        return (ConfigThen::Require(require.unwrap_or(ConfigRequire::Always), ask), roles);
    };
    let deny_text = match deny.value {
        DeValue::Boolean(true) => None,
        DeValue::String(text) if !text.trim().is_empty() && text.len() <= TEXT_BYTES => Some(text.to_string()),
        DeValue::Boolean(false) => {
            section.bad(deny.at, "deny", "is false; leave it out, and say with \"require\" what is to happen");
            None
        }
        DeValue::String(_) => {
            section.bad(deny.at, "deny", format!("must have 1 to {TEXT_BYTES} bytes, or be true"));
            None
        }
        _ => {
            section.wrong_type("deny", &deny, "true, or what the model is told");
            None
        }
    };
    if let Some(at) = section.has("require") {
        section.bad(at, "require", "cannot stand beside \"deny\": what is refused does not run");
    }
    nobody_is_asked(section, "\"deny\"");
    (ConfigThen::Deny(deny_text), roles)
}

/// Reports keys that say how a person is asked where none is.
fn nobody_is_asked(section: &Section<'_>, beside: &str) {
    for key in HOW {
        if let Some(at) = section.has(key) {
            section.bad(at, key, format!("cannot stand beside {beside}: nobody is asked"));
        }
    }
}

/// Patterns for names. One without `*` must be a name that there is; one with it should match something.
fn globs(section: &Section<'_>, key: &'static str, known: &[&str], all: bool) -> Vec<String> {
    let listed = one_or_more(section, key).unwrap_or_default();
    for At { value, at } in &listed {
        let glob = Glob::new(value.as_str());
        if known.iter().any(|name| glob.matches(name)) {
            continue;
        }
        if !all {
            // It may be a tool of a server's.
        } else if glob.is_name() {
            let message = format!("unknown {key} {value:?}{}", section.place());
            section.document.error_near(*at, message, nearest(value, known.iter().copied()));
        } else {
            section.document.warn(*at, format!("no {key} matches {value:?}{}", section.place()));
        }
    }
    listed.into_iter().map(|name| name.value).collect()
}

/// A string or a list of strings.
fn one_or_more(section: &Section<'_>, key: &'static str) -> Option<Vec<At<String>>> {
    match section.value(key)?.value {
        DeValue::String(_) => section.string(key).map(|one| vec![one]),
        _ => {
            let listed = section.strings(key)?;
            if listed.is_empty()
                && let Some(at) = section.has(key)
            {
                section.bad(at, key, "must not be empty; leave it out to match all");
            }
            Some(listed)
        }
    }
}

/// The policy of the rules.
///
/// # Errors
/// A condition that cannot be used; not after the configuration was loaded, which has checked them.
pub(super) fn policy(rules: &[ConfigRule]) -> Result<countersign::policy::Policy, String> {
    use countersign::policy::{HintFilter, Policy, PolicyRule, Then};
    let globs = |patterns: &[String]| patterns.iter().map(|pattern| Glob::new(pattern.as_str())).collect();
    let rules = rules.iter().map(|rule| {
        let at = |error: String| format!("the rule at line {}: {error}", rule.line);
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
