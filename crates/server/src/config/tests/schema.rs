//! The JSON Schema of the file agrees with the reader: on every file of these tests, every example, and every mistake
//! that a schema can detect.

use std::sync::LazyLock;

use jsonschema::Validator;
use serde_json::Value;

use super::*;
use crate::config::describe::Key;

static SCHEMA: LazyLock<Validator> =
    LazyLock::new(|| jsonschema::validator_for(&config_schema()).expect("the schema is one"));

fn refused(text: &str) -> Option<Vec<String>> {
    let file: Value = toml::from_str(text).ok()?;
    Some(SCHEMA.iter_errors(&file).map(|error| format!("{}: {error}", error.instance_path())).collect())
}

/// Whether a message is about a key, a type, a bound or a name of a fixed choice.
fn is_of_form(message: &str) -> bool {
    let is_number = |text: &str| text.parse::<i128>().is_ok();
    let of_bound = message.split_once("; it must be ").is_some_and(|(before, right)| {
        is_number(before.rsplit(' ').next().unwrap_or_default()) && right.starts_with(|c: char| c.is_ascii_digit())
    });
    of_bound
        || message.starts_with("unknown key ")
        || message.contains(" must be ") && message.contains(", not a ")
        || message.contains(" means nothing to ") && !message.contains("this built-in tool")
}

/// Checks that schema and reader agree about a file.
#[track_caller]
pub(super) fn agrees(text: &str, read: &Result<Config, Vec<ConfigError>>) {
    let Some(refused) = refused(text) else { return };
    match read {
        Ok(_) => assert!(refused.is_empty(), "{text}\nis right, and its schema says {refused:#?}"),
        Err(errors) => {
            let of_form = errors.iter().find(|error| is_of_form(&error.message));
            assert!(of_form.is_none() || !refused.is_empty(), "{text}\nfits its schema; {}", errors[0]);
        }
    }
}

#[test]
fn c_the_examples_of_the_repository_fit_the_schema() {
    for file in ["examples/policy.toml", "examples/demo/countersign.toml", "crates/cli/src/demo/countersign.toml"] {
        let text = fs::read_to_string(format!("{}/../../{file}", env!("CARGO_MANIFEST_DIR"))).expect("an example");
        assert_eq!(refused(&text), Some(Vec::new()), "{file}");
    }
    let page =
        fs::read_to_string(concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/configuration.md")).expect("the page");
    let examples = page.split("```toml\n").skip(1).filter_map(|rest| rest.split("```").next());
    for example in examples {
        // Most examples are parts of a file.
        let file = match example {
            part if part.starts_with("[agents.trader.compression]") => {
                format!("[agents.trader]\nmodel = \"m\"\n{part}")
            }
            whole if whole.contains("[agents.") => whole.to_owned(),
            part => format!("{part}\n[agents]\n"),
        };
        assert_eq!(refused(&file), Some(Vec::new()), "{example}");
    }
}

#[test]
fn c_the_schema_has_every_key_with_what_it_is_for() {
    let schema = config_schema();
    let ask = "/properties/agents/additionalProperties/properties";
    assert_eq!(schema.pointer(&format!("{ask}/max_turns/maximum")), Some(&json!(MAX_TURNS_MAX)));
    assert_eq!(schema.pointer(&format!("{ask}/max_turns/default")), Some(&json!(20)));
    assert_eq!(schema.pointer(&format!("{ask}/on_cut/enum")), Some(&json!(["end", "fail", "continue"])));
    let about = schema.pointer(&format!("{ask}/on_cut/description")).and_then(Value::as_str).expect("a description");
    assert!(about.contains("an answer is incomplete: ") && !about.contains("]("), "{about}");
    let about = "/properties/tools/additionalProperties/properties/approval/description";
    let about = schema.pointer(about).and_then(Value::as_str).expect("a description");
    assert!(about.contains("or a table. The policy can"), "{about}");
    let about = "/properties/mcp/additionalProperties/properties/require_approval/description";
    let about = schema.pointer(about).and_then(Value::as_str).expect("a description");
    assert!(about.contains("{ always = [\"delete_file\"], never = [\"read_file\"] }"), "{about}");
}

/// The keys of the table with this name, such as `models.NAME.hosted_mcp.LABEL`.
fn below(path: &str) -> Vec<Key> {
    let mut keys = Section::describe(read);
    let mut names = path.split('.').filter(|name| !name.is_empty());
    while let Some(name) = names.next() {
        let key = keys.into_iter().find(|key| key.name == name).unwrap_or_else(|| panic!("no key {name} of {path}"));
        let (label, inside) = key.shape.below.unwrap_or_else(|| panic!("no table {name} of {path}"));
        assert!(label.is_empty() || names.next() == Some(label), "{path}");
        keys = inside;
    }
    keys
}

/// The names of all tables.
fn tables() -> Vec<String> {
    fn below(path: &str, keys: &[Key], tables: &mut Vec<String>) {
        tables.push(path.to_owned());
        for key in keys {
            let Some((label, inside)) = &key.shape.below else { continue };
            let names = [path, key.name, label].into_iter().filter(|name| !name.is_empty());
            below(&names.collect::<Vec<_>>().join("."), inside, tables);
        }
    }
    let mut tables = Vec::new();
    below("", &Section::describe(read), &mut tables);
    tables
}

/// The reference lines of a table, leaving out the keys that `without` has too.
fn rows(path: &str, without: Option<&str>) -> String {
    let others = without.map(below).unwrap_or_default();
    let is_own = |key: &Key| others.iter().all(|other| other.name != key.name || other.doc != key.doc);
    let keys: Vec<Key> = below(path).into_iter().filter(is_own).collect();
    let of = |key: &Key| key.part.as_ref().map_or("all", |(of, _)| of);
    let has_parts = keys.iter().any(|key| of(key) != "all");
    let [head, line] = if has_parts { [" of |", "---|"] } else { ["", ""] };
    let mut lines = format!("| key |{head} value | default | what it is |\n|---|{line}---|---|---|\n");
    for key in &keys {
        let Key { name, doc, shape, default, .. } = key;
        assert!(!doc.is_empty(), "what is {name} of {path}?");
        let of = if has_parts { format!(" {} |", of(key)) } else { String::new() };
        lines += &format!("| `{name}` |{of} {} | {default} | {doc} |\n", shape.words);
    }
    lines
}

/// `UPDATE_GOLDEN=1 cargo test` regenerates the tables of the reference.
#[test]
fn c_the_reference_is_what_the_file_is_read_by() {
    const PATH: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/configuration.md");
    let stored = fs::read_to_string(PATH).expect("the page");
    let mut now = String::new();
    let mut rest = stored.as_str();
    let mut told = Vec::new();
    while let Some((before, after)) = rest.split_once("<!-- keys of ") {
        let (path, after) = after.split_once(" -->").expect("the end of the comment");
        let (_, after) = after.split_once("<!-- end -->").expect("the end of the table");
        let (table, without) = path.split_once(" without ").map_or((path, None), |(of, without)| (of, Some(without)));
        let table = if table == "the file" { "" } else { table };
        let rows = rows(table, without);
        now.push_str(&format!("{before}<!-- keys of {path} -->\n{rows}<!-- end -->"));
        told.push(table);
        rest = after;
    }
    now.push_str(rest);
    if std::env::var_os("UPDATE_GOLDEN").is_some() {
        fs::write(PATH, &now).expect("docs can be written");
    }
    let stored = fs::read_to_string(PATH).unwrap_or_default();
    assert!(stored == now, "docs/configuration.md is not what the code says; run UPDATE_GOLDEN=1 cargo test");
    let small = ["require_approval", "on_timeout"];
    let missing: Vec<String> = tables()
        .into_iter()
        .filter(|table| !told.contains(&table.as_str()) && !small.iter().any(|name| table.contains(name)))
        .filter(|table| !table.ends_with(".approval") || !told.iter().any(|known| known.ends_with(".approval")))
        .collect();
    assert!(missing.is_empty(), "docs/configuration.md has no table of {missing:?}");
}
