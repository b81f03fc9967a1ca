//! `countersign graph` (SPEC G7, U3).

use std::{path::PathBuf, time::Duration};

use clap::{Args, ValueEnum};
use countersign::core::{drawing::Drawing, journal::graph, wire::client::check_session_id};
use countersign_server::{
    config::{Config, nearest},
    outgoing,
};
use reqwest::Url;
use serde_json::{Value, json};

use crate::{Outcome, check, say};

/// The longest time a server may take for its answer.
const TIMEOUT: Duration = Duration::from_secs(30);
/// The variable with the token for the server. An argument could be read by everybody on the machine.
const TOKEN: &str = "COUNTERSIGN_TOKEN";

/// Arguments of `graph`.
#[derive(Args)]
pub(crate) struct Graph {
    /// The agent; the first of the configuration if none is named
    agent: Option<String>,
    /// The configuration file
    #[arg(long, value_name = "FILE", default_value = "countersign.toml")]
    config: PathBuf,
    /// This session of a running server, with where it stands; the variable COUNTERSIGN_TOKEN has the token, if the
    /// server wants one
    #[arg(long, value_name = "ID", requires = "url", conflicts_with_all = ["agent", "config"])]
    session: Option<String>,
    /// The server's address, such as http://127.0.0.1:7410
    #[arg(long, value_name = "URL", requires = "session")]
    url: Option<Url>,
    /// The language of the drawing
    #[arg(long, value_enum, default_value_t)]
    format: Format,
    /// Print JSON; the same as --format json
    #[arg(long, conflicts_with = "format")]
    json: bool,
}

#[derive(Clone, Copy, Default, PartialEq, ValueEnum)]
enum Format {
    /// A flow chart for Mermaid, which many editors and forges draw
    #[default]
    Mermaid,
    /// For Graphviz: `countersign graph --format dot | dot -Tsvg`
    Dot,
    /// Nodes, edges and positions as data
    Json,
}

impl Format {
    fn name(self) -> &'static str {
        match self {
            Format::Mermaid => "mermaid",
            Format::Dot => "dot",
            Format::Json => "json",
        }
    }
}

/// Draws the graph.
pub(crate) fn run(graph: &Graph) -> Outcome {
    let format = if graph.json { Format::Json } else { graph.format };
    if let (Some(session), Some(url)) = (&graph.session, &graph.url) {
        let executor = tokio::runtime::Builder::new_current_thread().enable_all().build();
        let executor = executor.map_err(|error| error.to_string())?;
        let text = executor.block_on(ask(url, session, format))?;
        return say(text.trim_end());
    }
    let config = Config::load(&graph.config).map_err(|errors| check::lines(&errors))?;
    let names = || config.agents.iter().map(|agent| agent.name.as_str());
    let name = match &graph.agent {
        Some(name) => names().find(|known| known == name).ok_or_else(|| unknown(name, names().collect()))?,
        None => names().next().ok_or_else(|| format!("{} has no agents", graph.config.display()))?,
    };
    let drawing = graph::drawing(None);
    say(drawn(name, &drawing, format).trim_end())
}

fn drawn(agent: &str, drawing: &Drawing, format: Format) -> String {
    match format {
        Format::Mermaid => drawing.to_mermaid(),
        Format::Dot => drawing.to_dot(),
        Format::Json => json!({ "agent": agent, "drawing": drawing }).to_string(),
    }
}

fn unknown(name: &str, known: Vec<&str>) -> String {
    match nearest(name, known.iter().copied()) {
        Some(near) => format!("there is no agent {name:?}; did you mean {near:?}?"),
        None if known.is_empty() => format!("there is no agent {name:?}; the configuration has none at all"),
        None => format!("there is no agent {name:?}; there is {}", known.join(", ")),
    }
}

/// Asks a running server.
async fn ask(server: &Url, session: &str, format: Format) -> Result<String, String> {
    check_session_id(session).map_err(|refusal| refusal.message)?;
    // In an address they would be steps to elsewhere.
    if matches!(session, "." | "..") {
        return Err(format!("a session with the id {session:?} cannot be asked for over HTTP"));
    }
    let mut url = server.clone();
    let no_server = || format!("{server} is no address of a server; it should be like http://127.0.0.1:7410");
    if !matches!(url.scheme(), "http" | "https") {
        return Err(no_server());
    }
    url.path_segments_mut().map_err(|()| no_server())?.pop_if_empty().extend(["v1", "sessions", session, "graph"]);
    url.set_query(Some(&format!("format={}", format.name())));
    url.set_fragment(None);
    let token = std::env::var(TOKEN).ok();
    if token.is_some() && url.scheme() == "http" && !outgoing::is_loopback(&url) {
        return Err(format!("{server} is not this machine: {TOKEN} would be sent there unencrypted; use https"));
    }
    let mut request = outgoing::client(&url, TIMEOUT)?.get(url);
    if let Some(token) = token {
        request = request.bearer_auth(token);
    }
    let unreachable = |error| format!("no answer from {server}: {}", outgoing::chain(error));
    let answer = request.send().await.map_err(unreachable)?;
    let status = answer.status();
    let text = answer.text().await.map_err(unreachable)?;
    if status.is_success() {
        return Ok(text);
    }
    let problem: Option<Value> = serde_json::from_str(&text).ok();
    let detail = problem.as_ref().and_then(|problem| problem["detail"].as_str());
    let hint =
        if status == reqwest::StatusCode::UNAUTHORIZED { format!("; {TOKEN} has the token") } else { String::new() };
    match detail {
        Some(detail) => Err(format!("{server} says: {detail}{hint}")),
        None => Err(format!("{server} answered {status}; is it a Countersign server?{hint}")),
    }
}
