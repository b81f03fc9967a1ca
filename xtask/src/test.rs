//! `cargo xtask test`: all tests, on a machine with only Rust and Node.

use std::{
    fs,
    process::Command,
    thread,
    time::{Duration, Instant},
};

use crate::{
    Outcome, Places, built,
    chromium::{self, Browsers},
    clean,
    failures::Failures,
    npm, pooler, postgres,
    process::{self, cargo, program, say},
    python, valgrind, web,
};

/// The steps so far.
#[derive(Default)]
struct Steps {
    done: Vec<(&'static str, Duration, Outcome)>,
    skipped: Vec<(&'static str, &'static str)>,
}

impl Steps {
    /// Runs a step, and returns whether it succeeded. A failure is shown at once and again at the end.
    fn step(&mut self, name: &'static str, step: impl FnOnce() -> Outcome) -> bool {
        self.take(name, timed(name, step))
    }

    /// Records a finished step, and returns whether it succeeded.
    fn take(&mut self, name: &'static str, (took, outcome): (Duration, Outcome)) -> bool {
        let succeeded = outcome.is_ok();
        self.done.push((name, took, outcome));
        succeeded
    }

    /// Runs a step that needs others.
    fn step_after(
        &mut self,
        needs: &[(bool, &'static str)],
        name: &'static str,
        step: impl FnOnce() -> Outcome,
    ) -> bool {
        match needs.iter().find(|(done, _)| !done) {
            Some((_, missing)) => {
                self.skipped.push((name, missing));
                false
            }
            None => self.step(name, step),
        }
    }

    /// Adds those that ran beside these.
    fn append(&mut self, mut others: Steps) {
        self.done.append(&mut others.done);
        self.skipped.append(&mut others.skipped);
    }

    fn summary(self) -> Outcome {
        println!("\n==> summary");
        let mut failed = self.skipped.len();
        for (name, took, outcome) in &self.done {
            let mark = if outcome.is_ok() { "ok    " } else { "FAILED" };
            println!("{mark} {name:<38} {:>5} s", took.as_secs());
            failed += usize::from(outcome.is_err());
        }
        for (name, missing) in &self.skipped {
            println!("NOT RUN {name}: it needs \"{missing}\"");
        }
        for (name, _, outcome) in &self.done {
            if let Err(error) = outcome {
                println!("\n{name}: {error}");
            }
        }
        if failed == 0 {
            Ok(())
        } else {
            Err(format!("\n{failed} of {} steps failed", self.done.len() + self.skipped.len()))
        }
    }
}

const PACKAGES: &str = "the console's packages";
const CONSOLE: &str = "build the console";
const RUST: &str = "build all of Rust";
const OTHERS: &str = "third-party servers";
const PYTHON: &str = "generators of clients, mail and MCP servers and SDKs, from PyPI";
/// Folders of `tests/third-party` with a `requirements.txt`.
const ENVIRONMENTS: [&str; 5] = ["clients", "mail", "mcp", "mcp-sdk-1", "sdks"];
/// One of them that takes minutes to install.
const LARGE: &str = "litellm";
const PROXY: &str = "a proxy before models, from PyPI";
const BROWSER: &str = "a browser";
const COUNTER: &str = "what counts instructions";
const DATABASE: &str = "PostgreSQL, and a pooler in front of it";
/// Features of serde_json that other crates of a user's program may enable, besides those of genai.
const SERDE_JSON: &str = "serde_json/arbitrary_precision,serde_json/unbounded_depth";

/// Features of the programs that have no effect unless used. Tests of both are built at once.
pub(crate) const FEATURES: &str = "countersign/postgres,countersign-cli/computer,countersign-cli/otlp";

/// Installs what is missing and runs every test; those whose packages take minutes to install only if `all` is set, and
/// those in a clean clone.
pub(crate) fn run(places: &Places, all: bool) -> Outcome {
    let mut steps = Steps::default();
    let built = prepare(places, &mut steps);
    // All wait a lot, and none changes anything that another uses.
    thread::scope(|scope| {
        let console = scope.spawn(|| console_tests(places, &built));
        let recompiled = scope.spawn(|| recompiled_tests(places, &built, all));
        let rust = scope.spawn(|| rust_tests(places, &built, all));
        let suites = [
            ("the tests in Rust", rust),
            ("what is compiled with other features", recompiled),
            ("the console's tests", console),
        ];
        for (name, tests) in suites {
            match tests.join() {
                Ok(tests) => steps.append(tests),
                // The findings of the others are still reported.
                Err(_) => drop(steps.step(name, || Err("it panicked".to_owned()))),
            }
        }
    });
    steps.summary()
}

/// Which of the steps that tests need have succeeded.
struct Built {
    packages: bool,
    console: bool,
    rust: bool,
    others: bool,
    python: bool,
    database: bool,
    browsers: Option<Browsers>,
}

impl Built {
    /// Tells tests where the browsers are.
    fn tell(&self, command: &mut Command) {
        if let Some(browsers) = &self.browsers {
            browsers.tell(command);
        }
    }
}

/// Installs and builds.
fn prepare(places: &Places, steps: &mut Steps) -> Built {
    let packages = steps.step(PACKAGES, || npm::check_node(&places.root).and_then(|()| npm::install(places, "web")));
    // The console first: the server carries its files.
    let console = steps.step_after(&[(packages, PACKAGES)], CONSOLE, || web::build(places));
    let mut browsers = None;
    // Downloads leave the processors to the compiler.
    let (rust, others, python, database) = thread::scope(|scope| {
        let fetched = scope.spawn(|| {
            let others = timed(OTHERS, || npm::install(places, "tests/third-party"));
            let python = timed(PYTHON, || ENVIRONMENTS.iter().try_for_each(|name| python::install(places, name)));
            let found = timed(BROWSER, || chromium::ensure(places).map(|found| browsers = Some(found)));
            let counter = timed(COUNTER, || valgrind::ensure(places));
            (
                others,
                python,
                found,
                counter,
                timed(DATABASE, || postgres::ensure(places).and_then(|()| pooler::ensure(places))),
            )
        });
        let rust = steps.step_after(&[(console, CONSOLE)], RUST, || {
            // The same command as the tests below, so that nothing is built twice: it includes the programs that they
            // start.
            process::run(cargo(&places.root).args(["test", "--no-run", "--workspace", "--features", FEATURES]))
        });
        match fetched.join() {
            Ok((others, python, browser, counter, database)) => {
                let (others, python) = (steps.take(OTHERS, others), steps.take(PYTHON, python));
                steps.take(BROWSER, browser);
                // Nothing needs it: the benchmarks' own test skips anything that it cannot count, and this step has
                // failed.
                steps.take(COUNTER, counter);
                (rust, others, python, steps.take(DATABASE, database))
            }
            Err(panic) => std::panic::resume_unwind(panic),
        }
    });
    Built { packages, console, rust, others, python, database, browsers }
}

/// The tests in Rust.
fn rust_tests(places: &Places, built: &Built, all: bool) -> Steps {
    let mut steps = Steps::default();
    let (rust, others, database) = ((built.rust, RUST), (built.others, OTHERS), (built.database, DATABASE));
    // Without a browser only its own tests fail.
    let needs = [rust, others, database];
    steps.step_after(&needs, "test Rust, with the documentation", || {
        let mut test = cargo(&places.root);
        test.args(["test", "--workspace", "--no-fail-fast", "--features", FEATURES]);
        built.tell(&mut test);
        tests(&mut test)
    });
    steps.step_after(
        &[rust, others, (built.python, PYTHON), database],
        "test third-party generated clients, MCP and mail servers, TLS to PostgreSQL, and requests by the SDKs' types",
        || third_party(places, &["third_party", "mail::", "mcp_npm", "mcp_pypi", "postgres_tls", "sdk_types"]),
    );
    if all {
        // Nothing else needs a server without its features, and it takes minutes to build.
        steps.step_after(&[rust], "test what a server without optional features refuses", || {
            let built = built::tests(places, &["countersign-server".to_owned()], "countersign-server/genai")?;
            built.programs("countersign-server")?.try_for_each(|mut test| tests(test.arg("config::")))
        });
        let proxy = steps.step(PROXY, || python::install(places, LARGE));
        steps.step_after(&[rust, (proxy, PROXY)], "test with a proxy before models", || {
            third_party(places, &["litellm"])
        });
        steps.step_after(&[rust], "install and pack in a clean clone", || clean::run_all(places, FEATURES));
    }
    steps
}

/// The tests that are compiled once more for other features. Their builds use the processors that the tests beside them
/// leave idle.
fn recompiled_tests(places: &Places, built: &Built, all: bool) -> Steps {
    let mut steps = Steps::default();
    let (rust, others) = ((built.rust, RUST), (built.others, OTHERS));
    steps.step_after(
        &[rust, others],
        "test again what makes and reads JSON, as other crates of a user's program may change what JSON is to it",
        || {
            // genai turns on serde_json's preserve_order; another crate of a user's program may turn on
            // arbitrary_precision. Digests, schemas, states and displayed values must not depend on either, so the
            // tests of the code that makes or reads JSON values run a second time. The runtime and the library only
            // pass such values on: their tests take minutes more. Stores keep core's types as text and have no JSON of
            // their own.
            let mut packages = vec!["core", "engine", "models", "tools", "mcp"];
            let mut features = format!("countersign-models/genai,{SERDE_JSON}");
            if all {
                packages.push("runtime");
                features += ",countersign/genai";
            }
            let mut packages: Vec<_> = packages.into_iter().map(|name| format!("countersign-{name}")).collect();
            packages.extend(all.then(|| "countersign".to_owned()));
            let built = built::tests(places, &packages, &features)?;
            packages.iter().try_for_each(|package| built.programs(package)?.try_for_each(|mut test| tests(&mut test)))
        },
    );
    steps
}

/// The tests of the console and of its packages, which run beside those in Rust.
fn console_tests(places: &Places, built: &Built) -> Steps {
    let mut steps = Steps::default();
    let npm = |args: &[&str], with: &dyn Fn(&mut Command)| {
        let mut command = program("npm", &places.web());
        command.args(args);
        with(&mut command);
        process::run_beside(&mut command, &places.target.join("console-tests.txt"))
    };
    let (packages, console) = ((built.packages, PACKAGES), (built.console, CONSOLE));
    steps.step_after(&[console], "check the console's types", || npm(&["run", "check"], &|_| {}));
    steps.step_after(&[packages], "test the console's parts", || npm(&["test"], &|_| {}));
    let needs = [(built.rust, RUST), console, (built.browsers.is_some(), BROWSER)];
    steps.step_after(&needs, "test the console in a browser", || {
        let told = places.target.join("e2e-failures.txt");
        // An earlier run's file is not about this one. Usually there is none.
        let _ = fs::remove_file(&told);
        let tested = npm(&["run", "e2e"], &|e2e| {
            e2e.env("COUNTERSIGN_BIN", places.countersign("debug")).env("E2E_FAILURES", &told);
            built.tell(e2e);
        });
        tested.map_err(|error| {
            let failed = fs::read_to_string(&told).unwrap_or_default();
            failed.lines().fold(error, |all, line| all + "\n  " + line)
        })
    });
    steps
}

/// Runs a step, and returns its duration. A failure is shown at once.
fn timed(name: &str, step: impl FnOnce() -> Outcome) -> (Duration, Outcome) {
    say(name);
    let begun = Instant::now();
    let outcome = step();
    if let Err(error) = &outcome {
        eprintln!("==> FAILED: {name}: {error}");
    }
    (begun.elapsed(), outcome)
}

/// Runs Rust's tests. An error names those that failed.
fn tests(command: &mut Command) -> Outcome {
    // Many of them mostly wait: for a deadline, a process, a browser.
    if std::env::var_os("RUST_TEST_THREADS").is_none() {
        let threads = 4 * thread::available_parallelism().map_or(1, usize::from);
        command.env("RUST_TEST_THREADS", threads.to_string());
    }
    let mut failures = Failures::default();
    let ended = process::run_reading(command, |line| {
        println!("{line}");
        failures.read(line);
    });
    ended.map_err(|error| error + &failures.told())
}

/// Runs tests, by their modules, that need packages from PyPI or npm. They belong to the whole workspace, which is
/// built already; one package alone would be rebuilt for its own features.
fn third_party(places: &Places, modules: &[&str]) -> Outcome {
    let mut test = cargo(&places.root);
    test.args(["test", "--workspace", "--features", FEATURES, "--test", "it", "--", "--ignored"]).args(modules);
    tests(test.env("THIRD_PARTY_PYTHON", python::folder(places)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_failure_is_counted_and_what_needs_it_is_not_run() {
        let mut steps = Steps::default();
        assert!(steps.step("a", || Ok(())));
        let b = steps.step("b", || Err("broken".to_owned()));
        let mut ran = false;
        steps.step_after(&[(true, "a"), (b, "b")], "c", || {
            ran = true;
            Ok(())
        });
        assert!(!ran);
        assert_eq!(steps.summary(), Err("\n2 of 3 steps failed".to_owned()));
    }

    #[test]
    fn success_of_all_steps_is_a_success() {
        let mut steps = Steps::default();
        steps.step_after(&[], "a", || Ok(()));
        assert_eq!(steps.summary(), Ok(()));
    }
}
