//! `docs/http.md` and `docs/websocket.md`, generated from the published documents, for people without a client
//! generator. A test checks the pages; none of this code is in the program, and a document that it cannot express fails
//! the test.

use std::fmt::Write as _;

use serde_json::{Map, Value};

/// The line between the hand-written beginning of a page and its generated part.
const MARK: &str = "<!-- What follows is generated: UPDATE_GOLDEN=1 cargo test -p countersign-server --lib -->\n";
/// The members of a path in OpenAPI that are operations, in the order of the page.
const METHODS: [&str; 5] = ["get", "put", "post", "patch", "delete"];

type Object = Map<String, Value>;

fn members(value: &Value) -> impl Iterator<Item = (&String, &Value)> {
    value.as_object().into_iter().flatten()
}

fn items(value: &Value) -> impl Iterator<Item = &Value> {
    value.as_array().into_iter().flatten()
}

fn text(value: &Value) -> &str {
    value.as_str().unwrap_or_default()
}

/// A description in a cell of a table.
fn cell(value: &Value) -> String {
    text(value).replace('\n', " ").replace('|', "\\|")
}

/// The name at the end of a reference.
fn named(reference: &Value) -> &str {
    text(reference).rsplit('/').next().unwrap_or_default()
}

fn link(name: &str) -> String {
    format!("[{name}](#{})", name.to_lowercase())
}

/// A type in words.
fn kind(schema: &Value) -> String {
    if schema.get("$ref").is_some() {
        return link(named(&schema["$ref"]));
    }
    for key in ["oneOf", "anyOf"] {
        // Besides its known values, such a type allows any other text: the page says that once, for all of them.
        let known = |one: &&Value| schema[key][0].get("enum").is_none() || one.get("enum").is_some();
        let each: Vec<String> = items(&schema[key]).filter(known).map(kind).collect();
        if !each.is_empty() {
            return each.join(" or ");
        }
    }
    if let Some(value) = schema.get("const") {
        return format!("`{value}`");
    }
    let values: Vec<String> = items(&schema["enum"]).map(|value| format!("`{value}`")).collect();
    if !values.is_empty() {
        return values.join(", ");
    }
    match &schema["type"] {
        Value::String(name) if name == "array" => format!("list of {}", kind(&schema["items"])),
        Value::String(name) if name == "object" && schema["additionalProperties"].is_object() => {
            format!("object of {}", kind(&schema["additionalProperties"]))
        }
        Value::String(name) => name.clone(),
        Value::Array(names) => names.iter().map(text).collect::<Vec<_>>().join(" or "),
        _ => "any JSON".to_owned(),
    }
}

/// Bounds and the default of a value, in words.
fn bounds(schema: &Value) -> String {
    let number = |key: &str| schema.get(key).filter(|value| **value != 0).map(ToString::to_string);
    let mut words = Vec::new();
    match (number("minimum"), number("maximum")) {
        (Some(least), Some(most)) => words.push(format!("{least} to {most}")),
        (Some(least), None) => words.push(format!("at least {least}")),
        (None, Some(most)) => words.push(format!("at most {most}")),
        (None, None) => {}
    }
    words.extend(schema.get("default").map(|value| format!("default `{value}`")));
    if words.is_empty() { String::new() } else { format!(" ({})", words.join("; ")) }
}

/// The members of an object, as a table; nothing if it has none.
fn table(schema: &Value) -> String {
    let is_required = |name: &str| items(&schema["required"]).any(|one| one == name);
    let rows: String = members(&schema["properties"])
        .map(|(name, value)| {
            let always = if is_required(name) { "always" } else { "" };
            let (kind, bounds) = (kind(value).replace('|', "\\|"), bounds(value));
            format!("| `{name}` | {kind}{bounds} | {always} | {} |\n", cell(&value["description"]))
        })
        .collect();
    if rows.is_empty() { String::new() } else { format!("\n| member | type | | |\n|---|---|---|---|\n{rows}") }
}

/// A type with its own heading.
fn schema(page: &mut String, name: &str, schema: &Value) {
    let _ = write!(page, "\n### {name}\n");
    if !text(&schema["description"]).is_empty() {
        let _ = write!(page, "\n{}\n", text(&schema["description"]));
    }
    let members = table(schema);
    if members.is_empty() {
        let _ = write!(page, "\n{}.\n", kind(schema));
    }
    page.push_str(&members);
}

/// The parameters of an operation.
fn parameters(page: &mut String, operation: &Value) {
    if items(&operation["parameters"]).next().is_none() {
        return;
    }
    page.push_str("\n| parameter | in | type | | |\n|---|---|---|---|---|\n");
    for one in items(&operation["parameters"]) {
        let always = if one["required"] == true { "always" } else { "" };
        let (kind, bounds) = (kind(&one["schema"]).replace('|', "\\|"), bounds(&one["schema"]));
        let (name, place) = (text(&one["name"]), text(&one["in"]));
        let _ = writeln!(page, "| `{name}` | {place} | {kind}{bounds} | {always} | {} |", cell(&one["description"]));
    }
}

/// The content of a request or an answer: its types, with the media types that are not JSON.
fn content(of: &Value) -> String {
    let each = members(&of["content"]).map(|(media, content)| match media.as_str() {
        "application/json" => kind(&content["schema"]),
        media => format!("`{media}`"),
    });
    each.collect::<Vec<_>>().join(" or ")
}

/// The answers of an operation: the successful ones, then the codes of the refusals.
fn answers(page: &mut String, operation: &Value) {
    let mut refusals = Vec::new();
    page.push('\n');
    for (status, answer) in members(&operation["responses"]).filter(|(status, _)| *status != "default") {
        if answer.get("$ref").is_some() {
            refusals.push(format!("{status} {}", text(&answer["description"])));
            continue;
        }
        let content = content(answer);
        let content = if content.is_empty() { content } else { format!(" ({content})") };
        let headers = members(&answer["headers"])
            .map(|(name, header)| format!(" Header `{name}`: {}", text(&header["description"])));
        let headers: String = headers.collect();
        let _ = writeln!(page, "- **{status}**{content}: {}{headers}", text(&answer["description"]));
    }
    if !refusals.is_empty() {
        let _ = writeln!(page, "- refused: {}", refusals.join("; "));
    }
}

fn operation(page: &mut String, method: &str, path: &str, operation: &Value) {
    let _ = write!(page, "\n### `{} {path}`\n\n{}", method.to_uppercase(), text(&operation["summary"]));
    if operation.get("security").is_none() {
        page.push_str(" It needs no token.");
    }
    page.push('\n');
    if !text(&operation["description"]).is_empty() {
        let _ = write!(page, "\n{}\n", text(&operation["description"]));
    }
    parameters(page, operation);
    if operation.get("requestBody").is_some() {
        let body = content(&operation["requestBody"]);
        let optional = if operation["requestBody"]["required"] == true { "" } else { ", which may be left out" };
        let _ = write!(page, "\nBody: {body}{optional}.\n");
    }
    answers(page, operation);
}

/// The part generated from the OpenAPI document.
fn http(document: &Value) -> String {
    let mut page = String::new();
    for tag in items(&document["tags"]) {
        let name = text(&tag["name"]);
        let _ = write!(page, "\n## Requests: {name}\n\n{}\n", text(&tag["description"]));
        for (path, item) in members(&document["paths"]) {
            for method in METHODS {
                let found = item.get(method).filter(|one| items(&one["tags"]).any(|tag| tag == name));
                found.into_iter().for_each(|one| operation(&mut page, method, path, one));
            }
        }
    }
    page.push_str("\n## Types\n");
    members(&document["components"]["schemas"]).for_each(|(name, one)| schema(&mut page, name, one));
    page
}

/// The part generated from the AsyncAPI document.
fn websocket(document: &Value) -> String {
    let (mut page, mut shown) = (String::new(), Vec::new());
    let schemas = &document["components"]["schemas"];
    for (way, title) in [("receive", "What a client sends"), ("send", "What the server sends")] {
        let _ = write!(page, "\n## {title}\n");
        for message in items(&document["operations"][way]["messages"]).map(|message| named(&message["$ref"])) {
            schema(&mut page, message, &schemas[message]);
            shown.push(message);
        }
    }
    page.push_str("\n## Types\n");
    let others = members(schemas).filter(|(name, _)| !shown.contains(&name.as_str()));
    others.for_each(|(name, one)| schema(&mut page, name, one));
    page
}

/// Checks the page of this name; `UPDATE_GOLDEN=1 cargo test` writes it.
fn golden(name: &str, generated: &str) {
    let path = format!("{}/../../docs/{name}", env!("CARGO_MANIFEST_DIR"));
    let stored = std::fs::read_to_string(&path).expect("the page is there");
    let (written, _) = stored.split_once(MARK).expect("the page has the mark");
    let right = format!("{written}{MARK}{generated}");
    if std::env::var_os("UPDATE_GOLDEN").is_some() {
        std::fs::write(&path, &right).expect("docs can be written");
        return;
    }
    assert!(stored == right, "docs/{name} is not what the server publishes; run UPDATE_GOLDEN=1 cargo test");
}

/// Every linked name has exactly one heading.
fn every_link_leads_somewhere(page: &str) {
    let headings: Vec<String> =
        page.lines().filter_map(|line| line.strip_prefix("### ")).map(str::to_lowercase).collect();
    let mut once = headings.clone();
    once.sort();
    once.dedup();
    assert_eq!(once.len(), headings.len(), "a heading is there twice");
    for target in page.split("](#").skip(1).filter_map(|rest| rest.split(')').next()) {
        assert!(headings.iter().any(|heading| heading == target), "#{target}");
    }
}

/// Independent of features that other crates turn on in serde_json.
fn plain(document: &Value) -> Value {
    countersign_core::plain::as_plain(document).into_owned()
}

#[test]
fn u3_the_page_about_http_has_every_request_parameter_answer_error_and_type() {
    let document = plain(super::openapi::openapi());
    let page = http(&document);
    every_link_leads_somewhere(&page);
    for (path, item) in members(&document["paths"]) {
        let known: &Object = item.as_object().expect("operations");
        for method in known.keys() {
            assert!(METHODS.contains(&method.as_str()), "{method} {path} is in no section");
            assert!(page.contains(&format!("\n### `{} {path}`\n", method.to_uppercase())), "{method} {path}");
        }
    }
    for code in countersign_core::refusal::Code::ALL {
        assert!(page.contains(&format!("`\"{}\"`", code.name())), "{code:?} is in the list of all");
    }
    golden("http.md", &page);
}

#[test]
fn u3_the_page_about_the_websocket_has_every_frame_and_type() {
    let document = plain(&super::asyncapi::asyncapi());
    let page = websocket(&document);
    every_link_leads_somewhere(&page);
    for (name, _) in members(&document["components"]["messages"]) {
        assert_eq!(page.matches(&format!("\n### {name}\n")).count(), 1, "{name}");
    }
    golden("websocket.md", &page);
}
