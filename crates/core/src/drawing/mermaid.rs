//! Mermaid's flow charts.

use std::fmt::Write as _;

use super::{
    NodeKind,
    plan::{Item, Plan, Step, lines},
};

pub(super) fn write(plan: &Plan<'_>) -> String {
    let mut out = String::from("flowchart TD\n");
    for (depth, step) in plan.walk() {
        let indent = "    ".repeat(depth);
        let _ = match step {
            Step::Node(place) => {
                let item = &plan.items[place];
                let (open, close) = shape(item.kind);
                writeln!(out, "{indent}{}{open}{}{close}", item.token, text(&item.lines()))
            }
            Step::Open(place) => {
                let item = &plan.items[place];
                writeln!(out, "{indent}subgraph {} [{}]", item.token, text(&item.lines()))
            }
            Step::Close => writeln!(out, "{indent}end"),
        };
    }
    for (from, to, edge) in &plan.edges {
        let (from, to) = (&plan.items[*from].token, &plan.items[*to].token);
        let arrow = if edge.conditional { "-.->" } else { "-->" };
        let label =
            if edge.label.trim().is_empty() { String::new() } else { format!("|{}|", text(&lines(&edge.label))) };
        let _ = writeln!(out, "    {from} {arrow}{label} {to}");
    }
    mark(&mut out, plan);
    out
}

fn mark(out: &mut String, plan: &Plan<'_>) {
    mark_as(out, "current", "stroke-width:4px", plan.items.iter().filter(|item| item.current.is_some()));
    mark_as(out, "waiting", "stroke-dasharray:6 4", plan.items.iter().filter(|item| item.waits()));
}

fn mark_as<'a>(out: &mut String, class: &str, style: &str, items: impl Iterator<Item = &'a Item<'a>>) {
    for (i, item) in items.enumerate() {
        if i == 0 {
            let _ = writeln!(out, "    classDef {class} {style}");
        }
        let _ = writeln!(out, "    class {} {class}", item.token);
    }
}

fn shape(kind: NodeKind) -> (&'static str, &'static str) {
    match kind {
        NodeKind::Start | NodeKind::End => ("((", "))"),
        NodeKind::Node => ("[", "]"),
        NodeKind::Graph => ("[[", "]]"),
    }
}

/// The sign with which Mermaid itself writes a character code.
const MARK: char = 'ﬂ';

/// A quoted text. All ASCII that could be syntax is written as Mermaid's character codes; `:` too, because before one
/// of those Mermaid looks for style definitions.
fn text(lines: &[String]) -> String {
    let mut out = String::from("\"");
    for (i, line) in lines.iter().enumerate() {
        if i > 0 {
            out.push_str("<br/>");
        }
        for c in line.chars() {
            let plain = c.is_ascii_alphanumeric() || " ,.-_/?!'".contains(c);
            if c == MARK || (c.is_ascii() && !plain) {
                let _ = write!(out, "#{};", u32::from(c));
            } else {
                out.push(c);
            }
        }
    }
    // Mermaid has no empty text.
    if out.trim() == "\"" {
        out.push_str("#32;");
    }
    out.push('"');
    out
}
