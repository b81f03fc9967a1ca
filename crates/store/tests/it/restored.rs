//! What `store restored` finds in a store (spec R4).

use std::sync::Arc;

use countersign_core::{
    call::gate::Verdict,
    journal::{failure::Retried, graph, state::Status},
};
use countersign_store::{
    Store,
    restored::{self, Holding},
};

use crate::store_support::{Anything, Driven, conformance};

/// A call that nobody has to approve, in a turn that has failed before it began: its retry may have come after the backup.
async fn r4_a_store_that_is_restored_holds_failed_turns_too(store: Arc<dyn Store>) {
    let mut session = Driven::new("s");
    session.store(&*store, session.created(1, None)).await.expect("stored");
    let said = session.says(2, "pay", None, None).expect("a message");
    session.store(&*store, said).await.expect("stored");
    session.store(&*store, session.calls(3, &[("pay", Verdict::Allow)])).await.expect("stored");
    session.store(&*store, session.draft(4).fail("budget", "spent".into(), None, &Anything)).await.expect("stored");
    let retried = session.draft(5).retry(Retried::default(), &Anything).expect("retried");
    assert_eq!(graph::next(retried.state()).start.len(), 1, "so it is without a restore");
    assert_eq!(restored::hold(&*store).await.expect("held").sessions, [Arc::from("s")]);
    assert_eq!(restored::hold(&*store).await.expect("held"), Holding::default(), "once is enough");
    for entry in store.read("s", session.state.pos, usize::MAX).await.expect("entries") {
        session.state.append(&entry).expect("legal");
    }
    assert_eq!(session.state.status, Status::Failed);
    let retried = session.draft(7).retry(Retried::default(), &Anything).expect("retried");
    assert!(graph::next(retried.state()).start.is_empty() && retried.state().open.len() == 1, "a person is asked");
}

conformance!(r4_a_store_that_is_restored_holds_failed_turns_too);
