//! The connections of `check --connect`: to the MCP servers, and to the addresses of the models.

use std::time::Duration;

use countersign_engine::outgoing::host;
use countersign_server::{config::Config, outgoing};
use serde_json::{Value, json};

use crate::{
    Outcome,
    failure::{Exit, Failure},
    matches, mcp,
};

/// How long to wait for a model's address.
const MODEL_LIMIT: Duration = Duration::from_secs(10);

/// The results.
pub(crate) struct Reached {
    pub(crate) servers: Vec<mcp::Reached>,
    /// Each model with an address: whether it answers, or why not.
    models: Vec<(String, Result<(), String>)>,
    problems: Vec<String>,
}

/// Tries all at once, each for a limited time.
pub(crate) fn reach(config: &Config) -> Result<Reached, String> {
    let executor = tokio::runtime::Builder::new_current_thread().enable_all().build();
    let executor = executor.map_err(|error| format!("servers cannot be reached: {error}"))?;
    let models = config.models.iter().filter_map(|model| Some((model, model.provider.endpoint()?)));
    let models = models.map(|(model, at)| async move { (model.name.clone(), answers(&at.base_url).await) });
    let (servers, models) =
        executor.block_on(async { tokio::join!(mcp::reach(config), futures::future::join_all(models)) });
    let servers = servers?;
    let mut problems = mcp::problems(config, &servers);
    problems.extend(matches::unknown_tools(config, &servers)?);
    let silent = models.iter().filter_map(|(name, answered)| Some((name, answered.as_ref().err()?)));
    problems.extend(silent.map(|(name, why)| format!("[models.{name}] does not answer: {why}")));
    Ok(Reached { servers, models, problems })
}

/// Whether anything answers. The answer does not matter: no model is called, and no key is sent.
async fn answers(url: &str) -> Result<(), String> {
    let url = reqwest::Url::parse(url).map_err(|error| error.to_string())?;
    let sent = outgoing::client(&url, MODEL_LIMIT)?.get(url.clone()).send().await;
    let at = host(url.as_str()).unwrap_or_default();
    sent.map(drop).map_err(|error| format!("{at}: {}", outgoing::chain(error)))
}

impl Reached {
    /// The problems, a sentence each.
    pub(crate) fn problems(&self) -> &[String] {
        &self.problems
    }

    /// An error if there are problems.
    pub(crate) fn all(&self) -> Outcome {
        if self.problems.is_empty() { Ok(()) } else { Err(Failure::new(Exit::Found, self.problems.join("\n"))) }
    }

    pub(crate) fn in_words(&self) -> String {
        let model = |(name, answered): &(String, Result<(), String>)| {
            format!("model {name} {}", if answered.is_ok() { "answers" } else { "does not answer" })
        };
        let servers = (!self.servers.is_empty()).then(|| mcp::in_words(&self.servers));
        servers.into_iter().chain(self.models.iter().map(model)).collect::<Vec<_>>().join("\n")
    }

    pub(crate) fn models_json(&self) -> Value {
        let one = |(name, answered): &(String, Result<(), String>)| match answered {
            Ok(()) => json!({ "name": name, "answers": true }),
            Err(why) => json!({ "name": name, "answers": false, "error": why }),
        };
        self.models.iter().map(one).collect()
    }
}
