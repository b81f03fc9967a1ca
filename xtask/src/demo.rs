//! `cargo xtask demo`: from a fresh clone to a console that asks for an approval.

use std::{os::unix::process::CommandExt as _, panic, process::Stdio, thread};

use crate::{
    Outcome, Places, npm,
    process::{self, cargo, program, say, shown},
    web,
};

/// Crates of the binary that do not carry the console. With their dependencies they are most of the build.
const PARTS: [&str; 4] = ["countersign-mcp", "countersign-models", "countersign-store", "countersign-tools"];

/// Builds the binary with the console in it, and replaces itself with `countersign demo`.
pub(crate) fn run(places: &Places, options: &[String]) -> Outcome {
    build(places)?;
    let mut demo = program(places.countersign("quick"), &places.root);
    demo.arg("demo");
    if !options.iter().any(|option| option == "--dir" || option.starts_with("--dir=")) {
        demo.arg("--dir").arg(places.target.join("demo"));
    }
    demo.args(options).stdin(Stdio::inherit());
    say(&shown(&demo));
    if !options.iter().any(|option| matches!(option.as_str(), "--help" | "-h")) {
        say("open the address below in a browser; Ctrl-C stops the demo, and starting it again continues it");
    }
    // The demo replaces this process, so that signals reach it and nothing else.
    Err(format!("the demo could not be started: {}", demo.exec()))
}

/// Builds the console beside the parts of the binary that do not carry it, then the rest.
fn build(places: &Places) -> Outcome {
    // Reported at once, not after minutes.
    npm::check_node(&places.root)?;
    // The binary's package is always named, so that everything is built once, with its features.
    let cargo = |args: &[&str]| {
        let package = ["build", "--profile", "quick", "--package", "countersign-cli"];
        process::run(cargo(&places.root).args(package).args(args))
    };
    let parts: Vec<&str> = PARTS.iter().flat_map(|part| ["--package", part]).chain(["--lib"]).collect();
    thread::scope(|scope| {
        let console = scope.spawn(|| web::build(places));
        cargo(&parts)?;
        console.join().unwrap_or_else(|panic| panic::resume_unwind(panic))
    })?;
    cargo(&[])
}
