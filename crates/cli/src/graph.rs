//! `countersign graph` (spec G7, U3).

use std::path::PathBuf;

use clap::{
    ArgMatches, Args, Command, FromArgMatches, ValueEnum,
    error::{Error, ErrorKind},
};
use countersign_core::{drawing::Drawing, journal::graph};
use countersign_server::config::nearest;
use reqwest::Method;
use serde_json::json;

use crate::{
    Outcome,
    desk::is_typed,
    failure::{Exit, Failure},
    loaded,
    remote::{Remote, check_id},
    say,
    terminal::{visible, visible_json},
};

/// Arguments of `graph`.
#[derive(Args)]
pub(crate) struct Graph {
    // Before the session, which is taken out of the matches once it is read.
    #[command(flatten)]
    server: OfSession,
    /// The agent; the first of the configuration if absent
    agent: Option<String>,
    /// The configuration file
    #[arg(long, value_name = "FILE", default_value = "countersign.toml")]
    config: PathBuf,
    /// A session of a running server instead, with its current position
    #[arg(long, value_name = "ID", conflicts_with_all = ["agent", "config"])]
    session: Option<String>,
    /// The format of the drawing
    #[arg(long, value_enum, default_value_t)]
    format: Format,
    /// Print JSON; the same as --format json
    #[arg(long, conflicts_with = "format")]
    json: bool,
}

/// The server of the session. A typed address without a session is a mistake; one in the environment is not.
struct OfSession(Remote);

impl FromArgMatches for OfSession {
    fn from_arg_matches(matches: &ArgMatches) -> Result<OfSession, Error> {
        if is_typed(matches, "url") && !is_typed(matches, "session") {
            let text = "the argument '--url' needs '--session': an agent's graph is read from the configuration\n";
            return Err(Error::raw(ErrorKind::MissingRequiredArgument, text));
        }
        Remote::from_arg_matches(matches).map(OfSession)
    }

    fn update_from_arg_matches(&mut self, matches: &ArgMatches) -> Result<(), Error> {
        *self = OfSession::from_arg_matches(matches)?;
        Ok(())
    }
}

impl Args for OfSession {
    fn augment_args(command: Command) -> Command {
        Remote::augment_args(command)
    }

    fn augment_args_for_update(command: Command) -> Command {
        Remote::augment_args_for_update(command)
    }
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
    if let Some(session) = &graph.session {
        check_id(session)?;
        let query = [("format", format.name().to_owned())];
        let drawn = graph.server.0.ask(Method::GET, &["sessions", session, "graph"], &query, None)?;
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

fn unknown(name: &str, known: &[&str]) -> Failure {
    let text = match nearest(name, known.iter().copied()) {
        Some(near) => format!("there is no agent {name:?}; did you mean {near:?}?"),
        None => format!("there is no agent {name:?}; there is {}", known.join(", ")),
    };
    Failure::new(Exit::NotFound, text)
}
