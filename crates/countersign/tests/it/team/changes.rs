//! Agents that change while a call for them is pending: what was approved is what begins, or it is requested again
//! (spec S5, S13, S25, R1).

use std::{sync::Arc, time::Duration};

use countersign::{
    Agent, Args, Decision, Status,
    run::{Code, Runtime, TurnOutcome},
    store::Store,
    tool::{Approval, ToolEntry},
};
use countersign_core::approval::rule::Always;

use super::{Teller, agent, call, decide_all, free, gated, ran, runtime_of, teller, text, waiting};
use crate::support::{Ledger, decide, send, stores};

const DO: &str = r#"{"input":"do it"}"#;

fn heard(model: &Arc<Teller>) -> Vec<Vec<String>> {
    model.heard.lock().expect("heard").clone()
}

/// Another process resumes what the first one has stored.
async fn restart(before: Runtime, store: &Arc<dyn Store>, agent: Agent) -> Runtime {
    before.shutdown(Duration::ZERO).await;
    drop(before);
    runtime_of(store, agent)
}

fn told(outcome: &TurnOutcome) -> String {
    serde_json::to_string(&outcome.interruptions).expect("json")
}

/// Why the request with a key cannot be approved.
async fn refused(runtime: &Runtime, key: &str) -> Code {
    decide(runtime, key, vec![Decision::approve()]).await.expect_err("refused").code
}

fn asked(entry: ToolEntry) -> ToolEntry {
    entry.needs_approval(Approval::always())
}

/// The outer agent with a gated tool, and the inner one's requests.
struct Desk {
    outer: Arc<Teller>,
    inner: Arc<Teller>,
    other: Arc<Teller>,
}

impl Desk {
    fn new() -> Desk {
        Desk {
            outer: teller([vec![call("o1", "mailer", DO)], text("all sent")]),
            inner: teller([text("mail sent")]),
            other: teller([text("sent by somebody else")]),
        }
    }

    /// The agent with its tool, which is for this agent and has this description.
    fn agent(&self, about: &str, other: bool) -> Agent {
        let (name, model) = if other { ("Other", &self.other) } else { ("Mailer", &self.inner) };
        agent("Support", &self.outer).tool(asked(agent(name, model).as_tool("mailer", about)))
    }
}

#[tokio::test]
async fn s13_s5_an_agent_that_is_described_otherwise_than_was_shown_is_asked_about_again() {
    for (kind, store, _guard) in stores() {
        let desk = Desk::new();
        let before = runtime_of(&store, desk.agent("Sends mail.", false));
        let paused = send(&before, "s", "go").await.expect("run");
        let after = restart(before, &store, desk.agent("Sends mail, and copies the press.", false)).await;
        let again = decide_all(&after, &paused.pending[0], Decision::approve()).await;
        assert_eq!((again.status, again.pending.len()), (Status::AwaitingInput, 1), "{kind}");
        assert!(heard(&desk.inner).is_empty(), "{kind}: nothing begins by the step that finds the change");
        assert!(told(&again).contains("copies the press"), "{kind}: {}", told(&again));
        assert!(told(&again).contains("has changed since"), "{kind}: {}", told(&again));
        // An approval now is for the current tool.
        let done = decide_all(&after, &again.pending[0], Decision::approve()).await;
        assert_eq!((done.status, done.text.as_str()), (Status::Completed, "all sent"), "{kind}");
        assert_eq!(heard(&desk.inner), [["user: do it"]], "{kind}");
    }
}

#[tokio::test]
async fn s13_s5_an_agent_that_is_as_it_was_shown_begins() {
    for (kind, store, _guard) in stores() {
        let desk = Desk::new();
        let before = runtime_of(&store, desk.agent("Sends mail.", false));
        let paused = send(&before, "s", "go").await.expect("run");
        let after = restart(before, &store, desk.agent("Sends mail.", false)).await;
        let done = decide_all(&after, &paused.pending[0], Decision::approve()).await;
        assert_eq!((done.status, done.text.as_str()), (Status::Completed, "all sent"), "{kind}");
    }
}

/// The description is the same, and another agent would run.
#[tokio::test]
async fn s13_s5_a_tool_that_is_for_another_agent_now_is_asked_about_again_and_that_one_works() {
    for (kind, store, _guard) in stores() {
        let desk = Desk::new();
        let before = runtime_of(&store, desk.agent("Sends mail.", false));
        let paused = send(&before, "s", "go").await.expect("run");
        let after = restart(before, &store, desk.agent("Sends mail.", true)).await;
        let again = decide_all(&after, &paused.pending[0], Decision::approve()).await;
        assert_eq!((again.status, again.pending.len()), (Status::AwaitingInput, 1), "{kind}");
        let done = decide_all(&after, &again.pending[0], Decision::approve()).await;
        assert_eq!((done.status, done.text.as_str()), (Status::Completed, "all sent"), "{kind}");
        assert!(heard(&desk.inner).is_empty(), "{kind}");
        assert_eq!(heard(&desk.outer)[1][2], "o1: sent by somebody else", "{kind}");
    }
}

#[tokio::test]
async fn s13_s5_an_agent_that_was_rejected_is_not_asked_about_again_whatever_it_has_become() {
    for (kind, store, _guard) in stores() {
        let desk = Desk::new();
        let before = runtime_of(&store, desk.agent("Sends mail.", false));
        let paused = send(&before, "s", "go").await.expect("run");
        let after = restart(before, &store, desk.agent("Sends mail, and copies the press.", true)).await;
        let done = decide_all(&after, &paused.pending[0], Decision::reject(Some("no mail".to_owned()))).await;
        assert_eq!((done.status, done.text.as_str()), (Status::Completed, "all sent"), "{kind}");
        assert!(heard(&desk.inner).is_empty() && heard(&desk.other).is_empty(), "{kind}");
        assert_eq!(heard(&desk.outer)[1][2], "o1: no mail", "{kind}");
    }
}

#[tokio::test]
async fn s13_s5_an_agent_that_is_gone_as_a_tool_cannot_be_approved_and_does_not_begin() {
    for (kind, store, _guard) in stores() {
        let desk = Desk::new();
        let before = runtime_of(&store, desk.agent("Sends mail.", false));
        let paused = send(&before, "s", "go").await.expect("run");
        let without = agent("Support", &desk.outer).tool(agent("Mailer", &desk.inner).as_tool("post", "Sends mail."));
        let after = restart(before, &store, without).await;
        assert_eq!(refused(&after, &paused.pending[0]).await, Code::Unresolvable, "{kind}");
        let done = decide_all(&after, &paused.pending[0], Decision::reject(None)).await;
        assert_eq!((done.status, done.text.as_str()), (Status::Completed, "all sent"), "{kind}");
        assert!(heard(&desk.inner).is_empty(), "{kind}");
    }
}

#[tokio::test]
async fn s13_s5_what_was_edited_is_asked_about_again_as_it_was_edited() {
    for (kind, store, _guard) in stores() {
        let desk = Desk::new();
        let before = runtime_of(&store, desk.agent("Sends mail.", false));
        let paused = send(&before, "s", "go").await.expect("run");
        let after = restart(before, &store, desk.agent("Sends mail, and copies the press.", false)).await;
        let args = Args::parse(r#"{"input":"something else"}"#).expect("args");
        let again = decide_all(&after, &paused.pending[0], Decision::edit("mailer", args)).await;
        assert_eq!((again.status, heard(&desk.inner).len()), (Status::AwaitingInput, 0), "{kind}");
        assert!(told(&again).contains("something else") && !told(&again).contains("do it"), "{kind}: {}", told(&again));
        let done = decide_all(&after, &again.pending[0], Decision::approve()).await;
        assert_eq!((done.status, heard(&desk.inner)), (Status::Completed, vec![vec!["user: something else".into()]]));
    }
}

/// The tool of an agent that works for an agent: the agents above it continue normally.
#[tokio::test]
async fn s13_s5_an_agent_two_levels_down_is_asked_about_again() {
    for (kind, store, _guard) in stores() {
        let ledger = Ledger::default();
        let one = teller([vec![call("a", "second", DO)], text("top")]);
        let two = teller([vec![call("b", "third", DO), call("c", "look", "{}")], text("middle")]);
        let three = teller([text("deep")]);
        let with = |about: &str| {
            let third = asked(agent("Third", &three).as_tool("third", about));
            let second = agent("Second", &two).tool(third).tool(free("look", &ledger));
            agent("First", &one).tool(second.as_tool("second", ""))
        };
        let before = runtime_of(&store, with("Digs."));
        let paused = send(&before, "s", "go").await.expect("run");
        let waits = [("Second".to_owned(), "third".to_owned(), vec!["a".to_owned()])];
        assert_eq!((waiting(&paused), ran(&ledger).len()), (waits.to_vec(), 1), "{kind}");
        let after = restart(before, &store, with("Digs deeper.")).await;
        let again = decide_all(&after, &paused.pending[0], Decision::approve()).await;
        assert_eq!((again.status, waiting(&again)), (Status::AwaitingInput, waits.to_vec()), "{kind}");
        assert!(heard(&three).is_empty(), "{kind}");
        let done = decide_all(&after, &again.pending[0], Decision::approve()).await;
        assert_eq!((done.status, done.text.as_str()), (Status::Completed, "top"), "{kind}");
        assert_eq!([&one, &two, &three].map(|model| heard(model).len()), [2, 2, 1], "{kind}: nobody was asked twice");
        assert_eq!(ran(&ledger).len(), 1, "{kind}");
    }
}

/// Beside a call that needs nobody and one that is decided later: the conversation stays at its place until all are
/// resolved.
#[tokio::test]
async fn s13_s25_a_handoff_that_is_described_otherwise_than_was_shown_is_asked_about_again() {
    for changed in [false, true] {
        for (kind, store, _guard) in stores() {
            let ledger = Ledger::default();
            let front = teller([vec![call("h", "transfer_to_Refunds", "{}"), call("p", "pay", "{}")]]);
            let refunds = teller([text("refunded")]);
            let with = |about: &str| {
                let to = agent("Refunds", &refunds).handoff_description(about);
                agent("Front", &front).tool(asked(countersign::handoff(to))).tool(gated("pay", &ledger))
            };
            let before = runtime_of(&store, with("Gives money back."));
            let paused = send(&before, "s", "go").await.expect("run");
            let about = if changed { "Gives everything back." } else { "Gives money back." };
            let after = restart(before, &store, with(about)).await;
            let mut outcome = decide_all(&after, &paused.pending[0], Decision::approve()).await;
            assert_eq!(ran(&ledger), ["pay"], "{kind}: the other call of the request runs");
            if changed {
                assert_eq!((outcome.status, heard(&refunds).len()), (Status::AwaitingInput, 0), "{kind}");
                assert!(told(&outcome).contains("everything"), "{kind}: {}", told(&outcome));
                outcome = decide_all(&after, &outcome.pending[0], Decision::approve()).await;
            }
            assert_eq!((outcome.status, outcome.text.as_str()), (Status::Completed, "refunded"), "{kind}");
            assert_eq!(ran(&ledger).len(), 1, "{kind}");
        }
    }
}

#[tokio::test]
async fn s13_s25_a_handoff_that_is_gone_cannot_be_approved_and_leaves_the_conversation_where_it_is() {
    for (kind, store, _guard) in stores() {
        let front = teller([vec![call("h", "transfer_to_Refunds", "{}")], text("I stay")]);
        let refunds = teller([text("refunded")]);
        let before =
            runtime_of(&store, agent("Front", &front).tool(asked(countersign::handoff(agent("Refunds", &refunds)))));
        let paused = send(&before, "s", "go").await.expect("run");
        let after = restart(before, &store, agent("Front", &front)).await;
        assert_eq!(refused(&after, &paused.pending[0]).await, Code::Unresolvable, "{kind}");
        let done = decide_all(&after, &paused.pending[0], Decision::reject(None)).await;
        assert_eq!((done.status, done.text.as_str()), (Status::Completed, "I stay"), "{kind}");
        assert!(heard(&refunds).is_empty(), "{kind}");
    }
}

/// Spec S7: a standing approval was for this agent, with this description.
#[tokio::test]
async fn s7_s13_a_standing_approval_of_an_agent_is_not_for_the_agent_that_took_its_place() {
    for (kind, store, _guard) in stores() {
        let outer = teller([vec![call("o1", "mailer", DO)], text("1"), vec![call("o2", "mailer", DO)], text("2")]);
        let (inner, other) = (teller([]), teller([]));
        let with = |who: &str, model: &_| {
            agent("Support", &outer).tool(asked(agent(who, model).as_tool("mailer", "Sends mail.")))
        };
        let before = runtime_of(&store, with("Mailer", &inner));
        let paused = send(&before, "s", "go").await.expect("run");
        let always = Decision::approve().always(Always::Session);
        assert_eq!(decide_all(&before, &paused.pending[0], always).await.status, Status::Completed, "{kind}");
        let after = restart(before, &store, with("Other", &other)).await;
        let asked = send(&after, "s", "again").await.expect("run");
        assert_eq!((asked.status, heard(&other).len()), (Status::AwaitingInput, 0), "{kind}");
        let done = decide_all(&after, &asked.pending[0], Decision::approve()).await;
        assert_eq!((done.status, heard(&other).len(), heard(&inner).len()), (Status::Completed, 1, 1), "{kind}");
    }
}
