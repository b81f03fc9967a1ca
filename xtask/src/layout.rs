//! Tests of the repository itself: which crate may use which, and whether names in the documents exist.

mod citations;
mod image;
mod release;
mod rooms;
mod sizes;
mod surface;

use std::{
    collections::BTreeSet,
    fs,
    path::{Path, PathBuf},
};

/// The crates of the library, without the macros.
const PARTS: &[&str] = &[
    "countersign-core",
    "countersign-store",
    "countersign-engine",
    "countersign-models",
    "countersign-tools",
    "countersign-mcp",
    "countersign-runtime",
];

/// The crates that tests of real servers need.
const TESTED: &[&str] = &["countersign-server", "countersign-test-machine", "countersign-test-postgres"];

/// Each crate of this repository with those it may use, in build order.
const MAY_USE: [(&str, &str, &[&[&str]]); 19] = [
    ("countersign-core", "crates/core", &[]),
    ("countersign-macros", "crates/macros", &[]),
    ("countersign-test-machine", "crates/test-machine", &[]),
    ("countersign-test-postgres", "crates/test-postgres", &[]),
    ("countersign-store", "crates/store", &[&["countersign-core", "countersign-test-postgres"]]),
    ("countersign-engine", "crates/engine", &[&["countersign-core"]]),
    ("countersign-models", "crates/models", &[&["countersign-core", "countersign-engine"]]),
    ("countersign-tools", "crates/tools", &[&["countersign-core", "countersign-engine"]]),
    ("countersign-mcp", "crates/mcp", &[&["countersign-core", "countersign-engine"]]),
    // The library is for the examples in its documentation: cargo refuses cycles between builds.
    (
        "countersign-runtime",
        "crates/runtime",
        &[&["countersign-core", "countersign-store", "countersign-engine"], &["countersign"]],
    ),
    ("countersign", "crates/countersign", &[PARTS, &["countersign-macros", "countersign-test-postgres"]]),
    ("countersign-server", "crates/server", &[PARTS, &["countersign"]]),
    ("countersign-cli", "crates/cli", &[PARTS, TESTED]),
    ("countersign-torture", "crates/torture", &[PARTS, TESTED]),
    ("countersign-compile-fail", "crates/compile-fail", &[&["countersign"]]),
    ("countersign-fuzz-targets", "fuzz/targets", &[PARTS, &["countersign-server"]]),
    ("countersign-bench", "bench", &[PARTS, &["countersign", "countersign-server", "countersign-test-postgres"]]),
    ("countersign-examples", "examples", &[&["countersign-core", "countersign", "countersign-server"]]),
    ("xtask", "xtask", &[]),
];

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).parent().expect("the repository").to_owned()
}

fn read(path: &Path) -> String {
    fs::read_to_string(path).unwrap_or_else(|error| panic!("{}: {error}", path.display()))
}

/// The files below a folder with these endings, without build results and installed packages.
fn files(folder: &Path, endings: &[&str], found: &mut Vec<PathBuf>) {
    for entry in fs::read_dir(folder).into_iter().flatten().flatten() {
        let (path, name) = (entry.path(), entry.file_name().to_string_lossy().into_owned());
        if path.is_dir() && !["node_modules", "dist", "target", "corpus"].contains(&name.as_str()) {
            files(&path, endings, found);
        } else if endings.iter().any(|ending| name.ends_with(ending)) {
            found.push(path);
        }
    }
}

/// The names before `=` or `.` in the tables of dependencies.
fn dependencies(manifest: &str) -> BTreeSet<String> {
    let mut inside = false;
    let mut found = BTreeSet::new();
    for line in manifest.lines() {
        if let Some(table) = line.strip_prefix('[') {
            inside = table.trim_end_matches(']').ends_with("dependencies");
        } else if inside && let Some(name) = line.split(['=', '.', ' ']).next().filter(|name| !name.is_empty()) {
            found.insert(name.to_owned());
        }
    }
    found.remove("#");
    found
}

#[test]
fn the_crates_use_each_other_only_downwards() {
    let known: Vec<&str> = MAY_USE.iter().map(|(name, _, _)| *name).collect();
    for (name, folder, may_use) in MAY_USE {
        let uses = dependencies(&read(&root().join(folder).join("Cargo.toml")));
        for used in uses.iter().filter(|used| known.contains(&used.as_str())) {
            assert!(may_use.iter().any(|named| named.contains(&used.as_str())), "{name} must not use {used}");
        }
    }
    let workspace = read(&root().join("Cargo.toml"));
    let members = workspace.lines().find(|line| line.starts_with("members")).expect("members");
    let listed: BTreeSet<&str> = members.split('"').skip(1).step_by(2).collect();
    assert_eq!(listed, MAY_USE.iter().map(|(_, folder, _)| *folder).collect(), "a member without a rule here");
}

/// The places of examples that `cargo test` would compile.
fn examples(text: &str) -> usize {
    let docs = text.lines().filter_map(|line| {
        let line = line.trim_start();
        line.strip_prefix("///").or_else(|| line.strip_prefix("//!"))
    });
    // Each second fence ends one.
    let fences = docs.filter_map(|doc| doc.trim_start().strip_prefix("```"));
    let built = |of: &&str| of.split(',').all(|one| BUILT.contains(&one.trim()));
    fences.step_by(2).filter(built).count()
}

/// The texts of fences whose examples `cargo test` compiles.
const BUILT: [&str; 5] = ["", "rust", "no_run", "compile_fail", "should_panic"];

/// Code that is not built for tests of its own.
const WITHOUT_TESTS: [&str; 8] = [
    "bench/src",
    "crates/countersign/src",
    "crates/torture/src/main.rs",
    "examples/src/bin/map_reduce.rs",
    "examples/src/bin/served_graph.rs",
    "examples/src/bin/terminal_approval.rs",
    "examples/src/bin/two_level.rs",
    "fuzz/targets/src",
];

#[test]
fn what_is_not_built_for_tests_has_none() {
    let manifests = MAY_USE.iter().map(|(_, folder, _)| read(&root().join(folder).join("Cargo.toml")));
    let said: usize = manifests.map(|manifest| manifest.matches("\ntest = false").count()).sum();
    assert_eq!(said, WITHOUT_TESTS.len());
    for place in WITHOUT_TESTS {
        let path = root().join(place);
        let mut sources = Vec::new();
        if path.is_dir() {
            files(&path, &[".rs"], &mut sources);
        } else {
            sources.push(path);
        }
        for path in sources {
            let text = read(&path);
            for test in ["#[test]", "tokio::test", "proptest!"] {
                assert!(!text.contains(test), "{} is not built for tests, and has one", path.display());
            }
        }
    }
}

#[test]
fn a_crate_whose_examples_are_not_built_has_none() {
    let mut without = 0;
    for (name, folder, _) in MAY_USE {
        if !read(&root().join(folder).join("Cargo.toml")).contains("doctest = false") {
            continue;
        }
        without += 1;
        let mut sources = Vec::new();
        files(&root().join(folder).join("src"), &[".rs"], &mut sources);
        for path in sources {
            assert_eq!(
                examples(&read(&path)),
                0,
                "{name} says doctest = false, and has an example: {}",
                path.display()
            );
        }
    }
    assert!(without > 3);
    assert_eq!(examples("/// ```json\n/// {}\n/// ```\n    //! ```rust, no_run\n    //! f();\n    //! ```"), 1);
}

#[test]
fn core_has_no_clock_no_io_and_no_ids() {
    let core = root().join("crates/core");
    let uses = dependencies(&read(&core.join("Cargo.toml")));
    for not in ["tokio", "futures", "uuid", "rand", "reqwest", "rusqlite", "axum"] {
        assert!(!uses.contains(not), "core must not use {not}");
    }
    let mut sources = Vec::new();
    files(&core.join("src"), &[".rs"], &mut sources);
    assert!(sources.len() > 10);
    for path in sources.iter().filter(|path| !path.ends_with("tests.rs")) {
        let text = read(path);
        for not in
            ["async fn", ".await", "::now()", "SystemTime", "Instant", "std::fs", "std::net", "std::env", "std::thread"]
        {
            assert!(!text.contains(not), "{} has {not}", path.display());
        }
    }
}

#[test]
fn every_dependency_has_its_row() {
    let page = read(&root().join("docs/dependencies.md"));
    let own: Vec<&str> = MAY_USE.iter().map(|(name, _, _)| *name).collect();
    for (crate_name, folder, _) in MAY_USE {
        for used in dependencies(&read(&root().join(folder).join("Cargo.toml"))) {
            assert!(
                own.contains(&used.as_str()) || page.contains(&format!("`{used}`")),
                "docs/dependencies.md has no row for {used}, which {crate_name} uses"
            );
        }
    }
}

/// The words in back quotes.
fn quoted(text: &str) -> impl Iterator<Item = &str> {
    text.lines().flat_map(|line| line.split('`').skip(1).step_by(2))
}

/// Whether a word looks like the name of a test: lower-case letters and digits, several words.
fn is_test_name(word: &str) -> bool {
    word.matches('_').count() >= 3 && word.chars().all(|c| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '_')
}

#[test]
fn the_tests_that_documents_name_exist() {
    let mut sources = Vec::new();
    for folder in ["crates", "examples", "fuzz", "xtask"] {
        files(&root().join(folder), &[".rs"], &mut sources);
    }
    let sources: String = sources.iter().map(|path| read(path)).collect();
    let mut checked = 0;
    for page in ["promises", "architecture", "security", "langgraph", "stability"].map(|page| format!("docs/{page}.md"))
    {
        let text = read(&root().join(&page));
        for name in quoted(&text).filter(|word| is_test_name(word)) {
            assert!(sources.contains(&format!("fn {name}(")), "{page} names the test {name}, which does not exist");
            checked += 1;
        }
    }
    assert!(checked > 50, "only {checked} names found");
}

#[test]
fn the_links_of_documents_lead_somewhere() {
    let root = root();
    let mut pages = [
        "README.md",
        "CHANGELOG.md",
        "CONTRIBUTING.md",
        "SECURITY.md",
        "bench/README.md",
        "examples/README.md",
        "web/README.md",
    ]
    .map(|page| root.join(page))
    .to_vec();
    files(&root.join("docs"), &[".md"], &mut pages);
    for page in pages {
        for link in read(&page).split("](").skip(1).filter_map(|rest| rest.split(')').next()) {
            let file = link.split('#').next().unwrap_or_default();
            if link.contains("://") {
                continue;
            }
            let to = if file.is_empty() { page.clone() } else { page.parent().expect("a folder").join(file) };
            assert!(to.exists(), "{}: {link}", page.display());
            if let Some((_, place)) = link.split_once('#')
                && file.ends_with(".md")
            {
                assert!(places(&read(&to)).contains(place), "{}: {link} leads to no heading", page.display());
            }
        }
    }
}

/// The targets of links into a page: its headings as GitHub names them, and its anchors.
fn places(page: &str) -> BTreeSet<String> {
    let headings = page.lines().filter_map(|line| line.strip_prefix('#')).map(|heading| {
        let heading = heading.trim_start_matches('#').trim().to_lowercase();
        let kept = heading.chars().filter(|c| c.is_alphanumeric() || [' ', '-', '_'].contains(c));
        kept.map(|c| if c == ' ' { '-' } else { c }).collect::<String>()
    });
    let anchors = page.split("<a id=\"").skip(1).filter_map(|rest| rest.split('"').next()).map(str::to_owned);
    headings.chain(anchors).collect()
}

#[test]
fn every_page_is_in_the_index() {
    let index = read(&root().join("docs/README.md"));
    let mut pages = Vec::new();
    files(&root().join("docs"), &[".md", ".json"], &mut pages);
    for page in pages {
        let name = page.file_name().expect("a name").to_string_lossy().into_owned();
        assert!(name == "README.md" || index.contains(&format!("({name}")), "docs/README.md does not name {name}");
    }
}

/// The examples of the packages' own pages are compiled and run; those that others show are the same ones.
#[test]
fn the_programs_in_typescript_are_those_of_the_packages() {
    let page = read(&root().join("docs/clients.md"));
    let packages: String =
        ["client", "react"].iter().map(|name| read(&root().join(format!("web/packages/{name}/README.md")))).collect();
    let blocks = page.split("\n```ts").skip(1).filter_map(|rest| rest.split_once("\n```")).map(|(block, _)| block);
    let blocks: Vec<&str> = blocks.collect();
    assert_eq!(blocks.len(), 2);
    for block in blocks {
        assert!(packages.contains(&format!("```ts{block}\n```")), "no package has this program:\n{block}");
    }
}
