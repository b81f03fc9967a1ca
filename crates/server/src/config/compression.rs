//! `[agents.*.compression]`.

use countersign_core::limits;

use super::{reader::Section, server::unknown};

/// Largest budget that can be configured, in tokens.
pub const BUDGET_MAX: u32 = 100_000_000;
/// Most turns that can be kept.
pub const KEEP_MAX: u32 = 10_000;

/// When the conversation of an agent is made shorter, and how (spec G5).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ConfigCompression {
    /// Most tokens of a model call.
    pub budget: u32,
    /// How many of the newest turns are kept as they are.
    pub keep: u32,
    /// What becomes of the others.
    pub strategy: ConfigStrategy,
}

/// What becomes of what is cut.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ConfigStrategy {
    /// A model summarises it: the agent's own, if none of the declared ones is named.
    Summary {
        /// Its name.
        model: Option<String>,
    },
    /// It is dropped.
    Trim,
}

const STRATEGIES: [&str; 2] = ["summary", "trim"];

pub(super) fn read(section: &Section<'_>, models: &[&str]) -> Option<ConfigCompression> {
    if section.has("budget").is_none() {
        section.document.error(section.at, format!("missing \"budget\"{}", section.place()));
    }
    let budget = section.whole("budget", 1..=BUDGET_MAX, " tokens");
    let keep = section.whole("keep", 1..=KEEP_MAX, " turns").map_or(limits::KEPT_TURNS, |turns| turns.value);
    let strategy = section.string("strategy");
    let model = section.string("model");
    section.finish();
    let trims = strategy.as_ref().is_some_and(|strategy| strategy.value == "trim");
    if let Some(strategy) = strategy.filter(|strategy| !STRATEGIES.contains(&&*strategy.value)) {
        unknown(section, "strategy", &strategy, STRATEGIES);
    }
    if let Some(model) = &model {
        if trims {
            section.bad(model.at, "model", "means nothing to the strategy \"trim\", which asks no model");
        } else if !models.contains(&&*model.value) {
            unknown(section, "model", model, models.iter().copied());
        }
    }
    let model = model.map(|model| model.value);
    let strategy = if trims { ConfigStrategy::Trim } else { ConfigStrategy::Summary { model } };
    Some(ConfigCompression { budget: budget?.value, keep, strategy })
}

impl std::fmt::Display for ConfigCompression {
    /// In words, as `countersign check` prints it.
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let ConfigCompression { budget, keep, strategy } = self;
        let turns = if *keep == 1 { "the newest turn".to_owned() } else { format!("the newest {keep} turns") };
        write!(f, "above {budget} tokens, what came before {turns} is ")?;
        match strategy {
            ConfigStrategy::Trim => write!(f, "dropped"),
            ConfigStrategy::Summary { model: None } => write!(f, "summarised by its own model"),
            ConfigStrategy::Summary { model: Some(model) } => write!(f, "summarised by the model {model}"),
        }
    }
}
