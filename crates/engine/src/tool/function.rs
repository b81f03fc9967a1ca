//! Tools that are Rust functions, with a schema derived from their argument type.

pub mod written;

use std::{
    any::TypeId,
    borrow::Cow,
    collections::BTreeMap,
    future::Future,
    panic::AssertUnwindSafe,
    sync::{Arc, Mutex, PoisonError},
};

use countersign_core::{
    call::{args::Args, exact::lost_number, preview::Preview, schema::schema_of},
    journal::permit::Permit,
    locale::{Locale, Text},
    plain,
};
use futures::{FutureExt as _, future::BoxFuture};
use schemars::JsonSchema;
use serde::{Serialize, de::DeserializeOwned};
use serde_json::Value;

use super::{AppContext, ContextError, Tool, ToolEntry, ToolError, guardrail::panic_text};
use crate::tool::ToolSpec;

/// Which call a function runs for.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct ToolContext {
    /// The session.
    pub session_id: String,
    /// The agent that proposed the call.
    pub agent: String,
    /// The call's id from the model.
    pub call_id: String,
    /// The attempt, from 1. It grows after a crash, after answers to the tool's questions, and when a reviewer has the call run
    /// again (spec R4).
    pub attempt: u32,
    /// A key that every attempt of this call has, and no other call (spec M2, R4).
    pub idempotency_key: String,
    /// The session's language, for the function's texts.
    pub locale: Locale,
    /// The preview that a reviewer was shown, if a person was asked and the tool has one (spec S12).
    pub preview: Option<Preview>,
    /// The application's own data.
    pub context: AppContext,
}

impl ToolContext {
    /// The application's own data as a value of a custom type.
    ///
    /// # Errors
    /// There is none, or it does not fit the type.
    pub fn context<T: DeserializeOwned>(&self) -> Result<T, ContextError> {
        self.context.read()
    }
}

impl From<&Permit> for ToolContext {
    fn from(permit: &Permit) -> ToolContext {
        ToolContext {
            session_id: permit.session_id().to_owned(),
            agent: permit.agent().to_owned(),
            call_id: permit.call_id().to_owned(),
            attempt: permit.attempt(),
            idempotency_key: permit.idempotency_key(),
            locale: permit.locale(),
            preview: permit.preview().cloned(),
            context: AppContext::current(),
        }
    }
}

/// The schema of a type. It is generated once, and all tools of that type share it: a program that builds its agents
/// for each run spends more time on schemas than on anything else.
fn parameters_of<T: JsonSchema + 'static>() -> Arc<Value> {
    static MADE: Mutex<BTreeMap<TypeId, Arc<Value>>> = Mutex::new(BTreeMap::new());
    let made = || MADE.lock().unwrap_or_else(PoisonError::into_inner);
    if let Some(known) = made().get(&TypeId::of::<T>()) {
        return known.clone();
    }
    // Not under the lock: a type's schema may run the application's code.
    let schema = Arc::new(schema_of::<T>());
    made().entry(TypeId::of::<T>()).or_insert(schema).clone()
}

/// Whether arguments can be converted to the declared type; what is wrong otherwise.
type Fits = fn(&str) -> Result<(), String>;
type Run = dyn Fn(ToolContext, Args) -> BoxFuture<'static, Result<String, ToolError>> + Send + Sync;

/// An async Rust function as a tool (spec S1).
///
/// * Its arguments are parsed from the canonical text that was approved, so numbers are exact: a field of type `i64` or
///   `u64` gets 9007199254740993 exactly. Arguments that do not fit the type (`99999999999` for a `u32`, a number with
///   more digits than an `f64` holds) are an error for the model, or for the person who edits the call: no approval is
///   requested, and the function does not run.
/// * A result that serializes to a JSON string is given to the model as that string, anything else as JSON.
/// * A panic is an error for the model, without its text; the text is in the log.
/// * Dropping the call drops the function's future at its current `await`.
#[derive(Clone)]
pub struct FunctionTool {
    spec: ToolSpec,
    run: Arc<Run>,
    fits: Fits,
}

impl FunctionTool {
    /// A tool that calls a function with arguments of type `T`, which must be a struct (its JSON Schema an object).
    ///
    /// ```
    /// # use countersign_engine::tool::{Approval, function::FunctionTool};
    /// #[derive(serde::Deserialize, schemars::JsonSchema)]
    /// struct Order {
    ///     symbol: String,
    ///     quantity: u64,
    /// }
    /// let order = FunctionTool::new("order", "Place an order.", |order: Order| async move {
    ///     Ok(format!("bought {} {}", order.quantity, order.symbol))
    /// });
    /// let entry = order.entry().needs_approval(Approval::always());
    /// assert_eq!(&*entry.spec.name, "order");
    /// ```
    pub fn new<T, R, F, Fut>(name: &str, description: &str, function: F) -> FunctionTool
    where
        T: DeserializeOwned + JsonSchema + Send + 'static,
        R: Serialize,
        F: Fn(T) -> Fut + Send + Sync + 'static,
        Fut: Future<Output = Result<R, ToolError>> + Send + 'static,
    {
        FunctionTool::with_context(name, description, move |_, args| function(args))
    }

    /// Like [`FunctionTool::new`]; the function also gets the context of its call.
    pub fn with_context<T, R, F, Fut>(name: &str, description: &str, function: F) -> FunctionTool
    where
        T: DeserializeOwned + JsonSchema + Send + 'static,
        R: Serialize,
        F: Fn(ToolContext, T) -> Fut + Send + Sync + 'static,
        Fut: Future<Output = Result<R, ToolError>> + Send + 'static,
    {
        let function = Arc::new(function);
        let run = move |context: ToolContext, args: Args| -> BoxFuture<'static, Result<String, ToolError>> {
            let function = function.clone();
            Box::pin(async move {
                let locale = context.locale;
                let args: T = read_args(args.text()).map_err(|error| {
                    ToolError::new(locale.fill(Text::FunctionArgs, &[("error", &error.to_string())]))
                })?;
                text(&function(context, args).await?, locale)
            })
        };
        let spec = ToolSpec::new(name, description, parameters_of::<T>());
        FunctionTool { spec, run: Arc::new(run), fits: fits::<T> }
    }

    /// The tool as an entry: it needs no approval, and is not idempotent.
    #[must_use]
    pub fn entry(self) -> ToolEntry {
        ToolEntry::new(self.spec.clone(), Arc::new(self))
    }

    async fn call(run: Arc<Run>, name: Arc<str>, context: ToolContext, args: Args) -> Result<String, ToolError> {
        let locale = context.locale;
        // The function itself may panic before it returns a future: it is called within.
        let outcome = AssertUnwindSafe(async move { run(context, args).await }).catch_unwind().await;
        outcome.unwrap_or_else(|panic| {
            tracing::error!(tool = %name, panic = panic_text(&*panic), "a tool panicked");
            Err(ToolError::new(locale.text(Text::ToolBroke)))
        })
    }
}

/// Whether arguments can be converted to a `T`. Parsing may run the application's code, which may panic.
fn fits<T: DeserializeOwned>(text: &str) -> Result<(), String> {
    let read = std::panic::catch_unwind(|| read_args::<T>(text).map(drop).map_err(|error| error.to_string()));
    read.unwrap_or_else(|_| Err("they cannot be read".to_owned()))
}

impl Tool for FunctionTool {
    fn fits(&self, args: &Args) -> Result<(), String> {
        (self.fits)(args.text())
    }

    fn run(&self, permit: Permit) -> BoxFuture<'static, Result<String, ToolError>> {
        let context = ToolContext::from(&permit);
        Box::pin(FunctionTool::call(self.run.clone(), self.spec.name.clone(), context, permit.args().clone()))
    }
}

/// A tool of an async function: [`FunctionTool::new`] as a [`ToolEntry`].
pub fn tool<T, R, F, Fut>(name: &str, description: &str, function: F) -> ToolEntry
where
    T: DeserializeOwned + JsonSchema + Send + 'static,
    R: Serialize,
    F: Fn(T) -> Fut + Send + Sync + 'static,
    Fut: Future<Output = Result<R, ToolError>> + Send + 'static,
{
    FunctionTool::new(name, description, function).entry()
}

/// A tool of an async function that also gets the context of its call. The function may own anything of the program,
/// such as a database; [`ToolError::of`] turns any error into one whose text the model gets:
///
/// ```
/// # use countersign_engine::tool::{ToolContext, ToolError, function};
/// # #[derive(Clone)]
/// # struct Bank;
/// # #[derive(Debug, thiserror::Error)]
/// # #[error("the bank does not answer")]
/// # struct BankError;
/// # impl Bank {
/// #     async fn pay(&self, key: &str, cents: u64) -> Result<String, BankError> {
/// #         Ok(format!("{key}: {cents}"))
/// #     }
/// # }
/// #[derive(serde::Deserialize, schemars::JsonSchema)]
/// struct Payment {
///     cents: u64,
/// }
/// let bank = Bank;
/// let pay = function::tool_with_context("pay", "Pays.", move |context: ToolContext, payment: Payment| {
///     let bank = bank.clone();
///     // The same key at every attempt: the bank pays once.
///     async move { bank.pay(&context.idempotency_key, payment.cents).await.map_err(ToolError::of) }
/// });
/// let pay = pay.idempotent(true);
/// ```
pub fn tool_with_context<T, R, F, Fut>(name: &str, description: &str, function: F) -> ToolEntry
where
    T: DeserializeOwned + JsonSchema + Send + 'static,
    R: Serialize,
    F: Fn(ToolContext, T) -> Fut + Send + Sync + 'static,
    Fut: Future<Output = Result<R, ToolError>> + Send + 'static,
{
    FunctionTool::with_context(name, description, function).entry()
}

/// Parses arguments as a type. In JSON Schema `1.0` and `1e2` are integers, so a person may have approved them where
/// serde wants `1` and `100`: those are accepted too, if parsing them unchanged fails. A number that would lose digits
/// in the type is an error.
pub fn read_args<T: DeserializeOwned>(text: &str) -> Result<T, serde_json::Error> {
    let (read, text) = match plain::read(text) {
        Ok(read) => (read, Cow::Borrowed(text)),
        Err(error) => match with_whole_numbers(text) {
            whole if whole == text => return Err(error),
            whole => (plain::read(&whole).map_err(|_| error)?, Cow::Owned(whole)),
        },
    };
    match lost_number::<T>(&text) {
        None => Ok(read),
        Some(number) => {
            let what = format!("the number {number} has more digits than can be kept where it is read");
            Err(serde::de::Error::custom(what))
        }
    }
}

/// JSON with whole numbers that have a fraction or exponent rewritten as integers.
fn with_whole_numbers(json: &str) -> String {
    /// Beyond it not every integer is a double.
    const EXACT: f64 = 9_007_199_254_740_992.0;
    let (mut whole, mut rest) = (String::with_capacity(json.len()), json);
    while let Some(c) = rest.chars().next() {
        let len = match c {
            '"' => {
                let mut escaped = false;
                let end = rest[1..].find(|c| {
                    let closes = c == '"' && !escaped;
                    escaped = c == '\\' && !escaped;
                    closes
                });
                end.map_or(rest.len(), |end| end + 2)
            }
            '-' | '0'..='9' => rest.find([',', '}', ']', ' ', '\n', '\t', '\r']).unwrap_or(rest.len()),
            _ => c.len_utf8(),
        };
        let (token, after) = rest.split_at(len);
        match token.parse::<f64>() {
            Ok(number)
                if c != '"' && token.contains(['.', 'e', 'E']) && number.fract() == 0.0 && number.abs() <= EXACT =>
            {
                // Without a fraction, and without `-0`.
                whole.push_str(&format!("{:.0}", number + 0.0));
            }
            _ => whole.push_str(token),
        }
        rest = after;
    }
    whole
}

/// A result as text for the model.
fn text(result: &impl Serialize, locale: Locale) -> Result<String, ToolError> {
    let failed =
        |error: serde_json::Error| ToolError::new(locale.fill(Text::ResultNotJson, &[("error", &error.to_string())]));
    let json = serde_json::to_string(result).map_err(failed)?;
    if json.starts_with('"') { serde_json::from_str(&json).map_err(failed) } else { Ok(json) }
}

#[cfg(test)]
mod tests {
    use countersign_core::{call::timeout::Timeout, journal::record::InputQuestion};

    use super::{
        super::{Approval, Asks},
        *,
    };

    #[derive(serde::Deserialize, JsonSchema)]
    struct Order {
        /// What to buy.
        symbol: String,
        quantity: i64,
        price: serde_json::Number,
    }

    #[derive(Serialize)]
    struct Done {
        z: i64,
        a: String,
    }

    fn context() -> ToolContext {
        ToolContext {
            session_id: "s1".to_owned(),
            agent: "trader".to_owned(),
            call_id: "call_1".to_owned(),
            attempt: 1,
            idempotency_key: "s1/c1".to_owned(),
            locale: Locale::En,
            preview: None,
            context: AppContext::default(),
        }
    }

    async fn call(tool: &FunctionTool, args: &str) -> Result<String, ToolError> {
        let args = Args::parse(args).expect("args");
        FunctionTool::call(tool.run.clone(), tool.spec.name.clone(), context(), args).await
    }

    #[tokio::test]
    async fn s1_a_function_gets_exactly_the_numbers_that_were_approved() {
        let tool = FunctionTool::new("order", "", |order: Order| async move {
            Ok(format!("{} {} {}", order.symbol, order.quantity, order.price))
        });
        let result = call(&tool, r#"{"symbol":"X","quantity":9007199254740993,"price":0.1}"#).await.expect("result");
        assert_eq!(result, "X 9007199254740993 0.1");
    }

    #[tokio::test]
    async fn s26_arguments_that_do_not_fit_never_reach_the_function() {
        let tool = FunctionTool::new("order", "", |_: Order| async move { Ok("ran") });
        let error = call(&tool, r#"{"symbol":"X","quantity":"all","price":1}"#).await.expect_err("error").message;
        assert!(error.starts_with("the arguments do not fit the tool: invalid type: string \"all\""), "{error}");
    }

    #[tokio::test]
    async fn s1_a_whole_number_is_an_integer_in_every_notation() {
        let tool = FunctionTool::new("order", "", |order: Order| async move {
            Ok(format!("{} {} {}", order.symbol, order.quantity, order.price))
        });
        for (written, want) in [
            ("1.0", "1"),
            ("1e2", "100"),
            ("-2.50E1", "-25"),
            ("-0.0", "0"),
            ("9007199254740992.0", "9007199254740992"),
        ] {
            let args = format!(r#"{{"symbol":"a \"1.0\" é\\","quantity":{written},"price":0.5}}"#);
            assert_eq!(call(&tool, &args).await.expect("result"), format!("a \"1.0\" é\\ {want} 0.5"), "{written}");
        }
        for written in ["1.5", "1e300", "18014398509481984.0"] {
            let error =
                call(&tool, &format!(r#"{{"symbol":"","quantity":{written},"price":1}}"#)).await.expect_err(written);
            assert!(error.message.contains("floating point"), "{}", error.message);
        }
        assert_eq!(
            with_whole_numbers(r#"[1.0,"1.0",-0.0, 2e0 ,1.25,{"1.0":12.0}]"#),
            r#"[1,"1.0",0, 2 ,1.25,{"1.0":12}]"#
        );
    }

    #[tokio::test]
    async fn r1_a_number_that_would_lose_digits_never_reaches_the_function() {
        #[derive(serde::Deserialize, JsonSchema)]
        struct Pay {
            amount: f64,
        }
        #[derive(serde::Deserialize, JsonSchema)]
        struct Order {
            #[serde(flatten)]
            pay: Pay,
            count: u32,
        }
        let tool = FunctionTool::new("pay", "", |pay: Pay| async move { Ok(format!("{}", pay.amount)) });
        assert_eq!(call(&tool, r#"{"amount":1234567.125}"#).await.expect("result"), "1234567.125");
        let error = call(&tool, r#"{"amount":9007199254740993}"#).await.expect_err("it loses digits").message;
        assert!(error.contains("the number 9007199254740993 has more digits"), "{error}");
        // Also where serde buffers it.
        let tool = FunctionTool::new("order", "", |order: Order| async move {
            Ok(format!("{} {}", order.pay.amount, order.count))
        });
        assert_eq!(
            call(&tool, r#"{"amount":9007199254740992,"count":2.0}"#).await.expect("result"),
            "9007199254740992 2"
        );
        for count in ["2", "2.0"] {
            let args = format!(r#"{{"amount":9007199254740993,"count":{count}}}"#);
            let error = call(&tool, &args).await.expect_err("it loses digits").message;
            assert!(error.contains("the number 9007199254740993 has more digits"), "{count}: {error}");
        }
    }

    #[tokio::test]
    async fn a_result_is_a_string_as_it_is_and_anything_else_as_json() {
        let tool = FunctionTool::new("t", "", |_: Order| async move { Ok("say \"ü\"\n") });
        let args = r#"{"symbol":"X","quantity":1,"price":1}"#;
        assert_eq!(call(&tool, args).await.expect("result"), "say \"ü\"\n");
        let tool = FunctionTool::new("t", "", |o: Order| async move { Ok(Done { z: o.quantity, a: o.symbol }) });
        assert_eq!(call(&tool, args).await.expect("result"), r#"{"z":1,"a":"X"}"#);
    }

    /// Otherwise the model would call it once more.
    #[tokio::test]
    async fn s23_a_result_that_has_no_json_is_an_error_which_says_that_the_tool_has_run() {
        let tool = FunctionTool::new("t", "", |_: Order| async move { Ok(BTreeMap::from([((1, 2), "paid")])) });
        let error = call(&tool, r#"{"symbol":"X","quantity":1,"price":1}"#).await.expect_err("error").message;
        assert_eq!(error, "the tool has run, but its result is not JSON, and is lost: key must be a string");
    }

    #[tokio::test]
    async fn r9_a_panic_is_an_error_for_the_model_without_its_text() {
        for tool in [
            FunctionTool::new("t", "", |o: Order| async move {
                assert_ne!(o.quantity, 1, "secret");
                Ok(())
            }),
            FunctionTool::new("t", "", |o: Order| {
                assert_ne!(o.quantity, 1, "secret");
                async { Ok(()) }
            }),
        ] {
            let error = call(&tool, r#"{"symbol":"X","quantity":1,"price":1}"#).await.expect_err("error").message;
            assert_eq!(error, "the tool failed unexpectedly; it may have done a part of its work");
        }
    }

    #[tokio::test]
    async fn m2_a_function_gets_its_idempotency_key() {
        let tool = FunctionTool::with_context("t", "", |context: ToolContext, _: Order| async move {
            Ok(format!("{} {}", context.idempotency_key, context.attempt))
        });
        assert_eq!(call(&tool, r#"{"symbol":"X","quantity":1,"price":1}"#).await.expect("result"), "s1/c1 1");
    }

    #[test]
    fn r4_s13_a_tool_error_of_a_function_stays_what_it_is() {
        let boxed = |error: ToolError| -> Result<(), Box<dyn std::error::Error + Send + Sync>> { Err(error.into()) };
        let of = |error: ToolError| {
            let plain = written::Fallible.outcome(Err::<(), _>(error.clone())).expect_err("an error");
            [plain, written::Fallible.outcome(boxed(error)).expect_err("an error")]
        };
        let question = InputQuestion {
            name: "n".into(),
            from: "t".into(),
            payload: serde_json::from_str(r#""Which?""#).expect("JSON"),
            schema: None,
            default: None,
        };
        let asks = Asks { questions: vec![question], state: None, live: false, timeout: Timeout::default() };
        assert!(of(ToolError::asks(asks)).iter().all(ToolError::is_question));
        assert!(of(ToolError::forgotten()).iter().all(ToolError::is_forgotten));
        for error in of(ToolError::new("no money")) {
            assert!(!error.is_question() && !error.is_forgotten() && error.message == "no money");
        }
        assert_eq!(written::Fallible.outcome(Err::<(), _>("no money")).expect_err("an error").message, "no money");
    }

    #[test]
    fn the_schema_comes_from_the_type() {
        let entry = tool("order", "Place an order.", |_: Order| async move { Ok(()) })
            .needs_approval(Approval::always())
            .idempotent(true);
        assert!(entry.idempotent && matches!(entry.approval.require, super::super::Require::Always));
        assert_eq!(entry.spec.parameters["type"], "object");
        assert_eq!(entry.spec.parameters["properties"]["symbol"]["description"], "What to buy.");
        assert_eq!(entry.spec.parameters["required"], serde_json::json!(["symbol", "quantity", "price"]));
    }
}
