//! The agent that works on files (spec G4): files change after a user's approval, and are deleted after an admin's too.

use std::{fs, path::Path};

use countersign::{
    CallStatus,
    store::{
        Store as _,
        sqlite::{SqliteOptions, SqliteStore},
    },
};
use countersign_core::journal::record::{Record, records};
use serde_json::Value;

use crate::support::{killed_when_it_asks, printed, refused};

const PROGRAM: &str = env!("CARGO_BIN_EXE_file_agent");
const USER: &str = "用户，是否批准？（yes/no）";
const ADMIN: &str = "管理员，是否批准？（yes/no）";

fn file(folder: &Path, name: &str) -> Option<String> {
    fs::read_to_string(folder.join(name)).ok()
}

/// The result of a rejected call.
fn told(db: &Path, call_id: &str) -> Option<String> {
    let store = SqliteStore::open(db, &SqliteOptions::default()).expect("the store");
    let runtime = tokio::runtime::Runtime::new().expect("tokio");
    let entries = runtime.block_on(store.read("files-1", 0, 10_000)).expect("the session");
    records(&entries).find_map(|record| match record {
        Record::CallFinished(call) if *call.tool_use_id == *call_id && call.status == CallStatus::Rejected => {
            Some(call.output.clone())
        }
        _ => None,
    })
}

/// The request shown is `tool_approval_required` over these calls (spec G3).
fn asked(printed: &str, calls: &[(&str, &str)]) {
    let json: String = printed
        .lines()
        .skip_while(|line| !line.starts_with('{'))
        .take_while(|line| !line.contains("，是否批准") && !line.starts_with("等待"))
        .collect();
    let payload: Value = serde_json::from_str(&json).unwrap_or_else(|error| panic!("{error}: {printed}"));
    assert_eq!(payload["type"], "tool_approval_required");
    assert!(payload["message"].as_str().expect("a message").contains("批准"));
    let found: Vec<_> = payload["tool_calls"]
        .as_array()
        .expect("calls")
        .iter()
        .map(|call| (call["id"].as_str().unwrap(), call["name"].as_str().unwrap()))
        .collect();
    assert_eq!(found, calls);
}

#[test]
fn g4_deleting_needs_an_admin_after_the_user_over_processes_that_are_killed() {
    let place = tempfile::tempdir().expect("a folder");
    let (folder, db) = (place.path().join("work"), place.path().join("session.db"));
    let place = ["--folder", folder.to_str().expect("text"), "--db", db.to_str().expect("text")];
    let with = |args: &[&'static str]| [&place[..], args].concat();

    let waits = printed(PROGRAM, &with(&["--pause"]), "");
    asked(&waits, &[("call_1_2", "write_file"), ("call_1_3", "write_file")]);
    assert!(waits.ends_with("等待用户批准\n"), "{waits}");
    killed_when_it_asks(PROGRAM, &place, USER);
    assert_eq!(file(&folder, "计划.txt"), None, "nothing is written before an approval");

    let waits = printed(PROGRAM, &with(&["--answer", "yes", "--pause"]), "");
    assert_eq!(file(&folder, "草稿.txt").as_deref(), Some("草稿\n"));
    asked(
        waits.split_once(USER).expect("asked again").1.split_once('\n').expect("lines").1,
        &[("call_2_1", "edit_file"), ("call_2_3", "delete_file")],
    );
    killed_when_it_asks(PROGRAM, &place, USER);

    let waits = printed(PROGRAM, &with(&["--answer", "yes", "--pause"]), "");
    asked(waits.split_once(USER).expect("asked").1.split_once('\n').expect("lines").1, &[("call_2_3", "delete_file")]);
    assert!(waits.ends_with("等待管理员批准\n"), "{waits}");
    killed_when_it_asks(PROGRAM, &place, ADMIN);
    assert!(refused(PROGRAM, &with(&["--as", "user", "--answer", "yes"])).contains("admin"));
    assert!(file(&folder, "草稿.txt").is_some());

    let done = printed(PROGRAM, &with(&["--as", "admin", "--answer", "no"]), "");
    let end = "完成。最后一步的结果：已修改 计划.txt\n";
    assert!(done.ends_with(end), "{done}");
    assert_eq!(told(&db, "call_2_3").as_deref(), Some("操作已被用户取消"), "under the call's own id");
    assert_eq!(
        file(&folder, "计划.txt").as_deref(),
        Some("一、整理资料\n二、写总结\n"),
        "the call approved beside it runs"
    );
    assert!(file(&folder, "草稿.txt").is_some(), "the call that the admin rejected does not");
    assert_eq!(printed(PROGRAM, &place, ""), end);
}

/// The lines of the README about an example, without the command before its arguments and without remarks.
fn in_the_readme(example: &str) -> Vec<Vec<String>> {
    let readme = fs::read_to_string(concat!(env!("CARGO_MANIFEST_DIR"), "/README.md")).expect("the README");
    let command = format!("cargo run -p countersign-examples --bin {example} -- ");
    let words = |line: &str| line.split('#').next().unwrap_or_default().split_whitespace().map(str::to_owned).collect();
    readme.lines().filter_map(|line| line.strip_prefix(&command)).map(words).collect()
}

#[test]
fn g4_the_lines_of_the_readme_lead_to_the_end() {
    let place = tempfile::tempdir().expect("a folder");
    let lines = in_the_readme("file_agent");
    let mut said = String::new();
    for line in &lines {
        let at = |name: &str| place.path().join(name).to_str().expect("text").to_owned();
        let args: Vec<String> = line
            .iter()
            .map(|word| match word.as_str() {
                "/tmp/files" => at("files"),
                "files.db" => at("files.db"),
                word => word.to_owned(),
            })
            .collect();
        // The first one asks in the terminal.
        said = printed(PROGRAM, &args.iter().map(String::as_str).collect::<Vec<_>>(), "no\nno\nno\n");
    }
    assert!(lines.len() == 5 && said.ends_with("完成。最后一步的结果：已修改 计划.txt\n"), "{said}");
}

#[test]
fn g4_some_calls_of_a_batch_are_approved_and_others_are_not() {
    let folder = tempfile::tempdir().expect("a folder");
    let run = |input| printed(PROGRAM, &["--folder", folder.path().to_str().expect("text")], input);
    // The plan is not written, the draft is; then nothing is edited, and the draft is deleted.
    let done = run("maybe\nno yes\nno yes\nyes\n");
    assert!(done.contains("maybe 不是有效的回答"), "{done}");
    assert!(done.ends_with("完成。最后一步的结果：已删除 草稿.txt\n"), "{done}");
    assert_eq!((file(folder.path(), "计划.txt"), file(folder.path(), "草稿.txt")), (None, None));
    let done = run("yes\nno\n");
    assert!(!done.contains("管理员"), "an admin is not asked about what the user rejected: {done}");
    assert!(done.ends_with("完成。最后一步的结果：操作已被用户取消\n"), "{done}");
    assert_eq!(file(folder.path(), "草稿.txt").as_deref(), Some("草稿\n"));
}

#[test]
fn g4_the_file_agent_reports_errors_in_its_options() {
    assert!(refused(PROGRAM, &[]).starts_with("Error: say which folder: --folder DIR\n\n"), "as lines");
    assert!(refused(PROGRAM, &["--folder"]).contains("--folder needs a value"));
    assert!(printed(PROGRAM, &["--help"], "").contains("tool_approval_required"));
}
