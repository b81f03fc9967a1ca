//! `countersign check --config FILE`

use std::path::PathBuf;

use clap::Args;
use countersign_engine::{model::hosted_mcp::HostedApproval, outgoing::host};
use countersign_server::config::{
    Config, ConfigAgent, ConfigCompression, ConfigError, ConfigHostedMcp, ConfigRuns, ConfigStrategy,
};
use countersign_tools::builtin::Hosts;
use serde_json::{Value, json};

use crate::{
    Outcome, asks,
    failure::{Exit, Failure},
    loaded::{self, TLS_EXPECTED, expects_tls, in_words},
    matches::{Matches, hosted},
    mcp, policy,
    reach::{self, Reached},
    rules, say,
    terminal::{tell, visible, visible_json},
};

/// Arguments of `check`.
#[derive(Args)]
pub(crate) struct Check {
    /// The configuration file
    #[arg(long, value_name = "FILE", default_value = "countersign.toml")]
    config: PathBuf,
    /// Print JSON
    #[arg(long)]
    json: bool,
    /// Also connect to the MCP servers and the models' addresses, and list the servers' tools
    #[arg(long)]
    connect: bool,
}

/// Checks the file.
pub(crate) fn run(check: &Check) -> Outcome {
    match (Config::load(&check.config), check.json) {
        (Ok(config), false) => {
            config.warnings.iter().for_each(|warning| tell(&visible(&format!("warning: {warning}"))));
            let reached = reached(check, &config)?;
            say(&visible(&found(&config, reached.as_ref())?))?;
            let Some(reached) = reached else { return Ok(()) };
            say(&visible(&reached.in_words()))?;
            reached.all()
        }
        (Ok(config), true) => {
            let reached = reached(check, &config)?;
            let mut found = found_json(&config, reached.as_ref())?;
            let Some(reached) = reached else { return say_json(&found) };
            found["mcp_reached"] = mcp::as_json(&reached.servers);
            found["models_reached"] = reached.models_json();
            found["problems"] = json!(reached.problems());
            found["ok"] = json!(reached.problems().is_empty());
            say_json(&found)?;
            reached.all()
        }
        (Err(errors), false) => Err(wrong(check, &errors)),
        (Err(errors), true) => {
            say_json(&json!({ "ok": false, "errors": errors.iter().map(error_json).collect::<Vec<_>>() }))?;
            Err(wrong(check, &errors))
        }
    }
}

/// Prints a document, with the texts of servers in it.
fn say_json(found: &Value) -> Outcome {
    say(&visible_json(&found.to_string()))
}

/// The errors in the file, or why it could not be read, so that nothing was checked.
fn wrong(check: &Check, errors: &[ConfigError]) -> Failure {
    let exit = if errors.iter().all(|error| error.line == 0) { Exit::Error } else { Exit::Found };
    Failure::new(exit, in_words(&check.config, errors))
}

/// Which servers and models answer, if that was asked. Called before anything is printed, since the output has the
/// servers' tools.
fn reached(check: &Check, config: &Config) -> Result<Option<Reached>, String> {
    check.connect.then(|| reach::reach(config)).transpose()
}

fn error_json(error: &ConfigError) -> Value {
    json!({
        "file": error.file,
        "line": (error.line > 0).then_some(error.line),
        "column": error.column,
        "message": error.message,
        "suggestion": error.suggestion,
    })
}

fn found(config: &Config, reached: Option<&Reached>) -> Result<String, String> {
    use std::fmt::Write as _;
    let judge = policy::judge(config)?;
    let matches = Matches::of(config, &judge, reached.map(|reached| &*reached.servers))?;
    let encrypted =
        config.store_keys.first().map(|key| format!(", encrypted with the key {:?},", key.id)).unwrap_or_default();
    let mut text = format!("ok: {}{encrypted} on {}", loaded::store(config), config.server.listen);
    for agent in &config.agents {
        // Writing to a string cannot fail.
        let _ = write!(text, "\nagent {} (model {})", agent.name, agent.model);
        if let Some(compression) = &agent.compression {
            let _ = write!(text, "\n  compression: {compression}");
        }
        for name in &agent.tools {
            let asks = asks::of_tool(config, name);
            let judged = rules::lines_for(config, matches.of_tool(&agent.name, name));
            let _ = write!(text, "\n  tool {name}: {asks}{judged}");
        }
        if !agent.handoffs.is_empty() {
            let _ = write!(text, "\n  hands over to {}", agent.handoffs.join(", "));
        }
        for server in hosted(config, agent) {
            let _ = write!(text, "\n  {}", hosted_in_words(server));
        }
        for name in &agent.mcp {
            let asks = config.mcp.iter().find(|server| server.name == *name).map(mcp::server_in_words);
            let judged = rules::lines_for(config, matches.of_server(&agent.name, name));
            let _ = write!(text, "\n  MCP server {name}: {}{judged}", asks.unwrap_or_default());
        }
    }
    text.push_str(&rules::in_words(config, &judge, &matches));
    for webhook in &config.webhooks {
        let (format, host) = (webhook.format.name(), webhook.host().unwrap_or_default());
        let _ = write!(text, "\nwebhook {}: {format} messages to {host}", webhook.name);
    }
    let people = config.tokens.len();
    let _ = match people {
        _ if !config.is_open() && people == 0 => Ok(()),
        0 => write!(
            text,
            "\nno [[auth.tokens]]: only this machine can reach the server, and everybody on it may do everything; so may \
             anyone whom a proxy on it lets in"
        ),
        _ => write!(text, "\n{people} {}", if people == 1 { "token" } else { "tokens" }),
    };
    if let Some(jwt) = &config.jwt {
        let _ = write!(text, "\nJWTs of {} for {}", jwt.issuer, jwt.audience);
        if rules::needs_roles(config) {
            text.push_str("; they say who holds which role, so it is unknown whether people can satisfy every rule");
        }
    }
    if !config.is_open() && expects_tls(config.server.listen.ip()) {
        let _ = write!(text, "\n{TLS_EXPECTED}");
    }
    Ok(text)
}

fn hosted_in_words(server: &ConfigHostedMcp) -> String {
    let ConfigHostedMcp { label, server_url, require_approval, approval, .. } = server;
    let at = host(server_url).unwrap_or_default();
    let named = |names: &[String]| names.iter().map(|name| format!("{name:?}")).collect::<Vec<_>>().join(", ");
    let asked = match require_approval {
        HostedApproval::Always => "asks about every call".to_owned(),
        HostedApproval::Never => {
            return format!(
                "MCP server {label} of the provider, at {at}: it asks about no call, and no rule here can stop one"
            );
        }
        HostedApproval::Lists { never, .. } if never.is_empty() => "asks about every call".to_owned(),
        HostedApproval::Lists { never, .. } => format!("asks about all calls except those of {}", named(never)),
    };
    let decided = asks::decides(&approval.require);
    format!("MCP server {label} of the provider, at {at}: it {asked}, and {decided}")
}

fn found_json(config: &Config, reached: Option<&Reached>) -> Result<Value, String> {
    let judge = policy::judge(config)?;
    let matches = Matches::of(config, &judge, reached.map(|reached| &*reached.servers))?;
    let compression = |compression: &ConfigCompression| {
        let (strategy, model) = match &compression.strategy {
            ConfigStrategy::Summary { model } => ("summary", model.as_deref()),
            ConfigStrategy::Trim => ("trim", None),
        };
        json!({ "context_tokens": compression.context_tokens, "keep_turns": compression.keep_turns, "strategy": strategy, "model": model })
    };
    let agent = |agent: &ConfigAgent| {
        let compression = agent.compression.as_ref().map(compression);
        json!({ "name": agent.name, "model": agent.model, "tools": agent.tools, "handoffs": agent.handoffs, "mcp": agent.mcp, "compression": compression })
    };
    Ok(json!({
        "ok": true,
        "listen": config.server.listen,
        "store": loaded::store(config),
        "store_keys": config.store_keys.iter().map(|key| &key.id).collect::<Vec<_>>(),
        "agents": config.agents.iter().map(agent).collect::<Vec<_>>(),
        "models": config.models.iter()
            .map(|model| json!({ "name": model.name, "provider": model.provider.name() }))
            .collect::<Vec<_>>(),
        "tools": config.tools.iter().filter(|tool| runs_elsewhere(&tool.runs)).map(|tool| &tool.name).collect::<Vec<_>>(),
        "http": config.tools.iter().filter_map(|tool| match &tool.runs {
            ConfigRuns::Http(request) => Some(json!({ "name": tool.name, "request": request.describe() })),
            _ => None,
        }).collect::<Vec<_>>(),
        "computer": config.computer.as_ref().map(|computer| json!({
            "program": computer.program, "start_page": computer.start_page,
            "hosts": computer.hosts.as_ref().map(Hosts::as_slice),
            "width": computer.width, "height": computer.height,
            "sandbox": computer.sandbox, "max_browsers": computer.max_browsers,
        })),
        "mcp": config.mcp.iter().map(|server| &server.name).collect::<Vec<_>>(),
        "hosted_mcp": config.models.iter().flat_map(|model| model.hosted_mcp.iter().map(move |server| json!({
            "model": model.name, "label": server.label, "host": host(&server.server_url),
            "require_approval": match &server.require_approval {
                HostedApproval::Always => json!("always"),
                HostedApproval::Never => json!("never"),
                HostedApproval::Lists { always, never } => json!({ "always": always, "never": never }),
            },
        }))).collect::<Vec<_>>(),
        "webhooks": config.webhooks.iter().map(|webhook| json!({
            "name": webhook.name, "format": webhook.format.name(), "host": webhook.host(),
        })).collect::<Vec<_>>(),
        "policy": rules::as_json(config, &judge, &matches),
        "subjects": config.tokens.iter().map(|token| &token.subject).collect::<Vec<_>>(),
        "jwt": config.jwt.as_ref().map(|jwt| json!({ "issuer": jwt.issuer, "audience": jwt.audience })),
        "roles_known": config.jwt.is_none() || !rules::needs_roles(config),
        "tls_expected": !config.is_open() && expects_tls(config.server.listen.ip()),
        "warnings": config.warnings.iter().map(error_json).collect::<Vec<_>>(),
    }))
}

/// Whether it is neither built in nor an agent.
fn runs_elsewhere(runs: &ConfigRuns) -> bool {
    matches!(runs, ConfigRuns::Command { .. } | ConfigRuns::Http(_) | ConfigRuns::Mcp { .. })
}
