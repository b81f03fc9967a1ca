//! People's replies to interruptions, whether they come over the WebSocket, over HTTP or from a program.

use serde::Serialize;
use serde_json::{Value, value::RawValue};

use crate::{
    approval::decision::Decision,
    journal::run::Raw,
    refusal::{Code, Refusal},
};

/// A person's reply to an interruption.
#[derive(Clone, Debug, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Reply {
    /// To actions, one for each, as the client sent them (missing ones are filled in); to questions, one reject.
    Decisions(Vec<Decision>),
    /// To questions: a JSON object, question text → answer.
    Answers(Value),
    /// To a node of a graph: any JSON value. To actions: yes or no, for all of them (spec G3).
    Resume(Raw),
}

impl From<Vec<Decision>> for Reply {
    fn from(decisions: Vec<Decision>) -> Reply {
        Reply::Decisions(decisions)
    }
}

impl Reply {
    /// The reply of a client, which sends exactly one of these members (spec W1).
    ///
    /// # Errors
    /// `invalid_message`: several of them, none, or answers that are not JSON.
    pub fn of(
        decisions: Option<Vec<Decision>>,
        answers: Option<&RawValue>,
        resume: Option<Raw>,
    ) -> Result<Reply, Refusal> {
        let invalid = |message: &str| Err(Refusal::new(Code::InvalidMessage, message));
        match (decisions, answers, resume) {
            (Some(decisions), None, None) => {
                let decisions = decisions.into_iter().map(Decision::without_blank_message);
                Ok(Reply::Decisions(decisions.collect()))
            }
            (None, Some(answers), None) => match serde_json::from_str(answers.get()) {
                Ok(answers) => Ok(Reply::Answers(answers)),
                Err(error) => invalid(&format!("answers: {error}")),
            },
            (None, None, Some(resume)) => Ok(Reply::Resume(resume)),
            (None, None, None) => invalid(
                "\"decisions\" (for actions), \"answers\" (for questions) or \"resume\" (for what a node of a graph asks) is missing",
            ),
            _ => invalid("send one of \"decisions\", \"answers\" and \"resume\", not several"),
        }
    }

    /// The decisions, if it has any.
    #[must_use]
    pub fn decisions(&self) -> &[Decision] {
        match self {
            Reply::Decisions(decisions) => decisions,
            Reply::Answers(_) | Reply::Resume(_) => &[],
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::approval::rule::Always;

    #[test]
    fn w6_a_blank_message_of_a_rejection_is_none() {
        let read = |message: &str| {
            let text = serde_json::json!({ "type": "reject", "message": message, "always": true }).to_string();
            let decision: Decision = serde_json::from_str(&text).expect("a decision");
            Reply::of(Some(vec![decision]), None, None).expect("a reply").decisions().to_vec()
        };
        for blank in ["", " ", "\n\t "] {
            assert_eq!(read(blank), [Decision::reject(None).always(Always::Session)], "{blank:?}");
        }
        assert_eq!(read(" no ")[0].message(), Some(" no "));
        assert_eq!(Decision::approve().without_blank_message(), Decision::approve());
    }
}
