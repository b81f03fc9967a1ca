//! `countersign approvals approve` and `reject`.

use clap::Args;
use serde_json::{Value, json};

use super::{Sure, on_all, pending, send, show};
use crate::{
    Outcome,
    desk::Asked,
    failure::{Exit, Failure},
    terminal,
};

/// Arguments of `approve`.
#[derive(Args)]
pub(crate) struct Approve {
    /// The request's key
    key: String,
    /// Your message, for the model and the history
    #[arg(long, value_name = "TEXT")]
    reason: Option<String>,
    #[command(flatten)]
    sure: Sure,
    #[command(flatten)]
    asked: Asked,
}

/// Arguments of `reject`.
#[derive(Args)]
pub(crate) struct Reject {
    /// The request's key
    key: String,
    /// Why, for the model and the history
    #[arg(long, value_name = "TEXT")]
    reason: Option<String>,
    #[command(flatten)]
    sure: Sure,
    #[command(flatten)]
    asked: Asked,
}

impl Approve {
    /// Approves.
    pub(crate) fn run(&self) -> Outcome {
        let words = self.reason.as_ref().map(|text| ("user_edit_content", text));
        decide(&self.asked, &self.key, &self.sure, &json!({ "type": "approve" }), words)
    }
}

impl Reject {
    /// Rejects.
    pub(crate) fn run(&self) -> Outcome {
        let mut decision = json!({ "type": "reject" });
        if let Some(reason) = &self.reason {
            decision["message"] = json!(reason);
        }
        decide(&self.asked, &self.key, &self.sure, &decision, None)
    }
}

/// Refuses to approve a request that needs an answer, before asking the person to confirm.
fn check_asks_no_answer(request: &Value, key: &str, decision: &str, again: &str) -> Outcome {
    if decision != "approve" || !matches!(request["kind"].as_str(), Some("question" | "interrupt" | "input")) {
        return Ok(());
    }
    let text = format!(
        "{key} asks for an answer: give it with `countersign approvals answer {key}{again}` (answers_required)"
    );
    Err(Failure::new(Exit::Refused, terminal::visible(&text)))
}

/// Sends the decision with the digest of what was shown: the one the caller names, or else those of what is shown here.
fn decide(asked: &Asked, key: &str, sure: &Sure, decision: &Value, words: Option<(&str, &String)>) -> Outcome {
    let desk = asked.to_change()?;
    // Refuses a request that is resolved, or of a kind that this program does not know.
    let (_, request) = pending(&desk, key)?;
    let mut body = match &sure.digest {
        Some(digest) => json!({ "decisions": [decision], "digest": digest }),
        None => {
            let kind = decision["type"].as_str().unwrap_or_default();
            check_asks_no_answer(&request, key, kind, &asked.again())?;
            terminal::tell(show::card(&request).trim_end());
            // For a call whose outcome is unknown, the decision's name does not tell its effect.
            let question = match (request["kind"].as_str(), kind) {
                (Some("in_doubt"), "approve") => "run it again?".to_owned(),
                (Some("in_doubt"), "reject") => "give it up, without running it again?".to_owned(),
                _ => format!("{kind} this?"),
            };
            terminal::confirm(
                &question,
                sure.yes,
                "give --digest with the digest of what was shown (`countersign approvals show`), or --yes for what is pending now",
            )?;
            let mut body = json!({ "decisions": on_all(&request, decision) });
            // Questions have their digest beside the key.
            if let Some(digest) = request.get("digest") {
                body["digest"] = digest.clone();
            }
            body
        }
    };
    if let Some((name, text)) = words {
        body[name] = json!(text);
    }
    send(&desk, asked.json, key, body.to_string())
}
