//! The macros of the crate `countersign`, which exports them as `countersign::graph::{GraphState, Route}` and `countersign::tool`.
//!
//! Their expansion refers only to `::countersign`, so that a crate that uses them needs no other dependency.

mod attribute;
mod field;
mod route;
mod state;
mod tool;

use proc_macro::TokenStream;

/// Makes a struct the state of a graph (spec G1), and generates the type of its updates: `EssayUpdate` for `Essay`.
///
/// The struct has named fields, and is `Clone`, `Serialize` and `Deserialize`. Each field combines the updates of a
/// step with one reducer:
///
/// | at the field | what an update does | the field's type |
/// |---|---|---|
/// | nothing | sets it; two nodes that set it in one step are an error | any |
/// | `#[graph(append)]` | adds items at the end | `Vec`, `VecDeque`, ... |
/// | `#[graph(append_by_id)]` | adds items at the end, or in the place of the item with the same id; removes items by id | `Vec` of `Identified` items |
/// | `#[graph(merge)]` | adds entries; an entry takes the place of one with the same key | maps and sets |
/// | `#[graph(add)]` | adds a number; a sum that does not fit is an error | integers, floats, `Duration` |
/// | `#[graph(max)]`, `#[graph(min)]` | the greater or the smaller one stays | `PartialOrd` |
/// | `#[graph(reduce = path)]` | calls `fn(&mut T, T)` | any |
///
/// Updates are reduced in the order of the tasks of the step. A field that has a reducer can be replaced as well, by
/// one task of a step; the other tasks' additions are then made to the replacement.
///
/// # The update
/// `EssayUpdate::new()` changes nothing. For each field there is a method of its name, which sets it or adds to it, for
/// a field with a reducer also `replace_<field>`, and for `append_by_id` also `remove_<field>`. They take the field's
/// type (for a `String` anything that converts to one), and those of `append`, `append_by_id` and `merge` any iterator
/// over the items. An update is `Clone`, `Debug`, `Default`, `PartialEq`, `Serialize` and `Deserialize`; it is shown
/// and compared as JSON.
///
/// # The update in JSON
/// It is an object with exactly the fields that change, under their serde names in the state (`rename`, `rename_all`
/// and `alias` count). A field without a reducer has the new value. One with a reducer has `{"add": value}`,
/// `{"replace": value}` or both, for `append_by_id` also `{"remove": ["id"]}`; the operations of one object are applied
/// in the order `replace`, `remove`, `add`. Any other order is a list of such objects.
///
/// # Errors
/// Anything but a struct with named fields, lifetimes, an unknown or a second reducer, and serde attributes that would
/// make an update's form differ from the state's do not compile.
#[proc_macro_derive(GraphState, attributes(graph))]
pub fn graph_state(input: TokenStream) -> TokenStream {
    written(syn::parse(input).and_then(|input| state::derive(&input)))
}

/// Makes an enum the routes that lead on from a node (spec G1).
///
/// The enum is `Copy` and its variants have no data. A route is labelled with the words of the variant's name
/// (`NeedsReview` is "needs review"), or with the variant's `#[route(label = "...")]`; labels are unique within an
/// enum. Where each one leads is defined where the route is built, with a `match` that the compiler checks.
///
/// # Errors
/// Anything but an enum with at least one variant, variants with data, generics, and empty or duplicate labels do not
/// compile.
#[proc_macro_derive(Route, attributes(route))]
pub fn route(input: TokenStream) -> TokenStream {
    written(syn::parse(input).and_then(|input| route::derive(&input)))
}

/// Makes an async function a tool (spec S1). The function of that name then returns the tool, for `Agent::tool`:
///
/// ```ignore
/// /// Get the weather for a given city.
/// #[tool(needs_approval = |_call, args| args.location == "San Francisco")]
/// async fn get_weather(
///     /// The city.
///     location: String,
/// ) -> String {
///     format!("The weather in {location} is sunny")
/// }
/// let agent = Agent::new("weather", model).tool(get_weather);
/// ```
///
/// - Its arguments are the tool's, with the schema of their types (`Deserialize` and `JsonSchema`); they form the
///   struct `GetWeatherArgs`. An `Option` may be omitted, and a call or an edit with any other argument is refused,
///   unless an argument has `#[serde(flatten)]` or an `alias`. Doc comments on them, and their serde and schemars
///   attributes, are moved to the fields of the struct. The function's doc comment is the tool's description.
/// - It may take a `ToolContext` first: its call, and the application's own data.
/// - It returns anything serializable: a text unchanged, anything else as JSON. If it returns a `Result`, also
///   through an alias, the error's text is an error for the model.
///
/// | option | meaning |
/// |---|---|
/// | `name = "…"` | what the model calls it; the function's name if absent. Providers take 1 to 64 of the characters `A-Z a-z 0-9 _ -` |
/// | `description = "…"` | what the model reads about it, instead of the doc comment |
/// | `needs_approval` | a person is asked; also `= true` and `= false` |
/// | `needs_approval = \|call, args\| …` | a person is asked if it says so: `bool`, or a `Result` whose error asks too |
/// | `needs_approval = async \|call, args\| …`, `= path` | the same, by an async closure or an async function of `ProposedCall` and the arguments |
/// | `timeout = 300` | seconds to decide, 0 for ever; if absent as for every `countersign::tool::Approval` |
/// | `allow(approve, reject, …)` | what the reviewer may do: `approve`, `edit`, `reject` and `defer` if absent; there is `respond` too. Without `defer` a reviewer at a server cannot defer it while others under its key are decided; a program that continues a `RunState` can leave it undecided |
/// | `idempotent` | a second attempt of the same call does nothing more than the first |
/// | `read_only` | it changes nothing: a hint for policies |
/// | `derive(Clone, serde::Serialize)` | what the struct of the arguments derives, besides `Deserialize` and `JsonSchema` |
/// | `time_limit = 30` | seconds to run; after that it is stopped, and its outcome is an error for the model |
#[proc_macro_attribute]
pub fn tool(options: TokenStream, function: TokenStream) -> TokenStream {
    written(syn::parse(function).and_then(|function| tool::expand(options.into(), &function)))
}

fn written(result: syn::Result<proc_macro2::TokenStream>) -> TokenStream {
    result.unwrap_or_else(|error| error.into_compile_error()).into()
}
