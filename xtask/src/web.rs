//! `cargo xtask web`: the console's files, which become part of the binary.

use crate::{
    Outcome, Places, npm,
    process::{program, run, say},
    stamp::Stamp,
};

/// Builds the console, if its sources have changed.
pub(crate) fn build(places: &Places) -> Outcome {
    npm::check_node(&places.root)?;
    npm::install(places, "web")?;
    let web = places.web();
    let sources = ["package.json", "package-lock.json", "tsconfig.base.json", "packages", "console"];
    let inputs = sources.map(|name| web.join(name)).to_vec();
    let stamp = Stamp::new(places, "console", inputs, web.join("console/dist"));
    if stamp.is_fresh() {
        say("the console is built");
        return Ok(());
    }
    run(program("npm", &web).args(["run", "build"]))?;
    stamp.set();
    Ok(())
}
