//! Operators' rules about calls, with a model's arguments. The first line is the rule, the rest the arguments.

use std::time::{Duration, Instant};

use countersign_core::call::{args::Args, schema::ArgsSchema};
use countersign_engine::tool::{CallFacts, Condition as _, condition::CelCondition};
use futures::FutureExt as _;

/// Ten times what loops may take, and what a slow machine adds.
const LONG: Duration = Duration::from_secs(10);

fn parts(bytes: &[u8]) -> Option<(&str, Args)> {
    let text = std::str::from_utf8(bytes).ok()?;
    let (first, rest) = text.split_once('\n').unwrap_or((text, ""));
    let args = Args::parse(rest).or_else(|_| Args::parse(r#"{"l":[1,2,3],"n":9007199254740993,"s":"text"}"#));
    Some((first, args.ok()?))
}

/// A condition in CEL (spec P1, P2): compiled or refused with a reason; its result, or its error, comes soon.
///
/// # Panics
/// The promise is broken.
pub fn condition(bytes: &[u8]) {
    let Some((source, args)) = parts(bytes) else { return };
    let begin = Instant::now();
    match CelCondition::compile(source) {
        Ok(condition) => {
            assert_eq!(condition.describe(), Some(source));
            let call = CallFacts {
                context: &countersign_engine::tool::AppContext::default(),
                session_id: "s",
                subject: Some("ann"),
                tenant: Some("north"),
                roles: &[],
                agent: "a",
                tool: "t",
                call_id: "c",
                args: &args,
            };
            let verdict = condition.check(&call).now_or_never();
            assert!(matches!(&verdict, Some(Ok(_))) || matches!(&verdict, Some(Err(why)) if !why.is_empty()));
        }
        Err(why) => {
            let why = why.to_string();
            assert!(!why.is_empty() && why.len() < 4096, "{why}");
        }
    }
    assert!(begin.elapsed() < LONG, "{:?}", begin.elapsed());
}

/// The JSON Schema of a tool's arguments: compiled or refused with a reason; its errors are few and short, and come soon.
///
/// # Panics
/// The promise is broken.
pub fn schema(bytes: &[u8]) {
    let Some((source, args)) = parts(bytes) else { return };
    let Ok(source) = serde_json::from_str(source) else { return };
    let begin = Instant::now();
    match ArgsSchema::compile(&source) {
        Ok(schema) => {
            let errors = schema.check(&args);
            assert!(errors.len() <= countersign_core::call::schema::SCHEMA_ERRORS);
            assert!(errors.iter().all(|error| !error.message.is_empty()));
        }
        Err(why) => assert!(!why.is_empty()),
    }
    assert!(begin.elapsed() < LONG, "{:?}", begin.elapsed());
}
