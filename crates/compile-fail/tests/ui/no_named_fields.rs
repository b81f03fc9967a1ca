use countersign::graph::GraphState;
use serde::{Deserialize, Serialize};

#[derive(Clone, Serialize, Deserialize, GraphState)]
struct Essay(String);

#[derive(Clone, Serialize, Deserialize, GraphState)]
struct Empty;

#[derive(Clone, Serialize, Deserialize, GraphState)]
enum Either {
    One { text: String },
    Other,
}

fn main() {}
