//! (f) Reading a compressed session's conversation: after 10,000 turns as fast as after 10 (spec G5).

use std::{
    sync::{Arc, Mutex, PoisonError},
    time::Instant,
};

use countersign_core::approval::principal::Principal;
use countersign_engine::{
    compression::Compression,
    model::{Model, ModelEvent, ModelRequest},
};
use countersign_runtime::{
    agent::Agent,
    run::{NewMessage, Runtime},
};
use countersign_store::{Store, memory::MemoryStore};
use futures::{
    FutureExt as _, StreamExt as _,
    stream::{self, BoxStream},
};

use crate::{Result, Verdict, cycle::sqlite};

const LONG: usize = 10_000;
const SHORT: usize = 10;
/// Turns of each session that are measured, alternating.
const ROUNDS: usize = 200;
/// Tokens: about every tenth turn compresses.
const BUDGET: u64 = 1_000;
const KEEP: u32 = 2;

/// A model that reads the conversation, as every provider's does, and records how long that took.
#[derive(Clone, Default)]
struct Reader {
    /// Milliseconds, and messages.
    read: Arc<Mutex<Vec<(f64, usize)>>>,
}

impl Reader {
    fn taken(&self) -> Vec<(f64, usize)> {
        std::mem::take(&mut *self.read.lock().unwrap_or_else(PoisonError::into_inner))
    }
}

impl Model for Reader {
    fn call(
        &self,
        request: ModelRequest,
    ) -> BoxStream<'static, std::result::Result<ModelEvent, countersign_engine::model::ModelError>> {
        let me = self.clone();
        async move {
            let begin = Instant::now();
            let messages = request.conversation.messages().await;
            let took = begin.elapsed().as_secs_f64() * 1e3;
            let said = match messages {
                Ok(messages) => {
                    me.read.lock().unwrap_or_else(PoisonError::into_inner).push((took, messages.len()));
                    vec![
                        Ok(ModelEvent::Text("It goes up, and then it goes down again.".to_owned())),
                        Ok(ModelEvent::Stop),
                    ]
                }
                Err(error) => vec![Err(error)],
            };
            stream::iter(said)
        }
        .flatten_stream()
        .boxed()
    }
}

async fn turn(runtime: &Runtime, session: &str, text: &Arc<str>) -> Result<()> {
    let outcome = runtime.run(&Principal::trusted(), NewMessage::text(session, text.clone())).await?;
    if outcome.text.is_empty() { Err(format!("{session}: no answer").into()) } else { Ok(()) }
}

fn median(mut values: Vec<(f64, usize)>) -> f64 {
    values.sort_by(|a, b| a.0.total_cmp(&b.0));
    values.get(values.len() / 2).map_or(f64::NAN, |value| value.0)
}

/// On both stores.
pub(crate) fn transcripts() -> Result<Vec<Verdict>> {
    let dir = tempfile::tempdir()?;
    let executor = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    let stores: [(Arc<dyn Store>, &'static str); 2] = [
        (sqlite(&dir.path().join("compressed.db"))?, "compressed: SQLite, 10,000 turns / 10"),
        (Arc::new(MemoryStore::new()), "compressed: memory, 10,000 turns / 10"),
    ];
    let text: Arc<str> = "What does the market say today, and what should be done about it? ".repeat(4).into();
    let mut measured = Vec::new();
    for (store, name) in stores {
        let (reader, summariser) = (Reader::default(), Reader::default());
        let compression = Compression::summary(BUDGET).keep_turns(KEEP).model("summary", Arc::new(summariser.clone()));
        let agent = Agent::new("trader", ("m", Arc::new(reader.clone()))).compression(compression);
        let runtime = Runtime::builder(store).agent(agent).build()?;
        let verdict = executor.block_on(async {
            let begin = Instant::now();
            for _ in 0..LONG {
                turn(&runtime, "long", &text).await?;
            }
            let made = begin.elapsed().as_secs_f64();
            let (mut longs, mut shorts) = (Vec::new(), Vec::new());
            for round in 0..ROUNDS {
                // The short session is replaced by a new one whenever it has doubled.
                let short = format!("short-{}", round / SHORT);
                if round % SHORT == 0 {
                    for _ in 0..SHORT {
                        turn(&runtime, &short, &text).await?;
                    }
                }
                reader.taken();
                turn(&runtime, &short, &text).await?;
                shorts.extend(reader.taken());
                turn(&runtime, "long", &text).await?;
                longs.extend(reader.taken());
            }
            let most = longs.iter().map(|(_, messages)| *messages).max().unwrap_or_default();
            if most > 100 || summariser.taken().len() < LONG / 100 {
                return Err(format!("{name}: {most} messages were read, so nothing was compressed").into());
            }
            let (long, short) = (median(longs), median(shorts));
            Ok::<Verdict, Box<dyn std::error::Error + Send + Sync>>(Verdict {
                name,
                ratio: long / short,
                at_least: None,
                at_most: Some(1.5),
                detail: format!("{long:.4} ms against {short:.4} ms, at most {most} messages; made in {made:.1} s"),
            })
        })?;
        measured.push(verdict);
    }
    Ok(measured)
}
