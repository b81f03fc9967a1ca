//! The server's published documents, against which every answer and every frame of every test is checked (spec R12).
//!
//! The documents are closed first, so that unnamed members are violations too.

use std::{
    collections::HashMap,
    process::Command,
    sync::{Arc, LazyLock, Mutex},
};

use countersign_core::{refusal::FAILURES, wire::schema::closed};
use jsonschema::Validator;
use serde_json::{Value, json};

use super::{BINARY, Response};

static OPENAPI: LazyLock<Value> = LazyLock::new(|| closed(&printed("openapi")));
static WIRE: LazyLock<Value> = LazyLock::new(|| closed(&printed("schema")));
/// One for each place in a document.
static VALIDATORS: LazyLock<Mutex<HashMap<String, Arc<Validator>>>> = LazyLock::new(Mutex::default);

/// A document as the binary prints it, which is also what it serves.
pub(crate) fn printed(command: &str) -> Value {
    let output = Command::new(BINARY).arg(command).output().unwrap();
    assert!(output.status.success(), "{output:?}");
    serde_json::from_slice(&output.stdout).unwrap()
}

/// Checks a frame of a connection, or an event of a stream.
pub(crate) fn check_frame(frame: &Value) {
    let kind = frame["type"].as_str().unwrap_or_default();
    let unions = ["SessionEvent", "ConnectionEvent"];
    let known = unions.into_iter().find_map(|union| WIRE["$defs"][union]["discriminator"]["mapping"][kind].as_str());
    let known = known.unwrap_or_else(|| panic!("/wire.schema.json has no frame of the type {kind:?}: {frame}"));
    if let Some(code) = frame["error"]["code"].as_str() {
        assert!(FAILURES.iter().any(|(known, ..)| *known == code), "docs/errors.md has no failure {code}: {frame}");
    }
    check(known, || json!({ "$ref": known, "$defs": WIRE["$defs"] }), frame, "/wire.schema.json");
}

/// Checks the answer to a request.
pub(crate) fn check_answer(method: &str, path: &str, answer: &Response) {
    let kind = answer.header("content-type").unwrap_or_default().split(';').next().unwrap_or_default().trim();
    let problem = kind == "application/problem+json";
    let Some(operation) = operation(method, path) else {
        if problem && method != "HEAD" {
            check_problem(&answer.json());
        }
        return;
    };
    let told = format!("{method} {path} answered {}", answer.status);
    let documented = &operation["responses"][answer.status.to_string()];
    assert!(documented.is_object(), "{told}, which /openapi.json does not have: {}", answer.body);
    for (name, header) in documented["headers"].as_object().into_iter().flatten() {
        let sent = answer.header(&name.to_ascii_lowercase()).is_some();
        assert!(sent || header["required"] != true, "{told} without the header {name}");
    }
    if method == "HEAD" {
        return;
    }
    if problem {
        let body = answer.json();
        let code = body["code"].as_str().unwrap_or_default();
        let codes = documented["description"].as_str().unwrap_or_default();
        assert!(codes.contains(&format!("`{code}`")), "{told}: the code {code} is not one of {codes}");
        check_problem(&body);
        return;
    }
    if answer.body.is_empty() && documented.get("content").is_none() {
        return;
    }
    let content = &documented["content"][kind];
    assert!(content.is_object(), "{told} with {kind:?}, which /openapi.json does not have");
    if kind == "application/json" {
        let id = &operation["operationId"];
        check_part(&format!("{id} {}", answer.status), &content["schema"], &answer.json());
    }
}

fn check_problem(body: &Value) {
    check_part(
        "a problem",
        &OPENAPI["components"]["responses"]["Problem"]["content"]["application/problem+json"]["schema"],
        body,
    );
}

fn check_part(name: &str, schema: &Value, body: &Value) {
    let whole = || {
        let mut whole = schema.clone();
        whole["components"] = json!({ "schemas": OPENAPI["components"]["schemas"] });
        whole
    };
    check(name, whole, body, "/openapi.json");
}

fn check(name: &str, schema: impl FnOnce() -> Value, value: &Value, document: &str) {
    let known = VALIDATORS.lock().unwrap().get(name).cloned();
    let validator = known.unwrap_or_else(|| {
        let made = Arc::new(jsonschema::draft202012::new(&schema()).unwrap());
        VALIDATORS.lock().unwrap().insert(name.to_owned(), made.clone());
        made
    });
    let faults: Vec<String> =
        validator.iter_errors(value).map(|error| format!("{} at {}", error, error.instance_path())).collect();
    assert!(faults.is_empty(), "{name} is not what {document} says: {}\n{value}", faults.join("; "));
}

/// The operation that a request is for.
fn operation(method: &str, path: &str) -> Option<&'static Value> {
    let path = path.split('?').next().unwrap_or_default();
    let fits = |template: &str| {
        let (of_path, of_template) = (path.split('/'), template.split('/'));
        of_path.clone().count() == of_template.clone().count()
            && of_path
                .zip(of_template)
                .all(|(part, known)| part == known || (known.starts_with('{') && !part.is_empty()))
    };
    let (_, operations) = OPENAPI["paths"].as_object()?.iter().find(|(template, _)| fits(template))?;
    // HEAD is answered like GET.
    operations.get(if method == "HEAD" { "get".to_owned() } else { method.to_ascii_lowercase() })
}
