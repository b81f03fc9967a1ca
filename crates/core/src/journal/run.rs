//! Records of the runs of graphs (spec G1, G3); [`progress`](super::progress) is what they fold to.
//!
//! A run proceeds in rounds. All tasks of a round run at the same time; when each has its result the round ends,
//! their updates are merged in the order of the tasks, and the next round begins. The record that ends a round names
//! the tasks of the next one, so routes are never evaluated twice. A task that is itself a graph has a frame with
//! its own rounds.
//!
//! So a result does not depend on which task was fastest. A nested graph shares the journal: its requests are pending
//! in the outer session, and an answer restarts only the node that asked. The states themselves are recorded
//! (`Record::States`) once the updates since the last time have as many bytes: a fold reads at most about twice the
//! size of the state, and the journal grows linearly.
//!
//! A failed task fails its own round and nothing else: results are kept, and requests stay pending. When nothing else
//! can continue the run has failed, and `retry` repeats only the failed tasks.
//!
//! A step is recorded before it begins, unless it is idempotent. A step without an end after a crash, or after its
//! node's time limit, has an unknown outcome as a tool call would, and a person reports it. Nodes themselves may run
//! again; an effect that must not be repeated belongs in a step.

use std::sync::Arc;

use serde::{Deserialize, Deserializer, Serialize, ser::Error as _};
use serde_json::value::RawValue;

use super::{request_id::RequestId, schema::Schema};
use crate::{
    call::{finite, json::same_json},
    number::{FrameNo, InterruptionNo, StateVersion, TaskNo},
};

/// A JSON value, kept as text.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Raw(Arc<RawValue>);

impl Raw {
    /// The value's text.
    #[must_use]
    pub fn get(&self) -> &str {
        self.0.get()
    }

    /// The JSON of a value, which reads as that value again.
    ///
    /// # Errors
    /// The value has no JSON form, such as a map with keys that are not strings, or a number that is not finite, or one
    /// that nests too deep to be read again ([`crate::limits::RECORDED_JSON_DEPTH`]).
    pub fn of<T: Serialize + ?Sized>(value: &T) -> Result<Raw, serde_json::Error> {
        finite::check(value).map_err(serde_json::Error::custom)?;
        serde_json::value::to_raw_value(value).map(Raw::from)
    }
}

impl From<Box<RawValue>> for Raw {
    fn from(value: Box<RawValue>) -> Raw {
        Raw(value.into())
    }
}

impl PartialEq for Raw {
    fn eq(&self, other: &Raw) -> bool {
        same_json(self.get(), other.get())
    }
}
impl Eq for Raw {}

/// Reads a value that is present, even `null`, which differs from an absent value.
///
/// # Errors
/// Only the deserializer's own.
pub fn given<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<Raw>, D::Error> {
    Raw::deserialize(deserializer).map(Some)
}

/// The tasks of a round, and what the joins of its frame have seen so far.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Round {
    /// The tasks, in the order in which their updates are merged.
    pub tasks: Vec<NewTask>,
    /// What has arrived at joins that need more.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub arrived: Vec<Arrival>,
}

/// A node that has finished and leads to a join that needs more.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Arrival {
    /// The join's node.
    pub node: Arc<str>,
    /// The node that has finished.
    pub from: Arc<str>,
}

/// A task of a new round.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct NewTask {
    /// Its number in the session, from 1.
    pub task: TaskNo,
    /// The node.
    pub node: Arc<str>,
    /// Its item, if it is part of a fan-out.
    #[serde(default, deserialize_with = "given", skip_serializing_if = "Option::is_none")]
    pub input: Option<Raw>,
}

/// A run of a graph begins: the turn of a graph's session.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct RunStarted {
    /// The graph.
    pub graph: Arc<str>,
    /// The state it begins with.
    pub state: Raw,
    /// The version of the state's type.
    #[serde(default, skip_serializing_if = "StateVersion::is_first")]
    pub state_version: StateVersion,
    /// Its first round.
    pub round: Round,
    /// Who started it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub by: Option<Arc<str>>,
    /// The roles they held.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub roles: Vec<String>,
    /// The client's `request_id`.
    #[serde(rename = "request", default, skip_serializing_if = "Option::is_none")]
    pub request_id: Option<RequestId>,
}

/// A task that is a graph begins: a new frame. Also the beginning of an agent's loop that has custom nodes,
/// which is frame 0 and has no task.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct FrameBegan {
    /// The frame's number in the run.
    pub frame: FrameNo,
    /// The task it is; 0 for an agent's loop.
    pub task: TaskNo,
    /// The task's node.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub node: Option<Arc<str>>,
    /// The frame that the task is in.
    #[serde(default, skip_serializing_if = "FrameNo::is_root")]
    pub within: FrameNo,
    /// The graph.
    pub graph: Arc<str>,
    /// The state it begins with.
    #[serde(default, deserialize_with = "given", skip_serializing_if = "Option::is_none")]
    pub state: Option<Raw>,
    /// The version of the state's type.
    #[serde(default, skip_serializing_if = "StateVersion::is_first")]
    pub state_version: StateVersion,
    /// Its first round.
    pub round: Round,
}

/// Tasks of a round have their results.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct TasksDone {
    /// The frame.
    #[serde(default, skip_serializing_if = "FrameNo::is_root")]
    pub frame: FrameNo,
    /// The tasks, and what each changes in the frame's state.
    pub done: Vec<DoneTask>,
    /// The version of the state's type, of which their updates are a part.
    #[serde(default, skip_serializing_if = "StateVersion::is_first")]
    pub state_version: StateVersion,
    /// What follows.
    pub then: Then,
}

/// A task that has its result.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct DoneTask {
    /// The task.
    pub task: TaskNo,
    /// What it changes; nothing if absent.
    #[serde(default, deserialize_with = "given", skip_serializing_if = "Option::is_none")]
    pub update: Option<Raw>,
}

/// How the run continues when tasks are done.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Then {
    /// The round continues.
    Wait,
    /// The round has ended and the next begins.
    Round(Round),
    /// The frame has ended.
    End,
}

/// What a custom node changes in an agent's turn: [`DoneTask::update`] in an agent's loop.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct LoopUpdate {
    /// The calls that are refused.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub reject: Vec<Rejected>,
}

/// A call that a node refuses.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Rejected {
    /// The call's id as the model wrote it.
    pub tool_use_id: Arc<str>,
    /// The message to the model; if absent, that the user rejected it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub message: Option<String>,
}

/// The state of a frame, as recorded in [`super::record::Record::States`].
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct FrameState {
    /// The frame.
    pub frame: FrameNo,
    /// The node that the frame is; none for the root.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub node: Option<Arc<str>>,
    /// The frame that the node is in.
    #[serde(default, skip_serializing_if = "FrameNo::is_root")]
    pub within: FrameNo,
    /// The state.
    pub state: Raw,
    /// The version of the state's type.
    #[serde(default, skip_serializing_if = "StateVersion::is_first")]
    pub state_version: StateVersion,
}

/// The code of a task that failed because its node cannot read a recorded answer. The answer is kept: the node may be
/// fixed before the retry. If it is not, the retry asks again, since the same answer would fail each retry.
pub const UNREADABLE_ANSWER: &str = "unreadable_answer";

/// The code of a task that failed because its node went no further than a step that a person had given up. A retry asks
/// again about such steps, since the same decision would fail every retry.
pub const STEP_GIVEN_UP: &str = "step_given_up";

/// A task failed; a retry runs it again.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct TaskFailed {
    /// The task.
    pub task: TaskNo,
    /// A stable code, such as `node_failed` or `question_gone`.
    pub code: String,
    /// What failed.
    pub message: String,
}

/// Where in a graph a person is asked, and what (spec G3). Part of [`super::record::Interrupted`].
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct At {
    /// The task.
    pub task: TaskNo,
    /// Its node's path through the graphs it is in: `research/plan`.
    pub node: Arc<str>,
    /// The question's name in its node; for a step with an unknown outcome, the step's name.
    pub question: Arc<str>,
    /// What is shown.
    pub payload: Raw,
    /// The JSON Schema that the answer must fit.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub schema: Option<Arc<Schema>>,
    /// The answer if the deadline expires.
    #[serde(default, deserialize_with = "given", skip_serializing_if = "Option::is_none")]
    pub default: Option<Raw>,
}

impl At {
    /// What its program calls it: `research/plan/which?`.
    #[must_use]
    pub fn name(&self) -> String {
        format!("{}/{}", self.node, self.question)
    }
}

/// A person answered a graph's question.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Resumed {
    /// The interruption's number.
    pub n: InterruptionNo,
    /// The answer.
    pub value: Raw,
    /// Who answered.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub by: Option<Arc<str>>,
    /// The client's `request_id`.
    #[serde(rename = "request", default, skip_serializing_if = "Option::is_none")]
    pub request_id: Option<RequestId>,
}

/// A person changed the state of a graph that is waiting or idle.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct StateEdited {
    /// What changes, as a node would have changed it.
    pub update: Raw,
    /// The version of the state's type.
    #[serde(default, skip_serializing_if = "StateVersion::is_first")]
    pub state_version: StateVersion,
    /// Who.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub by: Option<Arc<str>>,
    /// The client's `request_id`.
    #[serde(rename = "request", default, skip_serializing_if = "Option::is_none")]
    pub request_id: Option<RequestId>,
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{journal::progress::Question, number::InterruptionNo};

    #[test]
    fn g1_the_version_of_a_state_is_on_record_unless_it_is_the_first() {
        let edited = |version| StateEdited {
            update: Raw::of(&1).expect("update"),
            state_version: StateVersion::new(version),
            by: None,
            request_id: None,
        };
        for (version, wanted) in [(1, r#"{"update":1}"#), (2, r#"{"update":1,"state_version":2}"#)] {
            let text = serde_json::to_string(&edited(version)).expect("write");
            assert_eq!(text, wanted);
            assert_eq!(serde_json::from_str::<StateEdited>(&text).expect("read"), edited(version));
        }
    }

    #[test]
    fn g3_a_null_on_record_is_a_value_and_no_gap() {
        let null = Raw::of(&()).expect("null");
        let task = NewTask { task: TaskNo::NONE.later(1), node: "n".into(), input: Some(null.clone()) };
        let text = serde_json::to_string(&task).expect("write");
        assert_eq!(serde_json::from_str::<NewTask>(&text).expect("read"), task);
        let asked = Question { n: InterruptionNo::FIRST, digest: "d".into(), role: None, answer: Some(null) };
        let text = serde_json::to_string(&asked).expect("write");
        assert_eq!(serde_json::from_str::<Question>(&text).expect("read"), asked);
        let waits = Question { answer: None, ..asked };
        let text = serde_json::to_string(&waits).expect("write");
        assert_eq!(serde_json::from_str::<Question>(&text).expect("read"), waits);
    }
}
