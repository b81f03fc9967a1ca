//! How long functions, and pages, may become.

use super::{files, read, root};

/// The crates in which sessions are decided and run.
const ENGINE: [&str; 3] = ["crates/core", "crates/engine", "crates/runtime"];
/// A function is about one screen.
const FUNCTION: usize = 70;
/// A newcomer reads the map in ten minutes.
const MAP: usize = 2_500;

/// The functions of a file, each with its number of lines. `cargo fmt` closes each at the column where it began.
fn functions(text: &str) -> Vec<(String, usize)> {
    let lines: Vec<&str> = text.lines().collect();
    let mut found = Vec::new();
    for (at, line) in lines.iter().enumerate() {
        let inner = line.trim_start();
        let Some((before, after)) = inner.split_once("fn ") else { continue };
        let is_declared = before.split_whitespace().all(|word| word.starts_with("pub") || is_qualifier(word));
        if inner.starts_with("//") || !is_declared || line.ends_with(['}', ';']) {
            continue;
        }
        let indent = &line[..line.len() - inner.len()];
        let is_end = |line: &&str| {
            line.strip_prefix(indent).is_some_and(|line| line == "}" || (!line.starts_with(' ') && line.ends_with(';')))
        };
        let Some(last) = lines[at..].iter().position(is_end) else { continue };
        if lines[at + last].ends_with('}') {
            found.push((after.split(['(', '<']).next().unwrap_or_default().to_owned(), last + 1));
        }
    }
    found
}

fn is_qualifier(word: &str) -> bool {
    ["async", "const", "unsafe", "extern"].contains(&word) || word.ends_with(')')
}

#[test]
fn a_function_of_the_engine_is_about_one_screen() {
    let (mut long, mut checked) = (Vec::new(), 0);
    for folder in ENGINE {
        let mut sources = Vec::new();
        files(&root().join(folder).join("src"), &[".rs"], &mut sources);
        for path in sources.iter().filter(|path| !path.ends_with("tests.rs")) {
            for (name, lines) in functions(&read(path)) {
                checked += 1;
                if lines > FUNCTION {
                    long.push(format!("{}: {name} has {lines} lines", path.display()));
                }
            }
        }
    }
    assert!(long.is_empty(), "at most {FUNCTION}: {long:#?}");
    assert!(checked > 2_000, "only {checked} functions found");
}

#[test]
fn a_function_is_found_however_it_is_declared() {
    let text = "fn a() {}\npub(super) async fn b<T>(\n    c: T,\n) -> T {\n    c\n}\nimpl X {\n    fn d(&self);\n    fn h(\n        i: J,\n    ) -> K;\n    \
                pub const fn e() {\n        f();\n    }\n    // fn g() {\n}\n";
    let found: Vec<(String, usize)> = functions(text);
    assert_eq!(found, [("b".to_owned(), 5), ("e".to_owned(), 3)]);
}

#[test]
fn the_map_of_the_repository_stays_short() {
    let words = read(&root().join("docs/architecture.md")).split_whitespace().count();
    assert!(words <= MAP, "docs/architecture.md has {words} words, and at most {MAP} are read");
    assert!(words > MAP / 2, "only {words} words found");
}
