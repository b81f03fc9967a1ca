//! Spec R12: the audit log verifies with a program in another language, written from its documentation.

use serde_json::json;

use crate::support::{Ended, Server, Setup, Store, run, run_program};

/// JSON with several spellings, and what programs get wrong about it.
const ARGS: &str = r#"{"symbol":"VNM","quantity":1,"price":82000.0,"ratio":1e-7,"zero":-0,"big":9007199254740993,"huge":18446744073709551615,"cents":1.10,"exp":1E+2,"vi":"Đặt lệnh mua ổ bánh mì","zh":"下单买入","\ud83d\ude00":"emoji","\ufb33":"hebrew","ctl":"\u0001\u001f\t\n\"\\\/\u2028\u007f"}"#;

async fn told() -> (Server, String) {
    let script = format!(
        r#"{{"turns":[{{"tool_calls":[{{"name":"execute_trade","args":{ARGS}}}]}},{{"text":"xong / 完成"}}],"at_end":"repeat"}}"#
    );
    let server = Setup::new(Store::Sqlite, &json!({})).script_text(&script).start().await;
    server.post("/v1/sessions/s/messages", &json!({ "content": "mua đi / 买吧" })).await.ok();
    let reject = json!({ "decisions": [{ "type": "reject", "message": "Đừng mua \u{1}\u{2028} 不要 \"\\" }] });
    server.post("/v1/approvals/s_1?wait=true", &reject).await.ok();
    server.post("/v1/sessions/s/messages", &json!({ "content": "again" })).await.ok();
    let approve = json!({ "decisions": [{ "type": "approve" }] });
    server.post("/v1/approvals/s_2?wait=true", &approve).await.ok();
    let export = run(&server.path(""), &["audit", "export"], "", &[]);
    assert_eq!(export.code, Some(0), "{}", export.stderr);
    (server, export.stdout)
}

fn verify(log: &str, anchor: Option<&str>) -> Ended {
    let program = concat!(env!("CARGO_MANIFEST_DIR"), "/../../tests/audit/verify.py");
    let arguments: Vec<&str> = [program].into_iter().chain(anchor).collect();
    run_program("python3", &std::env::temp_dir(), &arguments, log, &[])
}

#[tokio::test]
async fn r12_an_independent_verifier_accepts_an_export_and_finds_changes() {
    let (server, log) = told().await;
    for written in ["82000.0", "1e-7", "-0", "9007199254740993", "18446744073709551615", "1.10", "1E+2", "下单"] {
        assert!(log.contains(written), "numbers and texts are told as they were written: {written}");
    }
    assert!(!log.contains(['\u{2028}', '\u{7f}']) && log.contains("\\u2028\\u007f"), "no terminal obeys an export");
    let ours = run(&server.path(""), &["audit", "verify", "-"], &log, &[]);
    let theirs = verify(&log, None);
    assert_eq!((theirs.code, &theirs.stdout), (Some(0), &ours.stdout), "{}", theirs.stderr);
    assert!(ours.stdout.starts_with("ok: ") && !ours.stdout.starts_with("ok: 0"), "{}", ours.stdout);
    let anchor = ours.stdout.trim().rsplit_once("anchor ").unwrap().1;
    assert_eq!(verify(&log, Some(anchor)).code, Some(0));

    // Reformatted, with the members of bodies in another order, it verifies the same.
    let spaced: String = log.replace("\":", "\": ").replace(",\"", ", \"");
    assert_eq!(verify(&spaced, Some(anchor)).code, Some(0));

    let lines: Vec<&str> = log.lines().collect();
    let without = |n: usize| lines.iter().enumerate().filter(|(i, _)| *i != n).map(|(_, l)| format!("{l}\n")).collect();
    let mut tampered: Vec<(String, &str)> = [
        ("82000.0", "82000"),
        ("1e-7", "1E-7"),
        ("-0,", "0,"),
        ("9007199254740993", "9007199254740992"),
        ("1.10", "1.1"),
        ("1E+2", "100"),
        ("bánh", "banh"),
        ("下单", "下車"),
        ("\\u0001", "\\u0002"),
        ("\"approve\"", "\"reject\""),
        ("\"quantity\":1", "\"quantity\":1,\"quantity\":1"),
        ("\"n\":2", "\"n\":3"),
        ("{\"n\":2", "{\"by\":\"eve\",\"n\":2"),
    ]
    .into_iter()
    .map(|(from, to)| {
        assert!(log.contains(from), "{from}");
        (log.replacen(from, to, 1), from)
    })
    .collect();
    tampered.push((without(0), "the first is gone"));
    tampered.push((without(1), "one is gone"));
    tampered.push((without(lines.len() - 1), "the last is gone"));
    tampered.push((format!("{}\n{}\n", lines[1], lines[0]), "another order"));
    tampered.push((log.replacen('{', "[", 1), "no JSON"));
    for (log, what) in tampered {
        let theirs = verify(&log, Some(anchor));
        assert_eq!(theirs.code, Some(1), "{what}: {} {}", theirs.stdout, theirs.stderr);
        let ours = run(&server.path(""), &["audit", "verify", "-", "--anchor", anchor], &log, &[]);
        assert_eq!(ours.code, Some(8), "{what}: {}", ours.stdout);
    }
}

/// `GET /v1/audit` returns the same log.
#[tokio::test]
async fn r12_an_independent_verifier_accepts_the_log_read_over_http() {
    let (server, log) = told().await;
    let page = server.get("/v1/audit?limit=1000").await;
    let records = page.body.split("{\"n\":").skip(1);
    let lines: String = records.map(|rest| format!("{{\"n\":{}\n", &rest[..rest.rfind("}}").unwrap() + 2])).collect();
    let (read, exported) = (verify(&lines, None), verify(&log, None));
    assert_eq!((read.code, &read.stdout), (Some(0), &exported.stdout), "it is that of the export: {}", read.stderr);
}

/// An answer of many calls has more values than one text from outside may have.
#[tokio::test]
async fn r12_an_independent_verifier_accepts_a_record_with_more_values_than_any_input_may_have() {
    let numbers = "0,".repeat(120_000);
    let call = format!(
        r#"{{"name":"execute_trade","args":{{"symbol":"VNM","quantity":1,"price":82000,"side":"buy","more":[{numbers}0]}}}}"#
    );
    let script = format!(r#"{{"turns":[{{"tool_calls":[{call},{call}]}},{{"text":"over"}}]}}"#);
    let server = Setup::new(Store::Sqlite, &json!({})).script_text(&script).start().await;
    server.post("/v1/sessions/s/messages", &json!({ "content": "buy" })).await.ok();
    let export = run(&server.path(""), &["audit", "export"], "", &[]);
    let log = export.ok();
    assert!(log.matches("0,").count() > 240_000, "both calls are in it");
    let ours = run(&server.path(""), &["audit", "verify", "-"], log, &[]);
    let anchor = ours.ok().trim().rsplit_once("anchor ").unwrap().1;
    let theirs = verify(log, Some(anchor));
    assert_eq!(theirs.code, Some(0), "{}", theirs.stderr);
    let changed = log.replacen("0,0", "0,1", 1);
    assert_eq!(verify(&changed, None).code, Some(1));
    assert_eq!(run(&server.path(""), &["audit", "verify", "-"], &changed, &[]).code, Some(8));
}
