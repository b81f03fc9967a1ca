use countersign::graph::GraphState;
use serde::{Deserialize, Serialize};

#[derive(Clone, Serialize, Deserialize, GraphState)]
struct Borrowed<'a> {
    text: &'a str,
}

#[derive(Clone, Serialize, Deserialize, GraphState)]
#[graph(append)]
struct Names {
    new: String,
    #[graph(append)]
    notes: Vec<String>,
    replace_notes: String,
    #[serde(skip)]
    hidden: String,
    #[serde(rename = "shown", flatten)]
    inner: Vec<String>,
}

fn main() {}
