//! Arguments that do not fit the types of a typed tool never reach a person (spec S1, S26, M3, R1).

use std::sync::Mutex;

use countersign::{Agent, Message, run, run::Code, tool};
use serde_json::json;

use super::{calls, item, script, told};

static BOUGHT: Mutex<Vec<String>> = Mutex::new(Vec::new());

/// Buys something.
#[tool(needs_approval, derive(serde::Serialize))]
async fn buy(count: u32, offset: i64, price: f64) -> String {
    let bought = format!("{count} {offset} {price}");
    BOUGHT.lock().expect("bought").push(bought.clone());
    bought
}

#[tokio::test]
async fn s26_arguments_that_cannot_become_the_declared_type_are_refused_before_a_person_is_asked() {
    let args =
        |count: &str, offset: &str, price: &str| format!(r#"{{"count":{count},"offset":{offset},"price":{price}}}"#);
    let (good, count, offset, price) = (
        args("5", "-7", "0.25"),
        args("99999999999", "0", "1"),
        args("1", "-0", "1"),
        args("1", "0", "9007199254740993"),
    );
    let proposed = [("buy", "c1", &*good), ("buy", "c2", &count), ("buy", "c3", &offset), ("buy", "c4", &price)];
    let agent = Agent::new("Helper", script(&[calls(&proposed)])).tool(buy);
    let mut paused = run(&agent, "go").await.expect("paused");
    assert_eq!(super::ids(&paused), ["c1"]);
    let told = told(&paused);
    let said = |id: &str| told.iter().find(|said| said.starts_with(&format!("{id}: "))).cloned().unwrap_or_default();
    assert!(said("c2").contains("99999999999"), "{told:?}");
    assert!(said("c3").contains("the arguments do not fit the tool"), "{told:?}");
    assert!(said("c4").contains("the number 9007199254740993 has more digits"), "{told:?}");

    // Nor can a person edit it into something that cannot run.
    let one = item(&paused, "c1");
    for wrong in [
        json!({"count": 99_999_999_999_u64, "offset": 0, "price": 1}),
        json!({"count": 1, "offset": 0, "price": 9_007_199_254_740_993_u64}),
    ] {
        let mut state = paused.state.clone();
        state.approve_with(&one, &wrong).expect("it fits the schema");
        let error = run(&agent, state).await.expect_err("it fits no type");
        let (refusal, state) = (error.refusal().expect("refused"), error.state().expect("the given one"));
        assert_eq!(refusal.code, Code::InvalidEdit, "{error}");
        assert!(refusal.message.contains("the arguments do not fit the tool"), "{error}");
        assert_eq!(state.interruptions().len(), 1, "it still waits");
    }
    assert_eq!(*BOUGHT.lock().expect("bought"), [""; 0]);
    paused.state.approve(&one).expect("approved");
    assert_eq!(run(&agent, paused.state).await.expect("over").final_output, "done");
    assert_eq!(*BOUGHT.lock().expect("bought"), ["5 -7 0.25"]);
}

/// A type whose reading panics.
#[derive(schemars::JsonSchema)]
struct Broken;

impl<'de> serde::Deserialize<'de> for Broken {
    fn deserialize<D: serde::Deserializer<'de>>(_: D) -> Result<Broken, D::Error> {
        panic!("broken")
    }
}

#[tokio::test]
async fn r9_a_type_whose_reading_panics_is_an_error_for_the_model() {
    use std::collections::BTreeMap;
    let tool = countersign::tool::function::tool("a", "", |_: BTreeMap<String, Broken>| async { Ok("ran") });
    let proposed = [("a", "c1", "{}"), ("a", "c2", r#"{"x":null}"#)];
    let agent = Agent::new("Helper", script(&[calls(&proposed)])).tool(tool);
    let told = told(&run(&agent, "go").await.expect("over"));
    assert!(told.contains(&"c1: ran".to_owned()), "{told:?}");
    assert!(told.iter().any(|said| said.starts_with("c2: the arguments do not fit the tool")), "{told:?}");
}

/// An alias whose name does not say that it is a `Result`.
type Receipt<T> = Result<T, String>;

mod other {
    /// The name of a `Result`, of a type that is none.
    #[derive(serde::Serialize)]
    pub struct Result {
        pub ok: bool,
    }

    impl Result {
        /// A method such as any type may have.
        pub fn kind(&self) -> &'static str {
            if self.ok { "good" } else { "bad" }
        }
    }
}

#[tool]
async fn pay(amount: u32) -> Receipt<u32> {
    if amount > 9 { Err("too much".to_owned()) } else { Ok(amount) }
}

#[tool]
async fn judge(ok: bool) -> other::Result {
    let judged = other::Result { ok };
    assert!(!judged.kind().is_empty());
    judged
}

#[tool]
async fn hush() {}

#[tool]
async fn _2fa(code: String) -> String {
    code
}

#[tokio::test]
async fn s1_a_tool_may_have_a_name_that_begins_with_a_digit_after_its_underscore() {
    let agent = Agent::new("Helper", script(&[calls(&[("_2fa", "c1", r#"{"code":"4711"}"#)])])).tool(_2fa);
    let over = run(&agent, "go").await.expect("over");
    assert_eq!(told(&over)[2], "c1: 4711");
    assert_eq!(_2faArgs { code: "4711".to_owned() }.code, "4711");
}

#[tokio::test]
async fn s23_an_error_is_one_whatever_the_type_is_called_that_the_function_returns() {
    let proposed = [
        ("pay", "c1", r#"{"amount":10}"#),
        ("pay", "c2", r#"{"amount":9}"#),
        ("judge", "c3", r#"{"ok":false}"#),
        ("hush", "c4", "{}"),
    ];
    let agent = Agent::new("Helper", script(&[calls(&proposed)])).tool(pay).tool(judge).tool(hush);
    let over = run(&agent, "go").await.expect("over");
    let results = over.history().into_iter().filter_map(|message| match message {
        Message::ToolResult(result) => Some((result.is_error(), result.text.clone())),
        _ => None,
    });
    let told = [(true, "too much"), (false, "9"), (false, r#"{"ok":false}"#), (false, "null")];
    assert_eq!(results.collect::<Vec<_>>(), told.map(|(error, text)| (error, text.to_owned())));
}
