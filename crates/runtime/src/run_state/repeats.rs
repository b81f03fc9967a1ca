//! Repetitions in the entries of a state, written once: equal verdicts, and, in interruptions, what the model has
//! already written and earlier requests about the same tool.
//!
//! `["i", n, expires_at, content, action, …]` is an interruption that asks for approvals. An action is a whole object,
//! or a list: `[call, id, agent, tool, arguments, gate, preview, says, digest, like]`. The rest of such an action
//! equals that of the action `like`, or, if that is `null`, that of the latest earlier action about the same tool of
//! the same agent. If the arguments are `null`, they are those of the latest call with that id. If `gate` is an index,
//! the preview is that of the gate at this index in the latest verdicts. The search goes back at most [`LOOK_BACK`]
//! records.

use std::{fmt, sync::Arc};

use countersign_core::{
    call::{args::Args, gate::Gate, preview::Preview},
    journal::record::{Action, Block, Entry, Interrupted, Kind, Millis, Record, records},
    limits::CALLS_PER_RESPONSE,
    number::{CallNo, InterruptionNo},
};
use serde::{
    Deserialize, Deserializer, Serialize, Serializer,
    de::{self, MapAccess, SeqAccess, Visitor, value::MapAccessDeserializer},
    ser::SerializeSeq as _,
};

/// How many earlier records are searched.
const LOOK_BACK: usize = 512;
/// Arguments of at least this many bytes are worth a list.
const LONG: usize = 64;
/// This many equal verdicts are worth a list.
const SAME: usize = 4;

/// The records before a record: those of earlier entries, and of its own entry.
#[derive(Clone, Copy)]
pub(super) struct Before<'a>(pub(super) &'a [Arc<Entry>], pub(super) &'a [Record]);

impl<'a> Before<'a> {
    /// The preceding records, the latest first.
    fn back(self) -> impl Iterator<Item = &'a Record> {
        self.1.iter().rev().chain(records(self.0).rev()).take(LOOK_BACK)
    }
}

/// Whether some verdicts repeat.
pub(super) fn are(gates: &[Gate]) -> bool {
    gates.chunk_by(PartialEq::eq).any(|same| same.len() >= SAME)
}

/// Verdicts, some of which repeat.
pub(super) struct Gates<'a>(pub(super) &'a [Gate]);

impl Serialize for Gates<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut list = serializer.serialize_seq(None)?;
        list.serialize_element("g")?;
        for same in self.0.chunk_by(PartialEq::eq) {
            list.serialize_element(&(same.len(), &same[0]))?;
        }
        list.end()
    }
}

/// An interruption, without repetitions.
pub(super) struct Short<'a> {
    asked: &'a Interrupted,
    actions: Vec<Part<'a>>,
}

enum Part<'a> {
    Whole(&'a Action),
    Short {
        action: &'a Action,
        args: Option<&'a Args>,
        gate: Option<usize>,
        preview: Option<&'a Preview>,
        like: Option<Box<Action>>,
    },
}

impl<'a> Short<'a> {
    /// `None`: nothing in it repeats.
    pub(super) fn of(before: Before<'a>, asked: &'a Interrupted) -> Option<Short<'a>> {
        if asked.kind != Kind::Approval || asked.question.is_some() || asked.clock.is_some() {
            return None;
        }
        let part = |(i, action): (usize, &'a Action)| {
            let own = |like: &Action| Action {
                call: action.call,
                tool_use_id: action.tool_use_id.clone(),
                args: action.args.clone(),
                preview: action.preview.clone(),
                agent_says: action.agent_says.clone(),
                digest: action.digest.clone(),
                ..like.clone()
            };
            let known = like(before, &asked.actions[..i], &action.agent, &action.name);
            let args = Some(&action.args).filter(|args| written(before, &action.tool_use_id).as_ref() != Some(*args));
            let like = match known.filter(|like| own(like) == *action) {
                Some(_) => None,
                None if args.is_none() && action.args.text().len() > LONG => Some(Box::new(Action {
                    args: Args::default(),
                    preview: None,
                    agent_says: None,
                    digest: Arc::default(),
                    ..action.clone()
                })),
                None => return None,
            };
            let shown = action.preview.as_ref();
            let gate = shown.and_then(|_| gates(before).iter().position(|gate| gate.preview.as_ref() == shown));
            let preview = shown.filter(|_| gate.is_none());
            Some(Part::Short { action, args, gate, preview, like })
        };
        let actions = asked.actions.iter().enumerate();
        let actions: Vec<Part<'_>> =
            actions.map(|(i, action)| part((i, action)).unwrap_or(Part::Whole(action))).collect();
        let short = actions.iter().any(|part| matches!(part, Part::Short { .. }));
        short.then_some(Short { asked, actions })
    }
}

impl Serialize for Short<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let Interrupted { n, expires_at, display_as_content: content, .. } = self.asked;
        let mut list = serializer.serialize_seq(None)?;
        list.serialize_element("i")?;
        list.serialize_element(n)?;
        list.serialize_element(expires_at)?;
        list.serialize_element(content)?;
        for part in &self.actions {
            match part {
                Part::Whole(action) => list.serialize_element(action)?,
                Part::Short { action, args, gate, preview, like } => {
                    let Action { call, tool_use_id, agent, name, agent_says, digest, .. } = action;
                    let own = (call, tool_use_id, agent, name, args, gate, preview, agent_says, digest, like);
                    list.serialize_element(&own)?;
                }
            }
        }
        list.end()
    }
}

/// The latest action about a tool of an agent.
fn like<'a>(before: Before<'a>, own: &'a [Action], agent: &str, tool: &str) -> Option<&'a Action> {
    let of = |action: &&Action| &*action.agent == agent && &*action.name == tool;
    own.iter().rev().find(of).or_else(|| {
        before.back().find_map(|record| match record {
            Record::Interrupted(asked) => asked.actions.iter().rev().find(of),
            _ => None,
        })
    })
}

/// The arguments of the latest call with this id.
fn written(before: Before<'_>, id: &str) -> Option<Args> {
    let of = |block: &Block| match block {
        Block::ToolUse(call) if &*call.id == id => Some(call.args().ok()),
        _ => None,
    };
    let found = before.back().find_map(|record| match record {
        Record::BlockShown(block) => of(block),
        Record::ModelResponded(answer) => answer.blocks.iter().rev().find_map(of),
        _ => None,
    });
    found.flatten()
}

fn gates(before: Before<'_>) -> &[Gate] {
    let found = before.back().find_map(|record| match record {
        Record::CallsGated(gates) => Some(&**gates),
        _ => None,
    });
    found.unwrap_or_default()
}

pub(super) fn read<'de, A: SeqAccess<'de>>(before: Before<'_>, mut list: A) -> Result<Record, A::Error> {
    let missing = || de::Error::custom("it is no record");
    match list.next_element::<String>()?.as_deref() {
        Some("g") => {
            let mut gates: Vec<Gate> = Vec::new();
            while let Some((count, gate)) = list.next_element::<(usize, Gate)>()? {
                if count > CALLS_PER_RESPONSE.saturating_sub(gates.len()) {
                    return Err(missing());
                }
                gates.extend(std::iter::repeat_n(gate, count));
            }
            Ok(Record::CallsGated(gates))
        }
        Some("i") => {
            let n = list.next_element::<InterruptionNo>()?.ok_or_else(missing)?;
            let expires_at = list.next_element::<Option<Millis>>()?.ok_or_else(missing)?;
            let content = list.next_element::<bool>()?.ok_or_else(missing)?;
            let mut actions: Vec<Action> = Vec::new();
            while let Some(part) = list.next_element::<ReadPart>()? {
                let action = part
                    .whole(before, &actions)
                    .ok_or_else(|| de::Error::custom("what it repeats was not there before"))?;
                actions.push(action);
            }
            Ok(Record::Interrupted(Arc::new(Interrupted {
                n,
                kind: Kind::Approval,
                actions,
                expires_at,
                display_as_content: content,
                question: None,
                clock: None,
            })))
        }
        _ => Err(missing()),
    }
}

/// Call, id, agent, tool, arguments, gate, preview, the model's stated purpose, digest, and the action it is like.
type ShortAction = (
    CallNo,
    Arc<str>,
    Arc<str>,
    Arc<str>,
    Option<Args>,
    Option<usize>,
    Option<Preview>,
    Option<Arc<str>>,
    Arc<str>,
    Option<Box<Action>>,
);

enum ReadPart {
    Whole(Box<Action>),
    Short(Box<ShortAction>),
}

impl ReadPart {
    fn whole(self, before: Before<'_>, own: &[Action]) -> Option<Action> {
        let (call, tool_use_id, agent, name, args, gate, preview, agent_says, digest, first) = match self {
            ReadPart::Whole(action) => return Some(*action),
            ReadPart::Short(short) => *short,
        };
        let like = first.as_deref().or_else(|| like(before, own, &agent, &name))?;
        let args = match args {
            Some(args) => args,
            None => written(before, &tool_use_id)?,
        };
        let preview = match gate {
            None => preview,
            Some(at) => Some(gates(before).get(at)?.preview.clone()?),
        };
        Some(Action { call, tool_use_id, args, preview, agent_says, digest, ..like.clone() })
    }
}

impl<'de> Deserialize<'de> for ReadPart {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<ReadPart, D::Error> {
        struct Either;
        impl<'de> Visitor<'de> for Either {
            type Value = ReadPart;
            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("an action, or a list of what is its own")
            }
            fn visit_map<A: MapAccess<'de>>(self, map: A) -> Result<ReadPart, A::Error> {
                Action::deserialize(MapAccessDeserializer::new(map)).map(|action| ReadPart::Whole(Box::new(action)))
            }
            fn visit_seq<A: SeqAccess<'de>>(self, list: A) -> Result<ReadPart, A::Error> {
                let list = de::value::SeqAccessDeserializer::new(list);
                ShortAction::deserialize(list).map(|short| ReadPart::Short(Box::new(short)))
            }
        }
        deserializer.deserialize_any(Either)
    }
}
