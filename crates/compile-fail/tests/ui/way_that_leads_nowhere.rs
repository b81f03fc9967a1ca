use countersign::graph::{Context, GraphState, NodeError, Route, StateGraph};
use serde::{Deserialize, Serialize};

#[derive(Clone, Serialize, Deserialize, GraphState)]
struct Essay {
    text: String,
}

#[derive(Clone, Serialize, Deserialize, GraphState)]
struct Invoice {
    amount: u64,
}

#[derive(Clone, Copy, Route)]
enum Verdict {
    Good,
    Again,
}

async fn draft(_: Context<Essay>) -> Result<EssayUpdate, NodeError> {
    Ok(EssayUpdate::new().text("draft"))
}

fn verdict(essay: &Essay) -> Verdict {
    if essay.text.is_empty() { Verdict::Again } else { Verdict::Good }
}

fn main() {
    let mut graph = StateGraph::<Essay>::new("essay");
    let draft = graph.node("draft", draft);
    graph.route(draft, verdict, |verdict| match verdict {
        Verdict::Again => draft,
    });
}
