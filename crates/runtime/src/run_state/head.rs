//! The schema and version of a text.

use serde::Deserialize;
use serde_json::value::RawValue;

use super::{
    RunStateError, damaged, signed,
    text::{SCHEMA, VERSION},
};

/// The members that every version has: enough to identify it.
#[derive(Deserialize)]
pub(super) struct Head {
    schema: Option<String>,
    version: Option<u64>,
    #[serde(default)]
    pub(super) stamp: Option<String>,
}

/// Fails unless it is a run state of this version. Valid texts skip this: only those that could not be read are
/// checked.
pub(super) fn known(text: &str) -> Result<(), RunStateError> {
    match read(text)?.1 {
        VERSION => Ok(()),
        found => Err(RunStateError::Version { found, known: VERSION }),
    }
}

/// The head of a run state of any version, and its version.
pub(super) fn read(text: &str) -> Result<(Head, u64), RunStateError> {
    let head: Head = serde_json::from_str(text).map_err(|error| something_else(text, &error))?;
    match head.schema.as_deref() {
        Some(SCHEMA) => {}
        Some(signed::SCHEMA) => {
            return Err(RunStateError::NotARunState(
                "it is a signed one, which RunState::from_json_signed reads".to_owned(),
            ));
        }
        Some(other) => return Err(no_state(&format!("an object whose `schema` is {other:?}"))),
        None => return Err(no_state("an object without a `schema`")),
    }
    let version = head.version.ok_or_else(|| RunStateError::NotARunState("it has no `version`".to_owned()))?;
    Ok((head, version))
}

/// The error for a text without a head.
fn something_else(text: &str, error: &serde_json::Error) -> RunStateError {
    let Err(json) = serde_json::from_str::<&RawValue>(text) else {
        return no_state(match text.trim_start().as_bytes().first() {
            Some(b'[') => "a list",
            Some(b'"') => "a string (if the run state is in that, it was written as JSON twice)",
            // For an object serde names the wrong member.
            Some(b'{') => return RunStateError::NotARunState(error.to_string()),
            Some(b'-' | b'0'..=b'9') => "a number",
            _ => "no object",
        });
    };
    // The schema is written first, so the beginning of a run state has it too.
    if json.is_eof() && text.contains(&format!("\"{SCHEMA}\"")) {
        return damaged(0, format!("it was cut off: {json}"));
    }
    if text.trim().is_empty() {
        return no_state("empty");
    }
    no_state(&format!("not JSON ({json})"))
}

fn no_state(what: &str) -> RunStateError {
    RunStateError::NotARunState(format!(
        "it is {what}; what RunState::to_json writes is an object whose `schema` is {SCHEMA:?}"
    ))
}
