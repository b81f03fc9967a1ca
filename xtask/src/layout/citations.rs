//! Whether citations of the specification can be followed: every cited number is in `docs/spec.md`, and every number
//! there is named by a test.

use std::{
    collections::BTreeSet,
    fmt::Write as _,
    path::{Path, PathBuf},
};

use super::{files, read, root};

/// Where numbers are cited: code, tests and documents.
const FOLDERS: [&str; 8] = ["bench", "crates", "docs", "examples", "fuzz", "tests", "web", "xtask"];

/// File types that may cite them there.
const ENDINGS: [&str; 9] = [".rs", ".ts", ".tsx", ".py", ".mjs", ".c", ".toml", ".md", ".json"];

/// Sections with a single statement, so that tests and comments name only their letter; for H, only the part that its
/// numbers share.
const LETTERS: [char; 3] = ['c', 'h', 'x'];

/// Tests in this folder refer to the rows of `docs/langgraph.md` where the specification has the same number.
const LANGGRAPH_TESTS: &str = "/tests/it/langgraph/";

/// The longest list of numbers in characters.
const LONGEST_LIST: usize = 200;

/// The numbers of the specification, in capitals.
struct Spec {
    promised: BTreeSet<String>,
    not_yet: BTreeSet<String>,
}

impl Spec {
    fn read() -> Spec {
        let text = read(&root().join("docs/spec.md"));
        let (now, later) = text.split_once("\n## Not yet\n").expect("docs/spec.md says what is not there yet");
        Spec { promised: anchors(now), not_yet: anchors(later) }
    }

    fn has(&self, number: &str) -> bool {
        self.promised.contains(number) || self.not_yet.contains(number)
    }
}

/// The ids of anchors in a page.
fn anchors(page: &str) -> BTreeSet<String> {
    let ids: Vec<&str> = page.split("<a id=\"").skip(1).filter_map(|rest| rest.split('"').next()).collect();
    let found: BTreeSet<String> = ids.iter().map(|id| id.to_ascii_uppercase()).collect();
    assert_eq!(found.len(), ids.len(), "a duplicate id");
    found
}

/// The numbers that begin the rows of a page's tables.
fn rows(page: &str) -> BTreeSet<String> {
    let cells = page.lines().filter_map(|line| line.strip_prefix("| ")?.split(" |").next());
    cells.flat_map(|cell| cell.split(", ")).filter(|cell| is_number(cell)).map(str::to_owned).collect()
}

/// Whether it is a capital letter and up to three digits.
fn is_number(word: &str) -> bool {
    let mut chars = word.chars();
    chars.next().is_some_and(|first| first.is_ascii_uppercase())
        && word.len() <= 4
        && chars.all(|digit| digit.is_ascii_digit())
}

/// A text without line ends and comment markers, so that a citation may span two lines.
fn in_one_line(text: &str) -> String {
    let lines = text.lines().map(|line| line.trim().trim_start_matches(['/', '!', '*', '#']).trim_start());
    lines.collect::<Vec<_>>().join(" ")
}

/// The numbers that a text cites: those after the word "spec", with the rest of their list.
fn cited(text: &str) -> Vec<String> {
    let mut found = Vec::new();
    for (at, _) in text.match_indices("pec ") {
        let (before, after) = (text[..at].chars().rev(), &text[at + "pec ".len()..]);
        let mut before = before.take(2);
        let is_word = matches!(before.next(), Some('s' | 'S'))
            && before.next().is_none_or(|previous| !previous.is_alphanumeric() && previous != '_');
        if is_word && after.starts_with(|first: char| first.is_ascii_uppercase()) {
            let end = after.char_indices().nth(LONGEST_LIST).map_or(after.len(), |(end, _)| end);
            list(&in_one_line(&after[..end]), &mut found);
        }
    }
    found
}

/// The numbers that a text begins with, one after the other.
fn list(text: &str, found: &mut Vec<String>) {
    let mut rest = text;
    loop {
        let number = rest.split(|c: char| !c.is_alphanumeric() && c != '_').next().unwrap_or_default();
        if !is_number(number) {
            return;
        }
        found.push(number.to_owned());
        rest = &rest[number.len()..];
        let joins = [", and ", ", ", " and ", " or ", " to ", "–"];
        let Some(next) = joins.iter().find_map(|join| rest.strip_prefix(join)) else { return };
        rest = next;
    }
}

/// The numbers that the name of a Rust function begins with.
fn of_name(name: &str) -> Vec<String> {
    let numbered = |part: &str| part.len() > 1 && is_number(&part.to_ascii_uppercase());
    let lettered = |part: &str| part.len() == 1 && part.starts_with(LETTERS);
    let parts = name.split('_').take_while(|part| part.starts_with(char::is_lowercase));
    parts.take_while(|part| numbered(part) || lettered(part)).map(str::to_ascii_uppercase).collect()
}

/// The names of the functions of a Rust file.
fn functions(text: &str) -> impl Iterator<Item = &str> {
    let lines = text.lines().map(str::trim_start).filter(|line| !line.starts_with("//"));
    lines.filter_map(|line| line.split("fn ").nth(1)?.split(['(', '<']).next())
}

/// The number that the title of a TypeScript test begins with: `"w2: …"`, `"s12 …"`, `"x: …"`.
fn titles(text: &str) -> impl Iterator<Item = String> {
    let calls = text.split(['(']).skip(1).filter_map(|rest| rest.strip_prefix(['"', '`']));
    calls.filter_map(|title| {
        let (number, rest) = title.split_at(title.find([':', ' '])?);
        let known = number.len() > 1 || (number.starts_with(LETTERS) && rest.starts_with(':'));
        let number = number.to_ascii_uppercase();
        (known && is_number(&number) && title.starts_with(char::is_lowercase)).then_some(number)
    })
}

/// Each file that may cite something, by its path in the repository, with its text.
fn sources() -> Vec<(String, String)> {
    let root = root();
    let mut found: Vec<PathBuf> = vec![root.join("README.md")];
    FOLDERS.iter().for_each(|folder| files(&root.join(folder), &ENDINGS, &mut found));
    let own = Path::new("xtask/src/layout/citations.rs");
    let named = found.iter().map(|path| (path.strip_prefix(&root).expect("of the repository"), path));
    named.filter(|(name, _)| *name != own).map(|(name, path)| (name.display().to_string(), read(path))).collect()
}

#[test]
fn every_citation_of_the_specification_leads_there() {
    let (spec, mut wrong, mut checked) = (Spec::read(), String::new(), 0);
    for (name, text) in sources() {
        for number in cited(&text) {
            checked += 1;
            if !spec.has(&number) {
                let _ = writeln!(wrong, "{name} cites {number}, which docs/spec.md does not have");
            }
        }
        for old in ["SPEC ", "DESIGN §", "DESIGN invariant"] {
            if text.contains(old) {
                let _ = writeln!(wrong, "{name} cites {old:?}, which nobody can follow: (spec W4) is in docs/spec.md");
            }
        }
        for anchor in text.split("spec.md#").skip(1) {
            let anchor = anchor.split(|c: char| !c.is_alphanumeric() && c != '-').next().unwrap_or_default();
            if !spec.has(&anchor.to_ascii_uppercase()) && !["", "not-yet", "words"].contains(&anchor) {
                let _ = writeln!(wrong, "{name} links to #{anchor}, which docs/spec.md does not have");
            }
        }
    }
    let promises = read(&root().join("docs/promises.md"));
    for heading in promises.lines().filter_map(|line| line.strip_prefix("## ")?.split(' ').next()) {
        if is_number(heading) && !spec.has(heading) {
            let _ = writeln!(wrong, "docs/promises.md promises {heading}, which docs/spec.md does not have");
        }
    }
    assert!(wrong.is_empty(), "\n{wrong}");
    assert!(checked > 500, "only {checked} citations found");
}

/// The numbers of the specification that the names of tests begin with; unknown numbers are reported.
fn named_by_tests(spec: &Spec, wrong: &mut String) -> BTreeSet<String> {
    let page = |name: &str| read(&root().join("docs").join(name));
    let (langgraph, openai) = (page("langgraph.md"), page("openai-agents.md"));
    let (langgraph_rows, openai_rows) = (rows(&langgraph), rows(&openai));
    let mut named = BTreeSet::new();
    for (file, text) in sources() {
        if file.ends_with(".rs") {
            let others = |number: &String| {
                openai_rows.contains(number) || (file.contains(LANGGRAPH_TESTS) && langgraph_rows.contains(number))
            };
            for (function, number) in
                functions(&text).flat_map(|name| of_name(name).into_iter().map(move |n| (name, n)))
            {
                if others(&number) {
                    continue;
                }
                if spec.has(&number) {
                    named.insert(number);
                } else if !langgraph.contains(&format!("`{function}`")) {
                    let _ = writeln!(wrong, "{file}: {function} begins with {number}, which does not exist");
                }
            }
        } else if file.ends_with(".ts") || file.ends_with(".tsx") {
            for number in titles(&text) {
                if !spec.has(&number) {
                    let _ = writeln!(wrong, "{file}: a test begins with {number}, which docs/spec.md does not have");
                }
                named.insert(number);
            }
        }
    }
    named
}

#[test]
fn every_number_of_a_test_exists_and_every_number_of_the_specification_has_a_test() {
    let (spec, mut wrong) = (Spec::read(), String::new());
    let named = named_by_tests(&spec, &mut wrong);
    for number in &spec.promised {
        // A section with numbers is proved by their tests.
        let is_of = |other: &String| other.len() > 1 && other.starts_with(number.as_str());
        let proved = number.len() == 1 && spec.promised.iter().any(is_of);
        if !proved && !named.contains(number) {
            let _ = writeln!(wrong, "no test names {number} of docs/spec.md");
        }
    }
    for number in spec.not_yet.intersection(&named) {
        let _ = writeln!(wrong, "a test names {number}, which docs/spec.md says is not there yet");
    }
    assert!(wrong.is_empty(), "\n{wrong}");
}

#[test]
fn the_configuration_of_the_specification_is_one_that_a_test_reads() {
    let spec = read(&root().join("docs/spec.md"));
    let example = spec.split("```toml\n").nth(1).and_then(|rest| rest.split("```").next()).expect("an example");
    let read_by = |(name, text): &(String, String)| name.ends_with(".rs") && text.contains(example);
    assert!(sources().iter().any(read_by), "no test has the example of C word for word");
}

#[test]
fn citations_are_found_in_comments_and_names() {
    assert_eq!(
        cited("/// Who is asked (spec W4, R11).\n//! Spec S4, S5 and\n//! S23 to S25, M147: it"),
        ["W4", "R11", "S4", "S5", "S23", "S25", "M147"]
    );
    assert_eq!(cited("(spec Q1–Q3) aspec W1, spec_W2 spec What spec W12345 spec of W1"), ["Q1", "Q3"]);
    assert_eq!(of_name("r1_r2_r4_the_laws_hold"), ["R1", "R2", "R4"]);
    assert_eq!(of_name("x_s13_hostile"), ["X", "S13"]);
    assert!(of_name("a_call_that_waits").is_empty() && of_name("w_5").is_empty());
    let titled = r#"test("w2: a session", it(`s12 a diff`); test("x: an image"); it("a closed group"); it("x is")"#;
    assert_eq!(titles(titled).collect::<Vec<_>>(), ["W2", "S12", "X"]);
}
