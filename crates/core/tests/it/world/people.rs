//! Who decides in random sessions, what, and how they are asked.

use std::sync::Arc;

use countersign_core::{
    approval::{decision::Decision, principal::Principal, rule::Always},
    call::{
        args::Args,
        gate::{Ask, Verdict},
        timeout::Timeout,
    },
    journal::{
        record::{InputQuestion, Schema},
        run::Raw,
    },
};

/// The people: the owner, two with the session's roles, one without a role, and the caller of the library.
pub(super) fn person(n: u8) -> Principal {
    let named = |name: &str, roles: &[&str]| Principal {
        subject: Some(name.into()),
        roles: roles.iter().map(|role| (*role).to_owned()).collect(),
        ..Principal::default()
    };
    match n {
        0 => named("ann", &["user", "admin"]),
        1 => named("bob", &["admin", "lead"]),
        2 => named("eve", &["admin", "lead"]),
        3 => named("kim", &[]),
        _ => Principal::trusted(),
    }
}

/// Ways of asking that need several people, or others than the owner.
pub(super) fn strict(n: u8) -> Ask {
    let reviewers = |names: &[&str]| names.iter().map(|name| (*name).into()).collect::<Vec<_>>();
    match n {
        7 => Ask { levels: reviewers(&["admin"]), quorum: 2, reminders: vec![30, 90], ..Ask::default() },
        8 => Ask { levels: reviewers(&["admin"]), not_self: true, reassign: reviewers(&["lead"]), ..Ask::default() },
        9 => Ask {
            levels: reviewers(&["lead"]),
            timeout: Timeout::of(100),
            escalate: reviewers(&["admin", "lead"]),
            ..Ask::default()
        },
        11 => Ask { levels: reviewers(&["admin", "lead"]), not_self: true, ..Ask::default() },
        _ => {
            Ask { levels: reviewers(&["user", "admin", "lead"]), quorum: 2, timeout: Timeout::of(0), ..Ask::default() }
        }
    }
}

/// The policy's possible verdicts on an edited call.
pub(super) fn edited(n: u8) -> Verdict {
    match n {
        0..3 => Verdict::Allow,
        3 => Verdict::Ask(strict(7)),
        4 => Verdict::Ask(strict(8)),
        _ => Verdict::Deny("never".into()),
    }
}

/// Decisions by number: some are valid, some are not.
pub(super) fn decision(n: u8) -> Decision {
    match n {
        0 => Decision::approve(),
        1 => Decision::reject(None),
        2 => Decision::edit("pay", Args::parse(r#"{"n":77}"#).expect("args")),
        3 => Decision::edit("pay", Args::parse(r#"{"n":"seven"}"#).expect("args")),
        4 => Decision::defer(),
        5 => Decision::respond("done by hand"),
        _ => Decision::approve().always(Always::Session),
    }
}

/// A call's question: for a number or for anything, with or without a default answer.
pub(super) fn question(n: u8, what: u8) -> InputQuestion {
    let schema = r#"{"type":"integer"}"#.to_owned();
    let raw = serde_json::value::RawValue::from_string(schema).expect("schema");
    InputQuestion {
        name: format!("q{n}").into(),
        from: "a server".into(),
        payload: Raw::of(&serde_json::json!({ "message": format!("how many {n}?") })).expect("JSON"),
        schema: n.is_multiple_of(2).then(|| Arc::new(Schema::new(raw))),
        default: match what {
            4 => Some(Raw::of(&1).expect("JSON")),
            5 => Some(Raw::of(&()).expect("JSON")),
            _ => None,
        },
    }
}
