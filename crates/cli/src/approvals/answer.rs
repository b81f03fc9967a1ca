//! `countersign approvals answer`: questions as menus, requests of graphs and tools as JSON, and results of calls.

use clap::Args;
use countersign_core::{call::json::Json, limits};
use serde_json::{Value, json};

use super::{menu, pending, send, show};
use crate::{
    Outcome,
    desk::Asked,
    failure::{Exit, Failure},
    terminal,
};

/// Arguments of `answer`.
#[derive(Args)]
pub(crate) struct Answer {
    /// The request's key
    key: String,
    /// An answer: of the first question, the second and so on, an option by its number or its text, or a text of your own
    /// (in double quotes if it is a number; an empty one is no preference); or the result of a call that may be answered instead of run
    #[arg(long, value_name = "TEXT", conflicts_with = "value")]
    answer: Vec<String>,
    /// The answer to a graph or a tool, which is JSON
    #[arg(long, value_name = "JSON")]
    value: Option<String>,
    /// The digest of the questions that were shown: the server refuses the answers if others are pending
    #[arg(long, value_name = "DIGEST")]
    digest: Option<String>,
    #[command(flatten)]
    asked: Asked,
}

impl Answer {
    /// Answers.
    pub(crate) fn run(&self) -> Outcome {
        let desk = self.asked.to_change()?;
        let (_, request) = pending(&desk, &self.key)?;
        let questions = menu::questions(&request);
        let given = !self.answer.is_empty() || self.value.is_some();
        if !given {
            if !terminal::is_interactive() {
                let text = "nobody can be asked here: give --answer for each question, or --value";
                return Err(Failure::new(Exit::Usage, text));
            }
            terminal::tell(show::card(&request).trim_end());
            terminal::drop_early();
        }
        let digest = self.digest.as_deref().or_else(|| digest(&request));
        let body = match request["kind"].as_str() {
            Some("question") => with_digest(json!({ "answers": self.answers(&questions)? }).to_string(), digest),
            Some("interrupt" | "input") => {
                if !self.answer.is_empty() {
                    let text = "it is answered with JSON: give --value, not --answer";
                    return Err(Failure::new(Exit::Usage, text));
                }
                let value = match &self.value {
                    Some(value) => resume(value).map_err(|wrong| Failure::new(Exit::Usage, wrong))?,
                    None => resume(&terminal::ask("answer, as JSON> ")?.ok_or("nothing was sent")?)?,
                };
                with_digest(format!("{{\"resume\":{value}}}"), digest)
            }
            _ => with_digest(json!({ "decisions": [self.result(&request)?] }).to_string(), digest),
        };
        send(&desk, self.asked.json, &self.key, body)
    }

    /// The result of a call, in place of running it.
    fn result(&self, request: &Value) -> Result<Value, Failure> {
        let allowed = show::list(&request["review_configs"][0]["allowed_decisions"]).contains(&json!("respond"));
        if !allowed || show::list(&request["actions"]).len() != 1 {
            return Err("it waits for a decision, not for an answer: approve, edit or reject it".into());
        }
        if self.value.is_some() {
            return Err(Failure::new(Exit::Usage, "the result of a call is given with --answer, not with --value"));
        }
        let output = match self.answer.as_slice() {
            [] => terminal::ask("the result, for the agent> ")?.ok_or("nothing was sent")?,
            [output] => output.clone(),
            _ => return Err(Failure::new(Exit::Usage, "there is one call: give --answer once")),
        };
        Ok(json!({ "type": "respond", "output": output }))
    }

    /// One for each question: as given, or as typed.
    fn answers(&self, questions: &[&Value]) -> Result<Value, Failure> {
        if self.value.is_some() {
            return Err(Failure::new(Exit::Usage, "questions are answered with --answer, not with --value"));
        }
        if self.answer.is_empty() {
            let typed = questions.iter().map(|question| ask(question)).collect::<Result<_, _>>()?;
            return Ok(menu::answers(questions, typed));
        }
        if self.answer.len() != questions.len() {
            let text = format!("there are {} questions: give --answer once for each", questions.len());
            return Err(Failure::new(Exit::Usage, text));
        }
        let given = questions.iter().zip(&self.answer).map(|(question, text)| {
            let named = show::one(question["question"].as_str().unwrap_or_default());
            menu::given(question, text).map_err(|wrong| Failure::new(Exit::Usage, format!("{named}: {wrong}")))
        });
        Ok(menu::answers(questions, given.collect::<Result<_, _>>()?))
    }
}

/// The digest of the request: of its questions, or of its one action.
pub(crate) fn digest(request: &Value) -> Option<&str> {
    request["digest"].as_str().or_else(|| request["actions"][0]["digest"].as_str())
}

/// An answer as strict JSON, with the digits of its numbers.
pub(crate) fn resume(text: &str) -> Result<String, String> {
    let json =
        Json::parse(text, limits::JSON_DEPTH).map_err(|error| format!("the answer is not valid JSON: {error}"))?;
    Ok(json.canonical())
}

/// Adds the digest to a body, whose numbers keep their digits.
pub(crate) fn with_digest(body: String, digest: Option<&str>) -> String {
    match digest {
        Some(digest) => format!("{},\"digest\":{}}}", &body[..body.len() - 1], json!(digest)),
        None => body,
    }
}

/// Asks one question until the answer is valid.
fn ask(question: &Value) -> Result<Value, Failure> {
    loop {
        let text = show::one(question["question"].as_str().unwrap_or_default());
        let line = terminal::ask(&format!("{text}\n{}", menu::prompt(question)))?.ok_or("nothing was sent")?;
        match menu::typed(question, &line) {
            Ok(menu::Typed::Answer(answer)) => return Ok(answer),
            Ok(menu::Typed::FreeText(labels)) => {
                return Ok(menu::with_text(labels, &terminal::ask("your answer> ")?.ok_or("nothing was sent")?));
            }
            Err(wrong) => terminal::tell(&wrong),
        }
    }
}
