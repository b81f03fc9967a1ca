//! Pending interruptions, as a caller of the library sees them (spec S3).

use std::{fmt, sync::Arc};

use countersign_core::{
    approval::key::approval_key,
    call::{gate::DecisionType, preview::Preview},
    journal::{
        record::{Action, Kind, PathStep, Schema},
        run::Raw,
        state::{Open, State},
    },
    number::CallNo,
    time::rfc3339,
};
use serde::{Serialize, de::DeserializeOwned};

use crate::{agent::Agents, tool::function::read_args};

/// A pending call: it needs a decision, or, if it asks a question, an answer
/// ([`RunState::answer`](crate::run_state::RunState::answer)). It is a copy: changing it has no effect on the run.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[non_exhaustive]
pub struct Interruption {
    /// The session.
    pub session_id: Arc<str>,
    /// The key of the request; calls that share it are decided together on the wire, and one by one here, if they allow
    /// it ([`Interruption::allowed`]).
    pub approval_key: String,
    /// The kind of the request.
    pub kind: Kind,
    /// The calls that lead to it, from the run's own agent down: each calls an agent as a tool. Empty for calls of the
    /// run's own agent.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub path: Vec<PathStep>,
    /// The call's number, unique in its session.
    pub call: u32,
    /// The call's id from the model.
    pub call_id: Arc<str>,
    /// The agent that wants to make it.
    pub agent: Arc<str>,
    /// The tool.
    pub tool: Arc<str>,
    /// The arguments exactly as they would run: canonical JSON.
    pub args: String,
    /// The SHA-256 of [`Interruption::args`], in hexadecimal.
    pub args_digest: String,
    /// The permanent identity of this request, in hexadecimal: a digest of the session, the interruption, the call and
    /// everything that was shown. When the call is requested again, for whatever reason, the new request has another
    /// digest, and a decision on this one is [`Stale`](crate::run_state::DecisionError::Stale).
    pub digest: String,
    /// Why approval is needed: the rule, in its author's words.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
    /// The version of the policy that required it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub policy: Option<Arc<str>>,
    /// The tool's description.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub description: Option<Arc<str>>,
    /// The MCP server of the tool; the description is that server's claim.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub server: Option<String>,
    /// The allowed decisions. A question is answered instead (see `kind`), and a model's question can be rejected. A
    /// call may be left undecided while others of its answer continue, whether or not it allows
    /// [`DecisionType::Defer`]: that is a reviewer's decision.
    pub allowed: Vec<DecisionType>,
    /// The question as asked by a tool in the middle of a call, or by a node of a graph.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub payload: Option<Raw>,
    /// The JSON Schema that the answer to it must fit.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub schema: Option<Arc<Schema>>,
    /// What the call would do, according to its tool.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub preview: Option<Preview>,
    /// The deadline after which it is rejected (RFC 3339); never, if absent.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub expires_at: Option<String>,
    /// Why it cannot run now: its tool or its agent no longer exists, or cannot be reached. It can be rejected, or
    /// responded to.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub unresolvable: Option<String>,
}

/// `Agent A would like to use the tool T with {…}`; for kinds other than an approval, a description.
impl fmt::Display for Interruption {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Interruption { agent, tool, args, .. } = self;
        match self.kind {
            // See `RunState::run_again`.
            Kind::InDoubt => {
                write!(f, "It is not known whether the tool {tool} of agent {agent} has run with {args}")
            }
            Kind::Question => write!(f, "Agent {agent} asks {args}"),
            // A node, under the name of its question.
            Kind::Interrupt => write!(f, "{agent} asks for {tool}: {args}"),
            Kind::Input => write!(f, "The tool {tool} of agent {agent} asks {args}"),
            _ => write!(f, "Agent {agent} would like to use the tool {tool} with {args}"),
        }
    }
}

impl Interruption {
    /// The arguments as a value of your own type, such as the struct that `#[tool]` generates: to change it and
    /// [approve the result](crate::run_state::RunState::approve_with), or to show it.
    ///
    /// # Errors
    /// They do not fit the type.
    pub fn args<T: DeserializeOwned>(&self) -> Result<T, serde_json::Error> {
        read_args(&self.args)
    }

    /// The call's number, as the session has it.
    pub(crate) fn number(&self) -> CallNo {
        CallNo::new(self.call)
    }

    /// The pending interruptions of a state, in the order of the calls; `agents` determine what can still run.
    pub(crate) fn all(state: &State, agents: Option<&Agents>) -> Vec<Interruption> {
        let of = |open: &Open| -> Vec<Interruption> {
            let one = |action: &Action| Interruption::of(state, open, action, agents);
            open.asked.actions.iter().map(one).collect()
        };
        let mut all: Vec<Interruption> = state.open.iter().flat_map(of).collect();
        all.sort_by_key(|item| item.call);
        all
    }

    /// Whether it is the same request: one call can make several.
    pub(crate) fn is(&self, other: &Interruption) -> bool {
        self.call == other.call && (self.kind, &self.approval_key) == (other.kind, &other.approval_key)
    }

    fn of(state: &State, open: &Open, action: &Action, agents: Option<&Agents>) -> Interruption {
        // A question of a graph's node has no agent.
        let agents = agents.filter(|_| open.asked.question.is_none());
        let question =
            open.asked.question.as_ref().filter(|_| matches!(open.asked.kind, Kind::Interrupt | Kind::Input));
        let unresolvable = agents.and_then(|agents| match agents.get(&action.agent) {
            None => Some(format!("there is no agent {:?} any more", &*action.agent)),
            Some(agent) if agent.tool(&action.name).is_some() => None,
            Some(agent) if agent.is_unreached(action.server()) => {
                Some(format!("what the tool {:?} comes from cannot be reached", &*action.name))
            }
            Some(_) => Some(format!("the agent {:?} has no tool {:?} any more", &*action.agent, &*action.name)),
        });
        Interruption {
            session_id: state.session_id.clone(),
            approval_key: approval_key(&state.session_id, open.asked.n),
            kind: open.asked.kind,
            path: action.path.clone(),
            call: action.call.get(),
            call_id: action.tool_use_id.clone(),
            agent: action.agent.clone(),
            tool: action.name.clone(),
            args: action.args.text().to_owned(),
            args_digest: action.args.digest().to_string(),
            digest: action.digest.to_string(),
            reason: action.ask.reason.clone(),
            policy: action.ask.policy.clone(),
            description: action.description.clone(),
            server: action.server().map(str::to_owned),
            allowed: match open.asked.kind {
                Kind::Approval | Kind::InDoubt => action.allowed().to_vec(),
                Kind::Question => vec![DecisionType::Reject],
                // A request that needs an answer takes no decision.
                _ => Vec::new(),
            },
            payload: question.map(|at| at.payload.clone()),
            schema: question.and_then(|at| at.schema.clone()),
            preview: action.preview.clone(),
            expires_at: open.asked.expires_at.map(rfc3339),
            unresolvable,
        }
    }
}
