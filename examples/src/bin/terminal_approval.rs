//! Two agents, one of which hands over to the other, and a person who is asked before the weather in San Francisco is
//! looked up. The pending run is written to a file and read back, as another process would do it.
//!
//! See `HELP`.

use std::{env, error::Error, io, process::ExitCode, sync::Arc};

use countersign::{
    Agent, RunState,
    model::{
        ApiKey, Model,
        openai_chat::{OpenAiChat, OpenAiChatConfig},
        scripted::Scripted,
    },
    run, tool,
};
use countersign_examples::terminal::{ends, or_help};

/// Get the weather for a given city.
#[tool(needs_approval = |_call, args| args.location == "San Francisco")]
async fn get_weather(location: String) -> String {
    format!("The weather in {location} is sunny")
}

#[tokio::main]
async fn main() -> ExitCode {
    ends(or_help(HELP, weather()).await)
}

async fn weather() -> Result<(), Box<dyn Error>> {
    let model = model()?;
    let data_agent = Agent::new("Data agent", model.clone())
        .instructions("You are a data agent")
        .handoff_description("You know everything about the weather")
        .tool(get_weather);
    let agent = Agent::new("Basic test agent", model).instructions("You are a basic agent").handoff(data_agent);

    let mut result = run(&agent, "What is the weather in Oakland and San Francisco?").await?;
    while result.is_paused() {
        result.state.write("result.json")?;

        // From here on it could be another process. If several take the state, only one gets it.
        let mut state = RunState::take("result.json")?;
        for interruption in &state.interruptions() {
            if confirm(&format!("{interruption}. Do you approve?"))? {
                state.approve(interruption)?;
            } else {
                state.reject(interruption)?;
            }
        }
        result = run(&agent, state).await?;
    }
    println!("{}", result.final_output);
    Ok(())
}

fn confirm(question: &str) -> Result<bool, Box<dyn Error>> {
    println!("{question} (y/n)");
    let mut answer = String::new();
    if io::stdin().read_line(&mut answer)? == 0 {
        return Err("nobody answered, so nothing was decided".into());
    }
    Ok(matches!(answer.trim().to_lowercase().as_str(), "y" | "yes"))
}

fn model() -> Result<Arc<dyn Model>, Box<dyn Error>> {
    let Ok(name) = env::var("COUNTERSIGN_MODEL") else { return Ok(Arc::new(Scripted::from_json(SCRIPT)?)) };
    let mut config = OpenAiChatConfig::new(name);
    if let Ok(url) = env::var("OPENAI_BASE_URL") {
        config.base_url = url;
    }
    config.api_key = env::var("OPENAI_API_KEY").ok().map(|key| ApiKey::new(&key));
    Ok(Arc::new(OpenAiChat::new(config)?))
}

const HELP: &str = "An agent asks (y/n) before it looks up the weather in San Francisco. It has no options but --help.
The pending run is written to result.json in the current folder, and taken from there. The answers come from a script.
COUNTERSIGN_MODEL=NAME takes them from a server with OpenAI's chat completions: the one at OPENAI_BASE_URL
(OpenAI's own if not set), with the key in OPENAI_API_KEY.";

const SCRIPT: &str = r#"{"turns": [
    {"tool_calls": [{"name": "transfer_to_Data_agent", "args": {}}]},
    {"text": "I will look it up.", "tool_calls": [
        {"name": "get_weather", "args": {"location": "Oakland"}},
        {"name": "get_weather", "args": {"location": "San Francisco"}}]},
    {"text": "It is sunny in Oakland. About San Francisco: {{ last_tool_result }}"}
]}"#;
