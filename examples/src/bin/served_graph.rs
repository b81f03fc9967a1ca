//! A custom program with the server in it: a newsletter whose articles are written concurrently, each is reviewed
//! separately, and the accepted ones are published. See `HELP`.

use std::{env, path::PathBuf, process::ExitCode, sync::Arc, time::Duration};

use countersign::{
    Principal,
    graph::{Context, Graph, GraphState, Node, NodeError, StateGraph},
    run::Runtime,
    store::{
        Store,
        memory::MemoryStore,
        sqlite::{SqliteOptions, SqliteStore},
    },
};
use countersign_examples::terminal::{Options, Result, ends};
use countersign_server::{Auth, Server, Token};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};
use tokio::net::TcpListener;

const HELP: &str = "\
Serves a graph that makes a newsletter: over HTTP and WebSocket, and in the console.

    served_graph --outbox DIR                 http://127.0.0.1:7410, everything in memory
    curl -d '{\"state\": {\"title\": \"Tea\", \"topics\": [\"Green\", \"Black\"]}}' \\
         -H 'content-type: application/json' http://127.0.0.1:7410/v1/graphs/newsletter/runs

    --outbox DIR       where newsletters are published; the folder must exist by then
    --db FILE          keeps the runs in this SQLite file; by default they are lost with the process
    --listen ADDR      another address; port 0 picks a free one
    --person NAME      may connect, with the token NAME-token; may be repeated. Without any, everybody on this machine may
    --slow SECONDS     how long publishing takes
    --help             shows this";

#[derive(Clone, Default, Serialize, Deserialize, GraphState)]
#[serde(default, deny_unknown_fields)]
struct Newsletter {
    title: String,
    /// One article for each.
    topics: Vec<String>,
    /// The style of the articles.
    tone: String,
    /// In the order of the topics, whichever was reviewed first.
    #[graph(append)]
    articles: Vec<String>,
    #[graph(add)]
    rejected: i64,
    /// The answer to the last question.
    extras: Value,
    published: Option<PathBuf>,
}

/// A reviewer's answer about an article.
#[derive(Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct Review {
    /// Whether it is printed.
    accept: bool,
    /// From 1 to 5.
    #[schemars(range(min = 1, max = 5))]
    rating: u8,
    /// A better text, if there is one.
    #[serde(default)]
    text: Option<String>,
}

async fn outline(ctx: Context<Newsletter>) -> std::result::Result<NewsletterUpdate, NodeError> {
    let Newsletter { title, topics, .. } = ctx.state();
    let tone: String = ctx.interrupt("tone", json!({"title": title, "topics": topics})).typed().await;
    Ok(NewsletterUpdate::new().tone(tone))
}

async fn article(ctx: Context<Newsletter>, topic: String) -> std::result::Result<NewsletterUpdate, NodeError> {
    let tone = ctx.state().tone.clone();
    let subject = topic.clone();
    // A real program would call a model. Whatever happens, an article is written once.
    let written = ctx.step("write", async move { Ok::<_, NodeError>(format!("{tone} {subject}.")) }).idempotent();
    let text = written.await?;
    let review: Review = ctx.interrupt("review", json!({"topic": topic, "text": text})).typed().await;
    Ok(match review {
        Review { accept: false, .. } => NewsletterUpdate::new().rejected(1),
        Review { text: Some(better), .. } if !better.is_empty() => NewsletterUpdate::new().articles([better]),
        Review { .. } => NewsletterUpdate::new().articles([text]),
    })
}

async fn publish(
    ctx: Context<Newsletter>,
    outbox: PathBuf,
    slow: Duration,
) -> std::result::Result<NewsletterUpdate, NodeError> {
    let Newsletter { title, articles, .. } = ctx.state().clone();
    if !ctx.interrupt("publish", json!({"title": title, "articles": articles})).typed::<bool>().await {
        return Ok(NewsletterUpdate::new());
    }
    // Anything, as the printer likes it: the question has no schema.
    let extras: Value = ctx.interrupt("extras", Value::Null).await;
    let file = outbox.join(format!("{}.txt", ctx.session_id()));
    let text = format!("{title}\n\n{}\n\n{extras}\n", articles.join("\n"));
    // It must not happen twice: if a crash leaves the outcome unknown, a person is asked.
    let sent = ctx.step("send", async move {
        tokio::time::sleep(slow).await;
        tokio::fs::write(&file, text).await?;
        Ok::<_, NodeError>(file)
    });
    let sent = sent.await?;
    Ok(NewsletterUpdate::new().extras(extras).published(Some(sent)))
}

fn graph(outbox: PathBuf, slow: Duration) -> Result<Graph<Newsletter>> {
    let mut graph = StateGraph::<Newsletter>::new("newsletter");
    let outline = graph.node("outline", outline);
    let article = graph.map_node("article", article);
    let publish = graph.node("publish", move |ctx| publish(ctx, outbox.clone(), slow));
    graph.start(outline);
    graph.fan_out(outline, article, |newsletter| newsletter.topics.clone()).limit(4);
    graph.edge(article, publish);
    graph.edge(publish, Node::END);
    Ok(graph.compile()?)
}

#[tokio::main]
async fn main() -> ExitCode {
    ends(run().await)
}

async fn run() -> Result<()> {
    let values = ["--db", "--listen", "--outbox", "--person", "--slow"];
    let mut options = Options::read(env::args(), HELP, &[], &values)?;
    if options.has("--help") {
        println!("{HELP}");
        return Ok(());
    }
    let outbox = options.take("--outbox").ok_or_else(|| format!("say where to publish: --outbox DIR\n\n{HELP}"))?;
    let slow = options.take("--slow").map_or(Ok(0.0), |seconds| seconds.parse())?;
    let store: Arc<dyn Store> = match options.take("--db") {
        Some(file) => Arc::new(SqliteStore::open(file, &SqliteOptions::default())?),
        None => Arc::new(MemoryStore::new()),
    };
    let mut server = countersign_server::Options::default();
    let mut people = Vec::new();
    while let Some(name) = options.take("--person") {
        people.push(Token::new(Principal::person(&*name, vec!["user".to_owned()]), &format!("{name}-token")));
    }
    let open = people.is_empty();
    if !open {
        server.auth = Auth::new(people, None);
    }
    let graph = graph(outbox.into(), Duration::try_from_secs_f64(slow)?)?;
    let runtime = Runtime::builder(store).graph(&graph).build()?;
    let listener = TcpListener::bind(options.take("--listen").as_deref().unwrap_or("127.0.0.1:7410")).await?;
    if open && !listener.local_addr()?.ip().is_loopback() {
        return Err("other machines can reach this address, and everybody may decide: name people with --person".into());
    }
    // Interrupted runs are resumed.
    runtime.start().await?;
    println!("listening on http://{}", listener.local_addr()?);
    let end = async {
        // Without signals it serves until it is killed.
        if tokio::signal::ctrl_c().await.is_err() {
            std::future::pending::<()>().await;
        }
    };
    Ok(Server::new(runtime, server).serve(listener, end).await?)
}
