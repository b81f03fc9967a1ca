use countersign::graph::GraphState;
use serde::{Deserialize, Serialize};

#[derive(Clone, Serialize, Deserialize)]
struct Message {
    text: String,
}

fn keep(_value: &u32, _more: u32) {}

#[derive(Clone, Serialize, Deserialize, GraphState)]
struct Messages {
    #[graph(append_by_id)]
    messages: Vec<Message>,
}

#[derive(Clone, Serialize, Deserialize, GraphState)]
struct Spent {
    #[graph(add)]
    spent: bool,
}

#[derive(Clone, Serialize, Deserialize, GraphState)]
struct Kept {
    #[graph(reduce = keep)]
    kept: u32,
}

fn main() {}
