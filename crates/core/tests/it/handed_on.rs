//! Reassigned requests in the history.

use std::sync::Arc;

use countersign_core::{
    approval::{decision::Decision, principal::Principal},
    call::gate::Ask,
    decide::note::{self, NewNote, NoteInput},
    journal::{cursor::Cursor, record::Entry},
    number::InterruptionNo,
    wire::fold::{Fold, history},
};

use crate::world::pending::{decide, plain, waiting};

/// Spec W2, P1: the history names the current reviewer of a request, while it is pending and afterwards, wherever the
/// fold began.
#[test]
fn w2_what_was_handed_on_is_the_new_roles_in_the_history_too() {
    let ask = || Ask { levels: vec!["admin".into()], reassign: vec!["legal".into()], ..plain() };
    let mut world = waiting(&[("pay", ask()), ("wire", ask()), ("quiet", plain())]);
    let roles = |entries: &[Arc<Entry>]| {
        let messages = serde_json::to_value(history("s", entries.iter().map(|entry| &**entry))).expect("history");
        let mut roles = Vec::new();
        for message in messages.as_array().expect("messages") {
            let block = &message["content"][0];
            if block["type"] == "approval_request" {
                let configs = block["reviewConfigs"].as_array().expect("configs").iter();
                roles.push(configs.map(|config| config["role"].as_str().map(str::to_owned)).collect::<Vec<_>>());
            }
        }
        roles
    };
    let role = |name: &str| Some(name.to_owned());
    let before = world.journal.len();
    let asked = [vec![role("admin"), role("admin")], vec![None]];
    assert_eq!(roles(&world.journal), asked);
    let by = || Principal::person("bob", vec!["admin".into(), "legal".into()]);
    for (role, subject) in [(Some("legal".to_owned()), None), (None, Some("eve".into()))] {
        let note = NewNote::Reassign { role: role.map(Into::into), subject, text: None };
        let input = NoteInput { n: InterruptionNo::FIRST, note, by: by(), request_id: None };
        let transition = note::note(&world.state, world.now, input).expect("handed on");
        world.commit(transition);
    }
    let handed = [vec![role("legal"), role("legal")], vec![None]];
    assert_eq!(roles(&world.journal), handed);
    // A page that was read before may be out of date.
    let mut fold = Fold::new("s", &Cursor::default());
    world.journal[..before].iter().for_each(|entry| fold.entry(entry));
    let asking = roles(&world.journal[..before]).len();
    assert!((fold.len() - asking..fold.len()).all(|i| !fold.is_settled(&(i..i + 1))));
    let eve = Principal::person("eve", vec!["legal".into()]);
    decide(&mut world, 1, vec![Decision::approve(), Decision::approve()], eve).expect("hers");
    assert_eq!(roles(&world.journal), handed);
}
