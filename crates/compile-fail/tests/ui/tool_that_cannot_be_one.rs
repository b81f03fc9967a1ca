use countersign::{tool, tool::ToolContext};

#[tool]
fn at_once(location: String) -> String {
    location
}

#[tool(nam = "weather", needs_approval, needs_approval = false)]
async fn options(location: String) -> String {
    location
}

#[tool(needs_approval = "always")]
async fn rule(location: String) -> String {
    location
}

#[tool(needs_approval = |args| args.location.is_empty())]
async fn short_rule(location: String) -> String {
    location
}

#[tool(needs_approval, allow(aprove, reject), timeout = "soon")]
async fn decisions(location: String) -> String {
    location
}

#[tool(timeout = 30)]
async fn nobody(location: String) -> String {
    location
}

#[tool]
async fn borrowed(location: &str, order: &Vec<u8>) -> usize {
    location.len() + order.len()
}

#[tool]
async fn generic<T: Send>(location: T) -> usize {
    drop(location);
    0
}

#[tool]
async fn context_last(location: String, context: ToolContext) -> String {
    location + &context.agent
}

#[tool]
async fn pattern((a, b): (u8, u8)) -> u8 {
    a + b
}

fn main() {}
