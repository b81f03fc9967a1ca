use countersign::{Agent, tool};

struct Order;

struct Receipt;

#[tool]
async fn buy(order: Order) -> String {
    let Order = order;
    String::new()
}

#[tool]
async fn receipt(id: u32) -> Receipt {
    let _ = id;
    Receipt
}

#[tool(needs_approval = |_call, args| args.amout > 3)]
async fn pay(amount: u32) -> String {
    amount.to_string()
}

#[tool(needs_approval = |_call, _args| "yes")]
async fn answer(amount: u32) -> String {
    amount.to_string()
}

async fn is_large(_call: countersign::tool::condition::ProposedCall, args: BuyArgs) -> bool {
    let _ = args;
    true
}

#[tool(needs_approval = is_large)]
async fn sell(amount: u32) -> String {
    amount.to_string()
}

fn main() {
    async fn plain() {}
    let _: fn(Agent) -> Agent = |agent| agent.tool(plain);
}
