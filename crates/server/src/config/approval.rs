//! `approval` of a tool (SPEC P1).

use countersign::tool::condition::CelCondition;
use countersign_core::{
    call::gate::{Ask, DecisionType},
    limits,
};
use toml::de::DeValue;

use super::{error::nearest, reader::Section, server::role_error};

/// Most levels of one approval.
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

/// Reads `approval`: true, false or a table. Without it nobody is asked; a table without `require` means true.
/// The second part is each level with its place in the file.
pub(super) fn read(tool: &Section<'_>) -> (ConfigApproval, Vec<(String, usize)>) {
    let of = |require| (ConfigApproval { require, ask: Ask::default() }, Vec::new());
    let Some(value) = tool.value("approval") else { return of(ConfigRequire::Never) };
    match value.value {
        DeValue::Boolean(false) => of(ConfigRequire::Never),
        DeValue::Boolean(true) => of(ConfigRequire::Always),
        DeValue::Table(_) => match tool.table("approval") {
            Some(section) => table(&section),
            None => of(ConfigRequire::Always),
        },
        _ => {
            tool.wrong_type("approval", &value, "true, false or a table");
            of(ConfigRequire::Always)
        }
    }
}

fn table(section: &Section<'_>) -> (ConfigApproval, Vec<(String, usize)>) {
    let require = require(section);
    let mut ask = Ask::default();
    if let Some(timeout) = section.whole("timeout", 0..=limits::APPROVAL_TIMEOUT_SECONDS_MAX, " seconds") {
        ask.timeout = timeout.value;
    }
    if let Some(then) = section.string("on_timeout")
        && then.value != "reject"
    {
        let what = if then.value.starts_with("escalate") {
            format!("is {:?}, which is not supported yet in this version; use \"reject\"", then.value)
        } else {
            format!("is {:?}; it must be \"reject\"", then.value)
        };
        section.bad(then.at, "on_timeout", what);
    }
    if let Some(at) = section.has("not_self") {
        section.bad(at, "not_self", "is not supported yet in this version");
    }
    if let Some(allowed) = decisions(section) {
        ask.allowed = allowed;
    }
    let mut levels: Vec<(String, usize)> = Vec::new();
    let listed = section.strings("levels");
    if let (Some([]), Some(at)) = (listed.as_deref(), section.has("levels")) {
        section.bad(at, "levels", "must name at least one role");
    }
    for level in listed.unwrap_or_default() {
        if let Some(what) = role_error(&level.value) {
            section.bad(level.at, "levels", what);
        } else if levels.iter().any(|(role, _)| *role == level.value) {
            section.bad(level.at, "levels", format!("has {:?} twice", level.value));
        } else if levels.len() == LEVELS {
            section.bad(level.at, "levels", format!("has more than {LEVELS} levels"));
            break;
        } else {
            levels.push((level.value, level.at));
        }
    }
    if let Some(quorum) = section.whole("quorum", 1..=QUORUM, "") {
        ask.quorum = quorum.value;
        let only_one = levels.is_empty() || levels.iter().any(|(role, _)| role == "user");
        if quorum.value > 1 && only_one {
            let what = format!(
                "is {}, but the session's own user is one person; name other roles in \"levels\"",
                quorum.value
            );
            section.bad(quorum.at, "quorum", what);
        }
    }
    section.finish();
    ask.levels = levels.iter().map(|(role, _)| role.clone()).collect();
    (ConfigApproval { require, ask }, levels)
}

fn require(section: &Section<'_>) -> ConfigRequire {
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
