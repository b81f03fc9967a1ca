//! Approval requests and questions, as clients see them: in the stream, in lists and on their own (spec W4, Q4).

use std::sync::Arc;

use schemars::JsonSchema;
use serde::Serialize;
use serde_json::Value;

use super::schema::AnyObject;
use crate::{
    approval::key::approval_key,
    call::{
        args::Args,
        gate::{AllowedDecision, DecisionType, Risk},
        preview::{Preview, ShownPreview},
        reviewer::Reviewer,
        shown::{self, Shown},
    },
    journal::{
        record::{Action, Interrupted, Kind, PathStep, Schema},
        run::Raw,
        state::Open,
    },
    time::rfc3339,
};

/// The start of an `approval_request`.
#[derive(Clone, Debug, Serialize, JsonSchema)]
#[serde(untagged)]
pub enum RequestBlock {
    /// Of actions: complete.
    #[schemars(title = "ActionRequestBlock")]
    Actions(ApprovalRequest),
    /// Of questions, which follow in a delta.
    #[schemars(title = "QuestionRequestBlock")]
    Questions {
        /// `{session_id}_{n}`.
        approval_key: String,
        /// When it times out (RFC 3339); absent if never.
        #[serde(skip_serializing_if = "Option::is_none")]
        expires_at: Option<String>,
        /// The permanent identity of the questions, like the `digest` of an action.
        #[serde(skip_serializing_if = "Option::is_none")]
        digest: Option<Arc<str>>,
    },
}

impl RequestBlock {
    /// The interruption's key.
    #[must_use]
    pub fn approval_key(&self) -> &str {
        match self {
            RequestBlock::Actions(request) => &request.approval_key,
            RequestBlock::Questions { approval_key, .. } => approval_key,
        }
    }
}

/// The questions of an `approval_request`.
#[derive(Clone, Debug, Serialize, JsonSchema)]
pub struct QuestionDelta {
    /// One call of `ask_user_question`.
    pub action_requests: Vec<QuestionAction>,
    /// One for each action.
    pub review_configs: Vec<QuestionReview>,
    /// Seconds to answer; 0 for no limit.
    pub timeout_seconds: u32,
}

/// A call of `ask_user_question`.
#[derive(Clone, Debug, Serialize, JsonSchema)]
pub struct QuestionAction {
    /// `ask_user_question`.
    pub name: Arc<str>,
    /// `{questions: […]}`.
    pub args: Args,
    /// The agent that asks, if it is nested; absent for the session's own.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub agent: Option<Arc<str>>,
    /// The calls that led to it through nested agents, from the session's own agent down; absent for that agent's own
    /// questions.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub path: Vec<PathStep>,
}

/// The review options of a question. Only answers, or one reject, are accepted.
#[derive(Clone, Debug, Serialize, JsonSchema)]
pub struct QuestionReview {
    /// `ask_user_question`.
    pub action_name: Arc<str>,
    /// `approve`, `edit`, `reject`.
    #[schemars(with = "Vec<AllowedDecision>")]
    pub allowed_decisions: Vec<DecisionType>,
}

/// The kinds of requests that have actions.
#[derive(JsonSchema)]
#[serde(rename_all = "snake_case")]
#[expect(dead_code, reason = "only its schema is used")]
pub(super) enum ActionKind {
    Approval,
    InDoubt,
    Interrupt,
    Input,
}

/// The kind of requests that have questions.
#[derive(JsonSchema)]
#[serde(rename_all = "snake_case")]
#[expect(dead_code, reason = "only its schema is used")]
enum QuestionKind {
    Question,
}

/// A pending request, complete, wherever it is not streamed.
#[derive(Clone, Debug, Serialize, JsonSchema)]
#[serde(untagged)]
#[non_exhaustive]
pub enum Request {
    /// Actions.
    #[schemars(title = "ActionApprovalView")]
    Actions(ApprovalRequest),
    /// Questions.
    #[schemars(title = "QuestionApprovalView")]
    Questions(QuestionRequest),
}

impl Request {
    /// `{session_id}_{n}`.
    #[must_use]
    pub fn approval_key(&self) -> &str {
        match self {
            Request::Actions(request) => &request.approval_key,
            Request::Questions(request) => &request.approval_key,
        }
    }

    /// The kind of answer it needs.
    #[must_use]
    pub fn kind(&self) -> Kind {
        match self {
            Request::Actions(request) => request.kind,
            Request::Questions(request) => request.kind,
        }
    }

    /// When it times out (RFC 3339); `None` if never.
    #[must_use]
    pub fn expires_at(&self) -> Option<&str> {
        match self {
            Request::Actions(request) => request.expires_at.as_deref(),
            Request::Questions(request) => request.expires_at.as_deref(),
        }
    }

    /// The pending calls; none if it consists of questions.
    #[must_use]
    pub fn actions(&self) -> &[RequestedAction] {
        match self {
            Request::Actions(request) => &request.actions,
            Request::Questions(_) => &[],
        }
    }
}

/// Pending questions, complete.
#[derive(Clone, Debug, Serialize, JsonSchema)]
pub struct QuestionRequest {
    /// `{session_id}_{n}`.
    pub approval_key: String,
    /// `question`.
    #[schemars(with = "QuestionKind")]
    pub kind: Kind,
    /// The questions.
    #[serde(flatten)]
    pub questions: QuestionDelta,
    /// When it times out (RFC 3339); absent if never.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub expires_at: Option<String>,
    /// The permanent identity of the questions, like the `digest` of an action.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub digest: Option<Arc<str>>,
}

/// The `approval_request` block of actions.
#[derive(Clone, Debug, Serialize, JsonSchema)]
pub struct ApprovalRequest {
    /// `{session_id}_{n}`.
    pub approval_key: String,
    /// The kind of answer it needs.
    #[schemars(with = "ActionKind")]
    pub kind: Kind,
    /// The pending actions, in the model's order.
    pub actions: Vec<RequestedAction>,
    /// One for each action, in the same order.
    pub review_configs: Vec<ReviewConfig>,
    /// When it times out (RFC 3339); absent if never.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub expires_at: Option<String>,
    /// The only person who may decide it, if it was reassigned to one. Never in the block of the stream, which shows
    /// the original request.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub assignee: Option<Arc<str>>,
    /// Who has approved it so far, if it has a quorum. Never in the block of the stream.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub approved_by: Vec<Arc<str>>,
    /// The question, if a graph's node asks it: it is answered with `resume`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub interrupt: Option<GraphQuestion>,
    /// The graph's step whose outcome is unknown, if the request is about a step and not a call.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub step: Option<GraphStep>,
}

/// A step of a node of a graph.
#[derive(Clone, Debug, Serialize, JsonSchema)]
pub struct GraphStep {
    /// The node's path through the graphs it is in: `research/plan`.
    pub node: Arc<str>,
    /// The step's name in its node.
    pub name: Arc<str>,
}

/// The question of a graph's node.
#[derive(Clone, Debug, Serialize, JsonSchema)]
pub struct GraphQuestion {
    /// The node's path through the graphs it is in: `research/plan`.
    pub node: Arc<str>,
    /// The question's name in its node.
    pub name: Arc<str>,
    /// What is shown.
    #[schemars(with = "Value")]
    pub payload: Raw,
    /// The JSON Schema that the answer must fit.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(with = "Option<AnyObject>")]
    pub schema: Option<Arc<Schema>>,
}

/// A pending call.
#[derive(Clone, Debug, Serialize, JsonSchema)]
pub struct RequestedAction {
    /// The tool.
    pub name: Arc<str>,
    /// The arguments, exactly those that will run.
    pub args: Args,
    /// The call's id as the model wrote it.
    pub tool_use_id: Arc<str>,
    /// The call's id in the session.
    pub id: String,
    /// The agent that proposed it.
    pub agent: Arc<str>,
    /// Lower-case hexadecimal SHA-256 of the canonical arguments.
    pub args_digest: String,
    /// Lower-case hexadecimal SHA-256 of the whole request about this call, its permanent identity: session, call,
    /// agent, tool, arguments, schema and what is shown.
    pub digest: Arc<str>,
    /// The tool's own description.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub description: Option<Arc<str>>,
    /// The MCP server that provides the tool, under the name it has here; the description comes from that server.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub server: Option<String>,
    /// The arguments as a reviewer sees them. Derived from `args` each time, never stored.
    pub display: Shown,
    /// What the model says the call is for, in one line, with the escapes of `display`. Unverified.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub agent_says: Option<String>,
    /// The calls that led to it through nested agents, from the session's own agent down; empty for that agent's own
    /// calls.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub path: Vec<PathStep>,
    /// A preview of the call's effect, created with the call: a diff of files, or command lines.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub preview: Option<ShownPreview>,
}

/// How a call may be decided.
#[derive(Clone, Debug, Serialize, JsonSchema)]
pub struct ReviewConfig {
    /// Always true.
    pub require_approval: bool,
    /// Seconds until it is rejected without a decision; 0 for no limit.
    pub timeout: u32,
    /// The tool.
    pub action_name: Arc<str>,
    /// The decisions that are allowed.
    #[schemars(with = "Vec<AllowedDecision>")]
    pub allowed_decisions: Vec<DecisionType>,
    /// The role that decides; absent: the session's owner.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub role: Option<String>,
    /// The current level, from 1, if there are several.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub level: Option<u32>,
    /// The roles of all levels, if there are several.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub levels: Option<Vec<String>>,
    /// How many different people must approve it, if more than one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub quorum: Option<u32>,
    /// Whether its requesters may not approve it.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub not_self: bool,
    /// The roles it may be reassigned to.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub reassign: Vec<String>,
    /// The JSON Schema that an edit must fit.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(with = "Option<AnyObject>")]
    pub args_schema: Option<Arc<Schema>>,
    /// The rule that requires approval.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
    /// How much is at stake, if the operator says so.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub risk: Option<Risk>,
    /// The call in one line, from the operator's template, with the escapes of `display`; absent for an edited call.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub title: Option<String>,
}

/// A request, complete, as it was made.
#[must_use]
pub fn of(session_id: &str, asked: &Interrupted) -> Request {
    if asked.kind == Kind::Question {
        Request::Questions(QuestionRequest {
            approval_key: approval_key(session_id, asked.n),
            kind: asked.kind,
            questions: question_delta(asked),
            expires_at: asked.expires_at.map(rfc3339),
            digest: asked.digest(),
        })
    } else {
        Request::Actions(approval_request(session_id, asked))
    }
}

/// A pending request, complete, in its current state: with its assignee, and its approvals so far.
#[must_use]
pub fn pending(session_id: &str, open: &Open) -> Request {
    let mut request = of(session_id, &open.asked);
    if let Request::Actions(actions) = &mut request {
        actions.assignee.clone_from(&open.assignee);
        actions.approved_by = open.votes.iter().flatten().cloned().collect();
    }
    request
}

/// The start of the block that asks (spec W4).
pub(super) fn block(session_id: &str, asked: &Interrupted) -> RequestBlock {
    if asked.kind == Kind::Question {
        RequestBlock::Questions {
            approval_key: approval_key(session_id, asked.n),
            expires_at: asked.expires_at.map(rfc3339),
            digest: asked.digest(),
        }
    } else {
        RequestBlock::Actions(approval_request(session_id, asked))
    }
}

pub(super) fn question_delta(asked: &Interrupted) -> QuestionDelta {
    QuestionDelta {
        action_requests: asked
            .actions
            .iter()
            .map(|action| QuestionAction {
                name: action.name.clone(),
                args: action.args.clone(),
                agent: (!action.path.is_empty()).then(|| action.agent.clone()),
                path: action.path.clone(),
            })
            .collect(),
        review_configs: asked
            .actions
            .iter()
            .map(|action| QuestionReview {
                action_name: action.name.clone(),
                allowed_decisions: action.allowed().to_vec(),
            })
            .collect(),
        timeout_seconds: asked.actions.first().map_or(0, |action| asked.kind.timeout_seconds(action.ask.timeout)),
    }
}

/// How a call may be decided.
#[must_use]
pub fn review_config(kind: Kind, action: &Action) -> ReviewConfig {
    let several = action.ask.levels.len() > 1;
    ReviewConfig {
        require_approval: true,
        timeout: kind.timeout_seconds(action.ask.timeout),
        action_name: action.name.clone(),
        allowed_decisions: action.allowed().to_vec(),
        role: action.reviewer_said().map(str::to_owned),
        level: several.then_some(action.level + 1),
        levels: several.then(|| Reviewer::names(&action.ask.levels)),
        quorum: Some(action.quorum()).filter(|quorum| *quorum > 1 && kind.takes_votes()),
        not_self: action.ask.not_self,
        reassign: Reviewer::names(&action.ask.reassign),
        args_schema: action.schema.clone(),
        reason: action.ask.reason.clone(),
        risk: action.ask.risk,
        title: action.title.as_deref().map(shown::line),
    }
}

/// The block that asks about actions (spec W4).
fn approval_request(session_id: &str, asked: &Interrupted) -> ApprovalRequest {
    ApprovalRequest {
        approval_key: approval_key(session_id, asked.n),
        kind: asked.kind,
        actions: asked
            .actions
            .iter()
            .map(|action| RequestedAction {
                name: action.name.clone(),
                args: action.args.clone(),
                tool_use_id: action.tool_use_id.clone(),
                id: format!("c{}", action.call),
                agent: action.agent.clone(),
                args_digest: action.args.digest().to_string(),
                digest: action.digest.clone(),
                description: action.description.clone(),
                server: action.server().map(str::to_owned),
                display: Shown::of(&action.args),
                agent_says: action.agent_says.as_deref().map(shown::line),
                path: action.path.clone(),
                preview: action.preview.as_ref().map(Preview::shown),
            })
            .collect(),
        review_configs: asked.actions.iter().map(|action| review_config(asked.kind, action)).collect(),
        expires_at: asked.expires_at.map(rfc3339),
        assignee: None,
        approved_by: Vec::new(),
        interrupt: asked.question.as_ref().filter(|_| matches!(asked.kind, Kind::Interrupt | Kind::Input)).map(|at| {
            GraphQuestion {
                node: at.node.clone(),
                name: at.question.clone(),
                payload: at.payload.clone(),
                schema: at.schema.clone(),
            }
        }),
        step: asked
            .question
            .as_ref()
            .filter(|_| asked.kind == Kind::InDoubt)
            .map(|at| GraphStep { node: at.node.clone(), name: at.question.clone() }),
    }
}
