//! What both languages need to know about a drawing: safe names, the nesting of nodes, current nodes.

use std::collections::HashMap;

use super::{Drawing, DrawnEdge, NodeKind};

/// A drawing in which every name is resolved.
pub(super) struct Plan<'a> {
    pub(super) items: Vec<Item<'a>>,
    /// With the indexes of their ends among the items.
    pub(super) edges: Vec<(usize, usize, &'a DrawnEdge)>,
    roots: Vec<usize>,
}

/// A node with what is needed to write it.
pub(super) struct Item<'a> {
    /// A unique name of ASCII letters, digits and `_` that is not a keyword of either language.
    pub(super) token: String,
    pub(super) label: &'a str,
    pub(super) kind: NodeKind,
    /// The nodes inside it.
    pub(super) children: Vec<usize>,
    /// The running and the waiting tasks, if it is a current node.
    pub(super) current: Option<(u32, u32)>,
}

/// A step of the walk through all nodes, from outside to inside.
pub(super) enum Step {
    Node(usize),
    Open(usize),
    Close,
}

impl<'a> Plan<'a> {
    pub(super) fn of(drawing: &'a Drawing) -> Plan<'a> {
        let mut items: Vec<Item<'a>> = Vec::with_capacity(drawing.nodes.len());
        let mut places: HashMap<&'a str, usize> = HashMap::new();
        let mut parents: Vec<Option<&'a str>> = Vec::new();
        let drawn = drawing.nodes.iter().map(|n| (n.id.as_str(), n.label.as_str(), n.kind, n.parent.as_deref()));
        // A node that is only referred to is drawn too: an unknown node is a mistake that should be seen.
        let ends = drawing.edges.iter().flat_map(|edge| [&edge.from, &edge.to]);
        let named = ends.chain(drawing.current.iter().map(|at| &at.node));
        let named = named.map(|id| (id.as_str(), id.as_str(), NodeKind::Node, None));
        for (id, label, kind, parent) in drawn.chain(named) {
            if places.contains_key(id) {
                continue;
            }
            let place = items.len();
            places.insert(id, place);
            parents.push(parent);
            let token = if is_safe(id) { id.to_owned() } else { format!("n{place}") };
            let label = if label.trim().is_empty() { id } else { label };
            items.push(Item { token, label, kind, children: Vec::new(), current: None });
        }
        for at in &drawing.current {
            let (running, waiting) = items[places[at.node.as_str()]].current.get_or_insert_default();
            *running = running.saturating_add(at.running);
            *waiting = waiting.saturating_add(at.waiting);
        }
        let parents: Vec<_> = parents.into_iter().map(|parent| places.get(parent?).copied()).collect();
        let mut roots = Vec::new();
        for (place, parent) in without_circles(&parents).into_iter().enumerate() {
            match parent {
                Some(parent) => items[parent].children.push(place),
                None => roots.push(place),
            }
        }
        let edges = drawing.edges.iter().map(|e| (places[e.from.as_str()], places[e.to.as_str()], e)).collect();
        Plan { items, edges, roots }
    }

    /// All nodes in drawing order, each with its depth. Sub-graphs are opened and closed. Not recursive: their depth is
    /// untrusted.
    pub(super) fn walk(&self) -> Vec<(usize, Step)> {
        let mut steps = Vec::new();
        let mut open: Vec<std::slice::Iter<'_, usize>> = vec![self.roots.iter()];
        while let Some(level) = open.last_mut() {
            let next = level.next().copied();
            let depth = open.len();
            match next {
                Some(place) if self.items[place].children.is_empty() => steps.push((depth, Step::Node(place))),
                Some(place) => {
                    steps.push((depth, Step::Open(place)));
                    open.push(self.items[place].children.iter());
                }
                None => {
                    open.pop();
                    if !open.is_empty() {
                        steps.push((depth - 1, Step::Close));
                    }
                }
            }
        }
        steps
    }
}

impl Item<'_> {
    /// Its text, line by line, with the number of tasks where there are several. Characters that have an effect instead
    /// of a shape are replaced.
    pub(super) fn lines(&self) -> Vec<String> {
        let mut lines = lines(self.label);
        if let Some((running, waiting)) = self.current
            && running.saturating_add(waiting) > 1
        {
            let said = [(running, "running"), (waiting, "waiting")];
            let said = said.iter().filter(|(n, _)| *n > 0).map(|(n, what)| format!("{n} {what}"));
            lines.push(said.collect::<Vec<_>>().join(", "));
        }
        lines
    }

    /// Whether all its tasks wait.
    pub(super) fn waits(&self) -> bool {
        matches!(self.current, Some((0, waiting)) if waiting > 0)
    }
}

/// The lines of a label.
pub(super) fn lines(label: &str) -> Vec<String> {
    let label = label.replace("\r\n", "\n");
    let lines = label.split(['\n', '\r', '\u{85}', '\u{2028}', '\u{2029}']);
    let shown = |c: char| if c.is_control() { '\u{FFFD}' } else { c };
    lines.map(|line| line.chars().map(shown).collect()).collect()
}

/// Keywords of Mermaid and DOT. Mermaid's parser takes some of them for the beginning of a longer name, too.
const RESERVED: [&str; 20] = [
    "accdescr",
    "acctitle",
    "call",
    "class",
    "click",
    "cluster",
    "default",
    "digraph",
    "direction",
    "edge",
    "end",
    "flowchart",
    "graph",
    "href",
    "interpolate",
    "linkstyle",
    "node",
    "strict",
    "style",
    "subgraph",
];

/// Whether an id is safe as a name in both languages. `END` is: Mermaid knows only `end` in lower case.
fn is_safe(id: &str) -> bool {
    let word = |c: char| c.is_ascii_alphanumeric() || c == '_';
    let lower = id.to_ascii_lowercase();
    let numbered = id.strip_prefix('n').is_some_and(|rest| rest.bytes().all(|b| b.is_ascii_digit()));
    (2..=64).contains(&id.len())
        && id.starts_with(|c: char| c.is_ascii_alphabetic())
        && id.chars().all(word)
        && !numbered
        && (id == "END" || !RESERVED.iter().any(|reserved| lower.starts_with(reserved)))
}

/// The parents, without circular ones.
fn without_circles(parents: &[Option<usize>]) -> Vec<Option<usize>> {
    #[derive(Clone, Copy, PartialEq)]
    enum Seen {
        No,
        /// On the path of this number.
        On(usize),
        /// It leads to the top.
        Top,
    }
    let mut sound = parents.to_vec();
    let mut seen = vec![Seen::No; parents.len()];
    for begin in 0..parents.len() {
        let mut way = Vec::new();
        let mut place = begin;
        while seen[place] == Seen::No {
            seen[place] = Seen::On(begin);
            way.push(place);
            match sound[place] {
                Some(parent) if seen[parent] == Seen::On(begin) => sound[place] = None,
                Some(parent) => place = parent,
                None => {}
            }
        }
        for place in way {
            seen[place] = Seen::Top;
        }
    }
    sound
}
