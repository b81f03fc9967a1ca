//! `cargo xtask torture`: servers that are killed, for longer than in the tests.

use crate::{Outcome, Places, postgres, process, web};

/// Builds the servers with their failpoints, and runs the torture with these options.
pub(crate) fn run(places: &Places, options: &[String]) -> Outcome {
    web::build(places)?;
    if options.iter().any(|option| option.ends_with("postgres")) {
        postgres::ensure(places)?;
    }
    // Together: the program built beside the torture has failpoints. Built alone, as it is released, it has none.
    let mut build = process::cargo(&places.root);
    process::run(build.args(["build", "--package", "countersign-cli", "--package", "countersign-torture"]))?;
    let torture = places.target.join("debug/countersign-torture");
    process::run(process::program(torture, &places.root).args(options))
}
