//! The wire types' JSON Schema is checked in, and drift fails.

use countersign_core::{call::plain::as_plain, wire::schema::wire_schema};

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
