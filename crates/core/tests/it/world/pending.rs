//! Sessions in which something is pending, and replies to it.

use countersign_core::{
    approval::{decision::Decision, principal::Principal},
    call::{
        args::Args,
        gate::{Ask, Gate, Verdict},
    },
    decide::{
        reply::Reply,
        resolve::{self, DecideInput},
    },
    journal::{
        draft::MessageInput,
        record::{Block, ModelResponded, ToolUse},
        state::Phase,
    },
    number::InterruptionNo,
    refusal::Refusal,
};

use super::{Tools, World};

/// A session in which these calls are pending: tool and how people are asked.
pub fn waiting(calls: &[(&str, Ask)]) -> World {
    let mut world = asked();
    answer(&mut world, calls);
    world
}

/// A session whose model is to answer.
pub fn asked() -> World {
    let mut world = World::new();
    let input = MessageInput { content: "go".into(), ..MessageInput::default() };
    world.commit(world.draft().message(input, &Tools::FIRST).expect("message"));
    world
}

/// The model answers with these calls.
pub fn answer(world: &mut World, calls: &[(&str, Ask)]) {
    let gates: Vec<_> = calls.iter().map(|(name, ask)| (*name, Gate::of(Verdict::Ask(ask.clone())))).collect();
    answer_gated(world, &gates);
}

/// The same, each with its gate.
pub fn answer_gated(world: &mut World, calls: &[(&str, Gate)]) {
    let blocks = (0..)
        .zip(calls)
        .map(|(i, (name, _))| Block::ToolUse(ToolUse::new(format!("t{i}"), *name, format!(r#"{{"n":{i}}}"#))));
    let answer = ModelResponded { model: "m".into(), blocks: blocks.collect(), ..ModelResponded::default() };
    let gates = calls.iter().map(|(_, gate)| gate.clone()).collect();
    world.commit(world.draft().model_responded(answer, gates, &Tools::FIRST));
}

pub fn decide(world: &mut World, n: u32, decisions: Vec<Decision>, by: Principal) -> Result<(), Refusal> {
    decide_under(world, n, decisions, by, Vec::new())
}

/// The same, with the policy's verdicts on edited calls.
pub fn decide_under(
    world: &mut World,
    n: u32,
    decisions: Vec<Decision>,
    by: Principal,
    verdicts: Vec<Option<Verdict>>,
) -> Result<(), Refusal> {
    say(world, DecideInput { verdicts, ..reply(n, decisions.into(), by) })
}

/// A bare reply to an interruption.
pub fn reply(n: u32, reply: Reply, by: Principal) -> DecideInput {
    DecideInput::new(InterruptionNo::new(n), reply, by)
}

pub fn say(world: &mut World, input: DecideInput) -> Result<(), Refusal> {
    let transition = resolve::decide(&world.state, world.now, input, &Tools::FIRST)?;
    world.commit(transition);
    Ok(())
}

pub fn phases(world: &World) -> Vec<Phase> {
    world.state.calls.iter().map(|call| call.phase.clone()).collect()
}

pub fn args(text: &str) -> Args {
    Args::parse(text).expect("args")
}

pub fn plain() -> Ask {
    Ask::default()
}
