//! `approval` of a tool (spec P1).

use countersign::tool::condition::CelCondition;
use countersign_core::{
    approval::reviewer::Reviewer,
    call::{
        ask_check::{AskField, LEVELS, QUORUM, role_error, wrong_role},
        gate::{Ask, DecisionType},
        timeout::Timeout,
    },
    limits,
};
use toml::de::DeValue;

use super::{
    error::nearest,
    reader::{At, Section},
};

const DECISIONS: [DecisionType; 5] =
    [DecisionType::Approve, DecisionType::Reject, DecisionType::Edit, DecisionType::Respond, DecisionType::Defer];

/// When a tool's call needs a person, and how that person is asked.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ConfigApproval {
    /// When.
    pub require: ConfigRequire,
    /// How.
    pub ask: Ask,
}

/// When a tool's call needs a person.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ConfigRequire {
    /// Never.
    Never,
    /// Always.
    Always,
    /// When this CEL expression is true; it was compiled once when the file was loaded.
    When(String),
}

/// A role, and where the file names it.
pub(super) type RoleAt = (String, usize);

/// Reads `approval`: true, false or a table. Without it nobody is asked; a table without `require` means true.
/// The second part is each role with its place in the file.
pub(super) fn read(tool: &Section<'_>) -> (ConfigApproval, Vec<RoleAt>) {
    let of = |require| (ConfigApproval { require, ask: Ask::default() }, Vec::new());
    let Some(value) = tool.value("approval") else { return of(ConfigRequire::Never) };
    match value.value {
        DeValue::Boolean(false) => of(ConfigRequire::Never),
        DeValue::Boolean(true) => of(ConfigRequire::Always),
        DeValue::Table(_) => match tool.table("approval") {
            Some(section) => {
                let require = require(&section);
                let (ask, roles) = ask(&section);
                section.finish();
                (ConfigApproval { require, ask }, roles)
            }
            None => of(ConfigRequire::Always),
        },
        _ => {
            tool.wrong_type("approval", &value, "true, false or a table");
            of(ConfigRequire::Always)
        }
    }
}

/// Reads how a person is asked: the keys that `approval` and rules of the policy share.
pub(super) fn ask(section: &Section<'_>) -> (Ask, Vec<RoleAt>) {
    let mut ask = Ask::default();
    if let Some(timeout) = section.whole("timeout", 0..=limits::APPROVAL_TIMEOUT_SECONDS_MAX, " seconds") {
        ask.timeout = Timeout::of(timeout.value);
    }
    let allowed = decisions(section);
    if let Some(allowed) = &allowed {
        ask.allowed = allowed.iter().map(|kind| kind.value).collect();
    }
    if let Some(quorum) = section.whole("quorum", 1..=QUORUM, "") {
        ask.quorum = quorum.value;
    }
    ask.not_self = section.boolean("not_self").unwrap_or(false);
    let (levels, escalate, reassign) = (roles(section, "levels"), on_timeout(section), roles(section, "reassign"));
    let reminders =
        section.wholes("reminders", 1..=limits::APPROVAL_TIMEOUT_SECONDS_MAX, " seconds").unwrap_or_default();
    let reviewers = |roles: &[RoleAt]| roles.iter().map(|(role, _)| Reviewer::of(&**role)).collect();
    ask.levels = reviewers(&levels);
    ask.escalate = reviewers(&escalate);
    ask.reassign = reviewers(&reassign);
    ask.reminders = reminders.iter().map(|seconds| seconds.value).collect();
    let mistakes = ask.mistakes();
    for mistake in &mistakes {
        let key = key(mistake.field);
        let at = mistake.index.and_then(|i| match mistake.field {
            AskField::Allowed => allowed.as_ref()?.get(i).map(|kind| kind.at),
            AskField::Reminders => reminders.get(i).map(|seconds| seconds.at),
            AskField::Levels => levels.get(i).map(|(_, at)| *at),
            AskField::Escalate => escalate.get(i).map(|(_, at)| *at),
            AskField::Reassign => reassign.get(i).map(|(_, at)| *at),
            AskField::Timeout | AskField::Quorum | AskField::NotSelf => None,
        });
        section.bad(at.or_else(|| section.has(key)).unwrap_or(section.at), key, &*mistake.what);
    }
    for (field, needs) in [(AskField::Quorum, ask.quorum > 1), (AskField::NotSelf, ask.not_self)] {
        if let Some(at) = section.has(key(field)).filter(|_| needs)
            && mistakes.iter().all(|mistake| mistake.field != field)
        {
            nobody_is_told_apart(section, key(field), at);
        }
    }
    if mistakes.is_empty() {
        section.document.holders.borrow().check(section, &ask);
    }
    (ask, [levels, escalate, reassign].concat())
}

/// The key that a field is written under.
fn key(field: AskField) -> &'static str {
    match field {
        AskField::Allowed => "allowed_decisions",
        AskField::Escalate => "on_timeout",
        field => field.name(),
    }
}

/// Warns of a key that needs different people where everybody is the same.
fn nobody_is_told_apart(section: &Section<'_>, key: &str, at: usize) {
    if section.document.open.get() {
        let what = "without [auth] nobody can be told apart, so nobody can approve it";
        section.document.warn(at, format!("\"{key}\"{} needs different people: {what}", section.place()));
    }
}

/// A list of roles, each once.
pub(super) fn roles(section: &Section<'_>, key: &'static str) -> Vec<RoleAt> {
    let listed = section.strings(key);
    if let (Some([]), Some(at)) = (listed.as_deref(), section.has(key)) {
        section.bad(at, key, "must name at least one role");
    }
    let mut listed = listed.unwrap_or_default();
    while let Some((i, what)) = wrong_role(listed.iter().map(|role| &*role.value)) {
        section.bad(listed[i].at, key, what);
        if i < LEVELS {
            listed.remove(i);
        } else {
            listed.truncate(i);
        }
    }
    listed.into_iter().map(|role| (role.value, role.at)).collect()
}

/// The roles that are asked in turn at the deadline; none if what waits is rejected then.
fn on_timeout(section: &Section<'_>) -> Vec<RoleAt> {
    const RIGHT: &str = "\"reject\", { escalate = \"ROLE\" } or { escalate = [\"ROLE\", …] }";
    let Some(value) = section.value("on_timeout") else { return Vec::new() };
    match value.value {
        DeValue::String(text) if text == "reject" => Vec::new(),
        DeValue::String(text) => {
            section.bad(value.at, "on_timeout", format!("is {text:?}; it must be {RIGHT}"));
            Vec::new()
        }
        DeValue::Table(_) => {
            let Some(table) = section.table("on_timeout") else { return Vec::new() };
            let chain = match table.value("escalate").map(|value| value.value) {
                None => {
                    section.bad(value.at, "on_timeout", format!("must be {RIGHT}"));
                    Vec::new()
                }
                Some(DeValue::String(_)) => match table.string("escalate") {
                    Some(role) => match role_error(&role.value) {
                        Some(what) => {
                            table.bad(role.at, "escalate", what);
                            Vec::new()
                        }
                        None => vec![(role.value, role.at)],
                    },
                    None => Vec::new(),
                },
                Some(_) => roles(&table, "escalate"),
            };
            table.finish();
            chain
        }
        _ => {
            section.wrong_type("on_timeout", &value, RIGHT);
            Vec::new()
        }
    }
}

pub(super) fn require(section: &Section<'_>) -> ConfigRequire {
    let Some(value) = section.value("require") else { return ConfigRequire::Always };
    match value.value {
        DeValue::Boolean(true) => ConfigRequire::Always,
        DeValue::Boolean(false) => ConfigRequire::Never,
        DeValue::String(expression) => {
            if let Err(error) = CelCondition::compile(expression) {
                section.document.error(value.at, format!("\"require\"{}: {error}", section.place()));
            }
            ConfigRequire::When(expression.to_string())
        }
        _ => {
            section.wrong_type("require", &value, "true, false or a condition");
            ConfigRequire::Always
        }
    }
}

fn decisions(section: &Section<'_>) -> Option<Vec<At<DecisionType>>> {
    let mut allowed = Vec::new();
    for At { value: name, at } in section.strings("allowed_decisions")? {
        match DECISIONS.into_iter().find(|decision| decision.name() == name) {
            Some(value) => allowed.push(At { value, at }),
            None => {
                let message = format!("unknown decision {name:?}{}", section.place());
                section.document.error_near(at, message, nearest(&name, DECISIONS.map(DecisionType::name)));
                return None;
            }
        }
    }
    Some(allowed)
}
