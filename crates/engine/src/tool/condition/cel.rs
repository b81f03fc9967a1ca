//! Conditions in the Common Expression Language, checked when they are loaded (spec P1, P2).
//!
//! Length, nesting and time are bounded, and any failure means that a person is asked.

use countersign_core::setting::SettingError;
use std::{
    cell::Cell,
    collections::HashMap,
    fmt,
    panic::{AssertUnwindSafe, catch_unwind},
    sync::{Arc, LazyLock},
    thread,
    time::{Duration, Instant},
};

use cel::{
    Context, Env, ExecutionError, Value,
    common::ast::{CallExpr, EntryExpr, Expr, IdedExpr},
    objects::{Key, Map},
};
use futures::future::BoxFuture;

use super::{made, numbers};
use crate::tool::{CallFacts, Condition};

/// Longest expression, in bytes.
pub const EXPRESSION_BYTES: usize = 1024;
/// Deepest nesting of brackets in an expression, and half of the deepest nesting of its operators.
pub const EXPRESSION_NESTING: usize = 16;
/// How long the loops of all conditions on one call may take together. A condition that exceeds it fails, so a person
/// is asked.
pub const EXPRESSION_TIME: Duration = Duration::from_millis(250);

/// Stack of the thread that compiles: the parser recurses deeply, above all in debug builds.
const COMPILER_STACK: usize = 64 * 1024 * 1024;
/// Longest text of an error, in characters.
const ERROR_CHARS: usize = 300;

const VARIABLES: [(&str, &[&str]); 5] = [
    ("args", &[]),
    ("agent", &[]),
    ("tool", &[]),
    ("session", &["id", "subject", "tenant"]),
    ("user", &["subject", "roles", "tenant"]),
];
const TYPES: [&str; 9] = ["bool", "bytes", "double", "int", "list", "map", "null_type", "string", "uint"];
const FUNCTIONS: [&str; 18] = [
    "all",
    "bool",
    "bytes",
    "contains",
    "double",
    "dyn",
    "endsWith",
    "exists",
    "exists_one",
    "filter",
    "has",
    "int",
    "map",
    "size",
    "startsWith",
    "string",
    "type",
    "uint",
];
/// Those of [`FUNCTIONS`] that are macros: if one is still a call after parsing, its arguments were wrong.
const MACROS: [&str; 6] = ["all", "exists", "exists_one", "filter", "has", "map"];
const TICK: &str = "@tick";

static ENV: LazyLock<Arc<Env>> = LazyLock::new(|| Arc::new(Env::stdlib().with_optional_support(false)));
/// All functions, declared once; each call's variables have their own scope.
static FUNCTIONS_DECLARED: LazyLock<Result<Context<'static, 'static>, String>> = LazyLock::new(|| {
    let mut context = Context::with_env(ENV.clone());
    numbers::declare(&mut context).map_err(|error| error.to_string())?;
    made::declare(&mut context).map_err(|error| error.to_string())?;
    let tick = |go_on: bool| {
        if BEGUN.get().is_some_and(|begun| begun.elapsed() > EXPRESSION_TIME) {
            return Err(ExecutionError::function_error("loop", "it took too long over these arguments"));
        }
        Ok(go_on)
    };
    context.add_function(TICK, tick).map_err(|error| error.to_string())?;
    Ok(context)
});

thread_local! {
    /// When the evaluation on this thread began. It never leaves the thread: nothing in it awaits.
    static BEGUN: Cell<Option<Instant>> = const { Cell::new(None) };
}

/// A CEL expression over one call, such as `args.quantity * args.price > 1000000` (spec P1).
///
/// It sees `args` (the call's arguments), `agent` and `tool` (their names), `session` (`id`, `subject`, `tenant`) and
/// `user`, the requester (`subject`, `roles`, `tenant`). A subject or tenant is `null` if there is none. It has CEL's
/// operators, `has`, `all`, `exists`, `exists_one`, `map`, `filter`, `size`, `contains`, `startsWith`, `endsWith`,
/// `type` and the conversions.
///
/// Numbers: an integer argument is a CEL `int` (`uint` above the range of `int`) and is compared exactly. Any other
/// number (82000.5, 1e2) is a `double`. `+ - * /`, `< <= > >=`, `== !=` and `in` also accept one of each: the integer is
/// then converted to a double, which is an error if it cannot be represented exactly (beyond 2^53).
///
/// An error asks a person (spec P2): a missing argument (use `has(args.x)`), an overflow, a division by zero, a type
/// mismatch (also of `==`, `!=` and `in`, except with `null`), loops that take longer than [`EXPRESSION_TIME`], texts and lists of more than
/// [`CONDITION_BYTES`](countersign_core::limits::CONDITION_BYTES) that it builds from the arguments.
#[derive(Clone)]
pub struct CelCondition {
    source: Arc<str>,
    expression: IdedExpr,
}

impl CelCondition {
    /// Compiles an expression.
    ///
    /// # Errors
    /// The expression is too long, nested too deeply, or not CEL; or it uses an unknown variable, field or function,
    /// and the error suggests the nearest valid name. The text is for the operator.
    pub fn compile(source: &str) -> Result<CelCondition, SettingError> {
        CelCondition::compiled(source).map_err(SettingError::new)
    }

    fn compiled(source: &str) -> Result<CelCondition, String> {
        if source.len() > EXPRESSION_BYTES {
            return Err(format!("the condition has {} bytes; at most {EXPRESSION_BYTES} are allowed", source.len()));
        }
        if source.trim().is_empty() {
            return Err("the condition is empty".to_owned());
        }
        let too_deep = format!("the condition is nested too deeply; at most {EXPRESSION_NESTING} levels are allowed");
        if nesting(source) > EXPRESSION_NESTING {
            return Err(too_deep);
        }
        // Parsing, walking and dropping a tree not yet known to be shallow all need a large stack.
        let compiler = thread::Builder::new().stack_size(COMPILER_STACK).name("cel".to_owned());
        let expression = thread::scope(|scope| {
            let compiling = compiler.spawn_scoped(scope, || {
                let program = ENV.compile(source).map_err(|errors| parse_error(&errors))?;
                let expression = program.expression();
                if depth(expression) > 2 * EXPRESSION_NESTING {
                    return Err(too_deep);
                }
                check(expression, &mut Vec::new())?;
                Ok(rewritten(expression.clone()))
            });
            match compiling.map(thread::ScopedJoinHandle::join) {
                Ok(Ok(result)) => result,
                Ok(Err(_)) => Err("the condition cannot be compiled".to_owned()),
                Err(error) => Err(format!("the condition cannot be compiled: {error}")),
            }
        })?;
        Ok(CelCondition { source: source.into(), expression })
    }

    /// Whether the condition is true of a call.
    ///
    /// # Errors
    /// See [`CelCondition`]; a person is then asked.
    pub fn holds(&self, scope: &CelScope) -> Result<bool, String> {
        let context = scope.context.as_ref().map_err(Clone::clone)?;
        BEGUN.set(Some(scope.begun));
        made::begin();
        let evaluated = catch_unwind(AssertUnwindSafe(|| {
            Value::resolve(&self.expression, context).map_err(|error| shortened(&execution_error(&error)))
        }));
        match evaluated {
            Ok(Ok(Value::Bool(answer))) => Ok(answer),
            Ok(Ok(other)) => Err(format!("the condition is neither true nor false but {}", other.type_of())),
            Ok(Err(error)) => Err(format!("the condition could not be evaluated: {error}")),
            Err(_) => Err("the condition could not be evaluated".to_owned()),
        }
    }

    /// The expression, as it was written.
    #[must_use]
    pub fn source(&self) -> &str {
        &self.source
    }
}

/// One call as CEL conditions see it. A single scope serves all conditions on the call, and their loops share
/// [`EXPRESSION_TIME`].
pub struct CelScope {
    context: Result<Context<'static, 'static>, String>,
    begun: Instant,
}

impl CelScope {
    /// What conditions see of a call.
    #[must_use]
    pub fn of(call: &CallFacts<'_>) -> CelScope {
        let made = catch_unwind(AssertUnwindSafe(|| context(call)));
        let context = made.unwrap_or_else(|_| Err("the condition could not be evaluated".to_owned()));
        CelScope { context, begun: Instant::now() }
    }
}

impl Condition for CelCondition {
    fn check<'a>(&'a self, call: &'a CallFacts<'a>) -> BoxFuture<'a, Result<bool, String>> {
        Box::pin(async move { self.holds(&CelScope::of(call)) })
    }

    fn describe(&self) -> Option<&str> {
        Some(&self.source)
    }
}

impl fmt::Debug for CelCondition {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("CelCondition").field(&self.source).finish()
    }
}

fn nesting(source: &str) -> usize {
    // Raw strings and comments can hide brackets from this count; for those the parser's own limit applies.
    let (mut open, mut deepest, mut quote, mut escaped) = (0_usize, 0_usize, None, false);
    for c in source.chars() {
        match (c, quote) {
            _ if escaped => escaped = false,
            ('\\', Some(_)) => escaped = true,
            ('"' | '\'', None) => quote = Some(c),
            (c, Some(q)) if c == q => quote = None,
            ('(' | '[' | '{', None) => open += 1,
            (')' | ']' | '}', None) => open = open.saturating_sub(1),
            _ => {}
        }
        deepest = deepest.max(open);
    }
    deepest
}

fn parse_error(errors: &cel::ParseErrors) -> String {
    let Some(first) = errors.errors.first() else { return "the condition is not valid CEL".to_owned() };
    let message = first.msg.trim_start_matches("Syntax error: ");
    let message = if message.contains("Recursion limit") {
        "it is nested too deeply"
    } else if message.starts_with("mismatched input '<EOF>'") {
        "it ends too early"
    } else {
        // The list of all expected tokens is of no help.
        message.split(" expecting {").next().unwrap_or(message)
    };
    shortened(&format!("the condition is not valid CEL: {message} (at character {})", first.pos.1))
}

fn execution_error(error: &ExecutionError) -> String {
    match error {
        ExecutionError::NoSuchKey(key) => format!("there is no `{key}`"),
        error => error.to_string(),
    }
}

fn shortened(text: &str) -> String {
    let text = text.replace('\n', " ");
    match text.char_indices().nth(ERROR_CHARS) {
        Some((end, _)) => format!("{}…", &text[..end]),
        None => text,
    }
}

fn context(call: &CallFacts<'_>) -> Result<Context<'static, 'static>, String> {
    let text = |text: Option<&str>| text.map_or(Value::Null, |text| Value::from(text.to_owned()));
    let map = |members: Vec<(&str, Value)>| {
        let members: HashMap<Key, Value> = members.into_iter().map(|(k, v)| (Key::from(k.to_owned()), v)).collect();
        Value::Map(Map { map: Arc::new(members) })
    };
    let functions = FUNCTIONS_DECLARED.as_ref().map_err(Clone::clone)?;
    let mut context = functions.new_inner_scope();
    context.add_variable_from_value("args", value(call.args.value()));
    context.add_variable_from_value("agent", call.agent.to_owned());
    context.add_variable_from_value("tool", call.tool.to_owned());
    let (subject, tenant) = (call.subject, call.tenant);
    let session = vec![("id", text(Some(call.session_id))), ("subject", text(subject)), ("tenant", text(tenant))];
    context.add_variable_from_value("session", map(session));
    let roles: Vec<Value> = call.roles.iter().map(|role| Value::from(role.clone())).collect();
    let roles = Value::List(Arc::new(roles));
    context.add_variable_from_value(
        "user",
        map(vec![("subject", text(subject)), ("roles", roles), ("tenant", text(tenant))]),
    );
    Ok(context)
}

fn value(json: serde_json::Value) -> Value {
    match json {
        serde_json::Value::Null => Value::Null,
        serde_json::Value::Bool(b) => Value::Bool(b),
        serde_json::Value::Number(n) => match (n.as_i64(), n.as_u64()) {
            (Some(n), _) => Value::Int(n),
            (None, Some(n)) => Value::UInt(n),
            (None, None) => n.as_f64().map_or(Value::Null, Value::Float),
        },
        serde_json::Value::String(s) => Value::from(s),
        serde_json::Value::Array(items) => Value::List(Arc::new(items.into_iter().map(value).collect())),
        serde_json::Value::Object(members) => {
            let members = members.into_iter().map(|(k, v)| (Key::from(k), value(v))).collect();
            Value::Map(Map { map: Arc::new(members) })
        }
    }
}

/// The direct subexpressions.
fn parts(expression: &IdedExpr) -> Vec<&IdedExpr> {
    match &expression.expr {
        Expr::Unspecified | Expr::Ident(_) | Expr::Literal(_) => Vec::new(),
        Expr::Call(call) => call.target.iter().map(|t| &**t).chain(&call.args).collect(),
        Expr::Comprehension(c) => {
            vec![&c.iter_range, &c.accu_init, &c.loop_cond, &c.loop_step, &c.result]
        }
        Expr::List(list) => list.elements.iter().collect(),
        Expr::Map(map) => map.entries.iter().flat_map(|e| entry_parts(&e.expr)).collect(),
        Expr::Select(select) => vec![&select.operand],
        Expr::Struct(object) => object.entries.iter().flat_map(|e| entry_parts(&e.expr)).collect(),
    }
}

fn entry_parts(entry: &EntryExpr) -> Vec<&IdedExpr> {
    match entry {
        EntryExpr::StructField(field) => vec![&field.value],
        EntryExpr::MapEntry(entry) => vec![&entry.key, &entry.value],
    }
}

fn depth(expression: &IdedExpr) -> usize {
    1 + parts(expression).into_iter().map(depth).max().unwrap_or(0)
}

/// Refuses unknown names. `bound` are the variables of the enclosing loops.
fn check<'e>(expression: &'e IdedExpr, bound: &mut Vec<&'e str>) -> Result<(), String> {
    match &expression.expr {
        Expr::Unspecified => return Err("the condition is not valid CEL".to_owned()),
        Expr::Struct(object) => return Err(format!("unknown type `{}`", object.type_name)),
        Expr::Ident(name) => {
            let name = name.trim_start_matches('.');
            let known = name.starts_with('@') || bound.contains(&name) || TYPES.contains(&name);
            if !known && !VARIABLES.iter().any(|(variable, _)| *variable == name) {
                let all = VARIABLES.iter().map(|(variable, _)| *variable).chain(bound.iter().copied());
                return Err(unknown("variable", name, all));
            }
        }
        Expr::Select(select) => {
            if let Expr::Ident(root) = &select.operand.expr
                && !bound.contains(&root.as_str())
                && let Some((_, fields)) = VARIABLES.iter().find(|(variable, _)| variable == root)
                && !fields.is_empty()
                && !fields.contains(&select.field.as_str())
            {
                return Err(unknown(&format!("field of `{root}`"), &select.field, fields.iter().copied()));
            }
        }
        Expr::Call(call) => check_function(call)?,
        Expr::Comprehension(loop_) => {
            check(&loop_.iter_range, bound)?;
            check(&loop_.accu_init, bound)?;
            let outer = bound.len();
            bound.push(&loop_.iter_var);
            bound.extend(loop_.iter_var2.as_deref());
            for part in [&loop_.loop_cond, &loop_.loop_step, &loop_.result] {
                check(part, bound)?;
            }
            bound.truncate(outer);
            return Ok(());
        }
        Expr::List(_) | Expr::Literal(_) | Expr::Map(_) => {}
    }
    parts(expression).into_iter().try_for_each(|part| check(part, bound))
}

fn check_function(call: &CallExpr) -> Result<(), String> {
    let name = call.func_name.as_str();
    if !name.starts_with(|c: char| c.is_ascii_alphabetic()) {
        return Ok(());
    }
    if MACROS.contains(&name) {
        return Err(format!("`{name}` is called with the wrong arguments"));
    }
    if FUNCTIONS.contains(&name) { Ok(()) } else { Err(unknown("function", name, FUNCTIONS.into_iter())) }
}

fn unknown<'a>(what: &str, name: &str, known: impl Iterator<Item = &'a str> + Clone) -> String {
    let near = known.clone().map(|k| (strsim::damerau_levenshtein(k, name), k)).min();
    match near {
        Some((distance, near)) if distance <= 2.max(name.chars().count() / 3) => {
            format!("unknown {what} `{name}`; did you mean `{near}`?")
        }
        _ => format!("unknown {what} `{name}`; known are {}", known.collect::<Vec<_>>().join(", ")),
    }
}

/// The expression with exact mixed arithmetic, and with time limits on loops.
fn rewritten(mut expression: IdedExpr) -> IdedExpr {
    match &mut expression.expr {
        Expr::Unspecified | Expr::Ident(_) | Expr::Literal(_) | Expr::Struct(_) => {}
        Expr::Call(call) => {
            let of_a_loop = call.args.iter().any(|a| matches!(&a.expr, Expr::Ident(name) if name.starts_with('@')));
            if let Some(own) = numbers::replacement(&call.func_name)
                && !of_a_loop
            {
                own.clone_into(&mut call.func_name);
            }
            if let Some(target) = &mut call.target {
                rewrite(target);
            }
            call.args.iter_mut().for_each(rewrite);
            // What a loop adds to its result.
            for added in call.args.iter_mut().filter(|_| of_a_loop) {
                if let Expr::List(list) = &mut added.expr {
                    list.elements.iter_mut().for_each(collected);
                }
            }
        }
        Expr::Comprehension(loop_) => {
            for part in [&mut loop_.iter_range, &mut loop_.accu_init, &mut loop_.loop_step, &mut loop_.result] {
                rewrite(part);
            }
            let condition = std::mem::take(&mut loop_.loop_cond);
            let id = condition.id;
            let tick = CallExpr { func_name: TICK.to_owned(), target: None, args: vec![condition] };
            loop_.loop_cond = IdedExpr { id, expr: Expr::Call(tick) };
        }
        Expr::List(list) => list.elements.iter_mut().for_each(rewrite),
        Expr::Map(map) => map.entries.iter_mut().for_each(|entry| match &mut entry.expr {
            EntryExpr::StructField(field) => rewrite(&mut field.value),
            EntryExpr::MapEntry(entry) => {
                rewrite(&mut entry.key);
                rewrite(&mut entry.value);
            }
        }),
        Expr::Select(select) => rewrite(&mut select.operand),
    }
    expression
}

/// Wraps an item that a loop collects, so that it is counted.
fn collected(item: &mut IdedExpr) {
    let id = item.id;
    let call = CallExpr { func_name: made::COLLECTED.to_owned(), target: None, args: vec![std::mem::take(item)] };
    *item = IdedExpr { id, expr: Expr::Call(call) };
}

fn rewrite(expression: &mut IdedExpr) {
    *expression = rewritten(std::mem::take(expression));
}

#[cfg(test)]
#[path = "cel_tests.rs"]
mod tests;
