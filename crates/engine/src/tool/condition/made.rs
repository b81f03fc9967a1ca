//! How much an evaluation allocates: texts and lists that are joined, and what loops collect. From arguments of a few
//! kilobytes, a one-line expression can build more than any machine has memory for.

use std::cell::Cell;

use cel::{Context, DeclarationError, ExecutionError, Value, objects::Key};
use countersign_core::limits::CONDITION_BYTES;

/// Counts an item that a loop collects, and returns it.
pub(super) const COLLECTED: &str = "@collected";
/// The overhead of a value besides its text.
const VALUE_BYTES: usize = 32;

thread_local! {
    /// The remaining budget of the evaluation on this thread. It never leaves the thread: nothing in it awaits.
    static ROOM: Cell<usize> = const { Cell::new(CONDITION_BYTES) };
}

/// Starts an evaluation.
pub(super) fn begin() {
    ROOM.set(CONDITION_BYTES);
}

/// Declares the counting functions.
pub(super) fn declare(context: &mut Context<'_, '_>) -> Result<(), DeclarationError> {
    context.add_function(COLLECTED, |item: Value| {
        let mut room = ROOM.get();
        let fits = takes(&item, &mut room);
        ROOM.set(room);
        fits.then_some(item).ok_or_else(too_much)
    })
}

/// Counts two values that are about to be joined, if they are texts or lists.
pub(super) fn joins(a: &Value, b: &Value) -> Result<(), ExecutionError> {
    let bytes = match (a, b) {
        (Value::String(a), Value::String(b)) => a.len() + b.len(),
        (Value::Bytes(a), Value::Bytes(b)) => a.len() + b.len(),
        (Value::List(a), Value::List(b)) => (a.len() + b.len()).saturating_mul(VALUE_BYTES),
        _ => return Ok(()),
    };
    let left = ROOM.get().checked_sub(bytes).ok_or_else(too_much)?;
    ROOM.set(left);
    Ok(())
}

/// Whether there is room for the value with all its contents.
fn takes(value: &Value, room: &mut usize) -> bool {
    let text = match value {
        Value::String(text) => text.len(),
        Value::Bytes(bytes) => bytes.len(),
        _ => 0,
    };
    let Some(left) = room.checked_sub(VALUE_BYTES + text) else { return false };
    *room = left;
    match value {
        Value::List(items) => items.iter().all(|item| takes(item, room)),
        Value::Map(map) => map.map.iter().all(|(key, value)| {
            let text = if let Key::String(text) = key { text.len() } else { 0 };
            let left = room.checked_sub(text);
            *room = left.unwrap_or(0);
            left.is_some() && takes(value, room)
        }),
        _ => true,
    }
}

fn too_much() -> ExecutionError {
    let what = format!("it makes more than {CONDITION_BYTES} bytes of these arguments");
    ExecutionError::function_error("loop", what)
}
