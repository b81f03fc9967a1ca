//! `cargo xtask demo`: from a fresh clone to a console that asks for an approval.

use std::{os::unix::process::CommandExt as _, process::Stdio};

use crate::{
    Outcome, Places,
    process::{self, cargo, program, say, shown},
    web,
};

/// Builds the console, then the binary with it, and becomes `countersign demo`.
pub(crate) fn run(places: &Places, options: &[String]) -> Outcome {
    web::build(places)?;
    let package = ["build", "--profile", "quick", "--package", "countersign-cli"];
    process::run(cargo(&places.root).args(package))?;
    let mut demo = program(places.countersign("quick"), &places.root);
    demo.arg("demo");
    if !options.iter().any(|option| option == "--dir" || option.starts_with("--dir=")) {
        demo.arg("--dir").arg(places.target.join("demo"));
    }
    demo.args(options).stdin(Stdio::inherit());
    say(&shown(&demo));
    if !options.iter().any(|option| matches!(option.as_str(), "--help" | "-h")) {
        say("open the address below in a browser; Ctrl-C stops the demo, and starting it again goes on with it");
    }
    // The demo takes this process over, so that signals reach it and nothing else.
    Err(format!("the demo could not be started: {}", demo.exec()))
}
