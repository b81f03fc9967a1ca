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

async fn pay(_: Context<Invoice>) -> Result<InvoiceUpdate, NodeError> {
    Ok(InvoiceUpdate::new())
}

fn main() {
    let mut essays = StateGraph::<Essay>::new("essay");
    let draft = essays.node("draft", draft);
    let mut invoices = StateGraph::<Invoice>::new("invoice");
    let pay = invoices.node("pay", pay);
    essays.start(pay);
    essays.edge(draft, pay);
    essays.route(draft, verdict, |verdict| match verdict {
        Verdict::Good => pay,
        Verdict::Again => draft,
    });
}
