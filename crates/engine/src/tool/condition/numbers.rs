//! Arithmetic and order over mixed numbers, exact or an error.
//!
//! CEL itself refuses `int * double` and compares an `int` with a `double` after rounding it. In arguments, though, 100
//! and 82000.5 are just numbers. So beside a double an integer is converted to one if that is exact, and is an error
//! otherwise, which asks a person.

use std::cmp::Ordering;

use cel::{Context, DeclarationError, ExecutionError, Value, common::ast::operators};

use super::made;

/// The operators that are replaced, with the names of their replacements.
const REPLACED: [(&str, &str); 8] = [
    (operators::ADD, "@add"),
    (operators::SUBSTRACT, "@subtract"),
    (operators::MULTIPLY, "@multiply"),
    (operators::DIVIDE, "@divide"),
    (operators::LESS, "@less"),
    (operators::LESS_EQUALS, "@less_equals"),
    (operators::GREATER, "@greater"),
    (operators::GREATER_EQUALS, "@greater_equals"),
];

/// The replacement of an operator, if it has one.
pub(super) fn replacement(operator: &str) -> Option<&'static str> {
    REPLACED.iter().find(|(name, _)| *name == operator).map(|(_, own)| *own)
}

/// Declares the replacements.
pub(super) fn declare(context: &mut Context<'_, '_>) -> Result<(), DeclarationError> {
    context.add_function("@add", |a: Value, b: Value| {
        made::joins(&a, &b)?;
        arithmetic(a, b, |a, b| a + b, |a, b| a + b)
    })?;
    context.add_function("@subtract", |a: Value, b: Value| arithmetic(a, b, |a, b| a - b, |a, b| a - b))?;
    context.add_function("@multiply", |a: Value, b: Value| arithmetic(a, b, |a, b| a * b, |a, b| a * b))?;
    context.add_function("@divide", |a: Value, b: Value| arithmetic(a, b, |a, b| a / b, |a, b| a / b))?;
    context.add_function("@less", |a: Value, b: Value| order(&a, &b).map(Ordering::is_lt))?;
    context.add_function("@less_equals", |a: Value, b: Value| order(&a, &b).map(Ordering::is_le))?;
    context.add_function("@greater", |a: Value, b: Value| order(&a, &b).map(Ordering::is_gt))?;
    context.add_function("@greater_equals", |a: Value, b: Value| order(&a, &b).map(Ordering::is_ge))
}

type Outcome<T> = Result<T, ExecutionError>;

fn arithmetic(
    a: Value,
    b: Value,
    ordinary: fn(Value, Value) -> Outcome<Value>,
    doubles: fn(f64, f64) -> f64,
) -> Outcome<Value> {
    match mixed(&a, &b)? {
        Some((a, b)) => Ok(Value::Float(doubles(a, b))),
        None => ordinary(a, b),
    }
}

fn order(a: &Value, b: &Value) -> Outcome<Ordering> {
    let order = match mixed(a, b)? {
        Some((a, b)) => a.partial_cmp(&b),
        None => a.partial_cmp(b),
    };
    order.ok_or_else(|| ExecutionError::ValuesNotComparable(a.clone(), b.clone()))
}

/// Both as doubles, if one is a double and the other an integer.
fn mixed(a: &Value, b: &Value) -> Outcome<Option<(f64, f64)>> {
    Ok(match (a, b) {
        (Value::Float(a), Value::Int(_) | Value::UInt(_)) => Some((*a, exact(b)?)),
        (Value::Int(_) | Value::UInt(_), Value::Float(b)) => Some((exact(a)?, *b)),
        _ => None,
    })
}

/// The integer as a double, if that is exact.
fn exact(integer: &Value) -> Outcome<f64> {
    let (double, number) = match integer {
        Value::Int(n) => (*n as f64, i128::from(*n)),
        Value::UInt(n) => (*n as f64, i128::from(*n)),
        _ => return Err(ExecutionError::InternalError("not an integer".to_owned())),
    };
    if double as i128 == number {
        Ok(double)
    } else {
        Err(ExecutionError::function_error("double", format!("{number} cannot be held exactly by a double")))
    }
}
