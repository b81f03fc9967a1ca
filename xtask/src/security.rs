//! `cargo xtask security`: the attacks on approvals, threat by threat, as `docs/security.md` lists them.

use std::{collections::BTreeSet, fs, path::Path};

use crate::{
    Outcome, Places,
    failures::Failures,
    process::{self, cargo},
};

/// The page.
pub(crate) const PAGE: &str = "docs/security.md";

/// A row of the page's table.
#[derive(Debug)]
pub(crate) struct Threat {
    /// Its number.
    pub(crate) number: usize,
    /// Its tests in Rust.
    pub(crate) tests: Vec<String>,
    /// Its tests of the console, which are files.
    pub(crate) files: Vec<String>,
}

/// The rows of the table, or what is wrong with it.
pub(crate) fn threats(page: &str) -> Result<Vec<Threat>, String> {
    let mut threats: Vec<Threat> = Vec::new();
    for line in page.lines().filter(|line| line.starts_with("| ")) {
        let cells: Vec<&str> = line.trim_matches('|').split(" | ").map(str::trim).collect();
        let [number, what, answer, tests] = cells[..] else {
            return Err(format!("a row has {} cells and not 4: {line}", cells.len()));
        };
        if what == "threat" {
            continue;
        }
        let next = threats.len() + 1;
        if number.parse() != Ok(next) || what.is_empty() || answer.is_empty() {
            return Err(format!("the row after number {} is {line}", next - 1));
        }
        let (files, tests) = quoted(tests).partition(|name| name.contains('/'));
        threats.push(Threat { number: next, tests, files });
    }
    Ok(threats)
}

/// The words in back quotes.
fn quoted(text: &str) -> impl Iterator<Item = String> {
    text.split('`').skip(1).step_by(2).map(str::to_owned)
}

/// Runs the tests in Rust that the page names, each of which must run and succeed.
pub(crate) fn run(places: &Places) -> Outcome {
    let threats = read(&places.root)?;
    let names: BTreeSet<&str> = threats.iter().flat_map(|threat| &threat.tests).map(String::as_str).collect();
    let (mut failures, mut succeeded) = (Failures::default(), BTreeSet::<&str>::new());
    let mut test = cargo(&places.root);
    test.args(["test", "--workspace", "--lib", "--bins", "--tests", "--no-fail-fast", "--"]).args(&names);
    let ran = process::run_reading(&mut test, |line| {
        println!("{line}");
        failures.read(line);
        succeeded.extend(names.iter().copied().filter(|name| is_success(line, name)));
    });
    ran.map_err(|error| error + &failures.told())?;
    println!("\n==> threats");
    let mut missing = Vec::new();
    for Threat { number, tests, files } in &threats {
        let not_run: Vec<&str> = tests.iter().map(String::as_str).filter(|name| !succeeded.contains(name)).collect();
        let mark = if not_run.is_empty() { "ok    " } else { "FAILED" };
        let by = if files.is_empty() { "" } else { ", and some in the browser with `cargo xtask test`" };
        println!("{mark} {number:>2}: {} tests{by}", tests.len());
        missing.extend(not_run.into_iter().map(|name| format!("\n  {number}: {name}")));
    }
    if missing.is_empty() { Ok(()) } else { Err(format!("these tests did not run:{}", missing.concat())) }
}

fn read(root: &Path) -> Result<Vec<Threat>, String> {
    let page = fs::read_to_string(root.join(PAGE)).map_err(|error| format!("{PAGE}: {error}"))?;
    threats(&page).map_err(|error| format!("{PAGE}: {error}"))
}

/// Whether a line reports this test's success. A test that is run over several stores is a module of its name.
fn is_success(line: &str, name: &str) -> bool {
    let path = line.strip_prefix("test ").and_then(|rest| rest.strip_suffix(" ... ok"));
    let path = path.map(|path| path.trim_end_matches(" - should panic"));
    path.is_some_and(|path| path.split("::").any(|part| part == name))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Recognises a test function: by its attributes, or by the macro that makes a test from it for each store.
    fn is_test(source: &str, at: usize) -> bool {
        let (before, rest) = source.split_at(at);
        let above = before.rsplit_once('\n').map_or("", |(above, _)| above);
        let attributes = above.lines().rev().map(str::trim);
        let attributes = attributes.take_while(|line| line.starts_with("#[") || line.starts_with("//"));
        let attributes: Vec<&str> = attributes.collect();
        let is = |start: &str| attributes.iter().any(|line| line.starts_with(start));
        let of_stores =
            rest.split('{').next().is_some_and(|head| head.contains("(store)") || head.contains("(store: Tested)"));
        (of_stores || is("#[test]") || is("#[tokio::test")) && !is("#[ignore")
    }

    fn sources(folder: &Path, found: &mut Vec<String>) {
        for entry in fs::read_dir(folder).into_iter().flatten().flatten() {
            let path = entry.path();
            if path.is_dir() && !path.ends_with("target") {
                sources(&path, found);
            } else if path.extension().is_some_and(|ending| ending == "rs") {
                found.push(fs::read_to_string(path).expect("text"));
            }
        }
    }

    #[test]
    fn x_each_threat_of_the_page_has_tests_that_run() {
        let root = Path::new(env!("CARGO_MANIFEST_DIR")).parent().expect("the repository");
        let threats = read(root).expect("a page");
        assert!(threats.len() > 31, "only {} threats", threats.len());
        let mut rust = Vec::new();
        for folder in ["crates", "fuzz", "xtask"] {
            sources(&root.join(folder), &mut rust);
        }
        for Threat { number, tests, files } in &threats {
            assert!(!tests.is_empty() || !files.is_empty(), "{number}: nothing tries it");
            for file in files {
                assert!(root.join(file).is_file(), "{number}: {file} does not exist");
            }
            for name in tests {
                let head = format!("fn {name}(");
                let is = |source: &String| source.match_indices(&head).any(|(at, _)| is_test(source, at));
                assert!(rust.iter().any(is), "{number}: there is no test {name} that runs by itself");
            }
        }
    }

    #[test]
    fn a_page_whose_numbers_or_cells_do_not_fit_is_refused() {
        let head = "| | threat | answer | tests |\n|---|---|---|---|\n";
        let page = |rows: &str| threats(&format!("{head}{rows}"));
        let good = page("| 1 | a | b | `x_one_two`, `web/e2e/a.spec.ts` |\n| 2 | c | d | |\n").expect("a page");
        assert_eq!((good[0].tests.as_slice(), good[0].files.len()), (["x_one_two".to_owned()].as_slice(), 1));
        assert!(good[1].tests.is_empty());
        for rows in ["| 2 | a | b | `x` |\n", "| 1 | a | b |\n", "| 1 | a | | `x` |\n"] {
            assert!(page(rows).is_err(), "{rows}");
        }
    }

    #[test]
    fn a_test_counts_when_a_line_says_that_it_succeeded() {
        assert!(is_success("test policy::x_one::sqlite ... ok", "x_one"));
        assert!(is_success("test x_one ... ok", "x_one"));
        for line in ["test x_one ... FAILED", "test x_one ... ignored", "test x_one_more ... ok", "x_one ... ok"] {
            assert!(!is_success(line, "x_one"), "{line}");
        }
    }

    #[test]
    fn only_a_test_that_runs_by_itself_counts() {
        let at = |source: &str| source.find("fn ").expect("a function");
        let counts = |source: &str| is_test(source, at(source));
        assert!(counts("#[test]\nfn a() {}") && counts("#[tokio::test(x)]\n// why\nasync fn a() {}"));
        assert!(counts("    async fn a(store) {}"));
        assert!(!counts("#[test]\n}\nfn a() {}") && !counts("#[test]\n#[ignore = \"x\"]\nfn a() {}"));
    }
}
