//! Arithmetic and order over mixed numbers, exact or an error; and equality, which is an error between types.
//!
//! CEL itself refuses `int * double` and compares an `int` with a `double` after rounding it. In arguments, though, 100
//! and 82000.5 are just numbers. So beside a double an integer is converted to one if that is exact, and is an error
//! otherwise, which asks a person.
//!
//! In CEL a number and a text are unequal, and no more is said. In a policy, `args.amount == '100'` would then be a rule
//! that reads right and never matches. So equality between types is an error, as their order is.

use std::{cmp::Ordering, mem::discriminant};

use cel::{Context, DeclarationError, ExecutionError, Value, common::ast::operators};

use super::made;

/// The operators that are replaced, with the names of their replacements.
const REPLACED: [(&str, &str); 11] = [
    (operators::ADD, "@add"),
    (operators::SUBSTRACT, "@subtract"),
    (operators::MULTIPLY, "@multiply"),
    (operators::DIVIDE, "@divide"),
    (operators::LESS, "@less"),
    (operators::LESS_EQUALS, "@less_equals"),
    (operators::GREATER, "@greater"),
    (operators::GREATER_EQUALS, "@greater_equals"),
    (operators::EQUALS, "@equals"),
    (operators::NOT_EQUALS, "@not_equals"),
    (operators::IN, "@within"),
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
    context.add_function("@greater_equals", |a: Value, b: Value| order(&a, &b).map(Ordering::is_ge))?;
    context.add_function("@equals", |a: Value, b: Value| equal(&a, &b))?;
    context.add_function("@not_equals", |a: Value, b: Value| equal(&a, &b).map(|equal| !equal))?;
    context.add_function("@within", |item: Value, of: Value| within(&item, &of))
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

/// `null` is what is absent, so anything may be compared with it.
fn equal(a: &Value, b: &Value) -> Outcome<bool> {
    match (mixed(a, b)?, a, b) {
        (Some((a, b)), ..) => Ok(a == b),
        (None, Value::Null, _) | (None, _, Value::Null) => Ok(a == b),
        (None, Value::Int(_), Value::UInt(_)) | (None, Value::UInt(_), Value::Int(_)) => Ok(a == b),
        (None, Value::List(a), Value::List(b)) if a.len() == b.len() => all_equal(a.iter().zip(b.iter())),
        (None, Value::Map(a), Value::Map(b))
            if a.map.len() == b.map.len() && a.map.keys().all(|key| b.map.contains_key(key)) =>
        {
            all_equal(a.map.iter().filter_map(|(key, value)| Some((value, b.map.get(key)?))))
        }
        (None, Value::List(_), Value::List(_)) | (None, Value::Map(_), Value::Map(_)) => Ok(false),
        (None, ..) if discriminant(a) == discriminant(b) => Ok(a == b),
        (None, ..) => Err(ExecutionError::ValuesNotComparable(a.clone(), b.clone())),
    }
}

/// Whether each pair is equal. What is unequal decides, even beside pairs that cannot be compared: a map has no order.
fn all_equal<'v>(pairs: impl Iterator<Item = (&'v Value, &'v Value)>) -> Outcome<bool> {
    let mut all = Ok(true);
    for (a, b) in pairs {
        match equal(a, b) {
            Ok(true) => {}
            Ok(false) => return Ok(false),
            Err(error) => all = all.and(Err(error)),
        }
    }
    all
}

/// Whether a list has an item, or a map a key. It is an error only if the item can be compared with none of them: a list
/// may hold several types.
fn within(item: &Value, of: &Value) -> Outcome<bool> {
    let others: Box<dyn Iterator<Item = Value> + '_> = match of {
        Value::List(items) => Box::new(items.iter().cloned()),
        Value::Map(map) => Box::new(map.map.keys().map(Value::from)),
        _ => return Err(ExecutionError::ValuesNotComparable(item.clone(), of.clone())),
    };
    let mut compared = None;
    for other in others {
        match equal(item, &other) {
            Ok(true) => return Ok(true),
            Ok(false) => compared = Some(Ok(false)),
            Err(error) => {
                compared.get_or_insert(Err(error));
            }
        }
    }
    compared.unwrap_or(Ok(false))
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
