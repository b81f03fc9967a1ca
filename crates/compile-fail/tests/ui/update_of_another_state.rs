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

async fn pay(_: Context<Essay>) -> Result<InvoiceUpdate, NodeError> {
    Ok(InvoiceUpdate::new().amount(3))
}

async fn whole(ctx: Context<Essay>) -> Result<Essay, NodeError> {
    Ok(ctx.state().clone())
}

fn main() {
    let mut graph = StateGraph::<Essay>::new("essay");
    graph.node("pay", pay);
    graph.node("whole", whole);
    let _ = EssayUpdate::new().amount(3);
}
