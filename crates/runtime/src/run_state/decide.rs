//! Decisions that are made on a state, and take effect when the run resumes (spec S6, S7, S8, S10).
//!
//! They are kept in the state, also in its text, and are applied together. Undecided requests are returned again.
//!
//! A decision is checked when it is made, against the pending request, by the rules of the wire; checks that need the
//! current tools, such as of an edit into a call of another tool, are made when the run resumes. A second, different
//! decision is refused until the first is retracted, so no order of calls turns a rejection into an execution. An
//! undecided request is deferred, whatever its tool lets a reviewer decide (`DecideInput::staged`); a standing decision
//! also covers pending approvals.
//! Questions of tools, nodes and models are listed among the interruptions and answered on the state
//! (`RunState::answer`), with their schema checked at once.

use std::sync::Arc;

use countersign_core::{
    approval::{decision::Decision, key::approval_key, rule::Always},
    call::{
        args::Args,
        finite,
        gate::DecisionType,
        schema::{ArgsSchema, SchemaError},
    },
    decide::resolve::{check_answer, check_decision},
    journal::{
        record::{Action, Entry, Interrupted, Kind, Record, records},
        run::Raw,
        state::Open,
    },
    number::{CallNo, InterruptionNo},
    time::rfc3339,
};
use serde::{Deserialize, Serialize};

use super::{
    RunState,
    decision_error::{DecisionError, refused, stale, told, unknown},
};
use crate::interruption::Interruption;

/// A decision that takes effect when the run resumes.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Staged {
    pub(crate) call: CallNo,
    /// The decision, with the digest of what was shown.
    pub(crate) decision: Decision,
}

impl Staged {
    /// Whether it decides this pending action. Steps of graphs are no calls and have no number: only what was shown
    /// distinguishes them.
    pub(crate) fn decides(&self, action: &Action) -> bool {
        let same = || self.decision.digest.as_deref() == Some(&*action.digest);
        self.call == action.call && (!action.call.is_none() || same())
    }

    /// Whether it was made on this very request.
    fn is_of(&self, item: &Interruption) -> bool {
        self.call == item.number()
            && self.decision.digest.as_deref() == Some(item.digest.as_str())
            && !matches!(item.kind, Kind::Interrupt | Kind::Input)
    }
}

/// An answer that takes effect when the run resumes.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(crate) struct StagedAnswer {
    /// The number of the interruption that asks.
    pub(crate) n: InterruptionNo,
    pub(crate) value: Raw,
}

impl RunState {
    /// Approves the call, with exactly the arguments that were shown. A call whose outcome is unknown
    /// ([`Kind::InDoubt`]) is not approved but [run again](RunState::run_again), or [responded](RunState::respond) to.
    ///
    /// Decisions take effect when the run resumes. Undecided requests are returned again, with the same deadline. Where
    /// several people must approve, the actions of a request are decided together: until all are, the decisions are
    /// kept in the state, and none of the calls runs ([`RunState::decided`] returns them).
    ///
    /// # Errors
    /// [`DecisionError`]; repeating the same decision is no error.
    pub fn approve(&mut self, item: &Interruption) -> Result<(), DecisionError> {
        self.decide(item, Decision::approve())
    }

    /// Lets a call whose outcome is unknown ([`Kind::InDoubt`]) run once more: it may have taken effect before. On the
    /// wire this is an approval of such a request.
    ///
    /// # Errors
    /// [`DecisionError`]; [`DecisionError::Invalid`] if its outcome is not unknown.
    pub fn run_again(&mut self, item: &Interruption) -> Result<(), DecisionError> {
        if item.kind != Kind::InDoubt {
            let error = "its outcome is not unknown, so there is nothing to run again".to_owned();
            return Err(DecisionError::Invalid { call_id: item.call_id.to_string(), error });
        }
        self.stage(item, Decision::approve())
    }

    /// Approves the call with other arguments, which must fit the tool's schema. The model is told what ran.
    ///
    /// ```
    /// # use countersign::{Agent, model::scripted::Scripted, run, tool};
    /// # const SCRIPT: &str = r#"{"turns":[{"tool_calls":[{"name":"buy","args":{"what":"tea","quantity":500}}]},{"text":"{{ last_tool_result }}"}]}"#;
    /// # tokio::runtime::Builder::new_current_thread().enable_all().build()?.block_on(async {
    /// /// Buys something.
    /// #[tool(needs_approval, derive(serde::Serialize))]
    /// async fn buy(what: String, quantity: u32) -> String {
    ///     format!("bought {quantity} {what}")
    /// }
    /// # let agent = Agent::new("Helper", Scripted::from_json(SCRIPT)?).tool(buy);
    /// # let mut paused = run(&agent, "go").await?;
    /// # let item = paused.interruptions[0].clone();
    /// let mut args: BuyArgs = item.args()?;
    /// args.quantity = 50;
    /// paused.state.approve_with(&item, &args)?;
    /// # assert!(run(&agent, paused.state).await?.final_output.ends_with("bought 50 tea"));
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// # })?;
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    /// [`DecisionError`]
    pub fn approve_with(&mut self, item: &Interruption, args: &impl Serialize) -> Result<(), DecisionError> {
        let wrong = |error: String| DecisionError::InvalidEdit { tool: item.tool.to_string(), errors: vec![error] };
        finite::check(args).map_err(wrong)?;
        let text = serde_json::to_string(args).map_err(|error| wrong(error.to_string()))?;
        let args = Args::parse(&text).map_err(|error| wrong(error.to_string()))?;
        self.decide(item, Decision::edit(&*item.tool, args))
    }

    /// Rejects the call; the model gets the run's message or the default one.
    ///
    /// # Errors
    /// [`DecisionError`]
    pub fn reject(&mut self, item: &Interruption) -> Result<(), DecisionError> {
        self.decide(item, Decision::reject(None))
    }

    /// Rejects the call; the model gets this message. A blank one replaces the run's message too, and the model is told
    /// only that the call was rejected.
    ///
    /// # Errors
    /// [`DecisionError`]
    pub fn reject_with(&mut self, item: &Interruption, message: impl Into<String>) -> Result<(), DecisionError> {
        self.decide(item, Decision::reject(Some(message.into())))
    }

    /// Supplies the result of the call, which then does not run. Its tool must allow that: `allow(respond, …)`. If the
    /// call's outcome is unknown, this records that it ran, with this result.
    ///
    /// # Errors
    /// [`DecisionError`]
    pub fn respond(&mut self, item: &Interruption, output: impl Into<String>) -> Result<(), DecisionError> {
        self.decide(item, Decision::respond(output))
    }

    /// Approves the call, and every later call of this tool by this agent in this run, without asking again. A decision
    /// on a single call takes precedence.
    ///
    /// # Errors
    /// [`DecisionError`]
    pub fn always_approve(&mut self, item: &Interruption) -> Result<(), DecisionError> {
        self.decide(item, Decision::approve().always(Always::Session))
    }

    /// Rejects the call, and every later call of this tool by this agent in this run; the model gets the run's message
    /// or the default one each time.
    ///
    /// # Errors
    /// [`DecisionError`]
    pub fn always_reject(&mut self, item: &Interruption) -> Result<(), DecisionError> {
        self.decide(item, Decision::reject(None).always(Always::Session))
    }

    /// Like [`RunState::always_reject`]; the model gets this message each time.
    ///
    /// # Errors
    /// [`DecisionError`]
    pub fn always_reject_with(&mut self, item: &Interruption, message: impl Into<String>) -> Result<(), DecisionError> {
        self.decide(item, Decision::reject(Some(message.into())).always(Always::Session))
    }

    /// Answers a question of a call, or of a graph's node: for [`Kind::Question`] an object, question text → answer;
    /// for an [`Interruption::payload`], a value that fits [`Interruption::schema`] (spec Q3, S13, G3). It takes effect
    /// when the run resumes.
    ///
    /// # Errors
    /// [`DecisionError`]; repeating the same answer is no error.
    pub fn answer(&mut self, item: &Interruption, value: &impl Serialize) -> Result<(), DecisionError> {
        let call_id = || item.call_id.to_string();
        let wrong = |error: String| DecisionError::InvalidAnswer { call_id: call_id(), error };
        finite::check(value).map_err(wrong)?;
        let value = Raw::of(value).map_err(|error| wrong(error.to_string()))?;
        let asked = self.asking(item)?;
        check_answer(asked, &value).map_err(|refusal| wrong(told(&refusal)))?;
        let n = asked.n;
        if let Some(staged) =
            self.staged.iter().find(|staged| staged.call == item.number() && item.kind == Kind::Question)
        {
            return Err(DecisionError::Duplicate { call_id: call_id(), before: staged.decision.kind().name() });
        }
        match self.answers.iter().find(|staged| staged.n == n) {
            Some(before) if before.value == value => Ok(()),
            Some(_) => Err(DecisionError::Duplicate { call_id: call_id(), before: "answer" }),
            None => {
                self.answers.push(StagedAnswer { n, value });
                Ok(())
            }
        }
    }

    /// The current request.
    fn asking(&self, item: &Interruption) -> Result<&Interrupted, DecisionError> {
        let session_id = &self.session.session_id;
        let open = self.session.open.iter().find(|open| approval_key(session_id, open.asked.n) == item.approval_key);
        let waits = open.and_then(|open| Some((open, open.asked.actions.iter().find(|a| a.call == item.number())?)));
        let Some((open, action)) = waits else {
            // The call may ask another question by now.
            let now = self.session.pending_actions().find(|action| is_about(item, action));
            return Err(now.map_or_else(|| self.not_waiting(item), |action| stale(item, action)));
        };
        if !is_of(item, open, action, session_id) {
            return Err(stale(item, action));
        }
        Ok(&open.asked)
    }

    /// Retracts a decision or an answer that has not taken effect. `false`: there was none.
    pub fn retract(&mut self, item: &Interruption) -> bool {
        let before = self.staged.len() + self.answers.len();
        self.staged.retain(|staged| !staged.is_of(item));
        let session_id = &self.session.session_id;
        self.answers.retain(|staged| approval_key(session_id, staged.n) != item.approval_key);
        self.staged.len() + self.answers.len() < before
    }

    /// The decision made on a call, if it has not taken effect yet.
    #[must_use]
    pub fn decided(&self, item: &Interruption) -> Option<DecisionType> {
        self.staged.iter().find(|staged| staged.is_of(item)).map(|staged| staged.decision.kind())
    }

    /// Makes any [`Decision`] on a call. Like [`RunState::approve`], it does not approve a call whose outcome is
    /// unknown.
    ///
    /// # Errors
    /// [`DecisionError`]
    pub fn decide(&mut self, item: &Interruption, decision: Decision) -> Result<(), DecisionError> {
        if item.kind == Kind::InDoubt && decision.kind() == DecisionType::Approve {
            let (call_id, tool) = (item.call_id.to_string(), item.tool.to_string());
            return Err(DecisionError::InDoubt { call_id, tool });
        }
        self.stage(item, decision)
    }

    fn stage(&mut self, item: &Interruption, decision: Decision) -> Result<(), DecisionError> {
        if matches!(item.kind, Kind::Interrupt | Kind::Input) {
            return Err(DecisionError::NeedsAnswer { call_id: item.call_id.to_string() });
        }
        let answered =
            self.answers.iter().any(|staged| approval_key(&self.session.session_id, staged.n) == item.approval_key);
        if answered {
            return Err(DecisionError::Duplicate { call_id: item.call_id.to_string(), before: "answer" });
        }
        let (asked, action) = self.waiting(item)?;
        // A state has no clock, but it is at least as late as its last append.
        check_decision(asked, action, &decision, self.session.updated_at)
            .map_err(|refusal| refused(item, action, &decision, &refusal))?;
        if let Some(edited) = decision.edited().filter(|edited| edited.name == *action.name) {
            fits(action, &edited.args)?;
        }
        if let Some(before) = self.contradicts(action, &decision) {
            return Err(DecisionError::Duplicate { call_id: item.call_id.to_string(), before });
        }
        let decision = decision.for_digest(action.args.digest());
        let decision = Decision { digest: Some(action.digest.to_string()), ..decision };
        let call = action.call;
        match self.staged.iter().find(|staged| staged.decides(action)) {
            Some(before) if before.decision == decision => Ok(()),
            Some(before) => Err(DecisionError::Duplicate {
                call_id: item.call_id.to_string(),
                before: before.decision.kind().name(),
            }),
            None => {
                self.staged.push(Staged { call, decision });
                Ok(())
            }
        }
    }

    /// The decision for the rest of the run about the same tool of the same agent, if this one is its opposite.
    fn contradicts(&self, action: &Action, decision: &Decision) -> Option<&'static str> {
        let always = |decision: &Decision| *decision.reach() != Always::No;
        if !always(decision) {
            return None;
        }
        let other = self.staged.iter().filter(|staged| staged.call != action.call).find(|staged| {
            always(&staged.decision)
                && staged.decision.kind() != decision.kind()
                && self
                    .session
                    .pending_actions()
                    .any(|other| other.call == staged.call && other.agent == action.agent && other.name == action.name)
        })?;
        Some(if other.decision.kind() == DecisionType::Approve { "always approve" } else { "always reject" })
    }

    /// The request and the action of an item, as it is pending now.
    fn waiting(&self, item: &Interruption) -> Result<(&Interrupted, &Action), DecisionError> {
        if item.session_id != self.session.session_id {
            return Err(unknown(item));
        }
        let open = self.session.open.iter().filter(|open| !matches!(open.asked.kind, Kind::Interrupt | Kind::Input));
        let mut actions = open.flat_map(|open| open.asked.actions.iter().map(move |action| (open, action)));
        let same = |(_, action): &(&Open, &Action)| is_about(item, action) && action.agent == item.agent;
        if let Some((open, action)) = actions.find(same) {
            return if is_of(item, open, action, &self.session.session_id) {
                Ok((&open.asked, action))
            } else {
                Err(stale(item, action))
            };
        }
        let finished = |record: &Record| matches!(record, Record::CallFinished(done) if done.call == item.number() && done.tool_use_id == item.call_id);
        if records(&self.entries).rev().any(finished) {
            let (call_id, tool) = (item.call_id.to_string(), item.tool.to_string());
            return Err(DecisionError::Executed { call_id, tool });
        }
        Err(self.not_waiting(item))
    }

    /// Why an item is not pending.
    fn not_waiting(&self, item: &Interruption) -> DecisionError {
        let same = |action: &Action| {
            action.call == item.number() && action.tool_use_id == item.call_id && action.digest[..] == item.digest
        };
        let asked = |asked: &Interrupted| {
            approval_key(&self.session.session_id, asked.n) == item.approval_key && asked.actions.iter().any(same)
        };
        self.decided_already(&item.call_id, asked).unwrap_or_else(|| unknown(item))
    }

    /// Why nothing is pending under a call's id, or a question's name.
    pub(super) fn not_pending(&self, call_id: &str) -> DecisionError {
        let named = |asked: &Interrupted| {
            asked.actions.iter().any(|action| &*action.tool_use_id == call_id)
                || asked.question.as_ref().is_some_and(|at| at.name() == call_id)
        };
        let unknown = || DecisionError::Unknown { call_id: call_id.to_owned(), tool: None };
        self.decided_already(call_id, named).unwrap_or_else(unknown)
    }

    /// The last decision on such a request, and who made it.
    fn decided_already(&self, call_id: &str, is_of: impl Fn(&Interrupted) -> bool) -> Option<DecisionError> {
        let asked = records(&self.entries).rev().find_map(|record| match record {
            Record::Interrupted(asked) if is_of(asked) => Some(asked),
            _ => None,
        })?;
        let action =
            asked.actions.iter().find(|action| &*action.tool_use_id == call_id).or_else(|| asked.actions.first())?;
        let said = |record: &Record| match record {
            Record::Decided(decided) if decided.n == asked.n && decided.last => {
                let index = asked.actions.iter().position(|one| one.call == action.call)?;
                Some((decided.decisions.get(index)?.kind().name(), decided.by.clone()))
            }
            Record::Answered(answered) if answered.n == asked.n => Some(("answer", answered.by.clone())),
            Record::Resumed(resumed) if resumed.n == asked.n => Some(("answer", resumed.by.clone())),
            _ => None,
        };
        let found = |entry: &Arc<Entry>| entry.records.iter().find_map(said).map(|said| (said, entry.at));
        let ((decision, by), at) = self.entries.iter().rev().find_map(found)?;
        let (call_id, tool) = (call_id.to_owned(), action.name.to_string());
        Some(DecisionError::Decided { call_id, tool, decision, by: by.map(|by| by.to_string()), at: rfc3339(at) })
    }

    /// Why the run must say who decides: a decision or answer on it may be made by certain people only (spec P1).
    pub(crate) fn needs_principal(&self) -> Option<DecisionError> {
        let is_said = |asked: &Interrupted, action: &Action| {
            self.answers.iter().any(|staged| staged.n == asked.n)
                || self.staged.iter().any(|staged| staged.decides(action))
        };
        let actions = self.session.open.iter().flat_map(|open| open.asked.actions.iter().map(move |one| (open, one)));
        let (action, why) = actions.filter(|(open, action)| is_said(&open.asked, action)).find_map(|(_, action)| {
            let names_roles = !action.reviewer().is_owner() || action.ask.levels.iter().any(|level| !level.is_owner());
            let reasons = [
                (names_roles, "roles must decide it"),
                (action.ask.not_self, "who asked for it may not approve it"),
                (self.session.subject.is_some(), "its session has an owner"),
            ];
            Some((action, reasons.into_iter().find(|(holds, _)| *holds)?.1))
        })?;
        Some(DecisionError::NoPrincipal { call_id: action.tool_use_id.to_string(), why })
    }
}

/// Whether an item belongs to this very request: a digest names one request permanently (spec R11).
fn is_of(item: &Interruption, open: &Open, action: &Action, session_id: &str) -> bool {
    approval_key(session_id, open.asked.n) == item.approval_key
        && *action.digest == *item.digest
        && action.args.text() == item.args
        && action.name == item.tool
}

/// Whether an action is about the item's call, or about the same step or question of a graph: those have names, and no
/// numbers.
fn is_about(item: &Interruption, action: &Action) -> bool {
    action.call == item.number()
        && action.tool_use_id == item.call_id
        && (!action.call.is_none() || action.name == item.tool)
}

/// Whether arguments fit the schema that was shown with the call.
fn fits(action: &Action, args: &Args) -> Result<(), DecisionError> {
    let wrong = |errors: Vec<String>| DecisionError::InvalidEdit { tool: action.name.to_string(), errors };
    let Some(schema) = &action.schema else { return Ok(()) };
    let schema = serde_json::from_str(schema.0.get()).map_err(|error| wrong(vec![error.to_string()]))?;
    let schema = ArgsSchema::compile(&schema).map_err(|error| wrong(vec![error]))?;
    let errors = schema.check(args);
    if errors.is_empty() {
        return Ok(());
    }
    Err(wrong(errors.iter().map(SchemaError::to_string).collect()))
}
