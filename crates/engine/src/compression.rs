//! When and how an agent's conversation is compressed (spec G5).
//!
//! Only the session's own conversation is compressed. A nested agent's conversation is a single turn, from its task to
//! its answer, and cuts are made only between turns. Its size is bounded by the agent's `max_turns`, by the budget of
//! model calls that all agents of a turn share, and by the 256 KiB limit of a result. If it still outgrows the
//! provider's limit, the model call fails permanently and the nested agent ends. The calling agent's model gets the
//! error as the result of its call, and can ask for less. The calling agent's conversation grows only by that one
//! result.

use std::sync::Arc;

use countersign_core::limits;

use crate::model::Model;

/// Keeps the model calls of an agent within a number of tokens.
///
/// When the next call would have more tokens, everything before the newest turns is replaced by a summary, or dropped.
/// That affects only what the models read: events, history and the audit log keep everything.
///
/// ```
/// # use countersign_engine::compression::Compression;
/// let compression = Compression::summary(100_000).keep_turns(4);
/// assert_eq!((compression.context_tokens, compression.keep_turns), (100_000, 4));
/// ```
#[derive(Clone)]
pub struct Compression {
    /// The maximum number of tokens of a model call.
    pub context_tokens: u64,
    /// How many of the newest turns stay unchanged.
    pub keep_turns: u32,
    /// What happens to the older turns.
    pub strategy: Strategy,
}

/// What happens to the older turns.
#[derive(Clone)]
pub enum Strategy {
    /// This model writes a summary; if `None`, the agent's own does.
    Summary(Option<(Arc<str>, Arc<dyn Model>)>),
    /// The older turns are dropped.
    Trim,
}

impl Compression {
    /// A model summarises the older turns: the agent's own, unless [`Compression::model`] names another. If that fails,
    /// or the summary is empty or no shorter, they are dropped.
    #[must_use]
    pub fn summary(context_tokens: u64) -> Compression {
        Compression { context_tokens, keep_turns: limits::KEPT_TURNS, strategy: Strategy::Summary(None) }
    }

    /// The older turns are dropped.
    #[must_use]
    pub fn trim(context_tokens: u64) -> Compression {
        Compression { context_tokens, keep_turns: limits::KEPT_TURNS, strategy: Strategy::Trim }
    }

    /// How many of the newest turns are kept unchanged, including the current one, so at least 1: with 0 the agent is
    /// refused. A turn is a user's message with all that follows from it.
    #[must_use]
    pub fn keep_turns(mut self, turns: u32) -> Compression {
        self.keep_turns = turns;
        self
    }

    /// The name of the model that writes the summary, if it is not the agent's own.
    pub fn model_name(&self) -> Option<&Arc<str>> {
        match &self.strategy {
            Strategy::Summary(Some((name, _))) => Some(name),
            Strategy::Summary(None) | Strategy::Trim => None,
        }
    }

    /// The model that writes the summary, known in journals as `name`. Ignored if nothing is summarised.
    #[must_use]
    pub fn model(mut self, name: impl Into<Arc<str>>, model: Arc<dyn Model>) -> Compression {
        if let Strategy::Summary(summariser) = &mut self.strategy {
            *summariser = Some((name.into(), model));
        }
        self
    }

    /// Whether both are the same.
    #[must_use]
    pub fn is_the_same(&self, other: &Compression) -> bool {
        let Compression { context_tokens, keep_turns, strategy } = self;
        let strategies = match (strategy, &other.strategy) {
            (Strategy::Trim, Strategy::Trim) | (Strategy::Summary(None), Strategy::Summary(None)) => true,
            (Strategy::Summary(Some((name, model))), Strategy::Summary(Some((other_name, other_model)))) => {
                name == other_name && Arc::ptr_eq(model, other_model)
            }
            _ => false,
        };
        *context_tokens == other.context_tokens && *keep_turns == other.keep_turns && strategies
    }
}
