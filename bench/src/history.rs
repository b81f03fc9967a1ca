//! (e) The last page of a long session's history against that of a short one: at most 1.5 (spec H6).

use std::{sync::Arc, time::Instant};

use countersign_core::{
    approval::principal::Principal,
    call::gate::{Gate, Verdict},
    journal::{
        draft::{Catalog, Draft, MessageInput, ToolFacts, Transition},
        outcome::CallOutcome,
        record::{Block, Entry, Millis, ModelResponded, SessionCreated, ToolUse},
        state::State,
    },
    number::CallNo,
    session::Session,
};
use countersign_runtime::run::{Direction, HistoryQuery, Runtime};
use countersign_store::{Append, Durability, Guards, Store, memory::MemoryStore};

use crate::{
    Result, Verdict as Measured,
    cycle::{median, runtime, sqlite},
};

const LONG: usize = 100_000;
const SHORT: usize = 100;
const LIMIT: usize = 50;
const ROUNDS: usize = 9;
/// Pages read in one round, of each session in turn.
const PAGES: usize = 60;
/// Entries stored at once while a session is made.
const BATCH: usize = 2_000;
const AT: Millis = 1_750_000_000_000;

/// Any agent may call any tool as often as it likes.
struct Anything;

impl Catalog for Anything {
    fn has_agent(&self, _: &str) -> bool {
        true
    }
    fn max_turns(&self, _: &str) -> u32 {
        u32::MAX
    }
    fn tool(&self, _: &str, _: &str) -> Option<ToolFacts> {
        Some(ToolFacts::default())
    }
}

/// A session under construction: no model is involved, so that a long one is made within seconds.
struct Maker<'a> {
    store: &'a dyn Store,
    session: Session,
    /// The state that the store has reached.
    stored: Arc<State>,
    entries: Vec<Arc<Entry>>,
}

impl Maker<'_> {
    fn draft(&self) -> Draft {
        Draft::new(&self.session, AT)
    }

    async fn take(&mut self, transition: Transition) -> Result<()> {
        let committed = self.session.place(transition).map_err(|rule| rule.to_string())?.commit();
        self.entries.extend(committed.entries);
        self.session = committed.after;
        if self.entries.len() >= BATCH { self.flush().await } else { Ok(()) }
    }

    async fn flush(&mut self) -> Result<()> {
        if self.entries.is_empty() {
            return Ok(());
        }
        let entries = std::mem::take(&mut self.entries);
        let append = Append {
            session_id: self.session.session_id.clone(),
            before: self.stored.clone(),
            entries,
            after: self.session.clone(),
            snapshot: true,
            durability: Durability::Buffered,
            guards: Guards::default(),
        };
        self.store.append(append).await?;
        self.stored = self.session.state.clone();
        Ok(())
    }

    async fn user(&mut self) -> Result<()> {
        let content = "What does the market say today?".into();
        let input = MessageInput { content, ..MessageInput::default() };
        let transition = self.draft().message(input, &Anything).map_err(|refused| refused.to_string())?;
        self.take(transition).await
    }

    async fn answer(&mut self, blocks: Vec<Block>, gates: Vec<Gate>) -> Result<()> {
        let answer = ModelResponded { model: "m".into(), blocks, ..ModelResponded::default() };
        self.take(self.draft().model_responded(answer, gates, &Anything)).await
    }

    async fn says(&mut self) -> Result<()> {
        self.answer(vec![Block::text("It goes up, and then it goes down again.")], Vec::new()).await
    }

    /// A call and its result: two messages of one group.
    async fn calls(&mut self) -> Result<()> {
        let call = ToolUse::new("call_1", "read", r#"{"path":"/srv/market/today.json","lines":40}"#);
        let gate = Gate::of(Verdict::Allow);
        self.answer(vec![Block::ToolUse(call)], vec![gate]).await?;
        let number = CallNo::new(self.session.call_count);
        self.take(self.draft().start(&[number])).await?;
        let outcome = Ok("VNM 67.2, VCB 91.0, HPG 25.4, FPT 131.8".to_owned());
        let finished =
            self.draft().ended(&[CallOutcome::finished(number, 1, outcome)], &Anything).ok_or("no such call")?;
        self.take(finished).await
    }
}

/// Turns of four messages each: a question, a call with its result, an answer.
async fn many_turns(maker: &mut Maker<'_>, messages: usize) -> Result<()> {
    for _ in 0..messages / 4 {
        maker.user().await?;
        maker.calls().await?;
        maker.says().await?;
    }
    Ok(())
}

/// One turn and one group, except for the first message and the last.
async fn one_group(maker: &mut Maker<'_>, messages: usize) -> Result<()> {
    maker.user().await?;
    for _ in 0..messages / 2 - 1 {
        maker.calls().await?;
    }
    maker.says().await
}

async fn make(store: &dyn Store, name: &str, group: bool, messages: usize) -> Result<()> {
    let session = Session::new(name.into());
    let mut maker = Maker { store, stored: session.state.clone(), session, entries: Vec::new() };
    let mut draft = maker.draft();
    draft.create(SessionCreated { agent: "trader".into(), birth: "b".into(), ..SessionCreated::default() });
    maker.take(draft.finish()).await?;
    if group {
        one_group(&mut maker, messages).await?
    } else {
        many_turns(&mut maker, messages).await?
    }
    maker.flush().await?;
    // Each message has at least one record.
    if maker.stored.pos < messages as u64 { Err(format!("{name} is too short").into()) } else { Ok(()) }
}

/// Milliseconds for the last page, as a median.
async fn last_page(runtime: &Runtime, session: &str) -> Result<f64> {
    let mut times = Vec::with_capacity(PAGES);
    for _ in 0..PAGES {
        let query = HistoryQuery { direction: Direction::Backward, cursor: None, limit: LIMIT };
        let begin = Instant::now();
        let page = runtime.history(&Principal::trusted(), session, query).await?;
        times.push(begin.elapsed().as_secs_f64() * 1e3);
        if page.messages.len() != LIMIT || page.next_cursor.is_none() {
            return Err(format!("{session}: the last page has {} messages", page.messages.len()).into());
        }
    }
    Ok(median(times))
}

/// Both shapes of session on both stores.
pub(crate) fn last_pages() -> Result<Vec<Measured>> {
    let dir = tempfile::tempdir()?;
    let executor = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    let stores: [(Arc<dyn Store>, [&'static str; 2]); 2] = [
        (sqlite(&dir.path().join("history.db"))?, ["history: SQLite, many turns", "history: SQLite, one group"]),
        (Arc::new(MemoryStore::new()), ["history: memory, many turns", "history: memory, one group"]),
    ];
    let mut measured = Vec::new();
    for (store, names) in stores {
        let runtime = runtime(store.clone(), "Ordered.")?;
        for (name, group) in names.into_iter().zip([false, true]) {
            let verdict = executor.block_on(async {
                let (long, short) = (format!("long-{group}"), format!("short-{group}"));
                let begin = Instant::now();
                make(&*store, &long, group, LONG).await?;
                make(&*store, &short, group, SHORT).await?;
                let made = begin.elapsed().as_secs_f64();
                last_page(&runtime, &long).await?;
                last_page(&runtime, &short).await?;
                let (mut longs, mut shorts) = (Vec::new(), Vec::new());
                for _ in 0..ROUNDS {
                    shorts.push(last_page(&runtime, &short).await?);
                    longs.push(last_page(&runtime, &long).await?);
                }
                let (long, short) = (median(longs), median(shorts));
                Ok::<Measured, Box<dyn std::error::Error + Send + Sync>>(Measured {
                    name,
                    ratio: long / short,
                    at_least: None,
                    at_most: Some(1.5),
                    detail: format!("{long:.3} ms against {short:.3} ms; made in {made:.1} s"),
                })
            })?;
            measured.push(verdict);
        }
    }
    Ok(measured)
}
