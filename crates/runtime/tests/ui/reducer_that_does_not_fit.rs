use countersign::graph::GraphState;
use serde::{Deserialize, Serialize};

#[derive(Clone, Serialize, Deserialize)]
struct Message {
    text: String,
}

fn join_lines(_text: &str, _more: String) {}

#[derive(Clone, Serialize, Deserialize, GraphState)]
struct Messages {
    #[graph(append_by_id)]
    messages: Vec<Message>,
}

#[derive(Clone, Serialize, Deserialize, GraphState)]
struct Spent {
    #[graph(add)]
    spent: String,
}

#[derive(Clone, Serialize, Deserialize, GraphState)]
struct Text {
    #[graph(reduce = join_lines)]
    text: String,
}

fn main() {}
