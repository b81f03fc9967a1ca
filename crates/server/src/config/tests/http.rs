//! `http` of a tool (spec M2).

use serde_json::json;

use super::*;

#[test]
fn m2_a_request_is_declared_with_its_limits_and_its_secrets_are_in_no_text() {
    let text = format!(
        "{MINIMAL}tools = [\"order\", \"look\"]\n\
         [tools.order]\ndescription = \"Orders.\"\ntime_limit = 20\noutput_limit = 1000\nidempotent = true\napproval = true\n\
         content_message = \"Order {{{{ args.symbol }}}}\"\n\
         parameters = {{ type = \"object\", properties = {{ symbol = {{ type = \"string\" }}, account = {{ type = \"string\" }} }} }}\n\
         [tools.order.http]\nmethod = \"POST\"\nurl = \"http://127.0.0.1:1/{{{{ args.account }}}}/orders\"\n\
         query = {{ dry = true, v = 1.10, n = 2 }}\nheaders = {{ Authorization = \"Bearer {{{{ env.BOB_TOKEN }}}}\" }}\n\
         json = {{ symbol = \"{{{{ args.symbol }}}}\" }}\n\
         [tools.look]\nhttp = {{ method = \"GET\", url = \"http://127.0.0.1:1/\" }}\n"
    );
    let config = parse(&text).unwrap_or_else(|errors| panic!("{errors:?}"));
    assert!(config.warnings.is_empty(), "{:?}", config.warnings);
    let ConfigRuns::Http(request) = &config.tools[0].runs else { panic!("{:?}", config.tools[0]) };
    assert_eq!(
        (config.tools[0].time_limit, config.tools[0].output_limit, config.tools[0].idempotent),
        (Some(20), Some(1000), Some(true))
    );
    assert_eq!(request.variables(), [("headers", "BOB_TOKEN".to_owned())]);
    assert!(!format!("{config:?}").contains("bob's_secret"), "secrets are in no text of it");
    let entries = tool_entries(&config).expect("entries");
    let (order, look) = (&entries["order"], &entries["look"]);
    assert!(order.idempotent && order.preview.is_some() && order.content_message.is_some());
    assert!(matches!(order.approval.require, Require::Always) && matches!(look.approval.require, Require::Never));
    assert!(look.hints.read_only && !look.hints.destructive && !order.hints.read_only && order.hints.destructive);
    let declared = text.replace("method = \"GET\"", "method = \"GET\", query = { a = \"b\" }");
    let other = tool_entries(&parse(&declared).expect("config")).expect("entries");
    assert_eq!((other["order"].source == order.source, other["look"].source == look.source), (true, false));
}

#[test]
fn m2_what_is_wrong_with_a_request_is_said_with_its_line_and_what_would_be_right() {
    // The body of [tools.t.http] (so it begins in line 7), and its one error.
    for (added, line) in [
        ("method = \"GET\"", r#"6: missing "url" in [tools.t.http]"#),
        ("url = \"http://h/\"", r#"6: missing "method" in [tools.t.http]"#),
        (
            "method = \"PSOT\"\nurl = \"http://h/\"",
            r#"7: unknown method "PSOT" in [tools.t.http]; did you mean "POST"?"#,
        ),
        (
            "method = \"GET\"\nurl = \"http://h/\"\nheader = {}",
            r#"9: unknown key "header" in [tools.t.http]; did you mean "headers"?"#,
        ),
        (
            "method = \"GET\"\nurl = \"https://{{ args.host }}/\"",
            r#"8: "url" in [tools.t.http] has a place before its path: the scheme, the host and the port must stand there as they are; one looks like https://api.example.com/orders/{{ args.id }}"#,
        ),
        (
            "method = \"GET\"\nurl = \"http://me:s3cret@h/\"",
            r#"8: "url" in [tools.t.http] must not contain a user or a password: use a header with {{ env.NAME }}; one looks like https://api.example.com/orders/{{ args.id }}"#,
        ),
        (
            "method = \"GET\"\nurl = \"http://h/{{ arg.x }}\"",
            r#"8: "url" in [tools.t.http] has a place that cannot be filled in: "{{ arg.x }}" is not known; write {{ args.NAME }} or {{ env.NAME }}"#,
        ),
        (
            "method = \"GET\"\nurl = \"http://h/\"\n[tools.t.http.headers]\nA = \"1\"\nB = \"{{ env.NOT_SET }}\"",
            r#"11: "headers" in [tools.t.http] names the environment variable NOT_SET, which is not set"#,
        ),
        (
            "method = \"GET\"\nurl = \"http://h/{{ env.EMPTY }}\"",
            r#"8: "url" in [tools.t.http] names the environment variable EMPTY, which is set, but empty or not in UTF-8"#,
        ),
        (
            "method = \"GET\"\nurl = \"http://h/\"\n[tools.t.http.headers]\nA = \"1\"\n\"a b\" = \"2\"",
            r#"11: "headers" in [tools.t.http] has "a b", which is not a header name"#,
        ),
        (
            "method = \"GET\"\nurl = \"http://h/\"\n[tools.t.http.headers]\nA = \"{{ env.BOB_TOKEN }}\"\nB = \"{{ env.BOB }}\"",
            r#"11: "headers" in [tools.t.http] names the environment variable BOB, which is not set"#,
        ),
        (
            "method = \"GET\"\nurl = \"http://h/\"\n[tools.t.http.query]\nx = \"a\"\ny = \"{{ arg.x }}\"",
            r#"11: "query" in [tools.t.http] has a place that cannot be filled in: "{{ arg.x }}" is not known; write {{ args.NAME }} or {{ env.NAME }}"#,
        ),
        (
            "method = \"GET\"\nurl = \"http://h/\"\n[tools.t.http.headers]\nA = 'say \"B\"'\nB = \"\\u00e9\"",
            r#"11: "headers" in [tools.t.http] has for "B" a character that no header can have; printable ASCII is right"#,
        ),
        (
            "method = \"POST\"\nurl = \"http://h/\"\n[tools.t.http.headers]\nA = \"1\"\nContent-Type = \"{{ args.x }}\"",
            r#"11: "headers" in [tools.t.http] has places in "content-type", which says how the body is encoded; write it as it is"#,
        ),
        (
            "method = \"GET\"\nurl = \"http://h/\"\nheaders = { Host = \"x\" }",
            r#"9: "headers" in [tools.t.http] has "Host", which the connection sets itself"#,
        ),
        (
            "method = \"GET\"\nurl = \"http://h/\"\nheaders = { A = 1 }",
            r#"9: "headers" in [tools.t.http] must have a string for "A""#,
        ),
        (
            "method = \"GET\"\nurl = \"http://h/\"\nquery = { a = [] }",
            r#"9: "query" in [tools.t.http] must have a string, a number, true or false for "a""#,
        ),
        ("method = \"GET\"\nurl = \"http://h/\"\njson = {}", r#"9: "json" in [tools.t.http] cannot be sent with GET"#),
        (
            "method = \"POST\"\nurl = \"http://h/\"\njson = {}\nbody = \"\"",
            r#"10: "body" in [tools.t.http] cannot be combined with "json": a body is one or the other"#,
        ),
        (
            "method = \"POST\"\nurl = \"http://h/\"\nheaders = { content-type = \"application/json\" }\nbody = \"[{{ args.x }}]\"",
            r#"10: "body" in [tools.t.http] has places in a JSON text, which a value could break; write it as "json""#,
        ),
    ] {
        assert_eq!(
            lines(&format!("{MINIMAL}[tools.t.http]\n{added}\n")),
            [format!("countersign.toml:{line}")],
            "{added}"
        );
    }
    for (added, line) in [
        ("http = 1", r#"7: "http" in [tools.t] must be a table, not a whole number"#),
        (
            "http = { method = \"GET\", url = \"http://h/\" }\ncommand = [\"sh\"]",
            r#"7: "http" in [tools.t] cannot be combined with "command": a tool is one or the other"#,
        ),
        (
            "http = { method = \"GET\", url = \"http://h/\" }\ncwd = \".\"",
            r#"8: "cwd" in [tools.t] means nothing to a tool that is "http"; it is for "command""#,
        ),
        (
            "http = { method = \"GET\", url = \"http://h/\" }\ntime_limit = 0",
            r#"8: "time_limit" in [tools.t] is 0; it must be 1 to 86400 seconds"#,
        ),
    ] {
        let told = lines(&format!("{MINIMAL}[tools.t]\n{added}\n"));
        assert_eq!(told, [format!("countersign.toml:{line}")], "{added}");
    }
}

#[test]
fn m2_a_request_is_warned_of_secrets_in_the_file_and_of_arguments_that_no_call_has() {
    let text = format!(
        "{MINIMAL}[tools.t]\nparameters = {{ type = \"object\", properties = {{ symbol = {{ type = \"string\" }} }} }}\n\
         [tools.t.http]\nmethod = \"POST\"\nurl = \"http://h/{{{{ args.symbl }}}}\"\njson = {}\n\
         [tools.t.http.headers]\nA = \"{{{{ args.symbol }}}}\"\nX-Api-Key = \"abc\"\n",
        "{ a = \"{{ args.symbol }}\" }"
    );
    let config = parse(&text).unwrap_or_else(|errors| panic!("{errors:?}"));
    let warnings: Vec<String> = config.warnings.iter().map(ToString::to_string).collect();
    let want = [
        r#"countersign.toml:10: "url" in [tools.t.http] names the argument "symbl", which "parameters" does not have; did you mean "symbol"?"#,
        r#"countersign.toml:14: "headers" in [tools.t.http] has "X-Api-Key" with its value; secrets belong in the environment, as {{ env.NAME }}"#,
    ];
    assert_eq!(warnings, want);
    assert_eq!(config.tools[0].parameters["properties"], json!({ "symbol": { "type": "string" } }));
}

/// The example below a heading of docs/configuration.md, as a whole file.
pub(super) fn example(heading: &str) -> String {
    let page =
        fs::read_to_string(concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/configuration.md")).expect("the page");
    let below = page.split(&format!("\n{heading}\n")).nth(1).expect("the heading");
    let block = below.split("```toml\n").nth(1).and_then(|rest| rest.split("```").next()).expect("an example");
    format!("{MINIMAL}{block}")
}

#[test]
fn m2_the_example_of_the_documentation_is_right() {
    let folder = folder();
    let env = |name: &str| (name == "BROKER_TOKEN").then(|| "the token".to_owned());
    let text = example("### Requests");
    let config =
        Config::parse(&text, "countersign.toml", folder.path(), &env).unwrap_or_else(|errors| panic!("{errors:?}"));
    assert!(config.warnings.is_empty(), "{:?}", config.warnings);
    let ConfigRuns::Http(request) = &config.tools[0].runs else { panic!("{:?}", config.tools[0]) };
    assert_eq!(request.describe(), "POST https://broker.example");
}
