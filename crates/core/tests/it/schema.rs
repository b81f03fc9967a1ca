//! The wire types' JSON Schema is checked in, and drift fails.

use countersign_core::{
    plain::as_plain,
    refusal::{Code, FAILURES},
    wire::schema::wire_schema,
};

#[test]
fn the_wire_schema_in_the_docs_is_that_of_the_code() {
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/wire.schema.json");
    let now = serde_json::to_string_pretty(&*as_plain(&wire_schema())).expect("schema") + "\n";
    if std::env::var_os("UPDATE_GOLDEN").is_some() {
        std::fs::write(path, &now).expect("write");
    }
    let kept = std::fs::read_to_string(path).unwrap_or_default();
    assert!(
        kept == now,
        "docs/wire.schema.json is out of date: run the tests once with UPDATE_GOLDEN=1 and look at the diff"
    );
}

#[test]
fn r12_the_documented_error_codes_are_those_of_the_code() {
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/errors.md");
    let kept = std::fs::read_to_string(path).unwrap_or_default();
    let (before, rest) = kept.split_once("\n| code").expect("docs/errors.md has the table");
    let (_, between) = rest.split_once("\n\n").expect("and another");
    let (between, _) = between.split_once("\n| code").expect("with a head");
    let mut now = format!("{before}\n| code | HTTP | what was wrong | what to do |\n|---|---|---|---|\n");
    for code in Code::ALL {
        let row = (code.name(), code.http_status(), code.meaning(), code.remedy());
        now.push_str(&format!(
            "| `{}` | {} | {} | {} |\n",
            row.0,
            row.1,
            row.2.replace('|', "\\|"),
            row.3.replace('|', "\\|")
        ));
    }
    now.push_str(&format!("\n{between}\n| code | what happened | what to do |\n|---|---|---|\n"));
    for (code, meaning, remedy) in FAILURES {
        now.push_str(&format!("| `{code}` | {meaning} | {remedy} |\n"));
    }
    if std::env::var_os("UPDATE_GOLDEN").is_some() {
        std::fs::write(path, &now).expect("write");
    }
    let kept = std::fs::read_to_string(path).unwrap_or_default();
    assert!(kept == now, "docs/errors.md is out of date: run the tests once with UPDATE_GOLDEN=1 and look at the diff");
}
