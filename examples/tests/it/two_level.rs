//! Two levels of approval, by different people, over several processes.

use crate::support::{killed_when_it_asks, printed, refused};

const PROGRAM: &str = env!("CARGO_BIN_EXE_two_level");

#[test]
fn g4_above_the_limit_a_second_level_is_asked_and_no_one_else_can_answer() {
    let folder = tempfile::tempdir().expect("a folder");
    let db = folder.path().join("expense.db").to_string_lossy().into_owned();
    let db = db.as_str();
    let waits = printed(PROGRAM, &["--db", db, "--pause", "A desk", "1200"], "");
    assert!(waits.contains("\"A desk: 1200\"") && waits.ends_with("waiting for the manager\n"), "{waits}");

    let answer = |role: &'static str| ["--db", db, "--as", role, "--answer", "yes", "--pause"];
    // The requester, and the level whose request does not exist yet, which does not even see it.
    assert!(refused(PROGRAM, &answer("employee")).contains("manager"));
    assert!(
        refused(PROGRAM, &answer("director"))
            .contains("this request is pending with the manager; the director cannot see it")
    );
    let killed = killed_when_it_asks(PROGRAM, &["--db", db], "Does the manager approve?");
    assert!(!killed.contains("paying"), "{killed}");

    let waits = printed(PROGRAM, &answer("manager"), "");
    assert!(waits.ends_with("waiting for the director\n") && !waits.contains("paying"), "{waits}");
    assert!(refused(PROGRAM, &answer("manager")).contains("director"));
    killed_when_it_asks(PROGRAM, &["--db", db], "Does the director approve?");

    let paid = printed(PROGRAM, &answer("director"), "");
    assert!(paid.ends_with("paying 1200 for A desk\npaid 1200 for A desk\n"), "{paid}");
    // It has ended, and is not paid again.
    assert_eq!(printed(PROGRAM, &["--db", db], ""), "paid 1200 for A desk\n");
    assert!(refused(PROGRAM, &answer("director")).contains("--answer yes was not used: nothing is pending"));
}

#[test]
fn g4_below_the_limit_one_level_is_enough_and_a_no_ends_it_at_either() {
    let paid = printed(PROGRAM, &["A chair", "1000", "--answer", "yes"], "");
    assert!(paid.ends_with("paid 1000 for A chair\n") && !paid.contains("director"), "{paid}");
    let refused_by = |input| printed(PROGRAM, &["A desk", "1200"], input);
    assert!(refused_by("perhaps\nno\n").ends_with("the manager has refused it\n"));
    let refused = refused_by("yes\nno\n");
    assert!(refused.ends_with("the director has refused it\n") && !refused.contains("paying"), "{refused}");
    assert!(self::refused(PROGRAM, &["A desk", "much"]).contains("much is not an amount"));
    assert!(printed(PROGRAM, &["--help"], "").contains("two_level WHAT AMOUNT"));
}
