//! A review for each item, in any order, over several processes.

use crate::support::{killed_when_it_asks, printed, refused};

const PROGRAM: &str = env!("CARGO_BIN_EXE_map_reduce");
const TEXTS: [&str; 3] = ["Tea is hot. So they say.", "Ice is cold! Mostly.", "Stones are hard."];
const ASKED: &str = "Which summary, and is it good?";

fn summarised(printed: &str) -> usize {
    printed.lines().filter(|line| line.starts_with("summarising text")).count()
}

#[test]
fn g3_reviews_are_answered_in_any_order_and_nothing_is_done_twice() {
    let folder = tempfile::tempdir().expect("a folder");
    let db = folder.path().join("reviews.db").to_string_lossy().into_owned();
    let with =
        |args: &[&str]| [&["--db", db.as_str()], args].concat().iter().map(|&arg| arg.to_owned()).collect::<Vec<_>>();
    let said = |args: &[&str]| {
        let args = with(args);
        printed(PROGRAM, &args.iter().map(String::as_str).collect::<Vec<_>>(), "")
    };

    let first = said(&[&["--pause"], &TEXTS[..]].concat());
    assert_eq!(summarised(&first), 3);
    assert!(first.ends_with("3 waiting\n"), "{first}");
    assert!(first.contains("\"Ice is cold!\""), "{first}");

    let killed = killed_when_it_asks(PROGRAM, &["--db", &db], ASKED);
    assert_eq!(summarised(&killed), 0, "{killed}");
    assert!(killed.contains("\"Stones are hard.\""), "{killed}");
    assert!(said(&["--pause"]).ends_with("3 waiting\n"));

    let answered = said(&["--pause", "--answer", "3=yes"]);
    assert!(answered.ends_with("2 waiting\n"), "{answered}");
    let answered = said(&["--pause", "--answer", "3=no", "--answer", "1=Hot tea.", "--answer", "7=yes"]);
    assert!(answered.contains("3=no does not answer a pending question\n"), "{answered}");
    assert!(answered.ends_with("1 waiting\n"), "{answered}");

    let done = said(&["--answer", "2=no"]);
    let report = "2 of 3 summaries accepted, 1 rejected\n- Hot tea.\n- Stones are hard.\n";
    assert!(done.ends_with(report), "{done}");
    assert_eq!(summarised(&done), 0, "{done}");
    assert_eq!(said(&[]), report);
    assert!(refused(PROGRAM, &["--db", &db, "--answer", "1=x"]).contains("--answer 1=x was not used"));
    assert!(refused(PROGRAM, &["--db", &db, "More."]).contains("there is a run in this file already"));
}

#[test]
fn g3_reviews_are_asked_for_in_the_terminal() {
    let done = printed(PROGRAM, &TEXTS, "2=yes\n1=yes\n3=yes\n");
    let report = "3 of 3 summaries accepted, 0 rejected\n- Tea is hot.\n- Ice is cold!\n- Stones are hard.\n";
    assert!(done.ends_with(report), "{done}");
    assert_eq!(done.matches(ASKED).count(), 3);
    assert!(refused(PROGRAM, &TEXTS).contains("nobody answered, so nothing was decided"));
    assert!(refused(PROGRAM, &[]).contains("there are no texts to summarise"));
    assert!(refused(PROGRAM, &["--dbb"]).contains("there is no option --dbb"));
    assert!(printed(PROGRAM, &["--help"], "").contains("NUMBER=yes"));
}
