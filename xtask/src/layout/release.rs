//! The conditions for a release: versions, packages, licences.

use std::{
    collections::BTreeSet,
    process::{Command, Output},
};

use super::{MAY_USE, read, root};
use crate::package::{CRATES, folder};

/// The value of a key in the first line that has it.
fn value<'a>(text: &'a str, key: &str) -> Option<&'a str> {
    text.lines().find_map(|line| line.strip_prefix(key)?.trim_start().strip_prefix('=')).map(str::trim)
}

#[test]
fn every_crate_is_packaged_or_says_that_it_is_not() {
    let in_order: Vec<&str> = MAY_USE.iter().map(|(name, _, _)| *name).filter(|name| CRATES.contains(name)).collect();
    assert_eq!(in_order, CRATES, "each after those that it uses");
    for (name, place, _) in MAY_USE {
        let manifest = read(&root().join(place).join("Cargo.toml"));
        if !CRATES.contains(&name) {
            assert!(
                manifest.contains("\npublish.workspace = true\n"),
                "{name} is not packaged: `publish.workspace = true`"
            );
            continue;
        }
        assert_eq!(folder(name), place);
        for key in ["description", "readme", "keywords", "categories", "include"] {
            assert!(value(&manifest, key).is_some(), "{name} has no {key}");
        }
        assert!(!manifest.contains("publish.workspace"), "{name} is packaged");
        let keywords = value(&manifest, "keywords").expect("keywords");
        assert!(keywords.matches('"').count() <= 10, "{name}: a registry takes five keywords");
    }
    let server = read(&root().join("crates/server/Cargo.toml"));
    assert!(value(&server, "include").expect("files").contains("\"/console/**\""), "whoever installs has no npm");
    let workspace = read(&root().join("Cargo.toml"));
    assert_eq!(value(&workspace, "publish"), Some("false"));
}

#[test]
fn everything_of_a_release_has_one_version() {
    let workspace = read(&root().join("Cargo.toml"));
    let version = value(&workspace, "version").expect("a version").trim_matches('"');
    for name in CRATES.iter().filter(|name| **name != "countersign-cli") {
        let here = value(&workspace, name).expect("a dependency of the workspace");
        assert!(here.starts_with(&format!("{{ version = \"={version}\",")), "{name} is {here}, and not ={version}");
    }
    let known = format!("\"version\": \"{version}\"");
    for name in ["client", "react"] {
        let package = read(&root().join(format!("web/packages/{name}/package.json")));
        assert!(package.contains(&known), "{name} is not of version {version}");
    }
    let react = read(&root().join("web/packages/react/package.json"));
    assert!(
        react.contains(&format!("\"@countersign/client\": \"^{version}\"")),
        "react uses a client of its own version, or of a later patch"
    );
}

/// The licences in `deny.toml`.
fn allowed() -> BTreeSet<String> {
    let text = read(&root().join("deny.toml"));
    let list = text.split("\nallow = [").nth(1).and_then(|rest| rest.split("\n]").next()).expect("a list");
    list.lines().filter_map(|line| Some(line.trim().strip_prefix('"')?.split_once('"')?.0.to_owned())).collect()
}

/// Whether these alone can satisfy a licence expression (SPDX, or the older `A/B`).
fn is_met(expression: &str, allowed: &BTreeSet<String>) -> bool {
    let spaced = expression.replace('/', " OR ").replace('(', " ( ").replace(')', " ) ");
    let words: Vec<&str> = spaced.split_whitespace().collect();
    let mut at = 0;
    let met = any(&words, &mut at, allowed);
    met && at == words.len()
}

/// `A OR B`.
fn any(words: &[&str], at: &mut usize, allowed: &BTreeSet<String>) -> bool {
    let mut met = all(words, at, allowed);
    while words.get(*at) == Some(&"OR") {
        *at += 1;
        met |= all(words, at, allowed);
    }
    met
}

/// `A AND B`, which binds more closely.
fn all(words: &[&str], at: &mut usize, allowed: &BTreeSet<String>) -> bool {
    let mut met = one(words, at, allowed);
    while words.get(*at) == Some(&"AND") {
        *at += 1;
        met &= one(words, at, allowed);
    }
    met
}

/// A name, with its exception, or an expression in parentheses.
fn one(words: &[&str], at: &mut usize, allowed: &BTreeSet<String>) -> bool {
    let Some(word) = words.get(*at) else { return false };
    *at += 1;
    if *word == "(" {
        let met = any(words, at, allowed);
        let closed = words.get(*at) == Some(&")");
        *at += 1;
        return met && closed;
    }
    if words.get(*at) == Some(&"WITH") {
        let whole = format!("{word} WITH {}", words.get(*at + 1).unwrap_or(&""));
        *at += 2;
        return allowed.contains(&whole);
    }
    allowed.contains(*word)
}

/// Cargo's data about the dependencies on this system. It fetches missing ones, as for a build.
fn tree(offline: bool) -> Output {
    let mut tree = Command::new(std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into()));
    tree.current_dir(root()).args(["tree", "--locked", "--workspace", "--all-features", "-e", "normal,build,dev"]);
    tree.args(["--prefix", "none", "--format", "{p}|{l}"]);
    if offline {
        tree.arg("--offline");
    }
    tree.output().expect("cargo runs")
}

/// Those of other systems are checked by `cargo deny`.
#[test]
fn every_dependency_has_a_licence_that_deny_toml_allows() {
    let allowed = allowed();
    assert!(allowed.contains("MIT") && allowed.contains("Apache-2.0") && allowed.len() < 12, "{allowed:?}");
    let here = tree(true);
    let told = if here.status.success() { here } else { tree(false) };
    assert!(told.status.success(), "{}", String::from_utf8_lossy(&told.stderr));
    let told = String::from_utf8_lossy(&told.stdout);
    let lines: BTreeSet<&str> =
        told.lines().map(|line| line.trim_end_matches(" (*)")).filter(|line| !line.is_empty()).collect();
    assert!(lines.len() > 300, "only {} dependencies", lines.len());
    for line in lines {
        let (name, licence) = line.split_once('|').expect("a name and a licence");
        assert!(is_met(licence, &allowed), "{name} is under {licence:?}, which deny.toml does not allow");
    }
}

/// They are part of the binary and of the packages.
#[test]
fn the_npm_packages_that_ship_have_licences_that_deny_toml_allows() {
    let (allowed, lock, mut checked) = (allowed(), read(&root().join("web/package-lock.json")), 0);
    for package in lock.split("\n    \"node_modules/").skip(1) {
        let package = package.split("\n    }").next().expect("a package");
        let has = |field: &str| package.contains(&format!("\n      \"{field}\": "));
        if has("dev") || has("link") {
            continue;
        }
        let licence = package.split("\n      \"license\": \"").nth(1).and_then(|rest| rest.split('"').next());
        let name = package.split('"').next().expect("a name");
        assert!(licence.is_some_and(|licence| is_met(licence, &allowed)), "{name} is under {licence:?}");
        checked += 1;
    }
    assert!(checked > 50, "only {checked} packages");
}

#[test]
fn a_licence_expression_is_met_as_spdx_has_it() {
    let allowed: BTreeSet<String> = ["MIT", "ISC", "X WITH Y"].map(str::to_owned).into();
    for met in
        ["MIT", "GPL-3.0 OR MIT", "GPL-3.0/MIT", "MIT AND ISC", "(GPL-3.0 OR MIT) AND ISC", "X WITH Y OR GPL-3.0"]
    {
        assert!(is_met(met, &allowed), "{met}");
    }
    for not in [
        "",
        "GPL-3.0",
        "MIT AND GPL-3.0",
        "MIT AND (GPL-3.0 OR X)",
        "(MIT",
        "MIT)",
        "MIT WITH Y",
        "GPL-3.0 OR ISC AND X",
    ] {
        assert!(!is_met(not, &allowed), "{not}");
    }
}
