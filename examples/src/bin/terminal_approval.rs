//! An agent that asks in the terminal before it looks up the weather in San Francisco.
//!
//! ```text
//! terminal_approval                        runs, and asks where it must
//! terminal_approval --save result.json     runs until it must ask, saves the run, and ends
//! terminal_approval --resume result.json   goes on with a saved run, in this or any other process
//! ```
//! The answers come from a script. With `--model NAME` they come from a server with OpenAI's chat
//! completions: the one at `OPENAI_BASE_URL` (OpenAI's own if not set), with the key in `OPENAI_API_KEY`.

use std::{env, error::Error, fs, io, path::PathBuf, sync::Arc};

use countersign::{
    agent::Agent,
    core::approval::{decision::Decision, principal::Principal},
    model::{
        ApiKey, Model,
        openai_chat::{OpenAiChat, OpenAiChatConfig},
        scripted::Scripted,
    },
    run::{NewDecision, NewMessage, Outcome, Runtime},
    run_state::RunState,
    store::{Store, memory::MemoryStore},
    tool::{Approval, ToolEntry, function},
};
use schemars::JsonSchema;
use serde::Deserialize;

type Result<T> = std::result::Result<T, Box<dyn Error>>;

const QUESTION: &str = "What is the weather in Oakland and San Francisco?";
const SCRIPT: &str = r#"{"turns": [
    {"text": "I will look it up.", "tool_calls": [
        {"name": "get_weather", "args": {"location": "Oakland"}},
        {"name": "get_weather", "args": {"location": "San Francisco"}}]},
    {"text": "It is sunny in Oakland. About San Francisco: {{ last_tool_result }}"}
]}"#;

#[derive(Deserialize, JsonSchema)]
struct Weather {
    /// The city.
    location: String,
}

fn get_weather() -> ToolEntry {
    let about_san_francisco =
        Approval::when_fn(|call| async move { Ok(call.args::<Weather>()?.location == "San Francisco") });
    function::tool("get_weather", "The weather in a city.", |Weather { location }: Weather| async move {
        Ok(format!("The weather in {location} is sunny"))
    })
    .needs_approval(about_san_francisco.timeout(0))
}

fn runtime(store: Arc<dyn Store>, model: Arc<dyn Model>) -> Result<Runtime> {
    let agent = Agent::new("weather", ("default", model))
        .instructions("You answer questions about the weather.")
        .tool(get_weather());
    Ok(Runtime::builder(store).agent(agent).build()?)
}

#[tokio::main]
async fn main() -> Result<()> {
    let options = Options::from_args()?;
    let store: Arc<dyn Store> = Arc::new(MemoryStore::new());
    let runtime = runtime(store.clone(), options.model()?)?;
    // Whoever sits at the terminal may do everything.
    let person = Principal::trusted();

    let mut outcome = match &options.resume {
        None => runtime.run(&person, NewMessage::text("weather-1", QUESTION)).await?,
        Some(file) => {
            let saved = RunState::from_json(&fs::read_to_string(file)?)?;
            saved.restore(&*store).await?;
            runtime.wait(&person, &saved.state().session_id).await?
        }
    };
    while !outcome.interruptions.is_empty() {
        if let Some(file) = &options.save {
            fs::write(file, RunState::save(&*store, &outcome.session_id).await?.to_json())?;
            println!("{} waits; saved in {}", outcome.pending.join(", "), file.display());
            return Ok(());
        }
        outcome = ask(&runtime, &person, &outcome).await?;
    }
    match outcome.error {
        Some(error) => Err(error.message.into()),
        None => {
            println!("{}", outcome.text);
            Ok(())
        }
    }
}

/// Asks about everything that waits, and lets the agent go on.
async fn ask(runtime: &Runtime, person: &Principal, outcome: &Outcome) -> Result<Outcome> {
    let mut after = outcome.clone();
    for request in &outcome.interruptions {
        let mut decisions = Vec::with_capacity(request.actions().len());
        for action in request.actions() {
            // What would run, as every reviewer sees it; what the agent says of it is no fact and stands apart.
            println!("Agent {} would like to use the tool {} with", action.agent, action.name);
            println!("{}", action.display.text);
            println!("({} bytes, SHA-256 {})", action.display.bytes, action.args_digest);
            if let Some(words) = &action.agent_says {
                println!("The agent says, unchecked: {words}");
            }
            decisions.push(if confirm("Do you approve?")? { Decision::approve() } else { Decision::reject(None) });
        }
        let approval_key = request.approval_key().to_owned();
        let decision = NewDecision { approval_key, decisions, ..NewDecision::default() };
        after = runtime.decide_and_run(person, decision).await?;
    }
    Ok(after)
}

fn confirm(question: &str) -> Result<bool> {
    loop {
        println!("{question} (y/n)");
        let mut answer = String::new();
        if io::stdin().read_line(&mut answer)? == 0 {
            return Err("nobody answered, so nothing was decided".into());
        }
        match answer.trim().to_lowercase().as_str() {
            "y" | "yes" => return Ok(true),
            "n" | "no" => return Ok(false),
            _ => {}
        }
    }
}

#[derive(Default)]
struct Options {
    save: Option<PathBuf>,
    resume: Option<PathBuf>,
    model: Option<String>,
}

impl Options {
    fn from_args() -> Result<Options> {
        let mut options = Options::default();
        let mut args = env::args().skip(1);
        while let Some(option) = args.next() {
            let value = args.next().ok_or_else(|| format!("{option} needs a value"))?;
            match option.as_str() {
                "--save" => options.save = Some(value.into()),
                "--resume" => options.resume = Some(value.into()),
                "--model" => options.model = Some(value),
                _ => return Err(format!("there is no option {option}; there are --save, --resume and --model").into()),
            }
        }
        Ok(options)
    }

    fn model(&self) -> Result<Arc<dyn Model>> {
        let Some(name) = &self.model else { return Ok(Arc::new(Scripted::from_json(SCRIPT)?)) };
        let mut config = OpenAiChatConfig::new(name.as_str());
        if let Ok(url) = env::var("OPENAI_BASE_URL") {
            config.base_url = url;
        }
        config.api_key = env::var("OPENAI_API_KEY").ok().map(|key| ApiKey::new(&key));
        Ok(Arc::new(OpenAiChat::new(config)?))
    }
}
