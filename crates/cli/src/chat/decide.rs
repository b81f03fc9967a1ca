//! Deciding pending requests at the prompt.

use std::time::Duration;

use reqwest::Method;
use serde_json::{Value, json};

use super::{Talk, Typed};
use crate::{
    Outcome,
    approvals::{answer, edit::Calls, menu, on_all, show},
    failure::{Exit, Failure},
    remote::ending,
    terminal::tell,
};

/// How long events may take to follow a decision.
const TOLD: Duration = Duration::from_secs(10);
/// The decisions and the letters that choose them.
const CHOICES: [(&str, &str); 5] = [("approve", "a"), ("edit", "e"), ("reject", "r"), ("defer", "d"), ("respond", "s")];

/// A choice at the prompt.
enum Chosen {
    /// Members of the frame.
    Send(String),
    /// No decision now.
    Later,
    /// The turn is cancelled.
    Cancel,
    /// It is resolved already, or was requested again.
    Nothing,
}

impl Talk {
    /// Shows a request and asks for a decision.
    pub(super) async fn decide(&mut self, key: &str) -> Outcome {
        let text = match self.server.answer(Method::GET, &["approvals", key], &[], None).await {
            Ok(text) => text,
            Err(failure) if failure.exit == Exit::NotFound => {
                tell(&failure.text);
                self.later.insert(key.to_owned());
                return Ok(());
            }
            Err(failure) => return Err(failure),
        };
        let request: Value = self.server.read(&text)?;
        if ending(&request).is_some() {
            self.pending.retain(|pending| pending != key);
            // The events of its resolution are on their way.
            return self.until_resolved(key).await;
        }
        self.printer.line(show::card(&request).trim_end());
        if let Some(why) = show::unknown(&request) {
            self.printer.line(&format!("[{why}]"));
            self.later.insert(key.to_owned());
            return Ok(());
        }
        if !self.is_mine(&request) {
            let who = show::reviewer(&request);
            self.printer.line(&format!("[{key} is for {who}]"));
            self.later.insert(key.to_owned());
            return Ok(());
        }
        self.enter_early().await?;
        if self.ended || !self.pending.iter().any(|pending| pending == key) {
            // What was typed before has ended the chat, or the turn.
            return Ok(());
        }
        let chosen = match request["kind"].as_str() {
            Some("question") => self.answers(key, &request).await?,
            Some("interrupt" | "input") => self.value(key, &request).await?,
            _ => self.decisions(key, &text, &request).await?,
        };
        match chosen {
            Chosen::Send(members) => {
                let members = format!("\"approval_key\":{},{members}", json!(key));
                if self.request("approval", &members).await?.is_none() {
                    self.until_resolved(key).await?;
                }
                Ok(())
            }
            Chosen::Later => {
                self.later.insert(key.to_owned());
                Ok(())
            }
            Chosen::Cancel => self.cancel().await,
            Chosen::Nothing => Ok(()),
        }
    }

    /// Reads the events that follow from a decision, up to the request's resolution. A vote leaves it pending, and is
    /// not requested again.
    async fn until_resolved(&mut self, key: &str) -> Outcome {
        // If no event comes in time, later frames are shown at the prompt.
        tokio::time::timeout(TOLD, self.told(key)).await.unwrap_or(Ok(()))
    }

    async fn told(&mut self, key: &str) -> Outcome {
        loop {
            let frame = super::next(&self.server, &mut self.link).await;
            let about = frame.as_ref().ok().filter(|frame| frame["approval_key"] == key);
            let told = about.and_then(|frame| frame["type"].as_str()).map(str::to_owned);
            self.take(frame).await?;
            match told.as_deref() {
                Some("approval_resolved") => return Ok(()),
                Some("approval_updated") => {
                    self.later.insert(key.to_owned());
                    return Ok(());
                }
                _ if self.status != "awaiting_input" && !self.pending.iter().any(|pending| pending == key) => {
                    return Ok(());
                }
                _ => {}
            }
        }
    }

    /// Whether the person at this terminal decides it.
    fn is_mine(&self, request: &Value) -> bool {
        let Some(me) = &self.subject else { return true };
        if let Some(assignee) = request["assignee"].as_str() {
            return assignee == me;
        }
        match request["review_configs"][0]["role"].as_str() {
            None | Some("user") => request["subject"].as_str() == Some(me),
            Some(role) => self.roles.iter().any(|held| held == role),
        }
    }

    /// Asks for a decision until the input is one.
    async fn decisions(&mut self, key: &str, text: &str, request: &Value) -> Result<Chosen, Failure> {
        let actions = show::list(&request["actions"]);
        let configs = show::list(&request["review_configs"]);
        let allowed = |choice: &str| {
            configs.iter().all(|config| show::list(&config["allowed_decisions"]).contains(&json!(choice)))
        };
        let mut choices: Vec<(&str, &str)> = CHOICES.into_iter().filter(|(choice, _)| allowed(choice)).collect();
        choices.push(("not now", "n"));
        if actions.len() > 1 {
            choices.push(("one by one", "o"));
        }
        loop {
            let choice = match self.choose(&choices, key).await? {
                Ok(choice) => choice,
                Err(other) => return Ok(other),
            };
            match choice {
                "not now" => return Ok(Chosen::Later),
                "one by one" => return self.one_by_one(key, actions, configs).await,
                "edit" => {
                    if let Some(chosen) = self.edit(key, text).await? {
                        return Ok(chosen);
                    }
                }
                choice => {
                    return Ok(match self.decision(choice, key).await? {
                        Ok(decision) => send(&on_all(request, &decision)),
                        Err(other) => other,
                    });
                }
            }
        }
    }

    /// Asks about each action.
    async fn one_by_one(&mut self, key: &str, actions: &[Value], configs: &[Value]) -> Result<Chosen, Failure> {
        let mut decisions = Vec::new();
        for (number, (action, config)) in (1..).zip(actions.iter().zip(configs)) {
            self.printer.line(&format!("action {number}, {}:", show::name(&action["name"])));
            let allowed = show::list(&config["allowed_decisions"]);
            // An edit opens all actions.
            let choices: Vec<(&str, &str)> = CHOICES
                .into_iter()
                .filter(|(choice, _)| *choice != "edit" && allowed.contains(&json!(choice)))
                .collect();
            let choice = match self.choose(&choices, key).await? {
                Ok(choice) => choice,
                Err(other) => return Ok(other),
            };
            match self.decision(choice, key).await? {
                Ok(mut decision) => {
                    decision["digest"] = action["digest"].clone();
                    decisions.push(decision);
                }
                Err(other) => return Ok(other),
            }
        }
        Ok(send(&decisions))
    }

    /// Asks for one of these by its letter or its name.
    async fn choose<'a>(
        &mut self,
        choices: &[(&'a str, &'a str)],
        about: &str,
    ) -> Result<Result<&'a str, Chosen>, Failure> {
        let named: Vec<String> = choices.iter().map(|(choice, letter)| format!("{choice} ({letter})")).collect();
        let prompt = format!("{}> ", named.join(", "));
        loop {
            let typed = match self.typed(&prompt, about).await? {
                Ok(typed) => typed,
                Err(other) => return Ok(Err(other)),
            };
            match choices.iter().find(|(choice, letter)| typed == *choice || typed == *letter) {
                Some((choice, _)) => return Ok(Ok(choice)),
                None => tell("that is not one of these"),
            }
        }
    }

    /// The decision itself, with its text.
    async fn decision(&mut self, choice: &str, key: &str) -> Result<Result<Value, Chosen>, Failure> {
        let mut decision = json!({ "type": choice });
        let (prompt, member) = match choice {
            "reject" => ("reason, for the agent; may be empty> ", "message"),
            "respond" => ("the result, for the agent> ", "output"),
            _ => return Ok(Ok(decision)),
        };
        Ok(match self.typed(prompt, key).await? {
            Ok(words) if words.is_empty() && choice == "reject" => Ok(decision),
            Ok(words) => {
                decision[member] = json!(words);
                Ok(decision)
            }
            Err(other) => Err(other),
        })
    }

    /// Opens the arguments in an editor. `None`: nothing was changed, or it is not to be sent.
    async fn edit(&mut self, key: &str, text: &str) -> Result<Option<Chosen>, Failure> {
        let calls: Calls = self.server.read(text)?;
        let digests = calls.digests();
        let kept = self.edited.take().filter(|(of, _)| *of == digests);
        let mut text = kept.map_or_else(|| calls.text(), |(_, text)| text);
        let edited = calls.edit(&mut text);
        self.edited = Some((digests, text));
        let edited = match edited {
            Ok(edited) => edited,
            Err(failure) => {
                tell(&failure.text);
                return Ok(None);
            }
        };
        tell(edited.diff.trim_end());
        // Nobody has agreed to changes before they were shown.
        self.lines.drop_early();
        Ok(match self.typed("approve it with these changes? [y/N] ", key).await? {
            Ok(yes) if matches!(yes.as_str(), "y" | "Y" | "yes") => {
                let decisions = serde_json::to_string(&edited.decisions).map_err(|error| error.to_string())?;
                Some(Chosen::Send(format!("\"decisions\":{decisions}")))
            }
            Ok(_) => None,
            Err(other) => Some(other),
        })
    }

    /// Asks the questions.
    async fn answers(&mut self, key: &str, request: &Value) -> Result<Chosen, Failure> {
        let questions = menu::questions(request);
        let mut given = Vec::new();
        for question in &questions {
            self.printer.line(&show::one(question["question"].as_str().unwrap_or_default()));
            given.push(loop {
                let line = match self.typed(menu::prompt(question), key).await? {
                    Ok(line) => line,
                    Err(other) => return Ok(other),
                };
                match menu::typed(question, &line) {
                    Ok(menu::Typed::Answer(answer)) => break answer,
                    Ok(menu::Typed::FreeText(labels)) => match self.typed("your answer> ", key).await? {
                        Ok(line) => break menu::with_text(labels, &line),
                        Err(other) => return Ok(other),
                    },
                    Err(wrong) => tell(&wrong),
                }
            });
        }
        Ok(with_digest(format!("\"answers\":{}", menu::answers(&questions, given)), request))
    }

    /// Asks for a graph's or a tool's answer.
    async fn value(&mut self, key: &str, request: &Value) -> Result<Chosen, Failure> {
        loop {
            let line = match self.typed("answer, as JSON; empty: not now> ", key).await? {
                Ok(line) if line.is_empty() => return Ok(Chosen::Later),
                Ok(line) => line,
                Err(other) => return Ok(other),
            };
            match answer::resume(&line) {
                Ok(value) => return Ok(with_digest(format!("\"resume\":{value}"), request)),
                Err(wrong) => tell(&crate::terminal::visible(&wrong)),
            }
        }
    }

    /// A typed line, or the meaning of its absence.
    async fn typed(&mut self, prompt: &str, about: &str) -> Result<Result<String, Chosen>, Failure> {
        Ok(match self.line(Some((about, prompt))).await? {
            Typed::Line(line) => Ok(line),
            Typed::End => Err(Chosen::Later),
            Typed::Stop => Err(Chosen::Cancel),
            Typed::Overtaken => Err(Chosen::Nothing),
        })
    }
}

fn send(decisions: &[Value]) -> Chosen {
    Chosen::Send(format!("\"decisions\":{}", json!(decisions)))
}

fn with_digest(members: String, request: &Value) -> Chosen {
    Chosen::Send(match answer::digest(request) {
        Some(digest) => format!("{members},\"digest\":{}", json!(digest)),
        None => members,
    })
}
