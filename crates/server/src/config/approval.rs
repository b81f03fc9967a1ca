//! `approval` of a tool (spec P1).

use countersign_core::{
    call::{
        ask_check::{AskField, LEVELS, QUORUM, role_error, wrong_role},
        gate::{Ask, DecisionType, Risk},
        reviewer::Reviewer,
        timeout::Timeout,
    },
    limits,
};
use countersign_engine::tool::condition::CelCondition;
use serde_json::json;

use super::{
    reader::{Entry, Section},
    table::{Kind, boolean, choice, choice_or, flat, list, table, text, whole},
};

/// Longest condition, in bytes; the compiler refuses longer ones.
const EXPRESSION_BYTES: usize = 1024;

table! {
    /// When a tool call needs approval, and how it is requested.
    #[derive(Clone, Debug, PartialEq, Eq)]
    pub struct ConfigApproval(section) {
        /// Whether approval is required: always, never, or when [a condition](#approval) over `args`, `agent`,
        /// `session` and `user` is true.
        require: ConfigRequire = require().or_as("`true`", || ConfigRequire::Always);
        /// How it is requested.
        ask: Ask = flat(ask);
    }
    then |section: &Section<'_>, approval: ConfigApproval| {
        if approval.require == ConfigRequire::Never {
            nobody_is_asked(section, "\"require = false\"");
        }
        Some(approval)
    };
}

/// When a tool call needs approval.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ConfigRequire {
    /// Never.
    Never,
    /// Always.
    Always,
    /// When this CEL expression is true; it was compiled once when the file was loaded.
    When(String),
}

impl ConfigApproval {
    /// With the default way of asking.
    pub(super) fn of(require: ConfigRequire) -> ConfigApproval {
        ConfigApproval { require, ask: Ask::default() }
    }
}

fn asks(asks: bool) -> ConfigRequire {
    if asks { ConfigRequire::Always } else { ConfigRequire::Never }
}

/// True, false or a table; a table without `require` means true.
pub(super) fn approval<'k>() -> Kind<'k, ConfigApproval> {
    let whether = boolean().map(|said| ConfigApproval::of(asks(said)));
    whether.or_a(table(ConfigApproval::read)).expected("true, false or a table")
}

/// True, false or a condition.
pub(super) fn require<'k>() -> Kind<'k, ConfigRequire> {
    let when = condition().map(ConfigRequire::When);
    boolean().map(asks).or_a(when).expected("true, false or a condition")
}

/// An expression that compiles.
pub(super) fn condition<'k>() -> Kind<'k, String> {
    let kind = text().called("condition in [CEL](https://cel.dev)").schema(json!({ "maxLength": EXPRESSION_BYTES }));
    kind.and(|entry, expression| match CelCondition::compile(&expression) {
        Ok(_) => Some(expression),
        Err(error) => {
            entry.say(&format!("{:?}", entry.key), &format!(": {error}"));
            None
        }
    })
}

type Located<T> = Vec<(T, usize)>;

fn values<T: Clone>(located: &Located<T>) -> Vec<T> {
    located.iter().map(|(value, _)| value.clone()).collect()
}

/// Reads how approval is requested: the keys that `approval` and policy rules share.
pub(super) fn ask(section: &Section<'_>) -> Option<Ask> {
    let mut ask = Ask::default();
    let levels = section.field(
        "levels",
        "The roles that must approve, one after the other, each another person, at most 16; `user` is the session's owner.",
        roles().or_as("the session's owner", Vec::new),
    )?;
    ask.quorum = section.field(
        "quorum",
        "How many different people must approve at each level; more than 1 needs a level other than `user`, which is one person.",
        whole(1..=QUORUM, "").or(1),
    )?;
    ask.not_self = section.field(
        "not_self",
        "Whether those who asked for the call, or have changed it, may not approve it; needs a level other than \
         `user`. Whoever has said something in the turn that the model read counts as having asked for everything \
         that it calls afterwards: with a message, a reason, words beside a decision, an edit, an answer, a result of \
         their own.",
        boolean().or(false),
    )?;
    let allowed = section.field(
        "allowed_decisions",
        "What the reviewer may do. Without `defer` the call cannot be left for later when others under its key are decided.",
        list(decision().located())
            .and(|entry, listed| (listed.len() == entry.items().len()).then_some(Some(listed)))
            .or_as("the first four", || None),
    )?;
    let timeout = section.field(
        "timeout",
        "Time to decide, at most 400 days; 0 waits forever.",
        whole(0..=limits::APPROVAL_TIMEOUT_SECONDS_MAX, "seconds").optional("`300`"),
    )?;
    let escalate = section.field(
        "on_timeout",
        "When nobody decides in time it is rejected, or these roles are asked instead, one after the other, each with the same \
         time again; after the last one it is rejected: `{ escalate = \"ROLE\" }`, `{ escalate = [\"ROLE\", …] }`.",
        on_timeout().or_as("`\"reject\"`", Vec::new),
    )?;
    let reminders = section.field(
        "reminders",
        "When followers are reminded, counted from the request: ascending, at most 16, each before `timeout`.",
        list(whole(1..=limits::APPROVAL_TIMEOUT_SECONDS_MAX, "seconds").located()).or_as("`[]`", Vec::new),
    )?;
    let reassign = section.field(
        "reassign",
        "Roles to which a reviewer who may decide it can reassign it.",
        roles().or_as("`[]`: only to one person of the same role", Vec::new),
    )?;
    ask.risk = section.field(
        "risk",
        "How much is at stake. Reviewers see it and can filter requests by it; it has no other effect.",
        choice("risk", Risk::NAMED.to_vec()).optional("none"),
    )?;
    ask.timeout = timeout.map_or(ask.timeout, Timeout::of);
    ask.allowed = allowed.as_ref().map(values);
    let reviewers = |roles: &Located<String>| roles.iter().map(|(role, _)| Reviewer::of(&**role)).collect();
    (ask.levels, ask.escalate, ask.reassign) = (reviewers(&levels), reviewers(&escalate), reviewers(&reassign));
    ask.reminders = values(&reminders);
    let place = |field, index: usize| match field {
        AskField::Allowed => allowed.as_ref()?.get(index).map(|(_, at)| *at),
        AskField::Reminders => reminders.get(index).map(|(_, at)| *at),
        AskField::Levels => levels.get(index).map(|(_, at)| *at),
        AskField::Escalate => escalate.get(index).map(|(_, at)| *at),
        AskField::Reassign => reassign.get(index).map(|(_, at)| *at),
        AskField::Timeout | AskField::Quorum | AskField::NotSelf => None,
    };
    check(section, &ask, place);
    section.document.reviewers.borrow_mut().extend([levels, escalate, reassign].concat());
    Some(ask)
}

/// Reports keys that say how approval is requested where it never is.
pub(super) fn nobody_is_asked(section: &Section<'_>, beside: &str) {
    for key in Section::describe(ask).iter().map(|key| key.name).filter(|key| section.has(key).is_some()) {
        section.bad(key, format!("cannot be combined with {beside}: nobody is asked"));
    }
}

/// Reports what is wrong, and warns of requests that can never be decided.
fn check(section: &Section<'_>, ask: &Ask, place: impl Fn(AskField, usize) -> Option<usize>) {
    let mistakes = ask.mistakes();
    for mistake in &mistakes {
        let key = key(mistake.field);
        let at = mistake.index.and_then(|index| place(mistake.field, index)).or_else(|| section.has(key));
        let place = section.place();
        section.document.error(at.unwrap_or(section.at), format!("\"{key}\"{place} {}", mistake.what));
    }
    for (field, needs) in [(AskField::Quorum, ask.quorum > 1), (AskField::NotSelf, ask.not_self)] {
        if let Some(at) = section.has(key(field)).filter(|_| needs && section.document.open.get())
            && mistakes.iter().all(|mistake| mistake.field != field)
        {
            let what = "needs different people: without [auth] nobody can be told apart, so nobody can approve it";
            section.document.warn(at, format!("\"{}\"{} {what}", key(field), section.place()));
        }
    }
    if mistakes.is_empty() {
        section.document.holders.borrow().check(section, ask);
    }
}

/// The key of a field.
fn key(field: AskField) -> &'static str {
    match field {
        AskField::Allowed => "allowed_decisions",
        AskField::Escalate => "on_timeout",
        field => field.name(),
    }
}

/// A list of roles, each once.
fn roles<'k>() -> Kind<'k, Located<String>> {
    let kind = list(text().located()).schema(json!({ "minItems": 1, "maxItems": LEVELS, "uniqueItems": true }));
    kind.called("list of roles").and(|entry, mut listed| {
        if listed.is_empty() {
            entry.bad("must name at least one role");
        }
        while let Some((i, what)) = wrong_role(listed.iter().map(|(role, _)| role.as_str())) {
            Entry { at: listed[i].1, ..*entry }.bad(what);
            if i < LEVELS {
                listed.remove(i);
            } else {
                listed.truncate(i);
            }
        }
        Some(listed)
    })
}

/// The roles to escalate to in turn at the deadline; none if it rejects.
fn on_timeout<'k>() -> Kind<'k, Located<String>> {
    const RIGHT: &str = "\"reject\", { escalate = \"ROLE\" } or { escalate = [\"ROLE\", …] }";
    let escalation = table(|section| {
        let one = text().and(|entry, role| match role_error(&role) {
            Some(what) => {
                entry.bad(what);
                None
            }
            None => Some(vec![(role, entry.at)]),
        });
        let either = one.called("role").or_a(roles()).expected("a list of strings");
        let chain = section.field("escalate", "Who is asked then.", either.or_as("required", Vec::new))?;
        Some((section.has("escalate").is_some(), chain))
    });
    let escalation = escalation.and(|entry, (is_said, chain)| {
        if !is_said {
            entry.bad(format!("must be {RIGHT}"));
        }
        Some(chain)
    });
    let reject = choice_or("timeout", vec![("reject", Vec::new())], RIGHT.to_owned());
    reject.or_a(escalation).expected(RIGHT)
}

fn decision<'k>() -> Kind<'k, DecisionType> {
    use DecisionType::{Approve, Defer, Edit, Reject, Respond};
    choice("decision", [Approve, Edit, Reject, Defer, Respond].map(|decision| (decision.name(), decision)).to_vec())
}
