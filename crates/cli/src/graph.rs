//! `countersign graph` (spec G7, U3).

use std::path::PathBuf;

use clap::{Args, ValueEnum};
use countersign_core::{drawing::Drawing, journal::graph, wire::client::check_session_id};
use countersign_server::config::nearest;
use reqwest::Method;
use serde_json::json;

use crate::{
    Outcome, loaded,
    remote::Remote,
    say,
    terminal::{visible, visible_json},
};

/// The variable with the token for the server. An argument would be visible to every user of the machine.
const TOKEN: &str = "COUNTERSIGN_TOKEN";

/// Arguments of `graph`.
#[derive(Args)]
pub(crate) struct Graph {
    /// The agent; the first of the configuration if absent
    agent: Option<String>,
    /// The configuration file
    #[arg(long, value_name = "FILE", default_value = "countersign.toml")]
    config: PathBuf,
    /// A session of a running server, with its current position; the variable COUNTERSIGN_TOKEN has the token, if the
    /// server requires one
    #[arg(long, value_name = "ID", requires = "url", conflicts_with_all = ["agent", "config"])]
    session: Option<String>,
    /// The server's address, such as http://127.0.0.1:7410
    #[arg(long, value_name = "URL", requires = "session")]
    url: Option<String>,
    /// The format of the drawing
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
        check_session_id(session).map_err(|refusal| refusal.message)?;
        let server = Remote { url: url.clone(), token_env: TOKEN.to_owned() };
        let query = [("format", format.name().to_owned())];
        let drawn = server.ask(Method::GET, &["sessions", session, "graph"], &query, None)?;
        return say(&if format == Format::Json { visible_json(&drawn) } else { visible(drawn.trim_end()) });
    }
    let config = loaded::load(&graph.config)?;
    let names = || config.agents.iter().map(|agent| agent.name.as_str());
    let name = match &graph.agent {
        Some(name) => names().find(|known| known == name).ok_or_else(|| unknown(name, &names().collect::<Vec<_>>()))?,
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

fn unknown(name: &str, known: &[&str]) -> String {
    match nearest(name, known.iter().copied()) {
        Some(near) => format!("there is no agent {name:?}; did you mean {near:?}?"),
        None if known.is_empty() => format!("there is no agent {name:?}; the configuration has none at all"),
        None => format!("there is no agent {name:?}; there is {}", known.join(", ")),
    }
}
