//! What models write and read in random sessions.

use countersign_core::{
    call::{
        gate::{Ask, DecidedBy, Gate, Verdict},
        preview::Preview,
        timeout::Timeout,
    },
    conversation::{Conversation, compression::Summary},
    journal::record::{AnswersDiscarded, Block, Compressed, ModelResponded, Record, ToolUse, Usage, records},
    number::{CallNo, RunNo},
};

use super::{
    World,
    people::strict,
    tools::{TOOLS, display, input},
};

impl World {
    /// The conversation as its models read it: from the newest compression on.
    pub fn conversation(&self) -> Conversation {
        let newest = records(&self.journal).rev().find_map(|record| match record {
            Record::Compressed(compressed) => Some(compressed),
            _ => None,
        });
        let (mut conversation, from) = match newest {
            Some(compressed) => (Conversation::resume(self.state.locale, compressed), compressed.through),
            None => (Conversation::new(), 0),
        };
        assert_eq!(from, self.state.window.from);
        self.journal.iter().filter(|entry| entry.pos > from).for_each(|entry| conversation.apply(entry));
        conversation
    }

    /// The conversation of a nested agent, as its model reads it.
    pub fn nested_conversation(&self, run: RunNo) -> Conversation {
        let nested = self.state.nested(run).expect("it goes on");
        let mut conversation = Conversation::nested(self.state.locale, nested);
        self.journal.iter().filter(|e| e.pos >= nested.began).for_each(|e| conversation.apply(e));
        conversation
    }

    /// With a summary, an unusable summary, or none.
    pub(super) fn compress(&mut self, how: usize) {
        let room = self.state.window.due.expect("room is wanted");
        let cut = self.conversation().cut(room.keep_turns);
        let text = ["they said hi", "", &"too long ".repeat(2000)].get(how % 4).map(|text| (*text).to_owned());
        let usage = Usage { input_tokens: 7, output_tokens: 3, ..Usage::default() };
        let summary = text.map(|text| Summary { text, model: "m".into(), usage });
        let compressed: Compressed = cut.compressed(&room, summary);
        self.commit(self.draft().compressed(compressed).expect("room is wanted"));
    }

    /// What is known of the block that has begun: its content so far, or nothing after a crash.
    pub(super) fn written(&self) -> Option<Block> {
        Some(self.state.begun.clone().filter(|_| self.now % 2 == 0)?.with("{\"so\":"))
    }

    /// A model that is asked again after its process ended gives a new answer.
    fn begins_anew(&mut self) {
        if self.broken > 0 {
            self.commit(self.draft().replaced(None).finish());
            // What has no content is not marked.
            self.broken = self.state.shown.len();
        }
    }

    /// A model writes, and people see it before the answer is complete.
    pub(super) fn show(&mut self, what: u8) {
        self.begins_anew();
        let call = || Block::ToolUse(ToolUse::new("t0", "look", ""));
        let block = match what % 5 {
            0 => Block::text("early"),
            1 => Block::thinking("hm"),
            2 => Block::thinking(""),
            3 => self.written().unwrap_or_else(|| Block::text("")),
            _ => call(),
        };
        let mut draft = self.draft();
        if self.state.begun.as_ref().is_some_and(|begun| !begun.begins_as(&block)) || what == 11 {
            draft = draft.replaced(self.written());
        }
        // A complete call belongs to an answer: here calls appear only there.
        let begins = what >= 5 || matches!(block, Block::ToolUse(_));
        draft = if begins { draft.block_began(&block) } else { draft.block_shown(block) };
        self.commit(draft.finish());
    }

    /// Answers before the next one that are discarded, sometimes.
    pub(super) fn discarded(&self, run: RunNo) -> Option<AnswersDiscarded> {
        let usage = Usage { input_tokens: 5, output_tokens: 1, ..Usage::default() };
        (self.now % 4 == 0).then(|| AnswersDiscarded { model: "m".into(), run, calls: 2, usage })
    }

    pub(super) fn answer(&mut self, run: RunNo, calls: &[(u8, u8)]) {
        if run.is_root() {
            self.begins_anew();
        }
        let mut blocks = vec![Block::text("hm")];
        match self.state.begun.clone().filter(|_| run.is_root()) {
            Some(Block::Thinking { .. }) if self.now % 3 > 0 => blocks.insert(0, Block::thinking("so")),
            Some(Block::Text { .. }) if self.now % 3 > 0 => {}
            Some(_) => self.commit(self.draft().replaced(self.written()).finish()),
            None => {}
        }
        let mut gates = Vec::new();
        for (i, (verdict, tool)) in calls.iter().enumerate() {
            let name = TOOLS[usize::from(*tool)];
            let ask = |levels: &[&str], timeout| {
                Verdict::Ask(Ask {
                    levels: levels.iter().map(|l| (*l).into()).collect(),
                    timeout: Timeout::of(timeout),
                    ..Ask::default()
                })
            };
            let verdict = match verdict {
                0..5 if name == "ask_user_question" => Verdict::Question(Ask::question()),
                0 | 1 => Verdict::Allow,
                2 => ask(&[], 300),
                3 => ask(&["admin"], 0),
                4 => ask(&["user", "admin"], 200),
                5 => Verdict::Invalid("no".into()),
                6 => Verdict::Deny("never".into()),
                _ if name == "ask_user_question" => Verdict::Question(Ask::question()),
                n => Verdict::Ask(strict(*n)),
            };
            let call = ToolUse::new(format!("t{i}"), name, input(name, i));
            blocks.push(Block::ToolUse(ToolUse { display: display(name, i), ..call }));
            let decided_by = (verdict == Verdict::Allow && i == 2).then(|| DecidedBy::Rule { id: "r_1.0".into() });
            let preview = matches!(verdict, Verdict::Ask(_)).then(|| Preview::diff(&format!("+{i}\u{202e}")));
            gates.push(Gate {
                idempotent: name == "safe",
                decided_by,
                preview,
                target: self.tools.target(name),
                ..Gate::of(verdict)
            });
        }
        self.pending_answer = calls
            .iter()
            .enumerate()
            .map(|(i, (_, tool))| {
                let call = CallNo::new(self.state.call_count + u32::try_from(i).expect("few") + 1);
                (call, input(TOOLS[usize::from(*tool)], i))
            })
            .collect();
        let shown = if run.is_root() { self.state.shown.len() - self.broken } else { 0 };
        let shown = u32::try_from(shown).expect("few");
        let answer = ModelResponded {
            model: "m".into(),
            shown,
            blocks,
            run,
            // Unique, as a runtime makes it.
            nonce: Some(format!("answer at {}", self.now).into()),
            ..ModelResponded::default()
        };
        let draft = self.draft().discards(self.discarded(run).as_ref());
        let transition = match run.is_nested() && !calls.is_empty() && self.now % 5 == 0 {
            true => draft.model_stopped(answer, gates, "stopped", &self.tools),
            false => draft.model_responded(answer, gates, &self.tools),
        };
        self.commit(transition);
    }
}
