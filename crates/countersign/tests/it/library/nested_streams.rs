//! L: nested agents in the stream of the run.

use std::{
    collections::{BTreeMap, VecDeque},
    sync::{Arc, Mutex},
    time::Duration,
};

use countersign::{
    Agent, CallStatus, NestedEvent, RunConfig, RunEvent, RunState, RunStream, Runner, ToolGuardrailOutput,
    model::{Model, ModelError, ModelEvent, ModelRequest, retry::RetryPolicy, scripted::Scripted},
};
use futures::{StreamExt as _, stream::BoxStream};
use tokio::sync::{Barrier, Notify};

use super::{Ran, calls, gated, model, ran, script, tool};

/// An answer of a [`Teller`].
type Answer = Vec<Result<ModelEvent, ModelError>>;

/// A model that gives these answers, one event at a time, each when all others that share the barrier give theirs.
#[derive(Clone)]
struct Teller {
    answers: Arc<Mutex<VecDeque<Answer>>>,
    beat: Option<Arc<Barrier>>,
    asked: Arc<Notify>,
}

impl Teller {
    fn new(answers: impl IntoIterator<Item = Answer>) -> Teller {
        let answers = Arc::new(Mutex::new(answers.into_iter().collect()));
        Teller { answers, beat: None, asked: Arc::default() }
    }
}

impl Model for Teller {
    fn call(&self, _: ModelRequest) -> BoxStream<'static, Result<ModelEvent, ModelError>> {
        self.asked.notify_one();
        let answer = self.answers.lock().expect("answers").pop_front().expect("an answer");
        let beat = self.beat.clone();
        futures::stream::iter(answer)
            .then(move |event| {
                let beat = beat.clone();
                async move {
                    if let Some(beat) = beat {
                        beat.wait().await;
                    }
                    event
                }
            })
            .boxed()
    }
    fn name(&self) -> &str {
        "teller"
    }
}

fn text(text: &str) -> Result<ModelEvent, ModelError> {
    Ok(ModelEvent::Text(text.to_owned()))
}

fn runner() -> Runner {
    let retry = RetryPolicy { initial_delay: Duration::from_millis(1), ..RetryPolicy::default() };
    Runner::new(RunConfig::new().nested_events(true).retry(retry))
}

/// The events of nested agents, in short, and between them the calls and results of the run's own agent.
async fn said(stream: &mut RunStream) -> Vec<String> {
    let mut all = Vec::new();
    while let Some(event) = stream.next().await.expect("event") {
        match event {
            RunEvent::Nested(nested) => {
                assert!(stream.frame().is_none());
                all.push(short(&nested));
            }
            RunEvent::ToolCalled { call_id, .. } => all.push(format!("calls {call_id}")),
            RunEvent::ToolResult { call_id, output, .. } => all.push(format!("{call_id} gave {output}")),
            RunEvent::ApprovalRequested { items, .. } => {
                let path: Vec<&str> = items[0].path.iter().map(|step| &*step.call_id).collect();
                all.push(format!("asks about {} in {path:?}", items[0].call_id));
            }
            _ => {}
        }
    }
    all
}

fn path(nested: &NestedEvent) -> String {
    nested
        .path
        .iter()
        .map(|step| format!("{}.{}({})", step.agent, step.tool, step.call_id))
        .collect::<Vec<_>>()
        .join(" ")
}

fn short(nested: &NestedEvent) -> String {
    let event = match &nested.event {
        RunEvent::UserSaid { text, .. } => format!("asked {text}"),
        RunEvent::TextDelta { text, .. } => format!("+{text}"),
        RunEvent::ThinkingDelta { text, .. } => format!("+thinks {text}"),
        RunEvent::ArgumentsDelta { call_id, tool, json, .. } => format!("+{tool} {call_id} {json}"),
        RunEvent::Text { text, .. } => format!("says {text}"),
        RunEvent::Thinking { text, .. } => format!("thinks {text}"),
        RunEvent::ToolCalled { call_id, tool, args: arguments, .. } => format!("calls {tool} {call_id} {arguments}"),
        RunEvent::ToolResult { call_id, status, output, .. } => {
            format!("{call_id} {}gave {output}", if *status == CallStatus::Success { "" } else { "failed and " })
        }
        RunEvent::AgentChanged { from, agent, .. } => format!("{from} -> {agent}"),
        RunEvent::BlockRestarted => "begins over".to_owned(),
        event => panic!("{event:?}"),
    };
    format!("{} {}: {event}", path(nested), nested.agent)
}

/// An agent with its own script: the journal counts answers by their model's name.
fn agent(name: &str, script: Scripted) -> Agent {
    Agent::new(name, (format!("{name}'s"), Arc::new(script)))
}

const INPUT: &str = r#"{"input":"look"}"#;

/// Front asks Desk, which asks Clerk, which has a tool.
fn front(done: &Ran, gate: bool) -> Agent {
    let own = if gate { gated("find", done) } else { tool("find", done) };
    let clerk = agent("Clerk", script(&[calls(&[("find", "c", r#"{"n":1}"#)])])).tool(own);
    let desk = agent("Desk", script(&[calls(&[("ask_clerk", "b", INPUT)])])).tool(clerk.as_tool("ask_clerk", "Asks."));
    agent("Front", script(&[calls(&[("ask_desk", "a", INPUT)])])).tool(desk.as_tool("ask_desk", "Asks."))
}

/// Without partial texts, whose pieces are the model's choice.
fn whole(said: Vec<String>) -> Vec<String> {
    said.into_iter().filter(|line| !line.contains(": +")).collect()
}

#[tokio::test]
async fn s15_a_stream_tells_what_nested_agents_do_at_any_depth_to_who_asks_for_it() {
    let done = Ran::default();
    let mut stream = runner().run_streamed(&front(&done, false), "go").await.expect("begins");
    let all = said(&mut stream).await;
    let arguments: String =
        all.iter().filter_map(|line| line.split_once("Desk: +ask_clerk b ")).map(|(_, json)| json).collect();
    assert_eq!(arguments, INPUT);
    let written: String = all.iter().filter_map(|line| line.split_once("Clerk: +")).map(|(_, text)| text).collect();
    assert_eq!(written, r#"find c {"n":1}done"#);
    assert_eq!(
        whole(all),
        [
            "calls a",
            "Front.ask_desk(a) Desk: asked look",
            r#"Front.ask_desk(a) Desk: calls ask_clerk b {"input":"look"}"#,
            "Front.ask_desk(a) Desk.ask_clerk(b) Clerk: asked look",
            r#"Front.ask_desk(a) Desk.ask_clerk(b) Clerk: calls find c {"n":1}"#,
            r#"Front.ask_desk(a) Desk.ask_clerk(b) Clerk: c gave find {"n":1}"#,
            "Front.ask_desk(a) Desk.ask_clerk(b) Clerk: says done",
            "Front.ask_desk(a) Desk: b gave done",
            "Front.ask_desk(a) Desk: says done",
            "a gave done",
        ]
    );
    assert_eq!(stream.finish().await.expect("over").final_output, "done");

    // Without the option the stream is the same as before.
    let quiet = Runner::default();
    let mut stream = quiet.run_streamed(&front(&done, false), "go").await.expect("begins");
    assert_eq!(said(&mut stream).await, ["calls a", "a gave done"]);
    let off = RunConfig::new().nested_events(false);
    let mut stream = runner().run_streamed_with(&front(&done, false), "go", off).await.expect("begins");
    assert_eq!(said(&mut stream).await, ["calls a", "a gave done"]);
}

#[tokio::test]
async fn s15_a_stream_that_goes_on_after_a_nested_pause_tells_of_nested_agents_on() {
    let done = Ran::default();
    let mut stream = runner().run_streamed(&front(&done, true), "go").await.expect("begins");
    let told = whole(said(&mut stream).await);
    assert_eq!(told.last().map(String::as_str), Some(r#"asks about c in ["a", "b"]"#), "{told:?}");
    let paused = stream.finish().await.expect("paused");
    // In another process.
    let mut state = RunState::from_json(&paused.state.to_json()).expect("state");
    state.approve(&state.interruptions()[0]).expect("approved");
    let mut stream = runner().run_streamed(&front(&done, true), state).await.expect("goes on");
    assert_eq!(
        whole(said(&mut stream).await),
        [
            r#"Front.ask_desk(a) Desk.ask_clerk(b) Clerk: c gave find {"n":1}"#,
            "Front.ask_desk(a) Desk.ask_clerk(b) Clerk: says done",
            "Front.ask_desk(a) Desk: b gave done",
            "Front.ask_desk(a) Desk: says done",
            "a gave done",
        ]
    );
    assert_eq!((&*stream.finish().await.expect("over").final_output, ran(&done).len()), ("done", 1));
}

#[tokio::test]
async fn s15_nested_agents_at_work_at_the_same_time_are_told_apart() {
    let beat = Arc::new(Barrier::new(2));
    let answer = || vec![text("one "), text("two "), text("three"), Ok(ModelEvent::Stop)];
    let model = Teller { beat: Some(beat), ..Teller::new([answer(), answer()]) };
    let poet = Agent::new("Poet", model);
    let two = calls(&[("poet", "x", r#"{"input":"first"}"#), ("poet", "y", r#"{"input":"second"}"#)]);
    let front = agent("Front", script(&[two])).tool(poet.as_tool("poet", "Writes."));
    let mut stream = runner().run_streamed(&front, "go").await.expect("begins");
    let mut events: Vec<NestedEvent> = Vec::new();
    while let Some(event) = stream.next().await.expect("event") {
        if let RunEvent::Nested(nested) = event {
            events.push(*nested);
        }
    }
    let order: Vec<u32> =
        events.iter().filter(|nested| nested.event.text().is_some()).map(|nested| nested.call).collect();
    let changes = order.windows(2).filter(|two| two[0] != two[1]).count();
    assert!(order.len() == 6 && changes > 1, "they write at the same time: {order:?}");
    let mut of: BTreeMap<u32, Vec<String>> = BTreeMap::new();
    for nested in &events {
        of.entry(nested.call).or_default().push(short(nested));
    }
    let told = |call: &str, input: &str| {
        let lines = [&format!("asked {input}"), "+one ", "+two ", "+three", "says one two three"];
        lines.map(|line| format!("Front.poet({call}) Poet: {line}")).to_vec()
    };
    assert_eq!(of.into_values().collect::<Vec<_>>(), [told("x", "first"), told("y", "second")]);
}

#[tokio::test]
async fn s15_a_nested_answer_that_breaks_off_is_told_to_begin_over() {
    let broken = vec![text("It "), text("wa"), Err(ModelError::transient("gone"))];
    let whole = vec![text("It is."), Ok(ModelEvent::Stop)];
    let inner = Agent::new("Clerk", Teller::new([broken, whole]));
    let front = agent("Front", script(&[calls(&[("clerk", "a", INPUT)])])).tool(inner.as_tool("clerk", "Asks."));
    let mut stream = runner().run_streamed(&front, "go").await.expect("begins");
    let lines = ["asked look", "+It ", "+wa", "begins over", "+It is.", "says It is."];
    let want = lines.map(|line| format!("Front.clerk(a) Clerk: {line}"));
    assert_eq!(said(&mut stream).await[1..=want.len()], want);
}

#[tokio::test]
async fn s15_a_handoff_of_a_nested_agent_is_told() {
    let other = agent("Other", model(r#"{"turns":[{"text":"mine"}]}"#));
    let inner = agent("Clerk", script(&[calls(&[("transfer_to_Other", "h", "{}")])])).handoff(other);
    let front = agent("Front", script(&[calls(&[("clerk", "a", INPUT)])])).tool(inner.as_tool("clerk", "Asks."));
    let mut stream = runner().run_streamed(&front, "go").await.expect("begins");
    let told = whole(said(&mut stream).await);
    let lines = ["Clerk: calls transfer_to_Other h {}", "Other: Clerk -> Other", "Other: says mine"];
    let at = lines.map(|line| told.iter().position(|told| *told == format!("Front.clerk(a) {line}")));
    assert!(at.iter().all(Option::is_some) && at.is_sorted(), "{told:?}");
}

/// Pieces from while nobody read are lost, and nothing that is recorded.
#[tokio::test]
async fn s15_a_reader_who_falls_behind_misses_nothing_of_nested_agents_that_is_on_record() {
    let done = Ran::default();
    let pieces = 2_000;
    let call = [
        Ok(ModelEvent::ToolUse { id: "c".into(), name: "find".into() }),
        Ok(ModelEvent::Input("{}".into())),
        Ok(ModelEvent::Stop),
    ];
    let long: Answer = (0..pieces).map(|_| text("la ")).chain(call).collect();
    let inner =
        Agent::new("Clerk", Teller::new([long, vec![text("sung"), Ok(ModelEvent::Stop)]])).tool(tool("find", &done));
    let first = vec![
        Ok(ModelEvent::ToolUse { id: "a".into(), name: "clerk".into() }),
        Ok(ModelEvent::Input(INPUT.into())),
        Ok(ModelEvent::Stop),
    ];
    let outer = Teller::new([first, vec![text("over"), Ok(ModelEvent::Stop)]]);
    let asked = outer.asked.clone();
    let front = Agent::new("Front", outer).tool(inner.as_tool("clerk", "Asks."));
    let mut stream = runner().run_streamed(&front, "go").await.expect("begins");
    for _ in 0..2 {
        asked.notified().await;
    }
    let told = said(&mut stream).await;
    assert!(told.len() < pieces, "it fell behind");
    let song = "la ".repeat(pieces);
    assert_eq!(
        whole(told),
        [
            "calls a".to_owned(),
            "Front.clerk(a) Clerk: asked look".to_owned(),
            format!("Front.clerk(a) Clerk: says {song}"),
            "Front.clerk(a) Clerk: calls find c {}".to_owned(),
            "Front.clerk(a) Clerk: c gave find {}".to_owned(),
            "Front.clerk(a) Clerk: says sung".to_owned(),
            "a gave sung".to_owned(),
        ]
    );
    assert_eq!(stream.finish().await.expect("over").final_output, "over");
}

/// A model that counts.
#[derive(Clone, Default)]
struct Counted {
    /// How often it was asked; how often just now, and at most, at once.
    asked: Arc<Mutex<(usize, usize, usize)>>,
}

impl Model for Counted {
    fn call(&self, _: ModelRequest) -> BoxStream<'static, Result<ModelEvent, ModelError>> {
        let counts = self.asked.clone();
        let mut asked = counts.lock().expect("counts");
        *asked = (asked.0 + 1, asked.1 + 1, asked.2.max(asked.1 + 1));
        drop(asked);
        futures::stream::once(async move {
            tokio::time::sleep(Duration::from_millis(20)).await;
            counts.lock().expect("counts").1 -= 1;
            text("found")
        })
        .chain(futures::stream::iter([Ok(ModelEvent::Stop)]))
        .boxed()
    }
    fn name(&self) -> &str {
        "counted"
    }
}

/// What a turn may not ask any more would be refused only when it has answered, and has cost money by then.
#[tokio::test]
async fn s24_agents_that_are_asked_at_once_stay_within_the_calls_of_their_turn() {
    let front = |calls_of_it: usize, model: &Counted| {
        let all: Vec<(String, String)> = (0..calls_of_it).map(|n| ("ask".to_owned(), format!("c{n}"))).collect();
        let all: Vec<(&str, &str, &str)> = all.iter().map(|(tool, id)| (&**tool, &**id, INPUT)).collect();
        let clerk = Agent::new("Clerk", model.clone());
        agent("Front", script(&[calls(&all)])).tool(clerk.as_tool("ask", "Asks."))
    };
    let model = Counted::default();
    let failed = Runner::new(RunConfig::new().max_turns(6)).run(&front(40, &model), "go").await;
    let (asked, _, at_once) = *model.asked.lock().expect("counts");
    assert!(
        failed.is_err(),
        "it may make six calls, of which one is its own: {asked} {:?}",
        failed.map(|ran| ran.final_output)
    );
    assert_eq!(asked, 5, "{at_once} at once");

    let model = Counted::default();
    let done = Runner::new(RunConfig::new().max_turns(60)).run(&front(40, &model), "go").await.expect("done");
    assert_eq!(done.final_output, "done");
    let (asked, _, at_once) = *model.asked.lock().expect("counts");
    assert_eq!((asked, at_once), (40, countersign_core::limits::PARALLEL_CALLS));
}

/// Those of an agent that was stopped are aborted, and leave their places to others.
#[tokio::test]
async fn s24_s11_models_of_a_stopped_agent_do_not_count_as_asked() {
    let done = Ran::default();
    let trip = tool("trip", &done).output_guardrail("leaks", |_, _| async {
        // The other agent's model is asked by then.
        tokio::time::sleep(Duration::from_millis(300)).await;
        ToolGuardrailOutput::Trip("a secret".into())
    });
    let slow = model(r#"{"turns":[{"text":"late","delay_ms":60000}],"at_end":"repeat"}"#);
    let sub = agent("Sub", slow).as_tool("ask_sub", "Asks.");
    let mid =
        agent("Mid", script(&[calls(&[("ask_sub", "b", INPUT), ("trip", "t", r#"{"n":1}"#)])])).tool(sub).tool(trip);
    let front = agent("Front", script(&[calls(&[("ask_mid", "a", INPUT)])])).tool(mid.as_tool("ask_mid", "Asks."));
    let runner = Runner::new(RunConfig::new().max_turns(3));
    let ran = tokio::time::timeout(Duration::from_secs(30), runner.run(&front, "go")).await.expect("it goes on");
    assert_eq!(ran.expect("done").final_output, "done");
}
