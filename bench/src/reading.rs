//! (c) One long session whose model reads its conversation, as every provider's does: the 400th cycle costs at most 1.3
//! times the 10th, excluding the time in which the model itself goes through its input.

use std::{
    sync::{Arc, Mutex, PoisonError},
    time::{Duration, Instant},
};

use countersign_core::{conversation::Message, journal::record::Block};
use countersign_engine::{
    model::{Model, ModelError, ModelEvent, ModelRequest},
    tool::{Approval, function::tool},
};
use countersign_runtime::{agent::Agent, run::Runtime};
use countersign_store::{Store, memory::MemoryStore};
use futures::{
    FutureExt as _, StreamExt as _,
    stream::{self, BoxStream},
};

use crate::{
    Result, Verdict, bare,
    cycle::{Order, SYNCS, cycle, median, sqlite},
};

const CYCLES: usize = 400;
/// Neighbouring cycles whose median is measured: single commits on a shared disk vary a lot.
const AROUND: usize = 10;
/// Sessions measured one after the other.
const SESSIONS: usize = 5;

/// A model that reads all of its conversation, proposes an order after a message and ends the turn after a result.
#[derive(Clone, Default)]
struct Reader {
    /// How long it has gone through messages since the last query.
    reading: Arc<Mutex<Duration>>,
}

impl Reader {
    fn taken(&self) -> Duration {
        std::mem::take(&mut *self.reading.lock().unwrap_or_else(PoisonError::into_inner))
    }
}

/// The bytes of a message, each of which is read.
fn read(message: &Message) -> usize {
    let letters = |text: &str| text.bytes().filter(|byte| *byte != b' ').count();
    match message {
        Message::User(content) => letters(&content.text()),
        Message::Assistant(answer) => {
            let block = |block: &Block| match block {
                Block::Text { text, .. } | Block::Thinking { text, .. } => letters(text),
                Block::ToolUse(call) => letters(&call.input),
            };
            answer.blocks.iter().map(block).sum()
        }
        Message::ToolResult(result) => letters(&result.text),
    }
}

impl Model for Reader {
    fn call(&self, request: ModelRequest) -> BoxStream<'static, std::result::Result<ModelEvent, ModelError>> {
        let me = self.clone();
        async move {
            let messages = match request.conversation.messages().await {
                Ok(messages) => messages,
                Err(error) => return stream::iter(vec![Err(error)]),
            };
            let begin = Instant::now();
            let letters: usize = std::hint::black_box(messages.iter().map(read).sum());
            let is_answered = matches!(messages.last(), Some(Message::ToolResult(_)));
            *me.reading.lock().unwrap_or_else(PoisonError::into_inner) += begin.elapsed();
            let said = if is_answered && letters > 0 {
                vec![ModelEvent::Text("Ordered.".to_owned())]
            } else {
                vec![
                    ModelEvent::ToolUse { id: String::new(), name: "order".to_owned() },
                    ModelEvent::Input(r#"{"symbol":"VNM","quantity":100}"#.to_owned()),
                ]
            };
            stream::iter(said.into_iter().chain([ModelEvent::Stop]).map(Ok).collect::<Vec<_>>())
        }
        .flatten_stream()
        .boxed()
    }
}

/// Bytes that this process has written to devices, including checkpoints of its log.
fn written() -> Option<u64> {
    let io = std::fs::read_to_string("/proc/self/io").ok()?;
    io.lines().find_map(|line| line.strip_prefix("write_bytes: ")).and_then(|bytes| bytes.parse().ok())
}

/// The measurements of one store.
struct Measured {
    early: f64,
    late: f64,
    /// Seconds of all cycles of a session, excluding the model's own reading.
    all: f64,
    bytes: Option<u64>,
}

fn measure(store: impl Fn(usize) -> Result<Arc<dyn Store>>) -> Result<Measured> {
    let kilobyte: Arc<str> = "Buy a hundred VNM and tell me why it is a good idea. ".repeat(19).into();
    let executor = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    let (mut early, mut late, mut alls, mut bytes) = (Vec::new(), Vec::new(), Vec::new(), Vec::new());
    for session in 0..SESSIONS {
        let reader = Reader::default();
        let order = tool("order", "Places an order.", |order: Order| async move { Ok(order.placed()) })
            .needs_approval(Approval::always());
        let agent = Agent::new("trader", ("reader", Arc::new(reader.clone()))).tool(order);
        let before = written();
        let runtime = Runtime::builder(store(session)?).agent(agent).build()?;
        let mut all = 0.0;
        for n in 1..=CYCLES {
            let begin = Instant::now();
            executor.block_on(cycle(&runtime, "long", &kilobyte, n))?;
            let took = begin.elapsed().saturating_sub(reader.taken()).as_secs_f64();
            all += took;
            if n > 10 - AROUND / 2 && n <= 10 + AROUND {
                early.push(took);
            }
            if n > CYCLES - AROUND - AROUND / 2 {
                late.push(took);
            }
        }
        executor.block_on(async { runtime.shutdown(Duration::from_secs(1)).await });
        drop(runtime);
        alls.push(all);
        bytes.extend(before.zip(written()).map(|(before, after)| after - before));
    }
    bytes.sort_unstable();
    let bytes = bytes.get(bytes.len() / 2).copied();
    Ok(Measured { early: median(early) * 1e3, late: median(late) * 1e3, all: median(alls), bytes })
}

pub(crate) fn one_long_session() -> Result<Vec<Verdict>> {
    let dir = tempfile::tempdir()?;
    let ratio = |name, Measured { early, late, .. }: &Measured| Verdict {
        name,
        ratio: late / early,
        at_least: None,
        at_most: Some(1.3),
        detail: format!("{late:.3} ms against {early:.3} ms"),
    };
    let bare = CYCLES as f64 / bare::rate(Some(&dir.path().join("bare.db")), SYNCS, CYCLES)?;
    let disk = measure(|session| sqlite(&dir.path().join(format!("{session}.db"))))?;
    let memory = measure(|_| Ok(Arc::new(MemoryStore::new())))?;
    let mut verdicts = vec![
        ratio("reading: SQLite, 400th / 10th", &disk),
        ratio("reading: memory, 400th / 10th", &memory),
        Verdict {
            name: "reading: 400 cycles / bare commits",
            ratio: disk.all / bare,
            at_least: None,
            at_most: Some(5.0),
            detail: format!("{:.2} s against {bare:.2} s", disk.all),
        },
    ];
    if let Some(bytes) = disk.bytes {
        verdicts.push(Verdict {
            name: "reading: MB written for 400 cycles",
            ratio: bytes as f64 / 1e6,
            at_least: None,
            at_most: Some(35.0),
            detail: format!("{bytes} bytes"),
        });
    }
    Ok(verdicts)
}
