//! Finds the console that the server carries: in the repository what npm has built, in a package the copy that
//! `cargo xtask package` has put beside the sources. Builds the server again when it has changed, or is there for the
//! first time.

use std::path::Path;

fn main() {
    println!("cargo::rustc-check-cfg=cfg(packaged_console)");
    let console = Path::new("../../web/console");
    let packaged = Path::new("console");
    // In the repository the copy that packaging has made is never taken for the console.
    if !console.join("package.json").exists() {
        if packaged.join("index.html.gz").exists() {
            println!("cargo::rustc-cfg=packaged_console");
        } else {
            // Cargo builds a package before it publishes it: none is published without the console.
            println!("cargo::error=this package has no console: `cargo xtask package` puts it there");
        }
        println!("cargo::rerun-if-changed=build.rs");
        return;
    }
    let dist = console.join("dist");
    // A missing path would mean "always again"; the folder above tells when it appears.
    let watched = if dist.exists() { dist } else { console.to_owned() };
    println!("cargo::rerun-if-changed={}", watched.display());
}
