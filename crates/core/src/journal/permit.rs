//! The right to run one tool call once.

use std::sync::Arc;

use super::state::{Call, Phase, State, input::CallInput};
use crate::{
    call::{args::Args, preview::Preview},
    locale::Locale,
    number::CallNo,
};

/// The right to start one attempt of one call with exactly these arguments.
///
/// A permit cannot be cloned and has no public constructor: [`crate::session::Placed::commit`] hands it out
/// after the `CallStarted` record that claims it is stored, and a tool takes it by value. There is no other way to run
/// a tool (spec R1 and R4).
#[derive(Debug)]
pub struct Permit {
    session_id: Arc<str>,
    subject: Option<Arc<str>>,
    tenant: Option<Arc<str>>,
    roles: Vec<String>,
    call: CallNo,
    attempt: u32,
    call_id: Arc<str>,
    agent: Arc<str>,
    tool: Arc<str>,
    args: Args,
    locale: Locale,
    input: Option<Box<CallInput>>,
    preview: Option<Preview>,
    needed_approval: bool,
    nonce: Arc<str>,
}

impl Permit {
    /// For a call whose start is stored.
    pub(crate) fn of(state: &State, call: CallNo) -> Option<Permit> {
        let Call { phase: Phase::Started(attempt), args: Some(args), .. } = state.call(call)? else { return None };
        let Call { id, agent, name, input, preview, nonce, .. } = state.call(call)?;
        Some(Permit {
            session_id: state.session_id.clone(),
            subject: state.subject.clone(),
            tenant: state.tenant.clone(),
            roles: state.roles.clone(),
            call,
            attempt: *attempt,
            call_id: id.clone(),
            agent: agent.clone(),
            tool: name.clone(),
            args: args.clone(),
            locale: state.locale,
            input: input.clone(),
            preview: preview.clone(),
            needed_approval: state.call(call)?.asks().is_some(),
            nonce: nonce.as_ref().unwrap_or(&state.birth).clone(),
        })
    }

    /// The session the call belongs to.
    #[must_use]
    pub fn session_id(&self) -> &str {
        &self.session_id
    }
    /// The session's owner, if any.
    #[must_use]
    pub fn subject(&self) -> Option<&str> {
        self.subject.as_deref()
    }
    /// The session's tenant, if any.
    #[must_use]
    pub fn tenant(&self) -> Option<&str> {
        self.tenant.as_deref()
    }
    /// The requester's roles at the start of the turn.
    #[must_use]
    pub fn roles(&self) -> &[String] {
        &self.roles
    }
    /// The call's number in its session, from 1.
    #[must_use]
    pub fn call(&self) -> u32 {
        self.call.get()
    }
    /// The attempt, from 1. It grows after a crash, after answers to the tool's questions, and when a reviewer has the
    /// call run again (spec R4).
    #[must_use]
    pub fn attempt(&self) -> u32 {
        self.attempt
    }
    /// The call's id as the model wrote it.
    #[must_use]
    pub fn call_id(&self) -> &str {
        &self.call_id
    }
    /// The agent that proposed the call.
    #[must_use]
    pub fn agent(&self) -> &str {
        &self.agent
    }
    /// The tool to run.
    #[must_use]
    pub fn tool(&self) -> &str {
        &self.tool
    }
    /// The arguments to run it with: the ones that were approved.
    #[must_use]
    pub fn args(&self) -> &Args {
        &self.args
    }
    /// The questions of earlier attempts of the call, and their answers (spec S13).
    #[must_use]
    pub fn input(&self) -> Option<&CallInput> {
        self.input.as_deref()
    }
    /// The preview of the call that a reviewer was shown, if a person was asked and the tool gives one (spec S12).
    #[must_use]
    pub fn preview(&self) -> Option<&Preview> {
        self.preview.as_ref()
    }
    /// Whether the call needed approval, by a person, a standing rule or a program: only the tool that was shown then may
    /// run.
    #[must_use]
    pub fn needed_approval(&self) -> bool {
        self.needed_approval
    }
    /// The session's language, for the tool's own texts.
    #[must_use]
    pub fn locale(&self) -> Locale {
        self.locale
    }
    /// A key that every attempt of this call has, and no other call of any session, whatever the session's store and
    /// id, even after the store was restored from a backup: `SESSION/cN/NONCE`, where `NONCE` is random and unique to
    /// the answer that made the call, or to the fork that has copied it (spec M2, R4, R11). At most 175 bytes.
    #[must_use]
    pub fn idempotency_key(&self) -> String {
        format!("{}/c{}/{}", self.session_id, self.call, self.nonce)
    }
}
