use countersign::graph::GraphState;
use serde::{Deserialize, Serialize};

#[derive(Clone, Serialize, Deserialize, GraphState)]
struct Essay {
    #[graph(apend)]
    notes: Vec<String>,
    #[graph(sum_of_all)]
    spent: i64,
    #[graph(add, max)]
    best: u32,
    #[graph(append = 3)]
    remarks: Vec<String>,
    #[graph(reduce = "join_lines")]
    text: String,
    #[graph(reduce)]
    end: String,
    #[graph()]
    nothing: String,
}

fn main() {}
