//! Graphviz's language.

use std::fmt::Write as _;

use super::{
    NodeKind,
    plan::{Item, Plan, Step, lines},
};

pub(super) fn write(plan: &Plan<'_>) -> String {
    let mut out = String::from(
        "digraph {\n    graph [compound=true, fontname=\"Helvetica\"]\n    node [shape=box, style=rounded, \
         fontname=\"Helvetica\"]\n    edge [fontname=\"Helvetica\", fontsize=11]\n",
    );
    for (depth, step) in plan.walk() {
        let indent = "    ".repeat(depth);
        let _ = match step {
            Step::Node(place) => {
                let item = &plan.items[place];
                let style = style(item, shape(item.kind));
                writeln!(out, "{indent}\"{}\" [label={}{style}]", item.token, text(&item.lines()))
            }
            Step::Open(place) => {
                let item = &plan.items[place];
                let style = style(item, "").replace(", ", "; ");
                writeln!(out, "{indent}subgraph \"cluster_{}\" {{ label={}{style}", item.token, text(&item.lines()))
            }
            Step::Close => writeln!(out, "{indent}}}"),
        };
    }
    for (from, to, edge) in &plan.edges {
        let mut attributes = Vec::new();
        if !edge.label.trim().is_empty() {
            attributes.push(format!("label={}", text(&lines(&edge.label))));
        }
        if edge.conditional {
            attributes.push("style=dashed".to_owned());
        }
        // An edge cannot end at a frame; it ends at a node inside and is cut off at the frame.
        let mut end = |place: usize, cut: &str| {
            let leaf = leaf(plan, place);
            if leaf != place {
                attributes.push(format!("{cut}=\"cluster_{}\"", plan.items[place].token));
            }
            &plan.items[leaf].token
        };
        let (from, to) = (end(*from, "ltail"), end(*to, "lhead"));
        let attributes = if attributes.is_empty() { String::new() } else { format!(" [{}]", attributes.join(", ")) };
        let _ = writeln!(out, "    \"{from}\" -> \"{to}\"{attributes}");
    }
    out.push_str("}\n");
    out
}

/// A node inside a sub-graph, or the node itself.
fn leaf(plan: &Plan<'_>, mut place: usize) -> usize {
    while let Some(child) = plan.items[place].children.first() {
        place = *child;
    }
    place
}

fn shape(kind: NodeKind) -> &'static str {
    match kind {
        NodeKind::Start | NodeKind::End => ", shape=circle",
        NodeKind::Node => "",
        NodeKind::Graph => ", peripheries=2",
    }
}

fn style(item: &Item<'_>, shape: &str) -> String {
    let current = match item.current {
        None => "",
        Some(_) if item.waits() => ", class=\"current waiting\", penwidth=3, style=\"rounded,dashed\"",
        Some(_) => ", class=\"current\", penwidth=3",
    };
    format!("{shape}{current}")
}

/// A quoted text. `\` would begin an escape, and `&` a character entity.
fn text(lines: &[String]) -> String {
    let mut out = String::from("\"");
    for (i, line) in lines.iter().enumerate() {
        if i > 0 {
            out.push_str("\\n");
        }
        for c in line.chars() {
            match c {
                '"' => out.push_str("\\\""),
                '\\' => out.push_str("\\\\"),
                '&' => out.push_str("&amp;"),
                c => out.push(c),
            }
        }
    }
    out.push('"');
    out
}
