use countersign::graph::Route;

#[derive(Clone, Copy, Route)]
enum Verdict {
    Good,
    Again(u32),
    #[route(lable = "so so")]
    Fair,
    #[route(label = "good")]
    Fine,
    #[route(label = "")]
    Poor,
    #[route(label = 7)]
    Bad,
}

#[derive(Clone, Copy, Route)]
enum Nowhere {}

#[derive(Clone, Copy, Route)]
enum Generic<const WIDE: bool> {
    One,
    Other,
}

#[derive(Clone, Copy, Route)]
struct Way;

fn main() {}
