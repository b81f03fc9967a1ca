//! `countersign serve --config FILE`

use std::{net::SocketAddr, path::PathBuf, sync::Arc, time::Duration};

use clap::Args;
use countersign_engine::{compression::Compression, model::Model};
use countersign_runtime::{
    agent::{Agent, team::AgentRef},
    run::Runtime,
};
use countersign_server::{
    Auth, Options, Server, Webhooks,
    config::{
        Config, ConfigCompression, ConfigStrategy, ConfigWebhook, guardrails, mcp_servers, sources, tool_entries,
    },
};
use countersign_store::Store;
use tokio::{
    net::TcpListener,
    runtime::Handle,
    signal::unix::{Signal, SignalKind, signal},
};

use crate::{
    Outcome,
    loaded::{TLS_EXPECTED, expects_tls, keys, lines, open},
    models,
    reload::{Seen, Watched},
    say, traces,
};

/// How long threads may take to end after everything has stopped.
const ENDING: Duration = Duration::from_secs(1);

/// Arguments of `serve`.
#[derive(Args)]
pub(crate) struct Serve {
    /// The configuration file
    #[arg(long, value_name = "FILE", default_value = "countersign.toml")]
    pub(crate) config: PathBuf,
    /// The address, instead of the file's; port 0 picks a free one
    #[arg(long, value_name = "ADDR")]
    pub(crate) listen: Option<SocketAddr>,
}

/// Serves until a signal ends it.
pub(crate) fn run(serve: &Serve) -> Outcome {
    // Its state before it is read, so that no change is missed.
    let seen = Seen::now(&serve.config);
    let config = Config::load(&serve.config).map_err(|errors| lines(&errors))?;
    let traces = traces::log(&config)?;
    config.warnings.iter().for_each(|warning| tracing::warn!("{warning}"));
    let threads = || {
        let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build();
        runtime.map_err(|error| format!("the server cannot start: {error}"))
    };
    // Sessions have threads of their own, so that long arguments do not hold up connections.
    let (connections, sessions) = (threads()?, threads()?);
    let served = connections.block_on(traces.send_while(serve_until_told(config, serve, seen, sessions.handle())));
    // Waited for no longer: a thread that looks up a name cannot be stopped, and can take minutes. Those of sessions can also
    // be removing folders.
    sessions.shutdown_timeout(10 * ENDING);
    connections.shutdown_timeout(ENDING);
    served
}

async fn serve_until_told(config: Config, serve: &Serve, seen: Seen, sessions: &Handle) -> Outcome {
    // Installed first, so that no signal is lost.
    let signals = Signals::new().map_err(|error| format!("signals cannot be handled: {error}"))?;
    let hangup = signal(SignalKind::hangup()).map_err(|error| format!("signals cannot be handled: {error}"))?;
    let listen = serve.listen.unwrap_or(config.server.listen);
    if config.is_open() && !listen.ip().is_loopback() {
        return Err(format!(
            "{listen} can be reached by other machines: declare who may connect with [[auth.tokens]] or [auth.jwt], or listen on 127.0.0.1"
        )
        .into());
    }
    let options = Options {
        auth: config.auth(),
        allowed_origins: config.server.allowed_origins.clone(),
        allowed_hosts: config.server.allowed_hosts.clone(),
        host: Some(listen.to_string()),
        connections: config.server.connections,
        ..Options::default()
    };
    // Bind first: if that fails, the store is not opened.
    let listener = TcpListener::bind(listen).await.map_err(|error| format!("cannot listen on {listen}: {error}"))?;
    let address = listener.local_addr().map_err(|error| error.to_string())?;
    let store = open(config.store.clone(), keys(&config.store_keys)?).await?;
    let webhooks = webhooks(&config, store.clone(), address).await?;
    let runtime = assemble(&config, store.clone(), &options.auth, sessions).await?;
    runtime.start().await.map_err(|refusal| format!("the store cannot be read: {refusal}"))?;
    say(&format!("listening on http://{address}"))?;
    if config.is_open() {
        tracing::warn!("without [auth] only this machine can reach the server, and every user of it may do everything");
    } else if expects_tls(address.ip()) {
        tracing::warn!("{TLS_EXPECTED}");
    }
    let watched = Watched::new(serve.config.clone(), config, options.auth.clone(), seen);
    let watching = tokio::spawn(watched.watch(hangup));
    let served = Server::new(runtime, options).webhooks(webhooks).serve(listener, signals.first()).await;
    watching.abort();
    if let Some(nodes) = store.nodes() {
        // Others take its sessions over at once.
        nodes.leave().await;
    }
    served.map_err(|error| format!("the server failed: {error}").into())
}

/// The runtime that a configuration declares.
async fn assemble(config: &Config, store: Arc<dyn Store>, auth: &Auth, sessions: &Handle) -> Result<Runtime, String> {
    let (tools, guardrails) = (tool_entries(config)?, guardrails(config)?);
    let servers = mcp_servers(config)?;
    let models: Vec<(&str, Arc<dyn Model>)> = config
        .models
        .iter()
        .map(|declared| Ok((declared.name.as_str(), models::model(declared)?)))
        .collect::<Result<_, String>>()?;
    let mut builder = Runtime::builder(store)
        .locale(config.locale)
        .policy(config.policy()?)
        // Standing approvals live no longer than the authority of their makers, which is looked up now.
        .authority(Arc::new(auth.clone()))
        .trace_content(config.tracing.content)
        .session_bytes(config.server.session_bytes)
        .threads(sessions.clone());
    if let Some(days) = config.server.keep_days {
        builder = builder.keep(Duration::from_secs(u64::from(days) * 86_400));
    }
    for declared in &config.agents {
        let model = models.iter().find(|(name, _)| *name == declared.model).map(|(_, model)| model.clone());
        let model = model.ok_or_else(|| format!("there is no model {:?}", declared.model))?;
        let mut agent = Agent::new(declared.name.as_str(), (declared.model.as_str(), model))
            .instructions(declared.instructions.as_str())
            .max_turns(declared.max_turns)
            .on_cut(declared.on_cut);
        for to in &declared.handoffs {
            let about = config.agents.iter().find(|agent| agent.name == *to);
            let about = about.and_then(|agent| agent.handoff_description.as_deref());
            agent = agent.tool(countersign_runtime::agent::team::handoff(AgentRef::named(to, about)));
        }
        agent = agent.tool_use(declared.tool_use.rule());
        if let Some(schema) = &declared.output_schema {
            agent = agent.output_schema("answer", schema.clone()).map_err(|error| error.to_string())?;
        }
        for name in &declared.input_guardrails {
            agent = guardrails.get(name).ok_or_else(|| format!("there is no guardrail {name:?}"))?.on_input(agent);
        }
        for name in &declared.output_guardrails {
            agent = guardrails.get(name).ok_or_else(|| format!("there is no guardrail {name:?}"))?.on_output(agent);
        }
        if let Some(description) = &declared.description {
            agent = agent.description(description.as_str());
        }
        if let Some(declared) = &declared.compression {
            agent = agent.compression(compression(declared, &models)?);
        }
        for model in config.models.iter().filter(|model| model.name == declared.model) {
            agent = models::servers(model)?.into_iter().fold(agent, Agent::hosted_mcp);
        }
        for name in declared.tools.iter().filter(|name| !config.is_of_server(name)) {
            agent = agent.tool(tools.get(name).ok_or_else(|| format!("there is no tool {name:?}"))?.clone());
        }
        for source in sources(config, declared, &servers)? {
            agent = agent.tools_of(source);
        }
        builder = builder.agent(agent);
    }
    builder.build().map_err(|error| error.to_string())
}

/// Who is notified.
async fn webhooks(config: &Config, store: Arc<dyn Store>, address: SocketAddr) -> Result<Webhooks, String> {
    let endpoints = config.webhooks.iter().map(ConfigWebhook::endpoint).collect();
    let console = config.server.public_url.clone().unwrap_or_else(|| format!("http://{address}"));
    Webhooks::open(store, endpoints, &console, config.locale).await
}

fn compression(declared: &ConfigCompression, models: &[(&str, Arc<dyn Model>)]) -> Result<Compression, String> {
    let budget = u64::from(declared.budget);
    let compression = match &declared.strategy {
        ConfigStrategy::Trim => Compression::trim(budget),
        ConfigStrategy::Summary { model: None } => Compression::summary(budget),
        ConfigStrategy::Summary { model: Some(name) } => {
            let model = models.iter().find(|(known, _)| known == name).map(|(_, model)| model.clone());
            let model = model.ok_or_else(|| format!("there is no model {name:?}"))?;
            Compression::summary(budget).model(name.as_str(), model)
        }
    };
    Ok(compression.keep(declared.keep))
}

/// SIGTERM and SIGINT: the first stops the server gracefully, the second at once.
struct Signals {
    term: Signal,
    int: Signal,
}

impl Signals {
    fn new() -> std::io::Result<Signals> {
        Ok(Signals { term: signal(SignalKind::terminate())?, int: signal(SignalKind::interrupt())? })
    }

    async fn next(&mut self) {
        tokio::select! {
            _ = self.term.recv() => {}
            _ = self.int.recv() => {}
        }
    }

    async fn first(mut self) {
        self.next().await;
        tracing::info!("stopping; running tools get ten seconds, a second signal stops at once");
        tokio::spawn(async move {
            self.next().await;
            std::process::exit(130);
        });
    }
}
