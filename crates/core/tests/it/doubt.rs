//! Spec R4: calls whose outcome a crash leaves unknown.

use std::collections::BTreeSet;

use countersign_core::{
    approval::{decision::Decision, principal::Principal},
    call::gate::{Gate, Verdict},
    journal::{
        draft::{Catalog, ToolFacts},
        record::Kind,
        state::Phase,
    },
    number::InterruptionNo,
};

use crate::world::{
    Op, Tools, World,
    pending::{answer_gated, asked, decide, phases, plain},
};

/// The tools, with all of them idempotent, or none.
struct All {
    idempotent: bool,
}

impl Catalog for All {
    fn has_agent(&self, agent: &str) -> bool {
        Tools::FIRST.has_agent(agent)
    }
    fn max_turns(&self, agent: &str) -> u32 {
        Tools::FIRST.max_turns(agent)
    }
    fn tool(&self, agent: &str, tool: &str) -> Option<ToolFacts> {
        Tools::FIRST.tool(agent, tool).map(|facts| ToolFacts { idempotent: self.idempotent, ..facts })
    }
}

/// A call that a person has approved, and that a crash interrupts. `idempotent`: whether its tool was so when the call
/// was requested.
fn interrupted(idempotent: bool) -> World {
    let mut world = asked();
    let gate = Gate { idempotent, ..Gate::of(Verdict::Ask(plain())) };
    answer_gated(&mut world, &[("pay", gate)]);
    decide(&mut world, 1, vec![Decision::approve()], Principal::trusted()).expect("approved");
    world.apply(&Op::Start(1)).expect("begun");
    assert_eq!(phases(&world), [Phase::Started(1)]);
    world
}

#[test]
fn r4_a_lost_call_begins_again_only_if_its_tool_was_idempotent_and_still_is() {
    for (then, now) in [(false, false), (false, true), (true, false), (true, true)] {
        let mut world = interrupted(then);
        let found = world.draft().recover(&BTreeSet::new(), &All { idempotent: now });
        world.commit(found.expect("something was lost"));
        if then && now {
            assert_eq!(phases(&world), [Phase::Started(2)]);
        } else {
            let open = world
                .state
                .waiting(InterruptionNo::new(2))
                .unwrap_or_else(|| panic!("a person is asked: {then} {now}"));
            assert_eq!(
                (open.asked.kind, phases(&world)),
                (Kind::InDoubt, vec![Phase::Waiting(InterruptionNo::new(2))])
            );
        }
    }
}

#[test]
fn r4_a_call_that_still_runs_is_not_lost() {
    let world = interrupted(true);
    let at_work = world.state.calls.iter().map(|call| call.call).collect();
    assert!(world.draft().recover(&at_work, &All { idempotent: true }).is_none());
}
