//! A program's limits on a run's cost, and its texts for rejected calls.

use std::{collections::BTreeMap, sync::Arc};

use countersign_core::journal::record::Usage;

/// A call that was rejected without a message: see [`RunConfig::tool_error_formatter`](crate::runner::config::RunConfig::tool_error_formatter).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct RejectedCall<'a> {
    /// The tool.
    pub tool: &'a str,
    /// The call's id from the model.
    pub call_id: &'a str,
    /// The default message to the model.
    pub default: &'a str,
}

/// See [`RunConfig::tool_error_formatter`](crate::runner::config::RunConfig::tool_error_formatter).
#[derive(Clone)]
pub(crate) struct ToolErrorFormatter(pub(crate) Arc<dyn Fn(RejectedCall<'_>) -> Option<String> + Send + Sync>);

impl ToolErrorFormatter {
    pub(crate) fn text(&self, tool: &str, call_id: &str, default: &str) -> Option<String> {
        (self.0)(RejectedCall { tool, call_id, default })
    }
}

/// The price of a model per million tokens, in any currency.
#[derive(Clone, Copy, Debug, PartialEq)]
#[non_exhaustive]
pub struct Price {
    /// Input tokens.
    pub input: f64,
    /// Output tokens.
    pub output: f64,
}

impl Price {
    /// A price per million tokens, in any currency.
    #[must_use]
    pub fn new(input: f64, output: f64) -> Price {
        Price { input, output }
    }
}

/// The budget of a run: the most that its session may have used.
#[derive(Clone, Debug, Default)]
pub(crate) struct Limits {
    pub(crate) tokens: Option<u64>,
    pub(crate) money: Option<f64>,
    pub(crate) prices: BTreeMap<Arc<str>, Price>,
}

impl Limits {
    /// The first of these models that has no price, if cost is limited.
    pub(crate) fn unpriced<'a>(&self, models: impl IntoIterator<Item = &'a Arc<str>>) -> Option<&'a Arc<str>> {
        self.money?;
        models.into_iter().find(|model| !self.prices.contains_key(*model))
    }

    /// The cost of this usage.
    pub(crate) fn cost(&self, spent: &BTreeMap<Arc<str>, Usage>) -> f64 {
        #[expect(clippy::cast_precision_loss, reason = "tokens of a run are far below what a float can count")]
        let million = |tokens: u64| tokens as f64 / 1e6;
        let of = |(model, usage): (&Arc<str>, &Usage)| {
            let price = self.prices.get(model)?;
            Some(million(usage.input_tokens) * price.input + million(usage.output_tokens) * price.output)
        };
        spent.iter().filter_map(of).sum()
    }
}

/// A session's usage, as text. A sum of prices is rounded to a billionth, to hide rounding errors of doubles.
pub(crate) fn over_budget(what: &str, spent: f64, limit: f64) -> String {
    if what == "tokens" {
        return format!("the session has used {spent} tokens of at most {limit}");
    }
    // An empty sum is -0.
    let told = |money: f64| (money * 1e9).round() / 1e9 + 0.0;
    format!("the session has cost {} of at most {}", told(spent), told(limit))
}
