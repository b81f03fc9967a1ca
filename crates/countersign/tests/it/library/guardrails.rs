//! C, and spec S11: guardrails and hooks.

use std::sync::{
    Arc,
    atomic::{AtomicU32, Ordering},
};

use countersign::{
    Agent, ApprovalResolved, CancelHandle, GuardrailKind, GuardrailOutput, Interruption, Locale, ModelEnd, Principal,
    RunConfig, RunContext, RunErrorKind, RunHooks, RunState, Runner, ToolGuardrailOutput, ToolUseBehavior, handoff,
    run,
    run::Runtime,
    store::{Store, memory::MemoryStore},
    tool::{Approval, ToolError, condition::ProposedCall, function},
};
use futures::future::BoxFuture;

use super::{Ran, calls, decide_all, gated, ids, model, ran, script, told};
use crate::support::send;

/// The gated tool `a` with an input guardrail of this verdict, and how often that was called.
fn guarded(done: &Ran, says: fn(u32) -> ToolGuardrailOutput) -> (Agent, Arc<AtomicU32>) {
    let asked = Arc::new(AtomicU32::new(0));
    let counts = asked.clone();
    let entry = gated("a", done).input_guardrail("check", move |_: ProposedCall| {
        let said = says(counts.fetch_add(1, Ordering::SeqCst));
        async move { said }
    });
    (Agent::new("Helper", script(&[calls(&[("a", "c1", "{}")])])).tool(entry), asked)
}

fn asked_first() -> Runner {
    Runner::new(RunConfig::new().pre_approval_input_guardrails(true))
}

#[tokio::test]
async fn c29_a_tool_guardrail_is_asked_after_the_person_by_default() {
    let done = Ran::default();
    let (agent, asked) = guarded(&done, |_| ToolGuardrailOutput::Allow);
    let paused = run(&agent, "go").await.expect("paused");
    assert_eq!(asked.load(Ordering::SeqCst), 0);
    let over = decide_all(&agent, paused, |state, item| state.approve(item).expect("approved")).await;
    assert_eq!((asked.load(Ordering::SeqCst), ran(&done).len(), over.guardrails.len()), (1, 1, 1));
}

#[tokio::test]
async fn c30_a_guardrail_can_refuse_before_a_person_is_asked() {
    let done = Ran::default();
    let (agent, _) = guarded(&done, |_| ToolGuardrailOutput::Reject("not today".to_owned()));
    let over = asked_first().run(&agent, "go").await.expect("over");
    assert_eq!((ids(&over).len(), ran(&done).len()), (0, 0));
    assert_eq!(told(&over), ["user: go", "a c1", "c1: not today", "says: done"]);
    assert_eq!(over.guardrails[0].rejected.as_deref(), Some("not today"));
}

#[tokio::test]
async fn c31_a_guardrail_is_asked_again_after_approval_also_in_another_process() {
    let done = Ran::default();
    let (agent, asked) = guarded(&done, |_| ToolGuardrailOutput::Allow);
    let paused = asked_first().run(&agent, "go").await.expect("paused");
    assert_eq!((asked.load(Ordering::SeqCst), paused.guardrails.len()), (1, 1));
    let mut state = RunState::from_json(&paused.state.to_json()).expect("read");
    state.approve(&paused.interruptions[0]).expect("approved");
    let over = asked_first().run(&agent, state).await.expect("over");
    assert_eq!((asked.load(Ordering::SeqCst), over.guardrails.len(), ran(&done).len()), (2, 2, 1));
    assert!(over.guardrails.iter().all(|result| result.kind == GuardrailKind::ToolInput));
}

/// Before approval, and after it, before the call runs and on its result.
#[tokio::test]
async fn s11_a_guardrail_knows_whose_call_it_is_whenever_it_runs() {
    let (done, seen) = (Ran::default(), Ran::default());
    let sees = |place: &'static str| {
        let seen = seen.clone();
        move |call: ProposedCall| {
            let whose = (call.subject.as_deref(), call.tenant.as_deref(), &call.roles);
            seen.lock().expect("seen").push(format!("{place} {whose:?}"));
        }
    };
    let (before, after) = (sees("in"), sees("out"));
    let entry = gated("a", &done)
        .input_guardrail("check", move |call| {
            before(call);
            async { ToolGuardrailOutput::Allow }
        })
        .output_guardrail("check", move |call, _| {
            after(call);
            async { ToolGuardrailOutput::Allow }
        });
    let agent = Agent::new("Helper", script(&[calls(&[("a", "c1", "{}")])])).tool(entry);
    let ann = Principal::person("ann", vec!["finance".to_owned()]).tenant("acme");
    let runner = Runner::new(RunConfig::new().pre_approval_input_guardrails(true).principal(ann));
    let mut paused = runner.run(&agent, "go").await.expect("paused");
    paused.state.approve(&paused.interruptions[0]).expect("approved");
    runner.run(&agent, paused.state).await.expect("over");
    let whose = r#"(Some("ann"), Some("acme"), ["finance"])"#;
    assert_eq!(ran(&seen), [format!("in {whose}"), format!("in {whose}"), format!("out {whose}")]);
}

#[tokio::test]
async fn c31_what_became_unsafe_while_it_waited_does_not_run() {
    let done = Ran::default();
    let (agent, _) = guarded(&done, |n| match n {
        0 => ToolGuardrailOutput::Allow,
        _ => ToolGuardrailOutput::Reject("too late".to_owned()),
    });
    let paused = asked_first().run(&agent, "go").await.expect("paused");
    let over = decide_all(&agent, paused, |state, item| state.approve(item).expect("approved")).await;
    assert_eq!((ran(&done).len(), &*told(&over)[2]), (0, "c1: too late"));
}

/// A standing decision applies before the guardrail is called at all.
#[tokio::test]
async fn c32_a_standing_decision_counts_more_than_asking_first() {
    let done = Ran::default();
    let answers = [calls(&[("a", "c1", "{}")]), calls(&[("a", "c2", "{}")])];
    let asked = Arc::new(AtomicU32::new(0));
    let counts = asked.clone();
    let entry = gated("a", &done).input_guardrail("check", move |_| {
        counts.fetch_add(1, Ordering::SeqCst);
        async { ToolGuardrailOutput::Allow }
    });
    let agent = Agent::new("Helper", script(&answers)).tool(entry);
    let mut paused = asked_first().run(&agent, "go").await.expect("paused");
    paused.state.always_reject(&paused.interruptions[0]).expect("rejected");
    let over = asked_first().run(&agent, paused.state).await.expect("over");
    assert_eq!((ids(&over).len(), ran(&done).len(), asked.load(Ordering::SeqCst)), (0, 0, 1));
}

/// A standing decision about another call of the answer does not call the guardrail twice.
#[tokio::test]
async fn c30_a_guardrail_is_asked_once_before_a_person_whatever_else_the_answer_has() {
    let done = Ran::default();
    let answers = [calls(&[("b", "c1", "{}")]), calls(&[("a", "c2", "{}"), ("b", "c3", "{}")])];
    let asked = Arc::new(AtomicU32::new(0));
    let counts = asked.clone();
    let entry = gated("a", &done).input_guardrail("check", move |_| {
        counts.fetch_add(1, Ordering::SeqCst);
        async { ToolGuardrailOutput::Allow }
    });
    let agent = Agent::new("Helper", script(&answers)).tool(entry).tool(gated("b", &done));
    let mut paused = asked_first().run(&agent, "go").await.expect("paused");
    paused.state.always_approve(&paused.interruptions[0]).expect("approved");
    let over = asked_first().run(&agent, paused.state).await.expect("paused again");
    assert_eq!((ids(&over).len(), asked.load(Ordering::SeqCst), over.guardrails.len()), (1, 1, 1));
}

#[tokio::test]
async fn s11_a_tool_guardrail_that_trips_stops_the_run_and_nothing_runs() {
    let done = Ran::default();
    let (agent, _) = guarded(&done, |_| ToolGuardrailOutput::Trip("stolen card".into()));
    let mut paused = run(&agent, "go").await.expect("paused");
    paused.state.approve(&paused.interruptions[0]).expect("approved");
    let error = run(&agent, paused.state).await.expect_err("stopped");
    let result = error.guardrail().expect("a guardrail");
    assert_eq!((result.kind, result.info.as_str()), (GuardrailKind::ToolInput, Some("stolen card")));
    assert_eq!(result.call_id.as_deref(), Some("c1"));
    assert!(ran(&done).is_empty());
    // With guardrails before approval, no person is asked.
    let error = asked_first().run(&agent, "go").await.expect_err("stopped");
    assert_eq!(error.kind(), RunErrorKind::Guardrail, "{error}");
}

#[tokio::test]
async fn s11_a_tool_guardrail_that_trips_before_anybody_is_asked_stops_the_other_calls_of_the_answer() {
    let done = Ran::default();
    let trips = gated("a", &done)
        .input_guardrail("check", |_: ProposedCall| async { ToolGuardrailOutput::Trip("stolen card".into()) });
    let free = gated("b", &done).needs_approval(Approval::never());
    let agent = Agent::new("Helper", script(&[calls(&[("b", "c1", "{}"), ("a", "c2", "{}")])])).tool(trips).tool(free);
    let error = asked_first().run(&agent, "go").await.expect_err("stopped");
    assert_eq!((error.kind(), ran(&done).len()), (RunErrorKind::Guardrail, 0), "{error}");
}

#[tokio::test]
async fn e62_a_guardrail_that_trips_on_a_result_does_not_make_the_call_run_again() {
    let done = Ran::default();
    let entry = gated("a", &done)
        .output_guardrail("leak", |_, output: String| async move { ToolGuardrailOutput::Trip(output.into()) });
    let agent = Agent::new("Helper", script(&[calls(&[("a", "c1", "{}")])])).tool(entry);
    let mut paused = run(&agent, "go").await.expect("paused");
    paused.state.approve(&paused.interruptions[0]).expect("approved");
    let error = run(&agent, paused.state).await.expect_err("stopped");
    let state = error.state().expect("a state").to_json();
    let over = run(&agent, RunState::from_json(&state).expect("read")).await.expect("over");
    assert_eq!(ran(&done), ["a {}"]);
    // The result that tripped it is withheld from the model too.
    assert_eq!(told(&over)[2], r#"c1: the tool output guardrail "leak" stopped the run; the call took effect"#);
}

#[tokio::test]
async fn s11_a_result_can_be_withheld() {
    let done = Ran::default();
    let entry = super::tool("a", &done)
        .output_guardrail("secrets", |_, _| async { ToolGuardrailOutput::Reject("[withheld]".to_owned()) });
    let agent = Agent::new("Helper", script(&[calls(&[("a", "c1", "{}")])])).tool(entry);
    let over = run(&agent, "go").await.expect("over");
    assert_eq!(told(&over)[2], "c1: [withheld]");
}

#[tokio::test]
async fn s11_an_input_guardrail_stops_a_run_before_the_model_is_asked() {
    let agent = Agent::new("Helper", model(r#"{"turns":[{"text":"hi"}]}"#)).input_guardrail(
        "homework",
        |run, input: String| async move {
            if input.contains("solve") {
                GuardrailOutput::trip(format!("{} is no tutor", run.agent))
            } else {
                GuardrailOutput::pass()
            }
        },
    );
    assert_eq!(run(&agent, "hello").await.expect("over").final_output, "hi");
    let error = run(&agent, "solve this").await.expect_err("stopped");
    let (result, state) = (error.guardrail().expect("a guardrail"), error.state().expect("its state"));
    assert_eq!(
        (result.kind, &*result.guardrail, result.info.as_str()),
        (GuardrailKind::Input, "homework", Some("Helper is no tutor"))
    );
    assert_eq!(state.state().answers.all(), 0);
}

#[tokio::test]
async fn g86_input_guardrails_do_not_run_again_and_their_results_stay() {
    let done = Ran::default();
    let (inputs, outputs) = (Arc::new(AtomicU32::new(0)), Arc::new(AtomicU32::new(0)));
    let (on_input, on_output) = (inputs.clone(), outputs.clone());
    let agent = Agent::new("Helper", script(&[calls(&[("a", "c1", "{}")])]))
        .tool(gated("a", &done))
        .input_guardrail("in", move |_, _| {
            on_input.fetch_add(1, Ordering::SeqCst);
            async { GuardrailOutput::pass().info("fine") }
        })
        .output_guardrail("out", move |_, _| {
            on_output.fetch_add(1, Ordering::SeqCst);
            async { GuardrailOutput::pass() }
        });
    let paused = run(&agent, "go").await.expect("paused");
    assert_eq!((inputs.load(Ordering::SeqCst), outputs.load(Ordering::SeqCst)), (1, 0));
    let again = run(&agent, RunState::from_json(&paused.state.to_json()).expect("read")).await.expect("paused");
    assert_eq!(again.guardrails, paused.guardrails);
    let over = decide_all(&agent, again, |state, item| state.approve(item).expect("approved")).await;
    assert_eq!((inputs.load(Ordering::SeqCst), outputs.load(Ordering::SeqCst)), (1, 1));
    assert_eq!(over.guardrails.iter().map(|result| &*result.guardrail).collect::<Vec<_>>(), ["in", "out"]);
    assert_eq!(over.guardrails[0].info, "fine");
}

#[tokio::test]
async fn s11_an_output_guardrail_that_trips_or_panics_stops_the_run() {
    for panics in [false, true] {
        let agent = Agent::new("Helper", model(r#"{"turns":[{"text":"the password is x"}]}"#)).output_guardrail(
            "secrets",
            move |_, output: String| async move {
                assert!(!panics, "broken");
                if output.contains("password") { GuardrailOutput::trip("a secret") } else { GuardrailOutput::pass() }
            },
        );
        let error = run(&agent, "go").await.expect_err("stopped");
        let result = error.guardrail().expect("a guardrail");
        assert_eq!((result.kind, result.tripped), (GuardrailKind::Output, true));
    }
}

/// The agent's script has one call of `a`, which says `a {}`; all four places have the guardrail `g`, of which one does this.
fn breaks(at: GuardrailKind, trips: bool) -> Agent {
    let says = move |kind: GuardrailKind| {
        assert!(kind != at || trips, "the token is 12345");
        if kind == at { GuardrailOutput::trip("the token is 12345") } else { GuardrailOutput::pass() }
    };
    let of_tool = move |kind| match says(kind) {
        GuardrailOutput { tripped: true, info } => ToolGuardrailOutput::Trip(info),
        _ => ToolGuardrailOutput::Allow,
    };
    let tool = super::tool("a", &Ran::default())
        .input_guardrail("g", move |_| async move { of_tool(GuardrailKind::ToolInput) })
        .output_guardrail("g", move |_, _| async move { of_tool(GuardrailKind::ToolOutput) });
    Agent::new("Helper", script(&[calls(&[("a", "c1", "{}")])]))
        .tool(tool)
        .input_guardrail("g", move |_, _| async move { says(GuardrailKind::Input) })
        .output_guardrail("g", move |_, _| async move { says(GuardrailKind::Output) })
}

const KINDS: [GuardrailKind; 4] =
    [GuardrailKind::Input, GuardrailKind::Output, GuardrailKind::ToolInput, GuardrailKind::ToolOutput];

#[tokio::test]
async fn s11_a_guardrail_that_failed_is_told_from_one_that_tripped() {
    for kind in KINDS {
        for trips in [true, false] {
            let error = run(&breaks(kind, trips), "go").await.expect_err("stopped");
            let (result, state) = (error.guardrail().expect("a guardrail"), error.state().expect("its state"));
            assert_eq!((result.kind, result.tripped), (kind, true));
            let said = (result.info.as_str(), result.error.as_deref());
            let expected = match trips {
                true => (Some("the token is 12345"), None),
                false => (None, Some("it panicked: the token is 12345")),
            };
            assert_eq!(said, expected, "{kind:?}");
            assert!(state.to_json().contains("12345"), "the caller's own state keeps it");
        }
    }
}

/// Nor does the error say what the guardrail found: that is for operators.
#[tokio::test]
async fn s11_c_people_are_told_in_their_language_which_guardrail_stopped_a_run_and_whether_it_failed() {
    let store: Arc<dyn Store> = Arc::new(MemoryStore::new());
    let mut all = std::collections::BTreeSet::new();
    for kind in KINDS {
        for trips in [true, false] {
            for &locale in Locale::ALL {
                let session = format!("{kind:?}-{trips}-{locale:?}");
                let runtime =
                    Runtime::builder(store.clone()).locale(locale).agent(breaks(kind, trips)).build().expect("runtime");
                let ended = send(&runtime, &session, "go").await.expect("run");
                let error = ended.error.expect("failed");
                let code = serde_json::to_value(kind).expect("a name");
                assert_eq!(error.code, format!("{}_guardrail", code.as_str().expect("a text")));
                assert!(error.message.contains("\"g\"") && !error.message.contains("12345"), "{}", error.message);
                // A model that reads it after a retry does not make the call again.
                let has_run = match locale {
                    Locale::En => "the call took effect",
                    Locale::Vi => "lệnh gọi đã có tác dụng",
                    Locale::Zh => "调用已经生效",
                    other => panic!("{other:?}"),
                };
                assert_eq!(error.message.contains(has_run), kind == GuardrailKind::ToolOutput, "{}", error.message);
                let of_tool = matches!(kind, GuardrailKind::ToolInput | GuardrailKind::ToolOutput);
                let journal = RunState::load(&*store, &session).await.expect("saved").to_json();
                assert!(!journal.contains("12345"), "{journal}");
                let result = serde_json::to_string(&error.message).expect("a text");
                assert!(!of_tool || journal.matches(&result).count() == 2, "its call is told the same: {journal}");
                all.insert(error.message);
            }
        }
    }
    assert_eq!(all.len(), KINDS.len() * 2 * Locale::ALL.len());
}

#[tokio::test]
async fn s23_c_people_are_told_in_their_language_that_an_answer_does_not_fit() {
    let mut all = std::collections::BTreeSet::new();
    for &locale in Locale::ALL {
        let agent = Agent::new("Helper", model(r#"{"turns":[{"text":"it is warm"}]}"#));
        let agent = agent.output_type::<Weather>().expect("a type");
        let builder = Runtime::builder(Arc::new(MemoryStore::new())).locale(locale);
        let ended = send(&builder.agent(agent).build().expect("runtime"), "s", "go").await.expect("run");
        all.insert(ended.error.expect("failed").message);
    }
    assert_eq!(all.len(), Locale::ALL.len());
    assert!(all.iter().any(|text| text.starts_with("回答不符合输出类型：不是 JSON：")), "{all:?}");
}

#[derive(serde::Deserialize, schemars::JsonSchema, PartialEq, Debug)]
struct Weather {
    city: String,
    degrees: i32,
}

#[tokio::test]
async fn s23_an_answer_is_of_the_output_type_or_the_run_fails() {
    let fits = r#"{"turns":[{"text":"{\"city\":\"Oakland\",\"degrees\":21}"}]}"#;
    let agent = Agent::new("Helper", model(fits)).output_type::<Weather>().expect("a type");
    let over = run(&agent, "go").await.expect("over");
    assert_eq!(over.final_output_as::<Weather>().expect("typed"), Weather { city: "Oakland".into(), degrees: 21 });
    for (wrong, why) in [
        (r#"{\"city\":\"Oakland\",\"degrees\":\"warm\"}"#, "/degrees: "),
        ("it is warm", "it is not JSON: "),
        (r#"{\"city\":\"Oakland\",\"degrees\":21,\"degrees\":22}"#, "the member \"degrees\" appears twice"),
    ] {
        let agent = Agent::new("Helper", model(&format!(r#"{{"turns":[{{"text":"{wrong}"}}]}}"#)));
        let error = run(&agent.output_type::<Weather>().expect("a type"), "go").await.expect_err("wrong");
        let errors = error.output_errors();
        assert!(errors[0].starts_with(why), "{errors:?}");
    }
}

#[derive(schemars::JsonSchema)]
#[expect(dead_code, reason = "read by its schema")]
enum Sky {
    Clear,
    Rain { millimetres: u32 },
}

#[test]
fn s23_an_output_type_that_is_no_object_is_refused_when_the_agent_is_made() {
    let agent = || Agent::new("Helper", model(r#"{"turns":[]}"#));
    let refused = [
        agent().output_type::<Vec<Weather>>(),
        agent().output_type::<Sky>(),
        agent().output_type::<String>(),
        agent().output_type::<Option<Weather>>(),
    ];
    for refused in refused {
        let error = refused.map(drop).expect_err("no object").to_string();
        assert!(error.contains("\"Helper\"") && error.contains("field of a struct"), "{error}");
    }
    agent().output_type::<std::collections::BTreeMap<String, u32>>().expect("an object");
}

/// Records its callbacks.
#[derive(Clone, Default)]
struct Told(Ran);

impl Told {
    fn say(&self, what: String) -> BoxFuture<'static, ()> {
        self.0.lock().expect("told").push(what);
        Box::pin(async {})
    }
}

impl RunHooks for Told {
    fn agent_start<'a>(&'a self, run: &'a RunContext) -> BoxFuture<'a, ()> {
        self.say(format!("agent_start {}", run.agent))
    }
    fn agent_end<'a>(&'a self, _: &'a RunContext, output: &'a str) -> BoxFuture<'a, ()> {
        self.say(format!("agent_end {output}"))
    }
    fn model_start<'a>(&'a self, _: &'a RunContext) -> BoxFuture<'a, ()> {
        self.say("model_start".to_owned())
    }
    fn model_end<'a>(&'a self, _: &'a RunContext, answer: &'a ModelEnd<'a>) -> BoxFuture<'a, ()> {
        self.say(format!("model_end {}", answer.calls))
    }
    fn tool_start<'a>(&'a self, call: &'a ProposedCall) -> BoxFuture<'a, ()> {
        self.say(format!("tool_start {}", call.call_id))
    }
    fn tool_end<'a>(&'a self, call: &'a ProposedCall, outcome: &'a Result<String, String>) -> BoxFuture<'a, ()> {
        self.say(format!("tool_end {} {}", call.call_id, outcome.is_ok()))
    }
    fn handoff<'a>(&'a self, run: &'a RunContext, from: &'a str) -> BoxFuture<'a, ()> {
        self.say(format!("handoff {from} {}", run.agent))
    }
    fn approval_requested<'a>(&'a self, item: &'a Interruption) -> BoxFuture<'a, ()> {
        self.say(format!("approval_requested {}", item.call_id))
    }
    fn approval_resolved<'a>(&'a self, resolved: &'a ApprovalResolved<'a>) -> BoxFuture<'a, ()> {
        self.say(format!("approval_resolved {}", resolved.interruption.call_id))
    }
}

#[tokio::test]
async fn s22_hooks_are_told_what_happens_and_nothing_of_calls_that_do_not_run() {
    let (done, told) = (Ran::default(), Told::default());
    let answers = format!(
        r#"{{"turns":[{},{},{{"text":"done"}}]}}"#,
        calls(&[("transfer_to_Data", "h", "{}")]),
        calls(&[("a", "c1", "{}"), ("a", "c2", "{}")])
    );
    let shared = Arc::new(model(&answers));
    let data = Agent::new("Data", shared.clone()).tool(gated("a", &done));
    let agent = Agent::new("Front", shared).handoff(data);
    let runner = Runner::new(RunConfig::new().hooks(told.clone()).parallel_calls(1));
    let mut paused = runner.run(&agent, "go").await.expect("paused");
    paused.state.approve(&super::item(&paused, "c1")).expect("approved");
    paused.state.reject(&super::item(&paused, "c2")).expect("rejected");
    runner.run(&agent, paused.state).await.expect("over");
    let said = ran(&told.0);
    let expected = [
        "agent_start Front",
        "model_start",
        "model_end 1",
        "handoff Front Data",
        "agent_start Data",
        "model_start",
        "model_end 2",
        "approval_requested c1",
        "approval_requested c2",
        "approval_resolved c1",
        "approval_resolved c2",
        "tool_start c1",
        "tool_end c1 true",
    ];
    assert_eq!(said[..expected.len()], expected);
    assert_eq!(said[said.len() - 3..], ["model_start", "model_end 0", "agent_end done"]);
    assert!(!said.contains(&"tool_start c2".to_owned()));
}

/// What the hooks were told of these events.
fn told_of(told: &Told, events: &[&str]) -> Vec<String> {
    let is_one = |said: &String| events.iter().any(|event| said.starts_with(event));
    ran(&told.0).into_iter().filter(is_one).collect()
}

#[tokio::test]
async fn s22_hooks_are_told_of_a_request_that_a_cancelled_turn_withdraws() {
    let (done, told, cancel) = (Ran::default(), Told::default(), CancelHandle::new());
    let cancels = cancel.clone();
    let a = function::tool("a", "", move |_: serde_json::Map<String, serde_json::Value>| {
        cancels.cancel();
        std::future::pending::<Result<(), ToolError>>()
    });
    let answers = script(&[calls(&[("a", "c1", "{}"), ("b", "c2", "{}")])]);
    // Another reviewer's, and so a request of its own.
    let b = gated("b", &done).needs_approval(Approval::always().levels(["boss"]));
    let agent = Agent::new("Helper", answers).tool(a.needs_approval(Approval::always())).tool(b);
    let runner = Runner::new(RunConfig::new().hooks(told.clone()).cancel(&cancel));
    let mut paused = runner.run(&agent, "go").await.expect("paused");
    paused.state.approve(&super::item(&paused, "c1")).expect("approved");
    assert_eq!(runner.run(&agent, paused.state).await.expect_err("cancelled").kind(), RunErrorKind::Cancelled);
    assert_eq!(told_of(&told, &["approval_resolved"]), ["approval_resolved c1", "approval_resolved c2"]);
}

#[tokio::test]
async fn s22_hooks_are_told_of_an_approved_handoff_and_of_each_agent_once_a_turn() {
    let (done, told) = (Ran::default(), Told::default());
    let answers = format!(
        r#"{{"turns":[{},{},{},{{"text":"one"}},{{"text":"two"}}]}}"#,
        calls(&[("transfer_to_Data", "h", "{}")]),
        calls(&[("a", "c1", "{}")]),
        calls(&[("a", "c2", "{}")])
    );
    let shared = Arc::new(model(&answers));
    let data = Agent::new("Data", shared.clone()).tool(gated("a", &done));
    let agent = Agent::new("Front", shared).tool(handoff(data).needs_approval(Approval::always()));
    let runner = Runner::new(RunConfig::new().hooks(told.clone()));
    let mut result = runner.run(&agent, "go").await.expect("paused");
    while result.is_paused() {
        // As in another process.
        let mut state = RunState::from_json(&result.state.to_json()).expect("read");
        state.approve(&result.interruptions[0]).expect("approved");
        result = runner.run(&agent, state).await.expect("goes on");
    }
    result.state.add_input("again");
    runner.run(&agent, result.state).await.expect("over");
    let expected = [
        "agent_start Front",
        "handoff Front Data",
        "agent_start Data",
        "agent_end one",
        "agent_start Data",
        "agent_end two",
    ];
    assert_eq!((told_of(&told, &["agent_", "handoff"]), ran(&done).len()), (expected.map(str::to_owned).to_vec(), 2));
}

#[tokio::test]
async fn s22_hooks_are_told_of_an_answer_that_is_a_tools_result() {
    for approves in [true, false] {
        let (done, told) = (Ran::default(), Told::default());
        let agent = Agent::new("Helper", script(&[calls(&[("a", "c1", "{}")])]))
            .tool(gated("a", &done))
            .tool_use(ToolUseBehavior::StopOnFirst);
        let runner = Runner::new(RunConfig::new().hooks(told.clone()));
        let mut paused = runner.run(&agent, "go").await.expect("paused");
        let expected = if approves {
            paused.state.approve(&paused.interruptions[0]).expect("approved");
            vec!["agent_start Helper", "agent_end a {}"]
        } else {
            // The rejection ends the turn, and the input begins the next one in the same part of the run.
            paused.state.reject(&paused.interruptions[0]).expect("rejected");
            paused.state.add_input("again");
            vec![
                "agent_start Helper",
                "agent_start Helper",
                "agent_end done",
                "agent_end The user rejected this action",
            ]
        };
        runner.run(&agent, paused.state).await.expect("over");
        assert_eq!(told_of(&told, &["agent_"]), expected);
    }
}

#[tokio::test(start_paused = true)]
async fn s22_hooks_are_told_of_a_request_also_where_the_part_that_made_it_failed() {
    let (done, told) = (Ran::default(), Told::default());
    let child = Agent::new("Child", script(&[calls(&[("a", "i", "{}")])])).tool(gated("a", &done));
    let trips = super::tool("b", &done).output_guardrail("leak", |_, _| async {
        // By then the other agent's call is pending.
        tokio::time::sleep(std::time::Duration::from_secs(1)).await;
        ToolGuardrailOutput::Trip("x".into())
    });
    let both = calls(&[("child", "c1", r#"{"input":"go"}"#), ("b", "c2", "{}")]);
    let agent =
        Agent::new("Boss", ("boss", Arc::new(script(&[both])))).tool(child.as_tool("child", "Works.")).tool(trips);
    let runner = Runner::new(RunConfig::new().hooks(told.clone()));
    let error = runner.run(&agent, "go").await.expect_err("stopped");
    let asked = vec!["approval_requested i".to_owned()];
    assert_eq!((error.kind(), told_of(&told, &["approval"])), (RunErrorKind::Guardrail, asked.clone()));
    let paused = runner.run(&agent, error.into_state().expect("its state")).await.expect("paused");
    assert_eq!((ids(&paused), told_of(&told, &["approval"])), (vec!["i".to_owned()], asked));
}

/// Panics at the end of every call.
struct Breaks;

impl RunHooks for Breaks {
    fn tool_end<'a>(&'a self, _: &'a ProposedCall, _: &'a Result<String, String>) -> BoxFuture<'a, ()> {
        panic!("the hook is broken")
    }
}

#[tokio::test]
async fn e60_a_hook_that_fails_after_a_call_changes_nothing_of_it() {
    let done = Ran::default();
    let agent =
        Agent::new("Helper", script(&[calls(&[("a", "c1", "{}"), ("a", "c2", r#"{"n":2}"#)])])).tool(gated("a", &done));
    let runner = Runner::new(RunConfig::new().hooks(Breaks));
    let mut paused = runner.run(&agent, "go").await.expect("paused");
    for item in &paused.interruptions {
        paused.state.approve(item).expect("approved");
    }
    let over = runner.run(&agent, paused.state).await.expect("over");
    assert_eq!(ran(&done).len(), 2);
    assert_eq!(told(&over)[3..5], ["c1: a {}", r#"c2: a {"n":2}"#]);
}
