//! Builds the server again when the console it carries has changed, or is there for the first time.

use std::path::Path;

fn main() {
    let console = Path::new("../../web/console");
    let dist = console.join("dist");
    // A missing path would mean "always again"; the folder above tells when it appears.
    let watched = if dist.exists() { dist } else { console.to_owned() };
    println!("cargo::rerun-if-changed={}", watched.display());
}
