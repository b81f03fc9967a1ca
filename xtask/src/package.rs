//! `cargo xtask package`: the parts of a release, in `TARGET/package`: the crates, in the order in which they would be
//! published, and the npm packages. Nothing is published.

use std::{fs, io, path::Path};

use crate::{
    Outcome, Places,
    process::{cargo, output, program, run, say},
    web,
};

/// The crates of a release, each after those that it uses.
pub(crate) const CRATES: [&str; 11] = [
    "countersign-core",
    "countersign-macros",
    "countersign-store",
    "countersign-engine",
    "countersign-models",
    "countersign-tools",
    "countersign-mcp",
    "countersign-runtime",
    "countersign",
    "countersign-server",
    CLI,
];

/// The crate whose package needs the console's files: people who install a program with cargo may not have npm.
const SERVER: &str = "countersign-server";
const CLI: &str = "countersign-cli";

/// The npm packages of a release, each after those that it uses.
const NPM: [&str; 2] = ["@countersign/client", "@countersign/react"];

/// The largest file of a package in bytes: test fixtures do not belong in one.
const FILE_BYTES: u64 = 1 << 20;

/// The folder of a crate in the repository.
pub(crate) fn folder(name: &str) -> String {
    format!("crates/{}", name.strip_prefix("countersign-").unwrap_or(name))
}

/// Packs everything. Without `dirty`, a change that is not committed is an error.
pub(crate) fn run_all(places: &Places, dirty: bool) -> Outcome {
    if !dirty {
        is_clean(places)?;
    }
    web::build(places)?;
    carry_console(places)?;
    for name in CRATES {
        let wrong = wrong(name, &listed(places, name)?, true, |file| size(places, name, file));
        if !wrong.is_empty() {
            return Err(format!("the package of {name} is not right:\n  {}", wrong.join("\n  ")));
        }
    }
    let mut pack = cargo(&places.root);
    // Cargo mistakes the copy of the console, which git ignores, for a change that is not committed.
    pack.args(["package", "--locked", "--no-verify", "--allow-dirty", "--target-dir"]).arg(&places.target);
    run(pack.args(CRATES.iter().flat_map(|name| ["-p", name])))?;
    let packages = places.target.join("package");
    let mut npm = program("npm", &places.web());
    npm.arg("pack").arg("--pack-destination").arg(&packages);
    run(npm.args(NPM.iter().flat_map(|name| ["-w", name])))?;
    say(&format!("the packages are in {}", packages.display()));
    Ok(())
}

/// Whether the packed files are the committed ones.
fn is_clean(places: &Places) -> Outcome {
    let changed = output(program("git", &places.root).args(["status", "--porcelain"]))
        .map_err(|error| format!("{error}; --allow-dirty packs what is there"))?;
    if changed.is_empty() {
        return Ok(());
    }
    Err(format!("these changes are not committed; --allow-dirty packs them:\n{changed}"))
}

/// The files of a crate's package.
fn listed(places: &Places, name: &str) -> Result<Vec<String>, String> {
    let mut list = cargo(&places.root);
    list.args(["package", "--list", "--locked", "--allow-dirty", "-p", name]);
    Ok(output(&mut list)?.lines().map(str::to_owned).collect())
}

/// The size of a package's file; 0 for those that cargo makes, such as the lock file.
fn size(places: &Places, name: &str, file: &str) -> u64 {
    fs::metadata(places.root.join(folder(name)).join(file)).map_or(0, |found| found.len())
}

/// What is wrong with the files of a package. `console`: it is there to be packed.
fn wrong(name: &str, files: &[String], console: bool, size: impl Fn(&str) -> u64) -> Vec<String> {
    let has = |start: &str, end: &str| files.iter().any(|file| file.starts_with(start) && file.ends_with(end));
    let source = if name == CLI { "src/main.rs" } else { "src/lib.rs" };
    let mut needed: Vec<(&str, &str)> =
        ["Cargo.toml", "README.md", "LICENSE-MIT", "LICENSE-APACHE", source].map(|file| (file, "")).to_vec();
    if name == SERVER && console {
        // Compressed only: `web/console/build/compressed.ts`.
        needed.extend(["br", "gz"].map(|end| ("console/index.html", end)));
        needed.extend([".js.br", ".js.gz", ".css.br", ".css.gz"].map(|end| ("console/assets/", end)));
    }
    let missing = needed.into_iter().filter(|(start, end)| !has(start, end));
    let mut wrong: Vec<String> = missing.map(|(start, end)| format!("{start}{end} is missing")).collect();
    for file in files {
        if ["tests/", "benches/", "target/", "node_modules/"].iter().any(|not| file.starts_with(not)) {
            wrong.push(format!("{file} does not belong there"));
        }
        let bytes = size(file);
        if bytes > FILE_BYTES {
            wrong.push(format!("{file} has {bytes} bytes; {FILE_BYTES} are the most"));
        }
    }
    wrong
}

/// Puts a copy of the console beside the server's sources, in place of an older one. It stays there, where `cargo publish`
/// finds it too; git ignores it, and a build in the repository does not look at it.
fn carry_console(places: &Places) -> Outcome {
    let (from, to) = (places.web().join("console/dist"), places.root.join(folder(SERVER)).join("console"));
    match fs::remove_dir_all(&to) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(format!("{}: {error}", to.display())),
        _ => {}
    }
    copy(&from, &to).map_err(|error| format!("{} cannot be copied: {error}", from.display()))
}

fn copy(from: &Path, to: &Path) -> io::Result<()> {
    fs::create_dir_all(to)?;
    for entry in fs::read_dir(from)? {
        let entry = entry?;
        let (path, to) = (entry.path(), to.join(entry.file_name()));
        if entry.file_type()?.is_dir() {
            copy(&path, &to)?;
        } else {
            fs::copy(&path, &to)?;
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn places() -> Places {
        Places::find().expect("the folders")
    }

    #[test]
    fn every_package_has_its_licences_and_its_page_and_no_tests() {
        let places = places();
        for name in CRATES {
            let files = listed(&places, name).expect("cargo lists the files");
            let wrong = wrong(name, &files, false, |file| size(&places, name, file));
            assert!(wrong.is_empty(), "{name}: {wrong:?}");
        }
        let core = listed(&places, CRATES[0]).expect("cargo lists the files");
        assert!(core.iter().any(|file| file == "locales/en.json"), "what core is compiled with is in its package");
    }

    #[test]
    fn a_package_without_the_console_or_with_what_is_not_for_it_is_refused() {
        let files = |names: &[&str]| -> Vec<String> { names.iter().map(|name| (*name).to_owned()).collect() };
        let common = ["Cargo.toml", "README.md", "LICENSE-MIT", "LICENSE-APACHE", "src/lib.rs"];
        let console = ["index.html", "assets/index-1.js", "assets/index-2.css"];
        let console = console.iter().flat_map(|name| ["br", "gz"].map(|end| format!("console/{name}.{end}")));
        let whole = [files(&common), console.collect()].concat();
        let small = |_: &str| 1;
        assert_eq!(wrong(SERVER, &whole, true, small), [""; 0]);
        assert_eq!(wrong(SERVER, &files(&common), true, small).len(), 6);
        assert_eq!(wrong("countersign", &files(&common), true, small), [""; 0]);
        assert_eq!(wrong("countersign", &files(&common[1..]), true, small), ["Cargo.toml is missing"]);
        assert_eq!(wrong(CLI, &files(&common), true, small), ["src/main.rs is missing"]);
        let more = [&common[..], &["tests/it/main.rs"]].concat();
        assert_eq!(wrong("countersign", &files(&more), true, small), ["tests/it/main.rs does not belong there"]);
        let large = |file: &str| if file == "src/lib.rs" { FILE_BYTES + 1 } else { 1 };
        assert_eq!(wrong("countersign", &files(&common), true, large).len(), 1);
    }

    #[test]
    fn the_console_that_is_packed_is_the_one_that_was_built_last() {
        let root = places().target.join("test-package");
        let _ = fs::remove_dir_all(&root);
        let places = Places { target: root.join("target"), root };
        let (dist, server) = (places.web().join("console/dist"), places.root.join("crates/server/console"));
        fs::create_dir_all(dist.join("assets")).expect("a folder");
        fs::write(dist.join("index.html"), "<p>").expect("a file");
        fs::write(dist.join("assets/index.js"), "1").expect("a file");
        fs::create_dir_all(&server).expect("a folder");
        fs::write(server.join("old.js"), "0").expect("a file of an earlier build");
        carry_console(&places).expect("a copy");
        assert!(server.join("index.html").is_file() && server.join("assets/index.js").is_file());
        assert!(!server.join("old.js").exists(), "nothing of an earlier build is packed");
        fs::remove_dir_all(dist).expect("removed");
        assert!(carry_console(&places).is_err(), "a console that was not built is no console");
    }
}
