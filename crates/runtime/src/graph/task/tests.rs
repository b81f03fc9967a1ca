//! A node and its memory, without a run around them.

use std::future::IntoFuture as _;

use countersign_core::{
    journal::progress::{Question, TaskPhase},
    number::{FrameNo, InterruptionNo},
};
use futures::future::join;

use super::{super::context::Context, *};

/// A journal that stores everything.
struct StoresAll;

impl Journal for StoresAll {
    fn store<'a>(self: Arc<Self>, _: StepOf<'a>, _: &'a Make<'a>) -> BoxFuture<'a, Stored> {
        Box::pin(std::future::ready(Stored::Yes))
    }

    fn term(&self) -> Option<u64> {
        Some(0)
    }

    fn lasts(&self, _: Option<u64>) -> bool {
        true
    }
}

fn task() -> Task {
    Task {
        task: TaskNo::NONE.later(1),
        frame: FrameNo::ROOT,
        node: "node".into(),
        input: None,
        phase: TaskPhase::Ready,
        steps: BTreeMap::new(),
        questions: BTreeMap::new(),
        restored: None,
        asks_again: false,
    }
}

fn raw(value: impl serde::Serialize) -> Raw {
    Raw::of(&value).expect("JSON")
}

/// The node's memory, and where its steps are stored.
fn memory(task: &Task) -> (Arc<Memory>, Arc<dyn Journal>) {
    let journal: Arc<dyn Journal> = Arc::new(StoresAll);
    let memory = Memory::new(Arc::downgrade(&journal), "s".into(), Turn::default(), task, task.node.clone(), None);
    (Arc::new(memory), journal)
}

fn given() -> Result<Given, NodeError> {
    Ok(Given { json: None, update: Box::new(()) })
}

/// The driver delivers an answer to a node while it records the pause: the node was last polled before that, and must
/// continue all the same.
#[tokio::test]
async fn g3_an_answer_between_the_last_poll_and_the_record_of_the_pause_is_news() {
    let mut task = task();
    let (memory, _journal) = memory(&task);
    let ctx = Context::new(Arc::new(()), memory.clone());
    let begin = move || {
        let (a, b) = (ctx.interrupt("a?", ()).into_future(), ctx.interrupt("b?", ()).into_future());
        async move {
            join(a, b).await;
            given()
        }
        .boxed()
    };
    let options = NodeOptions::new();
    let Stretch::Paused(parked) = run(&begin, None, memory.clone(), &options).await else { panic!("it asks") };
    for (n, NewQuestion { name, shown, .. }) in (0..).zip(memory.asks(&task).questions) {
        let (n, digest) = (InterruptionNo::new(n + 1), shown.digest().to_string().into());
        task.questions.insert(name, Question { n, digest, role: None, answer: None });
    }
    assert_eq!(task.questions.len(), 2);
    memory.told(&task);
    assert!(!memory.has_news(&task, &[]));
    task.questions.get_mut("a?").expect("asked").answer = Some(raw(1));
    assert!(memory.has_news(&task, &[]), "it is on record only");
    memory.told(&task);
    assert!(memory.has_news(&task, &[]), "it was told, and has not been polled since");
    let Stretch::Paused(_) = run(&begin, Some(parked), memory.clone(), &options).await else { panic!("it waits") };
    assert!(!memory.has_news(&task, &[]), "it waits for the other one only");
}

/// When one more step or question would be refused, those on record are still returned.
#[tokio::test]
async fn r9_a_node_has_at_most_so_many_steps_and_questions() {
    let mut full = task();
    let question = |n| Question { n: InterruptionNo::new(n + 1), digest: "d".into(), role: None, answer: None };
    for n in 0..u32::try_from(limits::TASK_STEPS).expect("small") {
        full.steps.insert(format!("step {n}").into(), Step::Done(raw(n)));
        full.questions.insert(format!("question {n}").into(), question(n));
    }
    for (asks, idempotent) in [(false, false), (false, true), (true, false)] {
        let (memory, _journal) = memory(&full);
        let ctx = Context::new(Arc::new(()), memory.clone());
        let begin = move || {
            let ctx = ctx.clone();
            async move {
                let work = || std::future::ready(Ok::<_, NodeError>(0_u32));
                assert_eq!(ctx.step("step 7", work()).await.ok(), Some(7));
                if asks {
                    ctx.interrupt("one more", ()).await;
                }
                let step = ctx.step("one more", work());
                (if idempotent { step.idempotent() } else { step }).await?;
                given()
            }
            .boxed()
        };
        let stretch = run(begin, None, memory, &NodeOptions::new()).await;
        let Stretch::Over(Err(error)) = stretch else { panic!("it is not refused") };
        let what = if asks { "10000 questions" } else { "10000 steps" };
        assert!(error.code == "too_many_steps" && error.message.contains(what), "{error}");
    }
}
