//! Map-reduce with human review: texts are summarised concurrently, each summary is reviewed separately, and the
//! accepted ones become a report. See `HELP`.

use std::{env, process::ExitCode, sync::Arc};

use countersign::{
    Principal,
    graph::{Context, Graph, GraphState, Node, NodeError, Outcome, Pending, StateGraph},
    run::{Code, Runs, Runtime},
    store::{
        Store,
        memory::MemoryStore,
        sqlite::{SqliteOptions, SqliteStore},
    },
};
use countersign_examples::terminal::{Options, Result, ends, shown, shown_line};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::json;

const HELP: &str = "\
Summarises texts and asks about each summary. The answers may come in any order, from any process.

    map_reduce TEXT...                      asks in the terminal
    map_reduce --db FILE --pause TEXT...    summarises, shows what is pending, and exits
    map_reduce --db FILE --pause            shows what is pending
    map_reduce --db FILE --answer 2=yes --answer 1=no --pause
                                            answers for text 2, then for text 1

An answer is NUMBER=yes, NUMBER=no, or NUMBER= and a better summary.

    --db FILE          keeps the run in this SQLite file; by default the run is lost with the process
    --answer ANSWER    answers in place of the terminal; may be repeated
    --pause            does not ask in the terminal: unanswered requests stay pending in the file
    --help             shows this";

const SESSION: &str = "reviews-1";

#[derive(Clone, Default, Serialize, Deserialize, GraphState)]
struct Reviews {
    texts: Vec<String>,
    /// In the order of the texts, whichever was answered first.
    #[graph(append)]
    accepted: Vec<String>,
    #[graph(add)]
    rejected: u32,
    report: String,
}

/// A text to summarise.
#[derive(Clone, Serialize, Deserialize)]
struct Item {
    number: usize,
    text: String,
}

/// A reviewer's answer about a summary.
#[derive(Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
enum Review {
    Accept,
    Reject,
    Rewrite(String),
}

async fn review(ctx: Context<Reviews>, item: Item) -> std::result::Result<ReviewsUpdate, NodeError> {
    let Item { number, text } = item;
    // However often the process restarts, a text is summarised once.
    let summary = {
        let text = text.clone();
        ctx.step("summarise", async move {
            println!("summarising text {number}");
            Ok::<_, NodeError>(summary(&text))
        })
    };
    let summary = summary.idempotent().await?;
    let payload = json!({"number": number, "text": text, "summary": summary});
    Ok(match ctx.interrupt("review", payload).typed().await {
        Review::Accept => ReviewsUpdate::new().accepted([summary]),
        Review::Reject => ReviewsUpdate::new().rejected(1),
        Review::Rewrite(summary) => ReviewsUpdate::new().accepted([summary]),
    })
}

/// The first sentence. A real program would ask a model.
fn summary(text: &str) -> String {
    text.split_inclusive(['.', '!', '?', '。']).next().unwrap_or_default().trim().to_owned()
}

async fn report(ctx: Context<Reviews>) -> std::result::Result<ReviewsUpdate, NodeError> {
    let Reviews { texts, accepted, rejected, .. } = ctx.state();
    let lines: Vec<String> = accepted.iter().map(|summary| format!("- {summary}")).collect();
    let head = format!("{} of {} summaries accepted, {rejected} rejected", accepted.len(), texts.len());
    Ok(ReviewsUpdate::new().report([vec![head], lines].concat().join("\n")))
}

fn graph() -> Result<Graph<Reviews>> {
    let mut graph = StateGraph::<Reviews>::new("reviews");
    let split = graph.node("split", |_| async { Ok(ReviewsUpdate::new()) });
    let review = graph.map_node("review", review);
    let report = graph.node("report", report);
    graph.start(split);
    let items = |reviews: &Reviews| {
        let item = |(at, text): (usize, &String)| Item { number: at + 1, text: text.clone() };
        reviews.texts.iter().enumerate().map(item).collect::<Vec<_>>()
    };
    graph.fan_out(split, review, items).limit(4);
    graph.edge(review, report);
    graph.edge(report, Node::END);
    Ok(graph.compile()?)
}

#[tokio::main]
async fn main() -> ExitCode {
    ends(run().await)
}

async fn run() -> Result<()> {
    let mut options = Options::read(env::args(), HELP, &["--pause"], &["--db", "--answer"])?;
    if options.has("--help") {
        println!("{HELP}");
        return Ok(());
    }
    let store: Arc<dyn Store> = match options.take("--db") {
        Some(file) => Arc::new(SqliteStore::open(file, &SqliteOptions::default())?),
        None => Arc::new(MemoryStore::new()),
    };
    let graph = graph()?;
    let runtime = Runtime::builder(store).graph(&graph).build()?;
    runtime.start().await?;
    let (person, runs) = (Principal::trusted(), runtime.runs(&graph)?);

    let mut outcome = begin_or_resume(&runs, &person, std::mem::take(&mut options.words)).await?;
    loop {
        match outcome {
            Outcome::Paused { pending: waiting, .. } => {
                for question in &waiting {
                    println!("{}", shown(&question.payload)?);
                }
                let Some(answer) = options.answer("Which summary, and is it good? (NUMBER=yes, =no, =better)")? else {
                    println!("{} waiting", waiting.len());
                    return Ok(());
                };
                outcome = match read(&answer, &waiting) {
                    Some((question, review)) => runs.resume(&person, &question.key, review).await?,
                    None => {
                        println!("{} does not answer a pending question", shown_line(&answer));
                        runs.outcome(&person, SESSION).await?
                    }
                };
            }
            Outcome::Done(reviews) => {
                println!("{}", reviews.report);
                return options.all_answered();
            }
            Outcome::Failed { message, .. } => return Err(message.into()),
            _ => return Err("the run was cancelled".into()),
        }
    }
}

/// The run in the file, or a new one over these texts.
async fn begin_or_resume(runs: &Runs<Reviews>, person: &Principal, texts: Vec<String>) -> Result<Outcome<Reviews>> {
    match runs.outcome(person, SESSION).await {
        Ok(_) if !texts.is_empty() => Err("there is a run in this file already; it takes no more texts".into()),
        Ok(outcome) => Ok(outcome),
        Err(refusal) if refusal.code == Code::SessionNotFound && texts.is_empty() => {
            Err(format!("there are no texts to summarise\n\n{HELP}").into())
        }
        Err(refusal) if refusal.code == Code::SessionNotFound => {
            Ok(runs.run(person, SESSION, &Reviews { texts, ..Reviews::default() }).await?)
        }
        Err(refusal) => Err(refusal.into()),
    }
}

/// The question that is answered, and how.
fn read<'a>(answer: &str, waiting: &'a [Pending]) -> Option<(&'a Pending, Review)> {
    let (number, words) = answer.split_once('=')?;
    let number: usize = number.trim().parse().ok()?;
    let question = waiting.iter().find(|question| question.payload["number"] == json!(number))?;
    let review = match words.trim() {
        "" => return None,
        "yes" => Review::Accept,
        "no" => Review::Reject,
        better => Review::Rewrite(better.to_owned()),
    };
    Some((question, review))
}
