//! An agent that works on files (spec G4): changes of a file need the user's approval, deletions an admin's too, and
//! both approvals are nodes of the agent's own loop. See `HELP`.
//!
//! ```text
//! agent -> tools                                       reading needs no approval
//! agent -> approval -> critical_approval -> tools      writing, editing, deleting
//! ```
//! The approval nodes decide and the tools node executes; no tool is wrapped in anything.

mod folder;

use std::{env, fs, path::Path, process::ExitCode, sync::Arc};

use countersign::{
    Agent, Decision, Locale, Principal, Raw,
    graph::{
        Context, Graph, NodeError,
        agent_loop::{AfterApproval, AgentLoop, AgentState, AgentUpdate, CallStage, after_approval, approval_payload},
    },
    model::{
        ApiKey, Model,
        openai_chat::{OpenAiChat, OpenAiChatConfig},
        scripted::Scripted,
    },
    policy::Timeout,
    run::{Code, NewDecision, NewMessage, Reply, Request, Runtime, TurnOutcome},
    store::{
        Store,
        memory::MemoryStore,
        sqlite::{SqliteOptions, SqliteStore},
    },
    tool::Approval,
};
use countersign_examples::terminal::{Options, Result, ends, shown, shown_line};
use folder::Folder;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

const HELP: &str = "\
An agent that works on the files of one folder. Writing and editing wait for the user, deleting for an admin too.

    file_agent --folder DIR                    asks in the terminal
    file_agent --folder DIR --db FILE --pause  runs until it must ask, shows what is pending, and exits
    file_agent --folder DIR --db FILE --answer yes --pause
                                               resumes with what is pending, in this or any other process

Pending calls are shown as {type: \"tool_approval_required\", message, tool_calls}, and answered with yes or no, or
with one yes or no for each call, such as \"yes no\".

    --folder DIR     the folder; it is created if missing
    --db FILE        keeps the session in this SQLite file; by default it is lost with the process
    --as NAME        who answers: user or admin; by default the one who is asked
    --answer yes     answers in place of the terminal; may be repeated
    --pause          does not ask in the terminal: unanswered requests stay pending in the file
    --script FILE    the model's answers, instead of the built-in ones; see the documentation of `model::scripted`
    --model NAME     a model of the server at OPENAI_BASE_URL (OpenAI's own if not set), with the key in OPENAI_API_KEY
    --help           shows this
    MESSAGE          what the agent is to do";

const SESSION: &str = "files-1";
const MESSAGE: &str = "请写一份计划，并清理不需要的文件。";

/// Tools that need the user's approval. Those that only read need none.
const TOOLS_REQUIRING_APPROVAL: [&str; 3] = ["write_file", "edit_file", "delete_file"];
/// Those that need an admin's as well, after the user's.
const CRITICAL_TOOLS: [&str; 1] = ["delete_file"];

const SCRIPT: &str = r#"{"turns": [
    {"text": "我先看看文件夹，再写计划和草稿。", "tool_calls": [
        {"name": "list_files", "args": {}},
        {"name": "write_file", "args": {"path": "计划.txt", "content": "一、整理资料\n二、待定\n"}},
        {"name": "write_file", "args": {"path": "草稿.txt", "content": "草稿\n"}}]},
    {"text": "现在修改计划，并删除草稿。", "tool_calls": [
        {"name": "edit_file", "args": {"path": "计划.txt", "old_text": "待定", "new_text": "写总结"}},
        {"name": "read_file", "args": {"path": "草稿.txt"}},
        {"name": "delete_file", "args": {"path": "草稿.txt"}}]},
    {"text": "完成。最后一步的结果：{{ last_tool_result }}"}
]}"#;

/// The answer to a request of this program.
#[derive(Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
enum Answer {
    Yes,
    No,
}

/// Asks an admin about the calls that the user has approved. It decides and executes nothing.
async fn critical_approval(ctx: Context<AgentState>) -> std::result::Result<AgentUpdate, NodeError> {
    let critical = |name: &str, stage| CRITICAL_TOOLS.contains(&name) && stage == CallStage::MayRun;
    let calls = || ctx.state().calls().filter(|call| critical(call.name, call.stage));
    if calls().next().is_none() {
        return Ok(AgentUpdate::new());
    }
    let message = "⚠ 以下操作无法撤销，需要管理员批准";
    let payload = approval_payload(message, calls());
    Ok(match ctx.interrupt("critical_approval", payload).typed().role("admin").await {
        Answer::Yes => AgentUpdate::new(),
        // The model is told `操作已被用户取消`, under the call's own id.
        Answer::No => calls().fold(AgentUpdate::new(), |update, call| update.reject(call.id, None)),
    })
}

/// The agent's loop with one more node: `approval -> critical_approval -> tools`.
fn agent_loop() -> Result<Graph<AgentState>> {
    let AgentLoop { mut graph, agent, approval, tools, .. } = AgentLoop::new();
    let critical_approval = graph.node("critical_approval", critical_approval);
    graph.detach(approval);
    graph.route(approval, after_approval, |way| match way {
        AfterApproval::Tools => critical_approval,
        AfterApproval::Approval => approval,
        AfterApproval::Agent => agent,
    });
    graph.route(critical_approval, after_approval, |way| match way {
        AfterApproval::Tools => tools,
        AfterApproval::Approval => approval,
        AfterApproval::Agent => agent,
    });
    Ok(graph.compile()?)
}

fn runtime(store: Arc<dyn Store>, model: Arc<dyn Model>, folder: &Folder) -> Result<Runtime> {
    let mut agent = Agent::new("files", ("default", model))
        .instructions("你是一个文件助手，只能使用提供给你的工具处理工作文件夹中的文件。")
        .graph(&agent_loop()?);
    for tool in folder.tools() {
        let asks = TOOLS_REQUIRING_APPROVAL.contains(&&*tool.spec.name);
        agent = agent.tool(if asks { tool.needs_approval(Approval::always().timeout(Timeout::Never)) } else { tool });
    }
    Ok(Runtime::builder(store).agent(agent).locale(Locale::Zh).build()?)
}

#[tokio::main]
async fn main() -> ExitCode {
    ends(run().await)
}

async fn run() -> Result<()> {
    let values = ["--folder", "--db", "--as", "--answer", "--script", "--model"];
    let mut options = Options::read(env::args(), HELP, &["--pause"], &values)?;
    if options.has("--help") {
        println!("{HELP}");
        return Ok(());
    }
    let folder = options.take("--folder").ok_or_else(|| format!("say which folder: --folder DIR\n\n{HELP}"))?;
    let folder = Folder::open(Path::new(&folder))?;
    let store: Arc<dyn Store> = match options.take("--db") {
        Some(file) => Arc::new(SqliteStore::open(file, &SqliteOptions::default())?),
        None => Arc::new(MemoryStore::new()),
    };
    let who = options.take("--as");
    let runtime = runtime(store, model(&mut options)?, &folder)?;
    runtime.start().await?;

    let mut outcome = begin_or_resume(&runtime, &options.words.join(" ")).await?;
    while !outcome.interruptions.is_empty() {
        for request in &outcome.interruptions {
            let Request::Actions(asked) = request else { return Err("this agent has no questions to ask".into()) };
            let (payload, role) = match &asked.interrupt {
                Some(question) => (shown(&question.payload)?, "admin"),
                None => {
                    let mut payload = asked.payload(Locale::Zh);
                    // A terminal draws the sign without its variation selector, which would be shown as an escape.
                    payload.message = payload.message.replace('\u{fe0f}', "");
                    (shown(&payload)?, "user")
                }
            };
            println!("{payload}");
            let who = who.as_deref().unwrap_or(role);
            let Some(answer) = options.answer(&format!("{}，是否批准？（yes/no）", named(role)))? else {
                println!("等待{}批准", named(role));
                return Ok(());
            };
            let Some(decision) = decision(&asked.approval_key, asked.actions.len(), &answer)? else {
                println!("{} 不是有效的回答", shown_line(&answer));
                continue;
            };
            runtime.decide_and_run(&person(who)?, decision).await?;
        }
        outcome = runtime.wait(&person("user")?, SESSION).await?;
    }
    match outcome.error {
        Some(error) => Err(error.message.into()),
        None => {
            println!("{}", shown_text(&outcome.text));
            options.all_answered()
        }
    }
}

/// Continues the session in the file, or starts one.
async fn begin_or_resume(runtime: &Runtime, message: &str) -> Result<TurnOutcome> {
    let user = person("user")?;
    let known = match runtime.wait(&user, SESSION).await {
        Ok(outcome) => Some(outcome),
        Err(refusal) if refusal.code == Code::SessionNotFound => None,
        Err(refusal) => return Err(refusal.into()),
    };
    match known {
        Some(outcome) if message.is_empty() => Ok(outcome),
        None if message.is_empty() => Ok(runtime.run(&user, NewMessage::text(SESSION, MESSAGE)).await?),
        _ => Ok(runtime.run(&user, NewMessage::text(SESSION, message)).await?),
    }
}

/// The decision of an answer: yes or no for everything pending under the key, or one for each call. `None`: it is
/// neither.
fn decision(approval_key: &str, calls: usize, answer: &str) -> Result<Option<NewDecision>> {
    let words: Vec<String> = answer.split_whitespace().map(str::to_lowercase).collect();
    let mut approved = Vec::with_capacity(words.len());
    for word in &words {
        match word.as_str() {
            "y" | "yes" | "是" => approved.push(true),
            "n" | "no" | "否" => approved.push(false),
            _ => return Ok(None),
        }
    }
    Ok(match approved.as_slice() {
        [yes] => Some(NewDecision::new(approval_key, Reply::Resume(Raw::of(if *yes { "yes" } else { "no" })?))),
        each if each.len() == calls => {
            let decision = |yes: &bool| if *yes { Decision::approve() } else { Decision::reject(None) };
            Some(NewDecision::new(approval_key, each.iter().map(decision).collect::<Vec<_>>()))
        }
        _ => None,
    })
}

/// The known people. A server knows them by their tokens.
fn person(name: &str) -> Result<Principal> {
    match name {
        "user" => Ok(Principal::person("user", Vec::new())),
        "admin" => Ok(Principal::person("admin", vec!["admin".to_owned()])),
        other => Err(format!("there is no {other}; there are user and admin").into()),
    }
}

fn named(role: &str) -> &'static str {
    if role == "admin" { "管理员" } else { "用户" }
}

/// The model's text, line by line: it may be anything.
fn shown_text(text: &str) -> String {
    text.lines().map(shown_line).collect::<Vec<_>>().join("\n")
}

fn model(options: &mut Options) -> Result<Arc<dyn Model>> {
    let Some(name) = options.take("--model") else {
        let script = match options.take("--script") {
            Some(file) => fs::read_to_string(&file).map_err(|error| format!("{file}: {error}"))?,
            None => SCRIPT.to_owned(),
        };
        return Ok(Arc::new(Scripted::from_json(&script)?));
    };
    let mut config = OpenAiChatConfig::new(name.as_str());
    if let Ok(url) = env::var("OPENAI_BASE_URL") {
        config.base_url = url;
    }
    config.api_key = env::var("OPENAI_API_KEY").ok().map(|key| ApiKey::new(&key));
    Ok(Arc::new(OpenAiChat::new(config)?))
}
