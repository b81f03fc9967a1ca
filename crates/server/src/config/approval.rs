//! `approval` of a tool (SPEC P1).

use countersign::tool::condition::CelCondition;
use countersign_core::{
    call::gate::{Ask, DecisionType, USER},
    limits,
};
use toml::de::DeValue;

use super::{
    error::nearest,
    reader::{At, Section},
    server::role_error,
};

/// Most levels of one approval, roles of one list, and reminders.
const LEVELS: usize = 16;
/// Most people that one level can need.
const QUORUM: u32 = 100;
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
        ask.set_timeout(timeout.value);
    }
    if let Some(allowed) = decisions(section) {
        ask.allowed = allowed;
    }
    let levels = roles(section, "levels");
    if let Some(quorum) = section.whole("quorum", 1..=QUORUM, "") {
        ask.quorum = quorum.value;
        if quorum.value > 1 && levels.iter().all(|(role, _)| role == USER) {
            let what = format!(
                "is {}, but the session's own user is one person; name other roles in \"levels\"",
                quorum.value
            );
            section.bad(quorum.at, "quorum", what);
        } else if quorum.value > 1 {
            nobody_is_told_apart(section, "quorum", quorum.at);
        }
    }
    ask.not_self = section.boolean("not_self").unwrap_or(false);
    if ask.not_self
        && let Some(at) = section.has("not_self")
    {
        if levels.iter().all(|(role, _)| role == USER) {
            section.bad(at, "not_self", "leaves nobody who may approve: name a role other than \"user\" in \"levels\"");
        } else {
            nobody_is_told_apart(section, "not_self", at);
        }
    }
    let escalate = on_timeout(section);
    if !escalate.is_empty()
        && ask.timeout == 0
        && let Some(at) = section.has("on_timeout")
    {
        section.bad(at, "on_timeout", "never happens: \"timeout\" is 0, which waits for ever");
    }
    ask.reminders = reminders(section, ask.timeout);
    let reassign = roles(section, "reassign");
    for (key, listed) in [("on_timeout", &escalate), ("reassign", &reassign)] {
        if let Some((_, at)) = listed.iter().find(|(role, _)| role == USER)
            && (ask.not_self || ask.quorum > 1)
        {
            let beside = if ask.not_self { "not_self" } else { "quorum" };
            let what = format!("names \"user\", who asked for it, which goes around \"{beside}\"; name another role");
            section.bad(*at, key, what);
        }
    }
    let names = |roles: &[RoleAt]| roles.iter().map(|(role, _)| role.clone()).collect::<Vec<_>>();
    ask.levels = names(&levels);
    ask.escalate = names(&escalate);
    ask.reassign = names(&reassign);
    section.document.holders.borrow().check(section, &ask);
    (ask, [levels, escalate, reassign].concat())
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
    let mut roles: Vec<RoleAt> = Vec::new();
    for At { value: role, at } in listed.unwrap_or_default() {
        if let Some(what) = role_error(&role) {
            section.bad(at, key, what);
        } else if roles.iter().any(|(known, _)| *known == role) {
            section.bad(at, key, format!("has {role:?} twice"));
        } else if roles.len() == LEVELS {
            section.bad(at, key, format!("has more than {LEVELS} roles"));
            break;
        } else {
            roles.push((role, at));
        }
    }
    roles
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

/// Seconds after which it is said again, ascending.
fn reminders(section: &Section<'_>, timeout: u32) -> Vec<u32> {
    let Some(listed) = section.wholes("reminders", 1..=limits::APPROVAL_TIMEOUT_SECONDS_MAX, " seconds") else {
        return Vec::new();
    };
    let mut reminders: Vec<u32> = Vec::new();
    for At { value, at } in listed {
        if timeout > 0 && value >= timeout {
            section.bad(at, "reminders", format!("has {value}, but after {timeout} seconds (\"timeout\") it is over"));
        } else if reminders.last().is_some_and(|last| *last >= value) {
            section.bad(at, "reminders", format!("has {value} after a later one; write them in order, each once"));
        } else if reminders.len() == LEVELS {
            section.bad(at, "reminders", format!("has more than {LEVELS} times"));
            break;
        } else {
            reminders.push(value);
        }
    }
    reminders
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

fn decisions(section: &Section<'_>) -> Option<Vec<DecisionType>> {
    let names = section.strings("allowed_decisions")?;
    let at = section.has("allowed_decisions")?;
    let mut allowed = Vec::new();
    for name in &names {
        match DECISIONS.into_iter().find(|decision| decision.name() == name.value) {
            Some(decision) if allowed.contains(&decision) => {
                section.bad(name.at, "allowed_decisions", format!("has {:?} twice", name.value));
            }
            Some(decision) => allowed.push(decision),
            None => {
                let message = format!("unknown decision {:?}{}", name.value, section.place());
                section.document.error_near(name.at, message, nearest(&name.value, DECISIONS.map(DecisionType::name)));
                return None;
            }
        }
    }
    if allowed.iter().all(|decision| *decision == DecisionType::Defer) {
        section.bad(at, "allowed_decisions", "must have one of \"approve\", \"reject\", \"edit\" and \"respond\"");
        return None;
    }
    Some(allowed)
}
