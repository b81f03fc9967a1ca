//! Building a graph: nodes, and the edges between them.

use std::{
    future::Future,
    marker::PhantomData,
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
};

use countersign_core::{journal::run::Raw, limits, number::StateVersion, plain};
use futures::FutureExt as _;
use serde::{Serialize, de::DeserializeOwned};

use super::{
    Gone, GraphState, Renamed, Route,
    compiled::{Graph, Join, Leave, Migrate, NodeDef, Upgrade, Way, Work},
    context::Context,
    error::{CompileError, NodeError},
    options::NodeOptions,
    task::{Given, bounded},
};

/// A node of a graph with the state `S`, for use in edges. Only [`StateGraph::node`] and the like create one, so an
/// edge to a node that does not exist cannot be written.
pub struct Node<S> {
    pub(crate) graph: u64,
    pub(crate) index: usize,
    state: PhantomData<fn() -> S>,
}

/// A node that runs once per item of a list of `T`: see [`StateGraph::map_node`].
pub struct Each<S, T> {
    node: Node<S>,
    item: PhantomData<fn() -> T>,
}

const END: usize = usize::MAX;

impl<S> Node<S> {
    /// The end of a run. It has no outgoing edges.
    pub const END: Node<S> = Node { graph: 0, index: END, state: PhantomData };

    pub(crate) fn at(&self) -> Option<usize> {
        (self.index != END).then_some(self.index)
    }
}

impl<S> Clone for Node<S> {
    fn clone(&self) -> Self {
        *self
    }
}
impl<S> Copy for Node<S> {}
impl<S, T> Clone for Each<S, T> {
    fn clone(&self) -> Self {
        *self
    }
}
impl<S, T> Copy for Each<S, T> {}
impl<S, T> From<Each<S, T>> for Node<S> {
    fn from(each: Each<S, T>) -> Node<S> {
        each.node
    }
}

/// A graph under construction (spec G1). [`StateGraph::compile`] turns it into a runnable graph.
///
/// ```
/// use countersign::graph::{Context, GraphState, Node, NodeError, Route, StateGraph};
/// use serde::{Deserialize, Serialize};
///
/// #[derive(Clone, Default, Serialize, Deserialize, GraphState)]
/// struct Essay {
///     text: String,
///     #[graph(append)]
///     remarks: Vec<String>,
/// }
///
/// #[derive(Clone, Copy, Route)]
/// enum Verdict {
///     Good,
///     Again,
/// }
///
/// async fn draft(ctx: Context<Essay>) -> Result<EssayUpdate, NodeError> {
///     Ok(EssayUpdate::new().text(format!("draft {}", ctx.state().remarks.len() + 1)))
/// }
///
/// async fn review(ctx: Context<Essay>) -> Result<EssayUpdate, NodeError> {
///     let remark: String = ctx.interrupt("remark", &ctx.state().text).typed().await;
///     Ok(EssayUpdate::new().remarks([remark]))
/// }
///
/// let mut essay = StateGraph::<Essay>::new("essay");
/// let draft = essay.node("draft", draft);
/// let review = essay.node("review", review);
/// essay.start(draft);
/// essay.edge(draft, review);
/// essay.route(
///     review,
///     |essay| if essay.remarks.last().is_some_and(|remark| remark == "good") { Verdict::Good } else { Verdict::Again },
///     |verdict| match verdict {
///         Verdict::Good => Node::END,
///         Verdict::Again => draft,
///     },
/// );
/// let essay = essay.compile()?;
/// # Ok::<(), countersign::graph::CompileError>(())
/// ```
pub struct StateGraph<S: GraphState> {
    id: u64,
    name: Arc<str>,
    nodes: Vec<NodeDef<S>>,
    starts: Vec<Node<S>>,
    joins: Vec<(Vec<Node<S>>, Node<S>)>,
    foreign: bool,
    rounds: u32,
    migrate: Option<Migrate>,
    version: StateVersion,
    upgrade: Option<Upgrade>,
    problems: Vec<String>,
}

static GRAPHS: AtomicU64 = AtomicU64::new(1);

impl<S: GraphState> StateGraph<S> {
    /// A graph without nodes; journals refer to it by its name.
    #[must_use]
    pub fn new(name: impl Into<Arc<str>>) -> StateGraph<S> {
        StateGraph {
            id: GRAPHS.fetch_add(1, Ordering::Relaxed),
            name: name.into(),
            nodes: Vec::new(),
            starts: Vec::new(),
            joins: Vec::new(),
            foreign: false,
            rounds: limits::ROUNDS,
            migrate: None,
            version: StateVersion::FIRST,
            upgrade: None,
            problems: Vec::new(),
        }
    }

    /// Adds a node: an async function of the [`Context`] that returns an update of the state.
    pub fn node<F, Fut>(&mut self, name: &str, work: F) -> Node<S>
    where
        F: Fn(Context<S>) -> Fut + Send + Sync + 'static,
        Fut: Future<Output = Result<S::Update, NodeError>> + Send + 'static,
    {
        self.node_with(name, NodeOptions::new(), work)
    }

    /// Adds a node with retries or a time limit.
    pub fn node_with<F, Fut>(&mut self, name: &str, options: NodeOptions, work: F) -> Node<S>
    where
        F: Fn(Context<S>) -> Fut + Send + Sync + 'static,
        Fut: Future<Output = Result<S::Update, NodeError>> + Send + 'static,
    {
        let work = move |context, _: Option<Raw>| work(context).map(|result| given::<S>(result?)).boxed();
        self.add(name, options, Work::Run(Box::new(work)))
    }

    /// Adds a node that runs once for each item that a [`fan_out`](StateGraph::fan_out) gives it.
    pub fn map_node<T, F, Fut>(&mut self, name: &str, work: F) -> Each<S, T>
    where
        T: Serialize + DeserializeOwned + Send + 'static,
        F: Fn(Context<S>, T) -> Fut + Send + Sync + 'static,
        Fut: Future<Output = Result<S::Update, NodeError>> + Send + 'static,
    {
        self.map_node_with(name, NodeOptions::new(), work)
    }

    /// Adds a node for items with retries or a time limit.
    pub fn map_node_with<T, F, Fut>(&mut self, name: &str, options: NodeOptions, work: F) -> Each<S, T>
    where
        T: Serialize + DeserializeOwned + Send + 'static,
        F: Fn(Context<S>, T) -> Fut + Send + Sync + 'static,
        Fut: Future<Output = Result<S::Update, NodeError>> + Send + 'static,
    {
        let work = Arc::new(work);
        let run = move |context, item: Option<Raw>| {
            let work = work.clone();
            async move {
                let text = item.as_ref().map_or("null", Raw::get);
                let item = plain::read(text).map_err(|error| {
                    NodeError::coded(
                        "item_unreadable",
                        format!("the item of this task is not of the type it has now: {error}"),
                    )
                })?;
                given::<S>(work(context, item).await?)
            }
            .boxed()
        };
        Each { node: self.add(name, options, Work::Each(Box::new(run))), item: PhantomData }
    }

    /// Adds a graph as a node. It has its own state: `enter` creates it, `leave` turns its final state into an
    /// update of this one. Its nodes' questions are asked in this graph's session, and an answer restarts only the
    /// node that asked.
    pub fn subgraph<C: GraphState>(
        &mut self,
        name: &str,
        child: &Graph<C>,
        enter: impl Fn(&S) -> C + Send + Sync + 'static,
        leave: impl Fn(C) -> S::Update + Send + Sync + 'static,
    ) -> Node<S> {
        let graph = child.any().clone();
        let enter = Box::new(move |state: &S| Arc::new(enter(state)) as super::task::AnyState);
        let leave = Box::new(move |state: &super::task::AnyState| match state.downcast_ref::<C>() {
            Some(state) => given::<S>(leave(state.clone())),
            None => Err(NodeError::permanent("the state of the inner graph is of another type")),
        });
        self.add(name, NodeOptions::new(), Work::Graph { graph, enter, leave })
    }

    /// A node that the runner performs itself.
    pub(crate) fn builtin(&mut self, name: &str) -> Node<S> {
        self.add(name, NodeOptions::new(), Work::Builtin)
    }

    fn add(&mut self, name: &str, options: NodeOptions, work: Work<S>) -> Node<S> {
        let wrong = |c: char| c.is_control() || matches!(c, '/' | '#');
        if name.is_empty() || name.len() > limits::NAME_BYTES || name.contains(wrong) || matches!(name, "START" | "END")
        {
            self.problems.push(format!(
                "{name:?} cannot name a node: a name has 1 to {} bytes, no '/', no '#', and is not START or END",
                limits::NAME_BYTES
            ));
        }
        if self.nodes.iter().any(|node| &*node.name == name) {
            self.problems.push(format!("there are two nodes of the name {name:?}"));
        }
        self.nodes.push(NodeDef { name: name.into(), options, work, leaves: Vec::new() });
        Node { graph: self.id, index: self.nodes.len() - 1, state: PhantomData }
    }

    /// Makes a run start at this node. Call it again with other nodes to start at several in parallel.
    pub fn start(&mut self, node: Node<S>) {
        self.known(node);
        if self.starts.iter().all(|known| known.index != node.index) {
            self.starts.push(node);
        }
    }

    /// Adds an edge. Several edges from one node are parallel branches; a node to which several tasks of a round lead
    /// runs once.
    pub fn edge(&mut self, from: impl Into<Node<S>>, to: impl Into<Node<S>>) {
        let to = to.into();
        self.known(to);
        self.leave(from.into(), Leave::Edge(to));
    }

    /// Adds a conditional edge: `choose` reads the state after the round, `to` maps each variant of `R` to a node,
    /// with a `match` that the compiler checks for completeness.
    pub fn route<R: Route>(
        &mut self,
        from: impl Into<Node<S>>,
        choose: impl Fn(&S) -> R + Send + Sync + 'static,
        to: impl Fn(R) -> Node<S>,
    ) {
        self.route_many(from, move |state| [choose(state)], to);
    }

    /// Like [`StateGraph::route`], to several nodes at once, as parallel branches. An empty choice ends this branch.
    pub fn route_many<R: Route, I: IntoIterator<Item = R>>(
        &mut self,
        from: impl Into<Node<S>>,
        choose: impl Fn(&S) -> I + Send + Sync + 'static,
        to: impl Fn(R) -> Node<S>,
    ) {
        let ways: Vec<Way<S>> = R::ALL.iter().map(|way| (way.label(), to(*way))).collect();
        ways.iter().for_each(|(_, node)| self.known(*node));
        let labels: Vec<&'static str> = R::ALL.iter().map(|way| way.label()).collect();
        let targets = ways.clone();
        let choose = Box::new(move |state: &S| {
            let way = |way: R| labels.iter().position(|label| *label == way.label());
            choose(state).into_iter().filter_map(|chosen| Some(targets.get(way(chosen)?)?.1)).collect()
        });
        let mut seen = std::collections::HashSet::new();
        if let Some((twice, _)) = ways.iter().find(|(label, _)| !seen.insert(*label)) {
            self.problems.push(format!("two ways of one route have the label {twice:?}"));
        }
        self.leave(from.into(), Leave::Route { ways, choose });
    }

    /// Runs `to` once all of `from` have finished, and again whenever all of them have finished once more. Several
    /// joins may lead to one node, each with its own sources. If two of them share a source, it counts for the join
    /// that is complete first.
    pub fn join<const N: usize>(&mut self, from: [Node<S>; N], to: Node<S>) {
        from.iter().for_each(|node| self.known(*node));
        self.known(to);
        let is_twice = |at: usize| from[..at].iter().chain([&to]).any(|node| node.index == from[at].index);
        if N < 2 || (0..N).any(is_twice) || from.iter().any(|node| node.at().is_none()) || to.at().is_none() {
            let what = "a join leads from at least two different nodes to another one, none of which is END";
            self.problems.push(what.to_owned());
        }
        self.joins.push((from.to_vec(), to));
    }

    /// After `from`, runs `each` once for each item of the list that `items` creates from the state: concurrently, at
    /// most [`FanOut::limit`] at a time. Without items, the successors of `each` run at once, unless another fan-out of the
    /// same round gives it some. An item has at most 1 MiB as JSON, and the items of a round 16 MiB: keep larger data
    /// elsewhere, under a key that serves as the item.
    pub fn fan_out<T, I>(
        &mut self,
        from: impl Into<Node<S>>,
        each: Each<S, T>,
        items: impl Fn(&S) -> I + Send + Sync + 'static,
    ) -> FanOut<'_, S>
    where
        T: Serialize + DeserializeOwned + Send + 'static,
        I: IntoIterator<Item = T>,
    {
        self.known(each.node);
        let items = Box::new(move |state: &S, mut room: usize| {
            let item = |item: T| {
                let item = Raw::of(&item)
                    .map_err(|error| NodeError::permanent(format!("an item cannot be serialised as JSON: {error}")))?;
                let item = bounded("an item", item)?;
                room = room.checked_sub(item.get().len()).ok_or_else(|| {
                    let most = limits::ROUND_BYTES;
                    NodeError::permanent(format!(
                        "the items of one round have more than {most} bytes as JSON; keep what is large elsewhere, under \
                         a key that is the item"
                    ))
                })?;
                Ok(item)
            };
            // One more than the maximum of a round, so that a round with too many is refused.
            items(state).into_iter().take(limits::ROUND_TASKS + 1).map(item).collect()
        });
        self.leave(from.into(), Leave::FanOut { each: each.node, items });
        FanOut { graph: self, each: each.node }
    }

    /// Fails a run after this many rounds (spec G1: cycles with a limit). The default is 10,000.
    pub fn max_rounds(&mut self, rounds: u32) {
        self.rounds = rounds.max(1);
    }

    /// Maps nodes and questions that no longer exist to their new names, for runs that were paused while the program
    /// changed. `None` means that there is no new name: a run that needs one fails.
    ///
    /// It is called for a node that does not exist; and, when a node asks a question that is not on record, for each
    /// question on record that it has not asked so far, including those that it asks later. So it must rename only
    /// nodes and questions that no longer exist. It may be called often, and a panic counts as `None`.
    ///
    /// Do not give an old name to anything else: a question that has the recorded name of a renamed one is refused,
    /// since each would get the other's answer. The names of steps cannot be migrated: a step under another name is
    /// another step, and runs again.
    pub fn migrate(&mut self, migrate: impl Fn(&Gone<'_>) -> Option<Renamed> + Send + Sync + 'static) {
        self.migrate = Some(Arc::new(move |gone| {
            let renamed = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| migrate(gone)));
            renamed.unwrap_or_else(|_| {
                tracing::error!(?gone, "a migration panicked");
                None
            })
        }));
    }

    /// Sets the version of the state's type, which is 1 by default. Runs record it; a record of an older version (the
    /// first argument) is upgraded before it is read. A record is a state or an update, and an update has only some of
    /// the fields. Unknown fields are invalid, so change the fields that are there, and remove those that the type no
    /// longer has. A record with a number whose digits fit neither a 64-bit integer nor a double, such as a large
    /// `u128`, is not upgraded: the run fails with `state_unreadable`, and keeps the record.
    ///
    /// ```
    /// # use countersign::graph::{GraphState, StateGraph};
    /// # #[derive(Clone, Default, serde::Serialize, serde::Deserialize, GraphState)]
    /// # struct Invoice {
    /// #     cents: u64,
    /// # }
    /// # let mut graph = StateGraph::<Invoice>::new("invoice");
    /// // Version 1 had `amount`, in euros.
    /// graph.state_version(2, |_from, mut json| {
    ///     let old = json.as_object_mut().and_then(|fields| fields.remove("amount"));
    ///     if let Some(euros) = old.and_then(|amount| amount.as_u64()) {
    ///         json["cents"] = (euros * 100).into();
    ///     }
    ///     json
    /// });
    /// ```
    pub fn state_version(
        &mut self,
        version: u32,
        upgrade: impl Fn(u32, serde_json::Value) -> serde_json::Value + Send + Sync + 'static,
    ) {
        if version == 0 {
            self.problems.push("the versions of its state are counted from 1".to_owned());
        }
        self.version = StateVersion::new(version);
        self.upgrade = Some(Box::new(upgrade));
    }

    /// Removes the edges from a node, so that others can replace them; joins remain.
    pub fn detach(&mut self, from: Node<S>) {
        self.known(from);
        if let Some(node) = from.at().and_then(|at| self.nodes.get_mut(at)) {
            node.leaves.clear();
        }
    }

    fn known(&mut self, node: Node<S>) {
        self.foreign |= node.graph != self.id && node.at().is_some();
    }

    fn leave(&mut self, from: Node<S>, leave: Leave<S>) {
        self.known(from);
        match from.at().and_then(|at| self.nodes.get_mut(at)) {
            Some(node) => node.leaves.push(leave),
            None => self.problems.push("nothing leads on from END".to_owned()),
        }
    }

    /// Checks the graph and makes it runnable.
    ///
    /// # Errors
    /// It has no start; a node belongs to another graph; a name is invalid or used twice; a node is unreachable or
    /// has no outgoing edge (an edge to [`Node::END`] says that a branch ends); an edge leads to a node that needs an
    /// item.
    pub fn compile(self) -> Result<Graph<S>, CompileError> {
        let StateGraph { name, nodes, starts, joins, foreign, rounds, migrate, version, upgrade, mut problems, .. } =
            self;
        if foreign {
            problems.push("a node of another graph is used in it".to_owned());
        }
        if name.is_empty() || name.len() > limits::NAME_BYTES {
            problems.push(format!("a graph's name has 1 to {} bytes", limits::NAME_BYTES));
        }
        if starts.is_empty() {
            problems.push("it has no start; say where a run begins with `start`".to_owned());
        }
        let named = |at: usize| nodes.get(at).map_or_else(String::new, |node| format!("{:?}", &*node.name));
        let mut reached = vec![false; nodes.len()];
        let mut open: Vec<usize> = starts.iter().filter_map(Node::at).collect();
        let mut plain: Vec<usize> = open.clone();
        while let Some(at) = open.pop() {
            if reached.get(at).is_none_or(|reached| *reached) {
                continue;
            }
            reached[at] = true;
            for leave in &nodes[at].leaves {
                match leave {
                    Leave::Edge(to) => plain.extend(to.at()),
                    Leave::Route { ways, .. } => plain.extend(ways.iter().filter_map(|(_, to)| to.at())),
                    Leave::FanOut { each, .. } => open.extend(each.at()),
                }
                open.extend(leave.targets().filter_map(|to| to.at()));
            }
            for (_, to) in joins.iter().filter(|(sources, _)| sources.iter().any(|source| source.at() == Some(at))) {
                plain.extend(to.at());
                open.extend(to.at());
            }
        }
        for (at, node) in nodes.iter().enumerate() {
            let joined = joins.iter().any(|(sources, _)| sources.iter().any(|source| source.at() == Some(at)));
            if node.leaves.is_empty() && !joined {
                problems.push(format!("the node {} leads nowhere; lead it on, or to Node::END", named(at)));
            }
            if !reached[at] {
                problems.push(format!("nothing leads to the node {}", named(at)));
            }
            if plain.contains(&at) && matches!(node.work, Work::Each(_)) {
                problems.push(format!("the node {} is run for items; only a fan_out leads to it", named(at)));
            }
            let items = nodes.iter().flat_map(|node| &node.leaves);
            if items
                .filter(|leave| matches!(leave, Leave::FanOut { .. }))
                .any(|leave| leave.targets().any(|to| to.at() == Some(at)))
                && !matches!(node.work, Work::Each(_))
            {
                problems.push(format!("the node {} takes no items", named(at)));
            }
        }
        if let Some(problem) = problems.into_iter().next() {
            return Err(CompileError { graph: name.to_string(), problem });
        }
        let joins = joins
            .into_iter()
            .map(|(sources, target)| Join {
                sources: sources.iter().filter_map(Node::at).collect(),
                target: target.index,
            })
            .collect();
        let starts = starts.iter().filter_map(Node::at).collect();
        Ok(Graph::new(name, nodes, starts, joins, rounds, migrate, (version, upgrade)))
    }
}

/// The settings of a fan-out.
pub struct FanOut<'a, S: GraphState> {
    graph: &'a mut StateGraph<S>,
    each: Node<S>,
}

impl<S: GraphState> FanOut<'_, S> {
    /// Sets how many of its tasks may run at the same time, at least one. Paused tasks do not count.
    pub fn limit(self, tasks: usize) {
        if let Some(node) = self.each.at().and_then(|at| self.graph.nodes.get_mut(at)) {
            node.options.parallel = Some(tasks.max(1));
        }
    }
}

/// A node's update, together with the JSON to record.
fn given<S: GraphState>(update: S::Update) -> Result<Given, NodeError> {
    let json = Raw::of(&update)
        .map_err(|error| NodeError::permanent(format!("its update cannot be serialised as JSON: {error}")))?;
    let json = bounded("its update", json)?;
    let json = (json.get() != "{}").then_some(json);
    Ok(Given { json, update: Box::new(update) })
}
