//! `[agents.*.compression]`.

use countersign_core::limits;
use serde_json::json;

use super::{
    describe::Part,
    reader::Section,
    table::{choice, declared, flat, whole},
};

/// The most `context_tokens` that can be configured.
pub const CONTEXT_TOKENS_MAX: u32 = 100_000_000;
/// Most turns that can be kept.
pub const KEEP_TURNS_MAX: u32 = 10_000;

table! {
    /// When the conversation of an agent is compressed, and how (spec G5).
    #[derive(Clone, Debug, PartialEq, Eq)]
    pub struct ConfigCompression(section) {
        /// Most tokens of a model call. Leave room for the answer: the model's own limit counts both.
        context_tokens: u32 = whole(1..=CONTEXT_TOKENS_MAX, "tokens").required();
        /// How many of the newest turns are kept unchanged, including the current one.
        keep_turns: u32 = whole(1..=KEEP_TURNS_MAX, "turns").or(limits::KEPT_TURNS);
        /// What happens to the older turns.
        strategy: ConfigStrategy = flat(strategy);
    }
}

/// What happens to the turns that are cut.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ConfigStrategy {
    /// A model summarises it: the agent's own, unless another is named.
    Summary {
        /// Its name.
        model: Option<String>,
    },
    /// It is dropped.
    Trim,
}

fn strategy(section: &Section<'_>) -> Option<ConfigStrategy> {
    let doc = "What happens to the turns that are cut: a model summarises them, or (`\"trim\"`) they are dropped.";
    let known = choice("strategy", vec![("summary", false), ("trim", true)]);
    let trims = section.field("strategy", doc, known.or_as("`\"summary\"`", || false))?;
    let part = Part {
        of: "`\"summary\"`",
        when: json!({ "not": { "required": ["strategy"], "properties": { "strategy": { "const": "trim" } } } }),
        not_meant: trims.then(|| "means nothing to the strategy \"trim\", which asks no model".to_owned()),
    };
    let model = declared("model", "name under `[models]`", |names| &names.models).optional("the agent's own");
    let model = section.field("model", "The model that writes the summary.", model.of(part))?;
    Some(if trims { ConfigStrategy::Trim } else { ConfigStrategy::Summary { model } })
}

impl std::fmt::Display for ConfigCompression {
    /// In words, as `countersign check` prints it.
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let ConfigCompression { context_tokens, keep_turns, strategy } = self;
        let turns =
            if *keep_turns == 1 { "the newest turn".to_owned() } else { format!("the newest {keep_turns} turns") };
        write!(f, "above {context_tokens} tokens, what came before {turns} is ")?;
        match strategy {
            ConfigStrategy::Trim => write!(f, "dropped"),
            ConfigStrategy::Summary { model: None } => write!(f, "summarised by its own model"),
            ConfigStrategy::Summary { model: Some(model) } => write!(f, "summarised by the model {model}"),
        }
    }
}
