//! Drawings of graphs: what is written in the two languages, for any names. `web/console/test/languages.test.ts` checks
//! that Mermaid and Graphviz read it as intended, on the files that are checked in from here.

use std::collections::HashSet;

use countersign_core::{
    drawing::{Drawing, DrawnEdge, DrawnNode, NodeKind, Position},
    journal::{graph, state::State},
};
use proptest::prelude::*;

/// Two levels of sub-graphs, with unusual names.
fn nested() -> Drawing {
    let mut inner = Drawing::default();
    inner
        .node("START", "START", NodeKind::Start)
        .node("check", "Kiểm tra số dư", NodeKind::Node)
        .node("END", "END", NodeKind::End)
        .edge("START", "check", "")
        .route("check", "END", "đủ tiền")
        .route("check", "check", "thử lại")
        .stand("check", 0, 3);
    let mut middle = Drawing::default();
    middle
        .node("plan", "计划\n第二行", NodeKind::Node)
        .embed("account", "Tài khoản", inner)
        .edge("plan", "account", "然后")
        .stand("plan", 2, 1);
    let mut drawing = Drawing::default();
    drawing
        .node("START", "START", NodeKind::Start)
        .embed("work", "Work", middle)
        .node("other", "A graph that is not opened", NodeKind::Graph)
        .node("END", "END", NodeKind::End)
        .edge("START", "work", "")
        .route("work", "other", "more to do")
        .route("work", "END", "nothing to do")
        .edge("other", "END", "");
    drawing
}

/// Names and labels that would be syntax in Mermaid or DOT.
fn hostile() -> Drawing {
    let words = [
        "end",
        "End",
        "graph",
        "subgraph",
        "style",
        "styled",
        "class",
        "classDef",
        "click",
        "call",
        "href",
        "default",
        "linkStyle",
        "direction",
        "flowchart",
        "interpolate",
        "strict",
        "node",
        "edge",
        "digraph",
        "cluster_x",
        "endpoint",
        "ending",
        "x",
        "o",
        "v",
        "TB",
        "LR",
        "xray",
        "order",
        "n1",
        "n2",
        "N1",
        "_self",
        "a-b",
        "a--b",
        "1",
        "1a",
        "",
        " ",
        "\n",
        "a b",
        "\"]; evil --> worse",
        "a\"]\nevil --> worse\nb[\"",
        "x\"); evil -> worse; (\"",
        "\\",
        "\\\"",
        "\\N \\G \\l \\x",
        "#quot; #35; #34;",
        "&lt;b&gt; &amp; &#34;",
        "<script>alert(1)</script><img src=x onerror=alert(1)>",
        "`**markdown**`",
        "%%{init: {\"theme\": \"evil\"}}%%",
        "%% comment",
        "style a fill:#f00;",
        "classDef b fill:#0f0;",
        "a:::current",
        "a@{ shape: rect }",
        "|pipe| -->",
        "(((())))[[]]{{}}>]",
        "---",
        "---\ntitle: evil\n---",
        "fa:fa-car",
        "$$x^2$$",
        "/* */ // #",
        "tab\there, bell\u{7}, nul\u{0}, esc\u{1b}[31m",
        "dòng một\r\ndòng hai\u{2028}dòng ba",
        "审批（经理）",
        "🦀 ký tự",
        "ﬂ°°35¶ß",
    ];
    let mut drawing = Drawing::default();
    for word in words {
        drawing.node(word, word, NodeKind::Node);
        drawing.route("\"hub\"", word, word);
    }
    drawing.node("a frame", "subgraph \"x\"] end", NodeKind::Graph);
    drawing.node_in("a frame", "within\"", "]\nend\nevil", NodeKind::Node);
    drawing.edge("a frame", "end", "end");
    drawing.stand("end", 0, 1).stand("a frame", 2, 0).stand("only here", 0, 0);
    drawing
}

/// Compares with the checked-in file; `UPDATE_GOLDEN=1 cargo test` rewrites it.
fn golden(name: &str, drawing: &Drawing) {
    let json = serde_json::to_string_pretty(drawing).unwrap() + "\n";
    for (end, text) in [("json", json), ("mmd", drawing.to_mermaid()), ("dot", drawing.to_dot())] {
        let path = format!("{}/tests/it/drawings/{name}.{end}", env!("CARGO_MANIFEST_DIR"));
        if std::env::var_os("UPDATE_GOLDEN").is_some() {
            std::fs::write(&path, &text).unwrap();
        }
        let kept = std::fs::read_to_string(&path).unwrap_or_default();
        assert!(kept == text, "{path} is not what the code says; run UPDATE_GOLDEN=1 cargo test");
    }
}

#[test]
fn g7_the_checked_in_drawings_are_these() {
    golden("loop", &graph::drawing(None));
    golden("loop-idle", &graph::drawing(Some(&State::new("s".into()))));
    golden("nested", &nested());
    golden("hostile", &hostile());
    golden("empty", &Drawing::default());
}

#[test]
fn g7_the_loop_has_every_node_and_edge_with_its_label() {
    let drawing = graph::drawing(None);
    let ids: Vec<_> = drawing.nodes.iter().map(|node| node.id.as_str()).collect();
    assert_eq!(ids[0], "START");
    assert_eq!(ids[1..], graph::Node::ALL.map(graph::Node::name));
    for (from, to, label) in graph::Node::EDGES {
        let edge = |e: &&DrawnEdge| e.from == from.name() && e.to == to.name() && e.label == label;
        assert!(drawing.edges.iter().any(|e| edge(&e)), "{from:?} {to:?}");
    }
    let chosen = |from: &str| drawing.edges.iter().filter(|e| e.from == from).all(|e| e.conditional);
    assert!(chosen("agent") && chosen("approval") && !chosen("START") && !chosen("compression"));
    assert!(drawing.current.is_empty());
}

#[test]
fn g7_what_is_only_spoken_of_is_drawn_and_circles_of_parents_end() {
    let mut drawing = Drawing::default();
    drawing.node_in("b", "a", "a", NodeKind::Graph).node_in("a", "b", "b", NodeKind::Graph);
    drawing.node_in("c", "c", "c", NodeKind::Graph).node_in("gone", "d", "d", NodeKind::Node);
    drawing.edge("d", "renamed", "").stand("moved", 0, 1);
    for text in [drawing.to_mermaid(), drawing.to_dot()] {
        for word in ["renamed", "moved", "\"a\"", "\"b\"", "\"c\"", "\"d\""] {
            assert!(text.contains(word), "{word}: {text}");
        }
    }
    assert!(drawing.to_mermaid().contains("class moved waiting"));
}

#[test]
fn g7_sub_graphs_of_any_depth_are_written_without_recursion() {
    let mut drawing = Drawing::default();
    drawing.node("g0", "", NodeKind::Graph);
    for i in 1..3_000 {
        drawing.node_in(format!("g{}", i - 1), format!("g{i}"), "", NodeKind::Graph);
    }
    let count = |text: String, what: &str| text.matches(what).count();
    assert_eq!(count(drawing.to_mermaid(), "subgraph "), 2_999);
    assert_eq!(count(drawing.to_dot(), "subgraph "), 2_999);
}

#[test]
fn g7_graphs_with_the_same_names_are_put_into_one() {
    let inner = |waiting| {
        let mut inner = Drawing::default();
        inner.node("review", "Review", NodeKind::Node).stand("review", 0, waiting);
        inner
    };
    let mut drawing = Drawing::default();
    drawing.embed("a", "A", inner(1)).embed("b", "B", inner(2)).stand("b/review", 1, 0);
    let at = |node: &str, running, waiting| Position { node: node.into(), running, waiting };
    assert_eq!(drawing.current, [at("a/review", 0, 1), at("b/review", 1, 2)]);
    assert_eq!(drawing.nodes[3].parent.as_deref(), Some("b"));
}

/// Texts with characters that are special in both languages, and with any others.
fn texts() -> impl Strategy<Value = String> {
    let pieces = prop::sample::select(vec![
        "\"", "\\", "\n", "]", "[", ")", "|", "-->", "end", "#", ";", ":", "%%", "{", "}", "<", ">", "&", "`", "a",
        " ", "ế", "中", "\u{0}", "\u{2028}", "style", "subgraph",
    ]);
    prop_oneof![prop::collection::vec(pieces, 0..6).prop_map(|pieces| pieces.concat()), any::<String>()]
}

fn drawings() -> impl Strategy<Value = Drawing> {
    let kinds = prop::sample::select(vec![NodeKind::Start, NodeKind::End, NodeKind::Node, NodeKind::Graph]);
    let node = (texts(), texts(), kinds, prop::option::of(texts()));
    let edge = (texts(), texts(), texts(), any::<bool>());
    let nodes = node.prop_map(|(id, label, kind, parent)| DrawnNode { id, label, kind, parent });
    let edges = edge.prop_map(|(from, to, label, conditional)| DrawnEdge { from, to, label, conditional });
    let current = (texts(), any::<u32>(), any::<u32>());
    let current = current.prop_map(|(node, running, waiting)| Position { node, running, waiting });
    (prop::collection::vec(nodes, 0..8), prop::collection::vec(edges, 0..8), prop::collection::vec(current, 0..4))
        .prop_map(|(nodes, edges, current)| Drawing { nodes, edges, current })
}

/// The text without its quoted parts; DOT has escapes there, Mermaid has none.
fn outside(text: &str, escapes: bool) -> String {
    let (mut out, mut quoted, mut chars) = (String::new(), false, text.chars());
    while let Some(c) = chars.next() {
        match c {
            '"' => quoted = !quoted,
            '\\' if quoted && escapes => drop(chars.next()),
            c if quoted => assert!(!c.is_control(), "{c:?} in {text}"),
            c => out.push(c),
        }
    }
    assert!(!quoted, "{text}");
    out
}

/// The same drawing with plain names and labels.
fn plain(drawing: &Drawing) -> Drawing {
    let word = |label: &String| if label.trim().is_empty() { String::new() } else { "word".to_owned() };
    let mut plain = drawing.clone();
    plain.nodes.iter_mut().for_each(|node| node.label = word(&node.label));
    plain.edges.iter_mut().for_each(|edge| edge.label = word(&edge.label));
    plain
}

proptest! {
    /// What is not in quotes does not depend on a label, and contains only letters and digits of an id.
    #[test]
    fn g7_no_name_and_no_label_becomes_syntax(drawing in drawings()) {
        let plain = plain(&drawing);
        for (text, plain, escapes) in [
            (drawing.to_mermaid(), plain.to_mermaid(), false),
            (drawing.to_dot(), plain.to_dot(), true),
        ] {
            let outside = outside(&text, escapes);
            prop_assert_eq!(&outside, &self::outside(&plain, escapes));
            let syntax = |c: char| c.is_ascii_alphanumeric() || " \n_->.|[](){}=,;:".contains(c);
            prop_assert!(outside.chars().all(syntax), "{}", text);
            // As many lines as items: a label adds none.
            let ids: HashSet<_> = drawing.nodes.iter().map(|n| &n.id)
                .chain(drawing.edges.iter().flat_map(|e| [&e.from, &e.to]))
                .chain(drawing.current.iter().map(|at| &at.node)).collect();
            let frames = outside.lines().filter(|line| line.trim_start().starts_with("subgraph ")).count();
            let marks = outside.lines().filter(|line| line.starts_with("    class")).count();
            let frame = if escapes { 5 } else { 1 };
            prop_assert_eq!(text.lines().count(), frame + ids.len() + frames + drawing.edges.len() + marks);
        }
    }

    #[test]
    fn g7_a_drawing_survives_json(drawing in drawings()) {
        let text = serde_json::to_string(&drawing).unwrap();
        prop_assert_eq!(serde_json::from_str::<Drawing>(&text).unwrap(), drawing);
    }
}
