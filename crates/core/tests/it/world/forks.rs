//! Random sessions that continue as forks of themselves.

use std::sync::Arc;

use countersign_core::{
    approval::decision::EditedAction,
    call::args::Args,
    journal::{
        checkpoint::Checkpoint,
        draft::Draft,
        fork::{self, ForkInput},
        record::{Entry, Judged, Record, UserMessage, records},
        state::{Call, Phase, State},
    },
    number::CallNo,
    refusal::Refusal,
    session::Session,
};

use super::{World, people::edited};

impl World {
    pub fn checkpoints(&self) -> Vec<u64> {
        let mut state = Session::new("s".into());
        let place = |entry: &Arc<Entry>| {
            state.append(entry).expect("legal");
            Checkpoint::of(&state, entry).map(|place| place.pos)
        };
        self.journal.iter().filter_map(place).collect()
    }

    /// The state at a position.
    pub fn state_at(&self, pos: u64) -> Session {
        let mut state = Session::new("s".into());
        self.journal.iter().filter(|entry| entry.pos <= pos).for_each(|entry| state.append(entry).expect("legal"));
        state
    }

    /// The input that makes a fork of a state.
    pub fn fork_input(state: &State, edit: u8, run: bool) -> ForkInput {
        let judged = |call: &Call| Judged {
            preview: None,
            call: call.call,
            tool_use_id: call.id.clone(),
            edited: None,
            verdict: edited(edit % 6),
            decided_by: None,
            said_by: None,
        };
        let mut judgements: Vec<Judged> =
            state.calls.iter().filter(|call| fork::must_be_judged(call)).map(judged).collect();
        let open = state.calls.iter().find(|call| fork::is_open_to_edits(call, state));
        if let (6.., Some(call)) = (edit, open) {
            judgements.retain(|one| one.call != call.call);
            let action = EditedAction { name: "pay".to_owned(), args: Args::parse(r#"{"n":88}"#).expect("args") };
            let verdict = edited(edit % 4 + 2);
            judgements.push(Judged { edited: Some(action), verdict, ..judged(call) });
        }
        let said = UserMessage { content: "instead".into(), ..UserMessage::default() };
        // Any of them may be the provider's, which is for no other agent.
        let approved = state
            .calls
            .iter()
            .filter(|call| call.phase == Phase::Finished && call.target.is_none())
            .map(|call| call.call);
        ForkInput {
            approved: approved.collect(),
            from: "original".into(),
            by: Some("ann".into()),
            run,
            judged: judgements,
            message: (edit % 2 == 1 && !state.status.is_active() && !state.is_stopped_short()).then_some(said),
            ..ForkInput::default()
        }
    }

    pub(super) fn fork(&mut self, at: usize, edit: u8, run: bool) -> Result<(), Refusal> {
        let all = self.checkpoints();
        let pos = all[at % all.len()];
        let state = self.state_at(pos);
        // Unique, as a fork's maker would choose it; the times of records are not, since they may stop.
        let birth = format!("fork at {}", self.now).into();
        let restored = self.state.is_unknown_since_a_backup();
        let input = ForkInput { birth, restored, ..World::fork_input(&state, edit, run) };
        let transition = Draft::new(&state, self.now).fork(input, &self.tools)?;
        self.rewind(pos);
        let begun = |call: CallNo| {
            let starts = records(&self.journal)
                .filter(|record| matches!(record, Record::CallStarted { call: c, .. } if *c == call));
            u32::try_from(starts.count()).expect("few")
        };
        // A call that has begun has an unknown outcome, and a person may let it run again; one that is only approved
        // has not begun.
        self.allowed.retain(|call, _| self.by_policy.contains_key(call) || begun(*call) > 0);
        self.again.retain(|_, times| *times == u32::MAX);
        let calls: Vec<CallNo> = self.given.iter().map(|(call, ..)| *call).filter(|call| begun(*call) > 0).collect();
        for call in calls {
            let times = begun(call);
            self.again.entry(call).or_insert(times);
        }
        self.commit(transition);
        Ok(())
    }
}
