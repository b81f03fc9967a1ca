//! Two-level approval: a manager approves expenses, and above a limit a director approves them too. See `HELP`.

use std::{env, process::ExitCode, sync::Arc};

use countersign::{
    Principal,
    graph::{Context, Graph, GraphState, Node, NodeError, Outcome, Route, StateGraph},
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
Pays for something when a manager has approved it, and above 1000 a director too.

    two_level WHAT AMOUNT                     asks in the terminal
    two_level --db FILE --pause WHAT AMOUNT   asks for approval, and ends
    two_level --db FILE --as manager --answer yes --pause
                                              the manager approves; whoever is next can come back tomorrow

    --db FILE        keeps the request in this SQLite file; by default it is lost with the process
    --as ROLE        who answers: employee, manager or director; by default the one who is asked
    --answer yes     answers instead of the terminal, yes or no; may be repeated
    --pause          does not ask in the terminal: unanswered requests stay pending in the file
    --help           shows this";

const SESSION: &str = "expense-1";
const LIMIT: u64 = 1000;

#[derive(Clone, Default, Serialize, Deserialize, GraphState)]
struct Expense {
    what: String,
    amount: u64,
    #[graph(append)]
    approved_by: Vec<String>,
    refused_by: Option<String>,
    receipt: Option<String>,
}

/// The answer of one level.
#[derive(Clone, Copy, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
enum Answer {
    Yes,
    No,
}

#[derive(Clone, Copy, Route)]
enum AfterApproval {
    #[route(label = "approved")]
    Pay,
    #[route(label = "approved, above the limit")]
    AskDirector,
    Refused,
}

#[derive(Clone, Copy, Route)]
enum AfterCriticalApproval {
    #[route(label = "approved")]
    Pay,
    Refused,
}

fn after_approval(expense: &Expense) -> AfterApproval {
    match (&expense.refused_by, expense.amount) {
        (Some(_), _) => AfterApproval::Refused,
        (None, amount) if amount > LIMIT => AfterApproval::AskDirector,
        (None, _) => AfterApproval::Pay,
    }
}

fn after_critical_approval(expense: &Expense) -> AfterCriticalApproval {
    if expense.refused_by.is_some() { AfterCriticalApproval::Refused } else { AfterCriticalApproval::Pay }
}

/// A node that asks the holders of a role. It decides and does nothing else.
async fn ask(ctx: Context<Expense>, role: &'static str) -> std::result::Result<ExpenseUpdate, NodeError> {
    let Expense { what, amount, approved_by, .. } = ctx.state();
    let payload = json!({
        "type": "approval_required",
        "message": format!("{what}: {amount}"),
        "asked": role,
        "approved_by": approved_by,
    });
    Ok(match ctx.interrupt("approve", payload).typed().role(role).await {
        Answer::Yes => ExpenseUpdate::new().approved_by([role.to_owned()]),
        Answer::No => ExpenseUpdate::new().refused_by(Some(role.to_owned())),
    })
}

/// A node that executes and asks no one.
async fn pay(ctx: Context<Expense>) -> std::result::Result<ExpenseUpdate, NodeError> {
    let Expense { what, amount, .. } = ctx.state().clone();
    let paid = ctx.step("pay", async move {
        println!("paying {amount} for {}", shown_line(&what));
        Ok::<_, NodeError>(format!("paid {amount} for {what}"))
    });
    Ok(ExpenseUpdate::new().receipt(Some(paid.await?)))
}

fn graph() -> Result<Graph<Expense>> {
    let mut graph = StateGraph::<Expense>::new("expense");
    let approval = graph.node("approval", |ctx| ask(ctx, "manager"));
    let critical_approval = graph.node("critical_approval", |ctx| ask(ctx, "director"));
    let pay = graph.node("pay", pay);
    graph.start(approval);
    graph.route(approval, after_approval, |way| match way {
        AfterApproval::Pay => pay,
        AfterApproval::AskDirector => critical_approval,
        AfterApproval::Refused => Node::END,
    });
    graph.route(critical_approval, after_critical_approval, |way| match way {
        AfterCriticalApproval::Pay => pay,
        AfterCriticalApproval::Refused => Node::END,
    });
    graph.edge(pay, Node::END);
    Ok(graph.compile()?)
}

#[tokio::main]
async fn main() -> ExitCode {
    ends(run().await)
}

async fn run() -> Result<()> {
    let mut options = Options::read(env::args(), HELP, &["--pause"], &["--db", "--as", "--answer"])?;
    if options.has("--help") {
        println!("{HELP}");
        return Ok(());
    }
    let store: Arc<dyn Store> = match options.take("--db") {
        Some(file) => Arc::new(SqliteStore::open(file, &SqliteOptions::default())?),
        None => Arc::new(MemoryStore::new()),
    };
    let role = options.take("--as");
    let graph = graph()?;
    let runtime = Runtime::builder(store).graph(&graph).build()?;
    runtime.start().await?;
    let runs = runtime.runs(&graph)?;

    let mut outcome = begin_or_resume(&runs, &std::mem::take(&mut options.words)).await?;
    loop {
        match outcome {
            Outcome::Paused { pending: waiting, .. } => {
                let [question] = &*waiting else { return Err("one question at a time is asked here".into()) };
                println!("{}", shown(&question.payload)?);
                let asked = question.role.as_deref().unwrap_or("employee");
                let answers = match options.answer(&format!("Does the {asked} approve? (yes/no)"))? {
                    None => {
                        println!("waiting for the {asked}");
                        return Ok(());
                    }
                    Some(answer) => match answer.to_lowercase().as_str() {
                        "y" | "yes" => Some(Answer::Yes),
                        "n" | "no" => Some(Answer::No),
                        _ => None,
                    },
                };
                let role = role.as_deref().unwrap_or(asked);
                let by = person(role)?;
                let resumed = match answers {
                    Some(answer) => runs.resume(&by, &question.key, answer).await,
                    None => runs.outcome(&by, SESSION).await,
                };
                outcome = match resumed {
                    // Nobody sees a request that is not for their role.
                    Err(refusal) if matches!(refusal.code, Code::ApprovalNotFound | Code::SessionNotFound) => {
                        return Err(
                            format!("this request is pending with the {asked}; the {role} cannot see it").into()
                        );
                    }
                    resumed => resumed?,
                };
            }
            Outcome::Done(expense) => {
                match (expense.receipt, expense.refused_by) {
                    (Some(receipt), _) => println!("{}", shown_line(&receipt)),
                    (None, role) => println!("the {} has refused it", role.unwrap_or_default()),
                }
                return options.all_answered();
            }
            Outcome::Failed { message, .. } => return Err(message.into()),
            _ => return Err("the request was cancelled".into()),
        }
    }
}

/// The known people. A server knows them by their tokens.
fn person(role: &str) -> Result<Principal> {
    match role {
        "employee" => Ok(Principal::person("eva", Vec::new())),
        "manager" => Ok(Principal::person("mia", vec!["manager".to_owned()])),
        "director" => Ok(Principal::person("dan", vec!["director".to_owned()])),
        other => Err(format!("there is no {other}; there are employee, manager and director").into()),
    }
}

/// The request in the file, or a new one.
async fn begin_or_resume(runs: &Runs<Expense>, words: &[String]) -> Result<Outcome<Expense>> {
    let employee = person("employee")?;
    match runs.outcome(&employee, SESSION).await {
        Ok(_) if !words.is_empty() => Err("there is a request in this file already".into()),
        Ok(outcome) => Ok(outcome),
        Err(refusal) if refusal.code == Code::SessionNotFound => {
            let [what, amount] = words else { return Err(format!("say what, and how much\n\n{HELP}").into()) };
            let amount = amount.parse().map_err(|_| format!("{amount} is not an amount; it is a whole number"))?;
            let expense = Expense { what: what.clone(), amount, ..Expense::default() };
            Ok(runs.run(&employee, SESSION, &expense).await?)
        }
        Err(refusal) => Err(refusal.into()),
    }
}
