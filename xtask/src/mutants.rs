//! `cargo xtask mutants`: seeded bugs, put into the sources one at a time, each of which a test must catch.
//!
//! Each is a patch in `tests/mutants` with a head of two lines: the bug, and the narrowest tests that must fail. They
//! are applied in a copy of the repository under `target`, which has build results of its own and stays for the next
//! run.

use std::{
    fs::{self, File},
    os::unix::process::CommandExt as _,
    path::{Path, PathBuf},
    process::Command,
    thread,
    time::{Duration, Instant},
};

use crate::{
    Outcome, Places, pooler, postgres,
    process::{self, cargo, program, say},
};

/// Where the patches are.
const FOLDER: &str = "tests/mutants";
/// The beginnings of a head's lines.
const BUG: &str = "Bug: ";
const TEST: &str = "Test: cargo test ";
/// The heading of a run's section in a page.
const TITLE: &str = "\n## Seeded bugs\n";
/// How long tests may take before they count as failed: a bug may make one wait forever.
const LIMIT: Duration = Duration::from_secs(600);

/// A seeded bug.
#[derive(Debug)]
struct Mutant {
    name: String,
    /// In one sentence.
    bug: String,
    /// The tests that are built: arguments of `cargo test`.
    target: Vec<String>,
    /// The tests that run: each word is part of a test's name.
    tests: Vec<String>,
    patch: PathBuf,
}

/// The outcome of a bug.
enum Fate {
    /// These tests failed.
    Caught(Vec<String>),
    Survived,
    /// It cannot be tried, for this reason.
    Untried(String),
}

impl Mutant {
    fn read(patch: &Path) -> Result<Mutant, String> {
        let name = patch.file_stem().unwrap_or_default().to_string_lossy().into_owned();
        let text = fs::read_to_string(patch).map_err(|error| format!("{}: {error}", patch.display()))?;
        let mut lines = text.lines();
        let (bug, test) = (lines.next().and_then(|line| line.strip_prefix(BUG)), lines.next());
        let (target, tests) = test.and_then(|line| line.strip_prefix(TEST)?.split_once(" -- ")).unwrap_or_default();
        let words = |text: &str| text.split_whitespace().map(str::to_owned).collect::<Vec<_>>();
        let (target, tests) = (words(target), words(tests));
        match bug {
            Some(bug) if bug.ends_with('.') && !target.is_empty() && !tests.is_empty() => {
                Ok(Mutant { name, bug: bug.to_owned(), target, tests, patch: patch.to_owned() })
            }
            _ => Err(format!(
                "{}: a patch begins with the lines `{BUG}SENTENCE.` and `{TEST}-p CRATE … -- TEST…`",
                patch.display()
            )),
        }
    }

    /// All of them, in the order of the builds they need.
    fn all(root: &Path) -> Result<Vec<Mutant>, String> {
        let files = fs::read_dir(root.join(FOLDER)).map_err(|error| format!("{FOLDER}: {error}"))?;
        let patches =
            files.flatten().map(|file| file.path()).filter(|path| path.extension().is_some_and(|e| e == "patch"));
        let mut all = patches.map(|path| Mutant::read(&path)).collect::<Result<Vec<_>, _>>()?;
        all.sort_by(|a, b| (&a.target, &a.name).cmp(&(&b.target, &b.name)));
        Ok(all)
    }
}

/// Tries these bugs, or all of them, and then may write a page. It fails unless each is caught.
pub(crate) fn run(places: &Places, words: &[String]) -> Outcome {
    let (names, report) = match words {
        [option, file] if option == "--report" => (&[][..], Some(Path::new(file))),
        names => (names, None),
    };
    let all = Mutant::all(&places.root)?;
    if let Some(unknown) = names.iter().find(|name| !all.iter().any(|mutant| mutant.name == **name)) {
        let known: Vec<&str> = all.iter().map(|mutant| &*mutant.name).collect();
        return Err(format!("there is no {FOLDER}/{unknown}.patch; there are {}", known.join(", ")));
    }
    let wanted: Vec<Mutant> =
        all.into_iter().filter(|mutant| names.is_empty() || names.contains(&mutant.name)).collect();
    postgres::ensure(places)?;
    pooler::ensure(places)?;
    let copy = Copy::of(places)?;
    let mut last = None;
    let mut fates = Vec::new();
    for (i, mutant) in wanted.iter().enumerate() {
        if last != Some(&mutant.target) {
            copy.passes(wanted.iter().filter(|other| other.target == mutant.target))?;
            last = Some(&mutant.target);
        }
        say(&format!("{} of {}, {}: {}", i + 1, wanted.len(), mutant.name, mutant.bug));
        let begun = Instant::now();
        let fate = copy.tries(mutant)?;
        match &fate {
            Fate::Caught(tests) => println!("caught in {} s by {}", begun.elapsed().as_secs(), tests.join(", ")),
            Fate::Survived => println!("SURVIVED: no test fails"),
            Fate::Untried(why) => println!("NOT TRIED: {why}"),
        }
        fates.push((&mutant.name, fate));
    }
    summary(&fates, &copy.commit)?;
    report.map_or(Ok(()), |page| record(page, fates.len(), &copy.commit))
}

/// Writes into a page how many bugs were tried and all caught, in place of an earlier run's section.
fn record(page: &Path, bugs: usize, commit: &str) -> Outcome {
    let wrong = |error: std::io::Error| format!("{}: {error}", page.display());
    let section = format!(
        "{TITLE}\n```sh\ncargo xtask mutants --report {}\n```\n\n{bugs} of {bugs} seeded bugs are caught at commit {commit}.\n",
        page.display()
    );
    let text = fs::read_to_string(page).map_err(wrong)?;
    fs::write(page, with_section(&text, &section)).map_err(wrong)
}

fn with_section(page: &str, section: &str) -> String {
    let (before, old) = page.split_once(TITLE).unwrap_or((page, ""));
    let after = old.find("\n## ").map_or("", |at| &old[at..]);
    format!("{before}{section}{after}")
}

fn summary(fates: &[(&String, Fate)], commit: &str) -> Outcome {
    let mut wrong = String::new();
    for (name, fate) in fates {
        match fate {
            Fate::Caught(_) => {}
            Fate::Survived => wrong += &format!("\n  {name} survived"),
            Fate::Untried(why) => wrong += &format!("\n  {name}: {why}"),
        }
    }
    let caught = fates.iter().filter(|(_, fate)| matches!(fate, Fate::Caught(_))).count();
    println!("\n==> {caught} of {} seeded bugs are caught at commit {commit}", fates.len());
    if wrong.is_empty() { Ok(()) } else { Err(format!("not caught:{wrong}")) }
}

/// A copy of the repository into which bugs are put, with its own build results.
struct Copy {
    /// The original.
    commit: String,
    tree: PathBuf,
    target: PathBuf,
    logs: PathBuf,
}

impl Copy {
    /// The tracked files as they are now, committed or not.
    fn of(places: &Places) -> Result<Copy, String> {
        let folder = places.target.join("mutants");
        let (tree, target) = (folder.join("tree"), folder.join("target"));
        let mut copy = Copy { commit: String::new(), tree, target, logs: folder.join("logs") };
        fs::create_dir_all(&copy.logs).map_err(|error| format!("{}: {error}", copy.logs.display()))?;
        let git = |words: &[&str]| {
            let mut git = program("git", &places.root);
            git.args(words);
            git
        };
        copy.commit = process::output(&mut git(&["rev-parse", "--short=12", "HEAD"]))?;
        let mut now = process::output(&mut git(&["stash", "create"]))?;
        if now.is_empty() {
            now = process::output(&mut git(&["rev-parse", "HEAD"]))?;
        } else {
            copy.commit += ", with changes";
        }
        let tree = copy.tree.to_string_lossy().into_owned();
        // Code that is unchanged since an earlier run need not be built again.
        let moved = copy.tree.join(".git").exists()
            && copy.clean().is_ok()
            && process::output(copy.git().args(["checkout", "--quiet", "--detach", &now])).is_ok();
        if !moved {
            let _ = process::output(&mut git(&["worktree", "remove", "--force", &tree]));
            let _ = process::output(&mut git(&["worktree", "prune"]));
            process::run(&mut git(&["worktree", "add", "--quiet", "--force", "--detach", &tree, &now]))?;
        }
        Ok(copy)
    }

    fn git(&self) -> Command {
        program("git", &self.tree)
    }

    fn clean(&self) -> Outcome {
        process::output(self.git().args(["reset", "--quiet", "--hard"])).map(drop)
    }

    /// A test command for the tests that the words name.
    fn cargo(&self, target: &[String]) -> Command {
        let mut command = cargo(&self.tree);
        command.arg("test").args(target).env("CARGO_TARGET_DIR", &self.target);
        // Nobody looks at their traces.
        command.env("CARGO_PROFILE_DEV_DEBUG", "0").env("CARGO_INCREMENTAL", "1");
        command
    }

    /// Without a bug each of the tests exists and passes: otherwise their failures would prove nothing.
    fn passes<'a>(&self, of_target: impl Iterator<Item = &'a Mutant>) -> Outcome {
        let mutants: Vec<&Mutant> = of_target.collect();
        let Some(first) = mutants.first() else { return Ok(()) };
        let listed = process::output(self.cargo(&first.target).args(["--", "--list"]))?;
        let mut tests: Vec<&String> = Vec::new();
        for (mutant, test) in mutants.iter().flat_map(|mutant| mutant.tests.iter().map(move |test| (mutant, test))) {
            if !listed.lines().any(|line| line.ends_with(": test") && line.contains(&**test)) {
                return Err(format!("{}: {} has no test {test:?}", mutant.patch.display(), first.target.join(" ")));
            }
            tests.push(test);
        }
        tests.sort_unstable();
        tests.dedup();
        process::run(self.cargo(&first.target).args(["--quiet", "--"]).args(tests))
    }

    fn tries(&self, mutant: &Mutant) -> Result<Fate, String> {
        let applied = process::output(self.git().arg("apply").arg(&mutant.patch));
        let fate = match applied {
            Err(_) => Ok(Fate::Untried("its patch does not apply".to_owned())),
            Ok(_) => self.tests(mutant),
        };
        self.clean()?;
        fate
    }

    fn tests(&self, mutant: &Mutant) -> Result<Fate, String> {
        let log = self.logs.join(format!("{}.log", mutant.name));
        let built = self.logged(self.cargo(&mutant.target).arg("--no-run"), &log)?;
        if built != Some(true) {
            return Ok(Fate::Untried(format!("it does not compile, see {}", log.display())));
        }
        let passed = self.logged(self.cargo(&mutant.target).arg("--").args(&mutant.tests), &log)?;
        if passed == Some(true) {
            return Ok(Fate::Survived);
        }
        let output = fs::read_to_string(&log).unwrap_or_default();
        let failed: Vec<String> = failed(&output).map(str::to_owned).collect();
        Ok(match passed {
            None => Fate::Caught(vec![format!("tests that did not end in {} s", LIMIT.as_secs())]),
            Some(_) if failed.is_empty() => Fate::Untried(format!("no test ended by itself, see {}", log.display())),
            Some(_) => Fate::Caught(failed),
        })
    }

    /// Runs a command with its output in a file: whether it succeeds, if it ends in time.
    fn logged(&self, command: &mut Command, log: &Path) -> Result<Option<bool>, String> {
        let wrong = |error: std::io::Error| format!("{}: {error}", log.display());
        let file = File::create(log).map_err(wrong)?;
        let command = command.stdout(file.try_clone().map_err(wrong)?).stderr(file);
        // A group of its own, so that everything it has started ends with it.
        let mut child = command.process_group(0).spawn().map_err(|error| format!("cargo: {error}"))?;
        let begun = Instant::now();
        loop {
            match child.try_wait().map_err(|error| format!("cargo was lost: {error}"))? {
                Some(status) => return Ok(Some(status.success())),
                None if begun.elapsed() > LIMIT => {
                    process::output(program("kill", &self.tree).args(["-KILL", "--", &format!("-{}", child.id())]))?;
                    child.wait().map_err(|error| format!("cargo was lost: {error}"))?;
                    return Ok(None);
                }
                None => thread::sleep(Duration::from_millis(50)),
            }
        }
    }
}

/// The tests that failed, according to an output.
fn failed(output: &str) -> impl Iterator<Item = &str> {
    output.lines().filter_map(|line| line.strip_prefix("test ")?.strip_suffix(" ... FAILED"))
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use super::*;

    fn root() -> PathBuf {
        Path::new(env!("CARGO_MANIFEST_DIR")).parent().expect("the repository").to_owned()
    }

    /// A bug that does not apply any more, or whose tests have another name, would be caught by nothing.
    #[test]
    fn r1_every_seeded_bug_applies_and_names_tests_that_exist() {
        let root = root();
        let all = Mutant::all(&root).expect("patches");
        assert!(all.len() >= 20, "only {}", all.len());
        for mutant in &all {
            let check = program("git", &root).args(["apply", "--check"]).arg(&mutant.patch).output().expect("git");
            let said = String::from_utf8_lossy(&check.stderr);
            assert!(check.status.success(), "{}: {said}", mutant.patch.display());
            let package = mutant.target.iter().skip_while(|word| *word != "-p").nth(1).expect("a package");
            let folder = root.join("crates").join(package.strip_prefix("countersign-").unwrap_or(package));
            let mut sources = BTreeMap::new();
            read(&folder, &mut sources);
            for test in &mutant.tests {
                let exists = sources.values().any(|source: &String| names(source, test));
                assert!(exists, "{}: {package} has no test {test:?}", mutant.patch.display());
            }
        }
    }

    /// Whether a source has a test, or a module of tests, of this name, or one that begins with it.
    fn names(source: &str, test: &str) -> bool {
        let last = test.rsplit("::").find(|part| !part.is_empty()).unwrap_or(test);
        source.contains(&format!("fn {last}")) || source.contains(&format!("mod {last}"))
    }

    fn read(folder: &Path, found: &mut BTreeMap<PathBuf, String>) {
        for entry in fs::read_dir(folder).into_iter().flatten().flatten() {
            let path = entry.path();
            if path.is_dir() && !path.ends_with("target") {
                read(&path, found);
            } else if path.extension().is_some_and(|ending| ending == "rs") {
                let text = fs::read_to_string(&path).expect("text");
                found.insert(path, text);
            }
        }
    }

    #[test]
    fn a_patch_says_what_it_is_and_which_tests_must_fail() {
        let folder = std::env::temp_dir().join(format!("xtask-mutants-{}", std::process::id()));
        fs::create_dir_all(&folder).expect("a folder");
        let patch = folder.join("a-bug.patch");
        let of = |text: &str| {
            fs::write(&patch, text).expect("a file");
            Mutant::read(&patch)
        };
        let good = of("Bug: It is wrong.\nTest: cargo test -p a --test it -- w1_ x::y\n\ndiff").expect("read");
        assert_eq!((&*good.name, &*good.bug), ("a-bug", "It is wrong."));
        assert_eq!((good.target.join(" "), good.tests.join(" ")), ("-p a --test it".to_owned(), "w1_ x::y".to_owned()));
        for wrong in [
            "",
            "Bug: It is wrong.\n",
            "Bug: \nTest: cargo test -p a -- b\n",
            "Bug: It is wrong.\nTest: cargo test -p a\n",
            "Test: cargo test -p a -- b\nBug: It is wrong.\n",
        ] {
            assert!(of(wrong).is_err_and(|error| error.contains("a-bug.patch: a patch begins with")), "{wrong}");
        }
        fs::remove_dir_all(&folder).expect("removed");
    }

    #[test]
    fn it_fails_unless_each_bug_is_caught() {
        let name = "bug".to_owned();
        let told = |fate| summary(&[(&name, fate)], "abc");
        assert_eq!(told(Fate::Caught(vec!["a".to_owned()])), Ok(()));
        assert_eq!(told(Fate::Survived), Err("not caught:\n  bug survived".to_owned()));
        assert!(
            told(Fate::Untried("it does not compile".to_owned())).is_err_and(|error| error.ends_with("not compile"))
        );
        assert_eq!(failed("test a::b ... FAILED\ntest c ... ok\n").collect::<Vec<_>>(), ["a::b"]);
    }

    #[test]
    fn a_run_is_recorded_in_its_own_section_of_a_page() {
        let page = "# A page\n\n## One\n\nkept\n";
        let once = with_section(page, &format!("{TITLE}\n1 of 1\n"));
        assert_eq!(once, format!("{page}{TITLE}\n1 of 1\n"));
        let between = format!("{once}\n## Two\n\nkept too\n");
        let again = with_section(&between, &format!("{TITLE}\n2 of 2\n"));
        assert_eq!(again, between.replace("1 of 1", "2 of 2"));
    }
}
