//! A runnable graph, and its type-erased form for the runner.

use std::{
    collections::HashMap,
    fmt::{self, Display},
    sync::Arc,
};

use countersign_core::{
    call::exact::lost_in_value,
    drawing::{Drawing, NodeKind},
    journal::{
        graph::{AGENT, APPROVAL, COMPRESSION, TOOLS},
        run::{Arrival, Raw},
    },
    limits,
    number::StateVersion,
    plain,
};
use futures::future::BoxFuture;
use serde::de::DeserializeOwned;

use super::{
    Gone, GraphState, Renamed,
    build::Node,
    context::Context,
    error::NodeError,
    options::NodeOptions,
    task::{AnyState, AnyUpdate, Given, Memory, NodeFuture},
};

/// Upgrades a state or update of an older version; see [`super::StateGraph::state_version`].
pub(crate) type Upgrade = Box<dyn Fn(u32, serde_json::Value) -> serde_json::Value + Send + Sync>;
/// Maps removed nodes and questions to new ones; see [`super::StateGraph::migrate`].
pub(crate) type Migrate = Arc<dyn Fn(&Gone<'_>) -> Option<Renamed> + Send + Sync>;

type Run<S> = Box<dyn Fn(Context<S>, Option<Raw>) -> BoxFuture<'static, Result<Given, NodeError>> + Send + Sync>;

/// The update that the end of an inner graph makes to the outer state.
type LeaveGraph = Box<dyn Fn(&AnyState) -> Result<Given, NodeError> + Send + Sync>;
/// A branch of a route: its label, and its target.
pub(crate) type Way<S> = (&'static str, Node<S>);

/// What a node does.
pub(crate) enum Work<S> {
    /// An async function.
    Run(Run<S>),
    /// An async function of an item.
    Each(Run<S>),
    /// A nested graph.
    Graph { graph: Arc<dyn AnyGraph>, enter: Box<dyn Fn(&S) -> AnyState + Send + Sync>, leave: LeaveGraph },
    /// A node of the agent's loop, which the runner performs itself.
    Builtin,
}

/// A node.
pub(crate) struct NodeDef<S> {
    pub(crate) name: Arc<str>,
    pub(crate) options: NodeOptions,
    pub(crate) work: Work<S>,
    pub(crate) leaves: Vec<Leave<S>>,
}

impl<S> NodeDef<S> {
    fn kind(&self) -> Kind {
        match &self.work {
            Work::Run(_) | Work::Each(_) => Kind::Run,
            Work::Graph { graph, .. } => Kind::Graph(graph.clone()),
            Work::Builtin => Kind::Builtin,
        }
    }
}

type Choose<S> = Box<dyn Fn(&S) -> Vec<Node<S>> + Send + Sync>;
/// The items of a fan-out, in at most this many bytes.
type Items<S> = Box<dyn Fn(&S, usize) -> Result<Vec<Raw>, NodeError> + Send + Sync>;

/// An outgoing edge of a node.
pub(crate) enum Leave<S> {
    Edge(Node<S>),
    Route { ways: Vec<Way<S>>, choose: Choose<S> },
    FanOut { each: Node<S>, items: Items<S> },
}

impl<S> Leave<S> {
    pub(crate) fn targets(&self) -> impl Iterator<Item = Node<S>> + '_ {
        let (one, many): (_, &[Way<S>]) = match self {
            Leave::Edge(to) | Leave::FanOut { each: to, .. } => (Some(*to), &[]),
            Leave::Route { ways, .. } => (None, ways),
        };
        one.into_iter().chain(many.iter().map(|(_, to)| *to))
    }
}

/// A node that runs when several others have all finished.
pub(crate) struct Join {
    pub(crate) sources: Vec<usize>,
    pub(crate) target: usize,
}

/// A runnable graph, made by [`super::StateGraph::compile`]. Cheap to clone.
pub struct Graph<S: GraphState> {
    any: Arc<dyn AnyGraph>,
    inside: Arc<Compiled<S>>,
}

impl<S: GraphState> Clone for Graph<S> {
    fn clone(&self) -> Self {
        Graph { any: self.any.clone(), inside: self.inside.clone() }
    }
}

impl<S: GraphState> fmt::Debug for Graph<S> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Graph").field("name", &self.inside.name).finish_non_exhaustive()
    }
}

pub(crate) struct Compiled<S> {
    name: Arc<str>,
    nodes: Vec<NodeDef<S>>,
    by_name: HashMap<Arc<str>, usize>,
    starts: Vec<usize>,
    joins: Vec<Join>,
    rounds: u32,
    migrate: Option<Migrate>,
    version: StateVersion,
    upgrade: Option<Upgrade>,
}

impl<S: GraphState> Graph<S> {
    pub(crate) fn new(
        name: Arc<str>,
        nodes: Vec<NodeDef<S>>,
        starts: Vec<usize>,
        joins: Vec<Join>,
        rounds: u32,
        migrate: Option<Migrate>,
        (version, upgrade): (StateVersion, Option<Upgrade>),
    ) -> Graph<S> {
        let by_name = (0..).zip(&nodes).map(|(at, node)| (node.name.clone(), at)).collect();
        let inside = Arc::new(Compiled { name, nodes, by_name, starts, joins, rounds, migrate, version, upgrade });
        Graph { any: inside.clone(), inside }
    }

    /// Its name.
    #[must_use]
    pub fn name(&self) -> &str {
        &self.inside.name
    }

    /// Its picture (spec G7): see [`Drawing::to_mermaid`] and [`Drawing::to_dot`].
    #[must_use]
    pub fn drawing(&self) -> Drawing {
        self.any.drawing()
    }

    pub(crate) fn any(&self) -> &Arc<dyn AnyGraph> {
        &self.any
    }
}

/// The tasks of the next round: their nodes and items, and arrivals at joins.
#[derive(Default)]
pub(crate) struct Ahead {
    pub(crate) tasks: Vec<(Arc<str>, Option<Raw>)>,
    pub(crate) arrived: Vec<Arrival>,
}

/// The nodes that every agent's loop has.
const LOOP: [&str; 4] = [COMPRESSION, AGENT, APPROVAL, TOOLS];

/// How the runner executes a node.
pub(crate) enum Kind {
    /// The runner starts it.
    Run,
    /// It runs in its own frame.
    Graph(Arc<dyn AnyGraph>),
    /// The runner performs it itself.
    Builtin,
}

/// A type-erased graph.
pub(crate) trait AnyGraph: Send + Sync {
    fn name(&self) -> &Arc<str>;
    /// The maximum number of rounds of one run.
    fn rounds(&self) -> u32;
    fn migrate(&self) -> Option<&Migrate>;
    fn state_version(&self) -> StateVersion;
    /// Upgrades a recorded state or update of this version to the graph's own.
    fn upgraded(&self, from: StateVersion, json: &Raw) -> Result<Raw, String>;
    fn read_state(&self, json: &Raw) -> Result<AnyState, String>;
    fn write_state(&self, state: &AnyState) -> Result<Raw, String>;
    fn read_update(&self, json: Option<&Raw>) -> Result<AnyUpdate, String>;
    /// Merges the updates of one round, in order.
    fn merge(&self, state: &mut AnyState, updates: Vec<AnyUpdate>) -> Result<(), NodeError>;
    /// The tasks of the first round.
    fn start(&self) -> Ahead;
    /// The round after these nodes have finished, in the order of their tasks. Without tasks the run has ended.
    fn next(&self, finished: &[Arc<str>], arrived: &[Arrival], state: &AnyState) -> Result<Ahead, NodeError>;
    /// `None` if there is no such node.
    fn kind(&self, node: &str) -> Option<Kind>;
    /// The same, with its name and options.
    fn look(&self, node: &str) -> Option<(Arc<str>, Kind, NodeOptions)>;
    /// Starts a node.
    fn begin(&self, node: &str, state: &AnyState, item: Option<&Raw>, memory: Arc<Memory>) -> NodeFuture;
    /// The initial state of an inner graph.
    fn enter(&self, node: &str, state: &AnyState) -> Result<AnyState, NodeError>;
    /// Its picture: nodes by name, with inner graphs inside theirs.
    fn drawing(&self) -> Drawing;
    /// The update that the end of an inner graph makes.
    fn leave(&self, node: &str, state: &AnyState) -> Result<Given, NodeError>;
    /// Why it cannot be an agent's loop; `None` if it can.
    fn wrong_as_loop(&self) -> Option<String>;
}

/// Deserialises a value; an error names the field.
fn read<T: DeserializeOwned>(json: &Raw) -> Result<T, String> {
    plain::read(json.get()).or_else(|_| {
        // Parse again to find the path.
        let mut reader = serde_json::Deserializer::from_str(json.get());
        serde_path_to_error::deserialize(&mut reader).map_err(|error| {
            let path = error.path().to_string();
            let message = error.into_inner().to_string();
            // The path is more useful than the position in the text.
            let message = message.split(" at line ").next().unwrap_or_default();
            if path == "." { message.to_owned() } else { format!("{path}: {message}") }
        })
    })
}

/// Runs user code; a panic becomes an error and does not unwind into the runner.
fn guarded<T>(what: impl Display, run: impl FnOnce() -> Result<T, NodeError>) -> Result<T, NodeError> {
    std::panic::catch_unwind(std::panic::AssertUnwindSafe(run))
        .unwrap_or_else(|_| Err(NodeError::permanent(format!("{what} panicked"))))
}

fn wrong_type() -> String {
    "the state is of another type than the graph's".to_owned()
}

fn no_graph(node: &str) -> NodeError {
    NodeError::permanent(format!("the node {node:?} is not a graph"))
}

impl<S: GraphState> Compiled<S> {
    fn node(&self, name: &str) -> Option<&NodeDef<S>> {
        self.by_name.get(name).and_then(|at| self.nodes.get(*at))
    }

    fn state<'a>(&self, state: &'a AnyState) -> Result<&'a S, String> {
        state.downcast_ref::<S>().ok_or_else(wrong_type)
    }

    fn typed(state: &AnyState) -> Option<Arc<S>> {
        state.clone().downcast::<S>().ok()
    }
}

impl<S> Compiled<S> {
    /// Whether this source was the last one that a join waited for. Arrivals are kept in `arrived`.
    fn completes(&self, join: &Join, source: usize, arrived: &mut Vec<Arrival>) -> bool {
        let (target, name) = (&self.nodes[join.target].name, |at: usize| &self.nodes[at].name);
        let has = |arrived: &[Arrival], source| {
            arrived.iter().any(|Arrival { node, from }| node == target && from == name(source))
        };
        if !has(arrived, source) {
            arrived.push(Arrival { node: target.clone(), from: name(source).clone() });
        }
        join.sources.iter().all(|at| has(arrived, *at))
    }

    /// The nodes of these names, without those that follow themselves: a fan-out has many.
    fn in_a_row(&self, names: &[Arc<str>]) -> Vec<usize> {
        let mut nodes: Vec<usize> = Vec::with_capacity(names.len().min(self.nodes.len()));
        for name in names {
            if nodes.last().is_none_or(|last| self.nodes[*last].name != *name) {
                nodes.extend(self.by_name.get(name));
            }
        }
        nodes
    }

    /// A node of these that the next round does not run either: another fan-out may give it items. What follows one may do
    /// so too, so first comes one to which no other leads.
    fn first_idle(&self, nodes: &mut Vec<usize>, next: &[(Arc<str>, Option<Raw>)]) -> Option<usize> {
        nodes.retain(|at| next.iter().all(|(node, _)| *node != self.nodes[*at].name));
        let is_fed = |at: usize| nodes.iter().any(|from| *from != at && self.fans_out_to(*from, at));
        let first = nodes.iter().position(|at| !is_fed(*at)).unwrap_or(0);
        (!nodes.is_empty()).then(|| nodes.remove(first))
    }

    fn fans_out_to(&self, from: usize, to: usize) -> bool {
        self.nodes[from].leaves.iter().any(|leave| matches!(leave, Leave::FanOut { each, .. } if each.at() == Some(to)))
    }

    /// Whether this arrival is one of the join's: another join may lead to the same node.
    fn is_of(&self, join: &Join, Arrival { node, from }: &Arrival) -> bool {
        self.nodes[join.target].name == *node && join.sources.iter().any(|at| self.nodes[*at].name == *from)
    }
}

impl<S: GraphState> AnyGraph for Compiled<S> {
    fn name(&self) -> &Arc<str> {
        &self.name
    }

    fn rounds(&self) -> u32 {
        self.rounds
    }

    fn migrate(&self) -> Option<&Migrate> {
        self.migrate.as_ref()
    }

    fn state_version(&self) -> StateVersion {
        self.version
    }

    fn upgraded(&self, from: StateVersion, json: &Raw) -> Result<Raw, String> {
        let upgrade = match &self.upgrade {
            _ if from == self.version => return Ok(json.clone()),
            Some(upgrade) if from < self.version => upgrade,
            _ => return Err("it was written by a newer program".to_owned()),
        };
        let old = read(json)?;
        if let Some((field, number)) = lost_in_value(json.get()) {
            return Err(format!(
                "{field}: the number {number} has more digits than an upgrade keeps, which gets 64-bit integers and \
                 doubles"
            ));
        }
        guarded("its upgrade", || {
            Raw::of(&upgrade(from.get(), old)).map_err(|error| NodeError::permanent(error.to_string()))
        })
        .map_err(|error| error.message)
    }

    fn read_state(&self, json: &Raw) -> Result<AnyState, String> {
        Ok(Arc::new(read::<S>(json)?))
    }

    fn write_state(&self, state: &AnyState) -> Result<Raw, String> {
        let state = self.state(state)?;
        guarded("writing the state", || Raw::of(state).map_err(|error| NodeError::permanent(error.to_string())))
            .map_err(|error| error.message)
    }

    fn read_update(&self, json: Option<&Raw>) -> Result<AnyUpdate, String> {
        let update: S::Update = match json {
            Some(json) => read(json)?,
            None => S::Update::default(),
        };
        Ok(Box::new(update))
    }

    fn merge(&self, state: &mut AnyState, updates: Vec<AnyUpdate>) -> Result<(), NodeError> {
        let updates: Option<Vec<S::Update>> =
            updates.into_iter().map(|update| update.downcast::<S::Update>().ok().map(|update| *update)).collect();
        let updates = updates.ok_or_else(|| NodeError::permanent(wrong_type()))?;
        // The state has no other holder once the round has ended, so it is not cloned.
        let merged = guarded("merging the updates", || {
            Ok(match Arc::get_mut(state).and_then(|state| state.downcast_mut::<S>()) {
                Some(state) => state.merge(updates),
                None => {
                    let mut own = self.state(state).map_err(NodeError::permanent)?.clone();
                    let merged = own.merge(updates);
                    *state = Arc::new(own);
                    merged
                }
            })
        })?;
        merged.map_err(|error| NodeError::coded("invalid_update", error.to_string()))
    }

    fn start(&self) -> Ahead {
        let nodes = self.starts.iter().filter_map(|at| self.nodes.get(*at));
        Ahead { tasks: nodes.map(|node| (node.name.clone(), None)).collect(), arrived: Vec::new() }
    }

    fn next(&self, finished: &[Arc<str>], arrived: &[Arrival], state: &AnyState) -> Result<Ahead, NodeError> {
        let state = self.state(state).map_err(NodeError::permanent)?;
        let (mut tasks, mut arrived, mut complete) = (Vec::new(), arrived.to_vec(), Vec::new());
        let (mut targets, mut room): (Vec<usize>, usize) = (Vec::new(), limits::ROUND_BYTES);
        // A fan-out over an empty list continues as if its tasks had finished.
        let (mut empty, mut open): (Vec<usize>, Vec<usize>) = (Vec::new(), self.in_a_row(finished));
        let mut at = 0;
        loop {
            if at == open.len() {
                open.extend(self.first_idle(&mut empty, &tasks));
            }
            let Some(source) = open.get(at).copied() else { break };
            let seen = open[..at].contains(&source);
            at += 1;
            if seen {
                continue;
            }
            let mut plain = |to: usize, tasks: &mut Vec<(Arc<str>, Option<Raw>)>| {
                if !targets.contains(&to) {
                    targets.push(to);
                    tasks.extend(self.nodes.get(to).map(|node| (node.name.clone(), None)));
                }
            };
            for leave in &self.nodes[source].leaves {
                match leave {
                    Leave::Edge(to) => to.at().into_iter().for_each(|to| plain(to, &mut tasks)),
                    Leave::Route { choose, .. } => {
                        let name = &self.nodes[source].name;
                        let what = format_args!("the route from the node {name:?}");
                        let chosen = guarded(what, || Ok(choose(state)))?;
                        chosen.iter().filter_map(Node::at).for_each(|to| plain(to, &mut tasks));
                    }
                    Leave::FanOut { each, items } => {
                        let Some(each) = each.at() else { continue };
                        let what = format_args!("the list of the fan-out from the node {:?}", self.nodes[source].name);
                        let items = guarded(what, || items(state, room))?;
                        room -= items.iter().map(|item| item.get().len()).sum::<usize>().min(room);
                        if items.is_empty() {
                            empty.push(each);
                        }
                        let name = &self.nodes[each].name;
                        tasks.extend(items.into_iter().map(|item| (name.clone(), Some(item))));
                    }
                }
            }
            for join in self.joins.iter().filter(|join| join.sources.contains(&source)) {
                if self.completes(join, source, &mut arrived) {
                    plain(join.target, &mut tasks);
                    complete.push(join);
                }
            }
        }
        arrived.retain(|arrival| !complete.iter().any(|join| self.is_of(join, arrival)));
        if tasks.is_empty()
            && let Some(Arrival { node: target, .. }) = arrived.first()
        {
            let came: Vec<&str> = arrived.iter().filter(|one| one.node == *target).map(|one| &*one.from).collect();
            return Err(NodeError::coded(
                "join_unfinished",
                format!("the run would end while the node {target:?} still waits for others than {came:?}"),
            ));
        }
        Ok(Ahead { tasks, arrived })
    }

    fn kind(&self, node: &str) -> Option<Kind> {
        self.node(node).map(NodeDef::kind)
    }

    fn look(&self, node: &str) -> Option<(Arc<str>, Kind, NodeOptions)> {
        let found = self.node(node)?;
        Some((found.name.clone(), found.kind(), found.options.clone()))
    }

    fn begin(&self, node: &str, state: &AnyState, item: Option<&Raw>, memory: Arc<Memory>) -> NodeFuture {
        let failed = |what: String| -> NodeFuture { Box::pin(std::future::ready(Err(NodeError::permanent(what)))) };
        let Some(state) = Self::typed(state) else { return failed(wrong_type()) };
        match self.node(node).map(|node| &node.work) {
            Some(Work::Run(run) | Work::Each(run)) => {
                let begun =
                    guarded(format_args!("the node {node:?}"), || Ok(run(Context::new(state, memory), item.cloned())));
                begun.unwrap_or_else(|error| Box::pin(std::future::ready(Err(error))))
            }
            _ => failed(format!("the node {node:?} is not one that is run")),
        }
    }

    fn enter(&self, node: &str, state: &AnyState) -> Result<AnyState, NodeError> {
        let state = self.state(state).map_err(NodeError::permanent)?;
        match self.node(node).map(|node| &node.work) {
            Some(Work::Graph { enter, .. }) => guarded("the beginning of the inner graph", || Ok(enter(state))),
            _ => Err(no_graph(node)),
        }
    }

    fn wrong_as_loop(&self) -> Option<String> {
        let missing = LOOP.iter().find(|name| !matches!(self.kind(name), Some(Kind::Builtin)));
        if let Some(missing) = missing {
            return Some(format!("it has not the node {missing:?} of AgentLoop"));
        }
        let other = self.nodes.iter().find(|node| !matches!(node.work, Work::Run(_) | Work::Builtin));
        if let Some(node) = other {
            return Some(format!(
                "the node {:?} is a graph or takes items, which is not supported in an agent loop",
                node.name
            ));
        }
        let many = self.nodes.iter().find(|node| node.leaves.len() > 1);
        if let Some(node) = many {
            return Some(format!(
                "the node {:?} leads to several nodes at once; an agent's loop goes to one at a time",
                node.name
            ));
        }
        let joined = self.joins.first().map(|join| &self.nodes[join.target].name);
        if self.starts.len() > 1 || joined.is_some() {
            return Some("it has several starts, or a join; an agent's loop goes to one node at a time".to_owned());
        }
        None
    }

    fn drawing(&self) -> Drawing {
        const START: &str = "START";
        const END: &str = "END";
        let mut drawing = Drawing::default();
        let name = |to: &Node<S>| to.at().and_then(|at| self.nodes.get(at)).map_or(END, |node| &*node.name);
        drawing.node(START, START, NodeKind::Start);
        for node in &self.nodes {
            match &node.work {
                Work::Graph { graph, .. } => drawing.embed(&*node.name, &*node.name, graph.drawing()),
                Work::Run(_) | Work::Each(_) | Work::Builtin => drawing.node(&*node.name, &*node.name, NodeKind::Node),
            };
        }
        drawing.node(END, END, NodeKind::End);
        for node in self.starts.iter().filter_map(|at| self.nodes.get(*at)) {
            drawing.edge(START, &*node.name, "");
        }
        for (at, node) in self.nodes.iter().enumerate() {
            for leave in &node.leaves {
                match leave {
                    Leave::Edge(to) => {
                        drawing.edge(&*node.name, name(to), "");
                    }
                    Leave::FanOut { each, .. } => {
                        drawing.edge(&*node.name, name(each), "for each");
                    }
                    Leave::Route { ways, .. } => {
                        for (label, to) in ways {
                            // With only one branch there is no choice.
                            if ways.len() == 1 {
                                drawing.edge(&*node.name, name(to), *label);
                            } else {
                                drawing.route(&*node.name, name(to), *label);
                            }
                        }
                    }
                }
            }
            for join in self.joins.iter().filter(|join| join.sources.contains(&at)) {
                let target = self.nodes.get(join.target).map_or(END, |node| &*node.name);
                drawing.edge(&*node.name, target, "");
            }
        }
        drawing
    }

    fn leave(&self, node: &str, state: &AnyState) -> Result<Given, NodeError> {
        match self.node(node).map(|node| &node.work) {
            Some(Work::Graph { leave, .. }) => guarded("the end of the inner graph", || leave(state)),
            _ => Err(no_graph(node)),
        }
    }
}
