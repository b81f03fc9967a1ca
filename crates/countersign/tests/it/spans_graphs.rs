//! Spans of graphs and of compressions, as a collector of OTLP gets them.

use std::sync::Arc;

use countersign::{
    Agent,
    compression::Compression,
    graph::{NodeError, StateGraph},
    run::Runtime,
    store::{Store, memory::MemoryStore},
};
use countersign_runtime::run::spans;

use crate::{
    langgraph::{Work, asks, graph_of, in_line, me, process, said},
    spans::{Process, Span, named},
    support::send,
    team::{Say, teller, text},
};

fn attribute(span: &Span, name: &str) -> String {
    span.attributes().remove(name).unwrap_or_default()
}

/// The conventions call a graph a workflow.
#[tokio::test]
async fn a_graph_is_a_workflow_with_a_span_for_each_node_over_all_its_parts() {
    let inside = {
        let mut graph = StateGraph::<Work>::new("inside");
        let ask = graph.node("ask", asks("sure?"));
        in_line(&mut graph, &[ask]);
        graph.compile().expect("graph")
    };
    let graph = graph_of(|graph| {
        let before = graph.node("before", |_| async { Ok(said("secret 4711")) });
        let sub = graph.subgraph("sub", &inside, |_| Work::default(), |work| said(work.log.join("+")));
        in_line(graph, &[before, sub]);
    });
    let store: Arc<dyn Store> = Arc::new(MemoryStore::new());
    let first = Process::begin().await;
    let (runtime, runs) = process(&store, &graph);
    let _ = runs.run(&me(), "s", &Work::default()).await.expect("run");
    let before = first.spans().await;
    drop((first, runtime));

    let second = Process::begin().await;
    let (_runtime, runs) = process(&store, &graph);
    runs.resume(&me(), "s_1", "4711").await.expect("resume").done().expect("done");
    let after = second.spans().await;

    let trace = spans::trace_id("s", 1);
    for span in before.iter().chain(&after) {
        assert_eq!((span.text("traceId"), &*attribute(span, "gen_ai.conversation.id")), (&*trace, "s"));
        assert!(!span.attributes().values().any(|value| value.contains("4711")), "{}", span.0);
    }
    let turn = named(&before, "invoke_workflow work");
    assert_eq!((turn.id(), turn.text("parentSpanId")), (&*spans::first_span_id("s", 1), ""));
    assert_eq!(attribute(turn, "gen_ai.operation.name"), "invoke_workflow");
    assert_eq!(attribute(turn, "gen_ai.workflow.name"), "work");
    assert_eq!(turn.attributes().get("gen_ai.agent.name"), None);
    let node = named(&before, "execute_node before");
    assert_eq!((node.text("parentSpanId"), &*attribute(node, "countersign.node.path")), (turn.id(), "before"));
    assert_eq!(node.attributes().get("error.type"), None);

    let answered = named(&after, "decide").events().remove(0);
    assert_eq!((&*answered.0, &*answered.1["countersign.approval.decision"]), ("approval.decided", "resume"));

    let later = named(&after, "invoke_workflow work");
    assert_ne!(later.id(), turn.id());
    assert_eq!(later.0["links"][0]["spanId"], turn.id());
    for (spans, part) in [(&before, turn), (&after, later)] {
        let (sub, inner) = (named(spans, "execute_node sub"), named(spans, "invoke_workflow inside"));
        let ask = named(spans, "execute_node ask");
        assert_eq!(sub.text("parentSpanId"), part.id());
        assert_eq!(inner.text("parentSpanId"), sub.id());
        assert_eq!(ask.text("parentSpanId"), inner.id());
        assert_eq!(attribute(ask, "countersign.node.path"), "sub/ask");
        assert_eq!(attribute(ask, "gen_ai.workflow.name"), "inside");
    }
}

#[tokio::test]
async fn a_node_that_fails_marks_its_span_and_its_part() {
    let graph = graph_of(|graph| {
        let fails = graph.node("fails", |_| async { Err(NodeError::permanent("no 4711")) });
        in_line(graph, &[fails]);
    });
    let store: Arc<dyn Store> = Arc::new(MemoryStore::new());
    let collector = Process::begin().await;
    let (_runtime, runs) = process(&store, &graph);
    let _ = runs.run(&me(), "s", &Work::default()).await.expect("run");
    let spans = collector.spans().await;
    for name in ["execute_node fails", "invoke_workflow work"] {
        let span = named(&spans, name);
        assert_eq!(attribute(span, "error.type"), "node_failed", "{name}");
        assert_eq!(span.0["status"]["code"], 2, "{name}");
        assert!(!span.attributes().values().any(|value| value.contains("4711")), "{name}");
    }
}

/// Spec G5: the cost of a compression is visible, also where there was no summary.
#[tokio::test]
async fn a_compression_has_a_span_with_the_model_call_that_it_takes() {
    for works in [true, false] {
        let store: Arc<dyn Store> = Arc::new(MemoryStore::new());
        let collector = Process::begin().await;
        let summary = if works { text("They spoke of 4711.") } else { vec![Say::Fail("no 4711")] };
        let model = teller([text("one"), text("two")]);
        let compression = Compression::summary(60).keep_turns(1).model("small", teller([summary]));
        let agent = Agent::new("Talker", ("m", model)).compression(compression);
        let runtime = Runtime::builder(store).agent(agent).build().expect("runtime");
        send(&runtime, "s", &"4711 and more of it, ".repeat(20)).await.expect("one");
        send(&runtime, "s", "and then?").await.expect("two");

        let spans = collector.spans().await;
        let compress = named(&spans, "compress Talker");
        let turns: Vec<&Span> = spans.iter().filter(|span| span.text("name") == "invoke_agent Talker").collect();
        let turn = turns.iter().find(|turn| turn.text("traceId") == spans::trace_id("s", 2)).expect("the second turn");
        assert_eq!(compress.text("parentSpanId"), turn.id(), "{works}");
        let tokens = |when: &str| attribute(compress, &format!("countersign.compression.tokens_{when}"));
        let count = |when: &str| tokens(when).parse::<u64>().unwrap_or_else(|_| panic!("{when}: {:?}", tokens(when)));
        assert!(count("before") > 60 && count("after") < count("before"), "{works}");
        let chat = named(&spans, "chat small");
        assert_eq!(chat.text("parentSpanId"), compress.id(), "{works}");
        assert_eq!((chat.0["kind"].as_u64(), &*attribute(chat, "gen_ai.operation.name")), (Some(3), "chat"));
        let error = if works { "" } else { "model_error" };
        assert_eq!((&*attribute(chat, "error.type"), &*attribute(compress, "error.type")), (error, ""));
        assert!(!spans.iter().any(|span| span.attributes().values().any(|value| value.contains("4711"))), "{works}");
    }
}
