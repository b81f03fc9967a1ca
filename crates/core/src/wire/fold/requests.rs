//! Requests and their resolutions, in the history.

use super::{
    super::{
        event::{RequestBlock, Resolution},
        history::{
            HistoryApproval, HistoryBlock, HistoryMessage, HistoryQuestionArgs, HistoryQuestions, HistoryRequest,
            HistoryRole, MessageType,
        },
    },
    Fold, Place, Writing, message,
};
use crate::{
    approval::{
        decision::Decision,
        key::approval_key,
        question::{Answers, Questions},
    },
    call::args::Args,
    journal::record::Kind,
    number::InterruptionNo,
};

impl Fold {
    /// A request becomes a message, which is found by its key until it is resolved.
    pub(super) fn request(&mut self, at: Place, request: RequestBlock) -> Writing {
        let mut bytes = 0;
        let (key, block, questions) = match request {
            RequestBlock::Actions(request) => {
                bytes = request.actions.iter().map(|action| action.args.text().len()).sum();
                let approval = HistoryApproval {
                    kind: Some(request.kind).filter(|kind| *kind != Kind::Approval),
                    step: request.step,
                    action_requests: request.actions,
                    review_configs: request.review_configs,
                    interrupt: request.interrupt,
                    approval_key: request.approval_key.clone(),
                    expires_at: request.expires_at,
                    ..HistoryApproval::default()
                };
                (request.approval_key, HistoryRequest::Actions(approval), false)
            }
            RequestBlock::Questions { approval_key, expires_at, digest } => {
                let questions = HistoryQuestions {
                    approval_key: Some(approval_key.clone()),
                    expires_at,
                    digest,
                    ..HistoryQuestions::default()
                };
                (approval_key, HistoryRequest::Questions(questions), true)
            }
        };
        let kept = self.rows.len() < self.lean_from;
        let content = if kept { vec![HistoryBlock::ApprovalRequest(Box::new(block))] } else { Vec::new() };
        let step = Some(MessageType::Step);
        let row = self.push(at, HistoryMessage { message_type: step, ..message(HistoryRole::Assistant, content) });
        self.weigh(row, bytes);
        self.waiting.insert(key, row);
        if questions { Writing::Questions(row) } else { Writing::Nothing }
    }

    /// Whether a message asks about calls.
    pub(super) fn is_approval(&self, row: usize) -> bool {
        self.rows.get(row).is_some_and(|row| key_of(&row.message).is_some())
    }

    pub(super) fn request_mut(&mut self, row: usize) -> Option<&mut HistoryRequest> {
        match self.rows.get_mut(row)?.message.content.first_mut()? {
            HistoryBlock::ApprovalRequest(block) => Some(block),
            _ => None,
        }
    }

    /// The decision or answer to a request. The request is resolved by now, but its message is still found by the key.
    pub(super) fn submitted(&mut self, n: InterruptionNo, put: impl FnOnce(&mut HistoryApproval)) {
        let key = approval_key(&self.session_id, n);
        let at = self.rows.iter().rposition(|row| key_of(&row.message) == Some(key.as_str()));
        if let Some(HistoryRequest::Actions(block)) = at.and_then(|at| self.request_mut(at)) {
            put(block);
        }
    }

    /// Holders of this role decide a request from now on.
    pub(super) fn hand_to(&mut self, key: &str, role: &str) {
        let Some(row) = self.waiting.get(key).copied() else { return };
        if let Some(HistoryRequest::Actions(block)) = self.request_mut(row) {
            for config in &mut block.review_configs {
                config.role = Some(role.to_owned());
            }
        }
    }

    /// The request is no longer pending.
    pub(super) fn resolve(
        &mut self,
        key: &str,
        resolution: Resolution,
        answers: Option<Answers>,
        decisions: Option<Vec<Decision>>,
    ) {
        let Some(row) = self.waiting.remove(key) else { return };
        match self.request_mut(row) {
            Some(HistoryRequest::Actions(block)) => {
                block.is_resolved = true;
                block.resolution = Some(resolution);
                block.expires_at = None;
            }
            Some(HistoryRequest::Questions(block)) => {
                block.is_resolved = true;
                block.approval_key = None;
                block.expires_at = None;
                block.digest = None;
                block.resolution = answers.is_none().then_some(resolution);
                for action in &mut block.action_requests {
                    action.args.answers.clone_from(&answers);
                }
                block.submitted_answers = answers;
                block.submitted_decisions = decisions;
            }
            None => {}
        }
    }
}

/// The key of the request for a decision, if this message is one.
fn key_of(message: &HistoryMessage) -> Option<&str> {
    match message.content.first()? {
        HistoryBlock::ApprovalRequest(block) => match &**block {
            HistoryRequest::Actions(block) => Some(&block.approval_key),
            HistoryRequest::Questions(_) => None,
        },
        _ => None,
    }
}

pub(super) fn question_args(args: &Args) -> HistoryQuestionArgs {
    HistoryQuestionArgs {
        questions: Questions::recorded(args).map(|asked| asked.questions).unwrap_or_default(),
        answers: None,
    }
}
