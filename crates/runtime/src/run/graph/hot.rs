//! A run of a graph in memory: its typed states, and the tasks that run.

use std::{
    collections::{BTreeMap, HashMap},
    sync::Arc,
};

use countersign_core::{
    journal::progress::GraphRun,
    number::{FrameNo, TaskNo},
};

use crate::graph::{
    compiled::AnyGraph,
    task::{AnyState, AnyUpdate, Memory, Parked, Stretch},
};

/// A run of a graph in memory.
pub(in crate::run) struct Hot {
    /// Which run: the position it began at, and the latest edit it includes.
    pub(super) began: u64,
    pub(super) edited: u64,
    pub(super) frames: BTreeMap<FrameNo, HotFrame>,
    /// The updates of tasks in unfinished rounds.
    pub(super) updates: BTreeMap<TaskNo, AnyUpdate>,
    pub(super) parked: BTreeMap<TaskNo, Parked>,
    /// Bytes of updates since the states were last recorded, and of the states then.
    pub(super) bytes: (usize, usize),
}

pub(super) struct HotFrame {
    pub(super) graph: Arc<dyn AnyGraph>,
    pub(super) state: AnyState,
}

impl Hot {
    pub(super) fn new(run: &GraphRun) -> Hot {
        Hot {
            began: run.began,
            edited: 0,
            frames: BTreeMap::new(),
            updates: BTreeMap::new(),
            parked: BTreeMap::new(),
            bytes: (0, 0),
        }
    }

    pub(super) fn fits(&self, run: &GraphRun) -> bool {
        self.began == run.began
            && self.edited == run.edited
            && (run.agent_loop || run.frames.keys().all(|frame| self.frames.contains_key(frame)))
    }

    pub(crate) fn root(&self) -> Option<(&Arc<dyn AnyGraph>, &AnyState)> {
        self.frames.get(&FrameNo::ROOT).map(|frame| (&frame.graph, &frame.state))
    }

    pub(super) fn for_loop(mut self, run: &GraphRun) -> Hot {
        self.edited = run.edited;
        self
    }
}

/// The tasks that run here: as long as their futures do, whatever happens to the states.
#[derive(Default)]
pub(in crate::run) struct AtWork {
    pub(super) tasks: BTreeMap<TaskNo, Working>,
    /// How many tasks run per frame and node, for nodes with a limit.
    pub(super) counts: HashMap<(FrameNo, Arc<str>), usize>,
}

pub(super) struct Working {
    /// Its frame and node, if they are counted.
    pub(super) counted: Option<(FrameNo, Arc<str>)>,
    pub(super) memory: Arc<Memory>,
}

impl AtWork {
    pub(super) fn begin(&mut self, task: TaskNo, counted: Option<(FrameNo, Arc<str>)>, memory: &Arc<Memory>) {
        if let Some(counted) = counted.clone() {
            *self.counts.entry(counted).or_default() += 1;
        }
        self.tasks.insert(task, Working { counted, memory: memory.clone() });
    }

    pub(super) fn end(&mut self, task: TaskNo) {
        let counted = self.tasks.remove(&task).and_then(|working| working.counted);
        if let Some(count) = counted.and_then(|counted| self.counts.get_mut(&counted)) {
            *count -= 1;
        }
    }

    pub(super) fn count(&self, frame: FrameNo, node: &Arc<str>) -> usize {
        self.counts.get(&(frame, node.clone())).copied().unwrap_or_default()
    }

    /// Nothing runs any more.
    pub(in crate::run) fn clear(&mut self) {
        *self = AtWork::default();
    }
}

/// A segment of a task that has ended.
pub(in crate::run) struct Ended {
    pub(super) task: TaskNo,
    pub(super) stretch: Stretch,
}
