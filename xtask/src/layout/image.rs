//! Whether the image can be built from its context, and the containers fit together, as far as tests without Docker can
//! see.

use std::process::Command;

use super::{read, root};

/// Files in git that are not in the image's build, so that changing them causes no other build.
const NOT_BUILT: [&str; 7] = [
    ".dockerignore",
    "Dockerfile",
    "compose.yaml",
    "deploy/compose/countersign.toml",
    "deploy/compose/script.json",
    "deploy/countersign.service",
    "deploy/nginx.conf",
];

/// A stage of the Dockerfile: the image that it begins with, its name, and its instructions.
struct Stage<'a> {
    image: &'a str,
    name: Option<&'a str>,
    instructions: Vec<&'a str>,
}

/// The stages of a Dockerfile. Instructions that continue on the next line keep their line ends.
fn stages(text: &str) -> Vec<Stage<'_>> {
    let mut stages: Vec<Stage> = Vec::new();
    for part in text.split("\nFROM ").skip(1) {
        let (from, rest) = part.split_once('\n').expect("instructions");
        let (image, name) = from.split_once(" AS ").map_or((from, None), |(image, name)| (image, Some(name)));
        let mut instructions = Vec::new();
        let mut rest = rest;
        while !rest.is_empty() {
            let ends = |at: &usize| !rest[..*at].ends_with('\\');
            let end = rest.match_indices('\n').map(|(at, _)| at).find(ends).unwrap_or(rest.len());
            instructions.push(rest[..end].trim());
            rest = rest.get(end + 1..).unwrap_or_default();
        }
        instructions.retain(|line| !line.is_empty() && !line.starts_with('#'));
        stages.push(Stage { image, name, instructions });
    }
    stages
}

/// The numbers in a version such as `1.28-alpine` or `>=20.19`.
fn version(text: &str) -> Vec<u32> {
    let from = text.trim_start_matches(|c: char| !c.is_ascii_digit());
    let end = from.find(|c: char| !c.is_ascii_digit() && c != '.').unwrap_or(from.len());
    from[..end].split('.').filter_map(|number| number.parse().ok()).collect()
}

/// The text between the first occurrences of two texts.
fn between<'a>(text: &'a str, before: &str, after: &str) -> &'a str {
    text.split_once(before).and_then(|(_, rest)| rest.split_once(after)).unwrap_or_else(|| panic!("{before}…{after}")).0
}

/// Whether a pattern of `.dockerignore` names this path or a folder above it.
fn names(pattern: &[&str], path: &[&str]) -> bool {
    match (pattern, path) {
        ([], _) => true,
        (["**", rest @ ..], [_, below @ ..]) => names(rest, path) || names(pattern, below),
        ([one, rest @ ..], [part, below @ ..]) => is_like(one, part) && names(rest, below),
        (_, []) => false,
    }
}

/// Whether a name is like a pattern, in which `*` is any text.
fn is_like(pattern: &str, name: &str) -> bool {
    match pattern.split_once('*') {
        None => pattern == name,
        Some((begin, rest)) => name
            .strip_prefix(begin)
            .is_some_and(|after| after.char_indices().any(|(at, _)| is_like(rest, &after[at..])) || rest.is_empty()),
    }
}

/// Whether `.dockerignore` keeps this path out of the build.
fn is_ignored(ignored: &str, path: &str) -> bool {
    let path: Vec<&str> = path.split('/').collect();
    let patterns = ignored.lines().filter(|line| !line.is_empty() && !line.starts_with('#'));
    patterns.map(|line| line.split('/').collect::<Vec<_>>()).any(|pattern| names(&pattern, &path))
}

#[test]
fn a_pattern_names_paths_as_docker_has_it() {
    let ignored = "# why\n.git\n**/dist\n**/*.db-*\ndeploy/compose\n";
    for path in [".git", ".git/config", "dist", "a/b/dist/c", "x.db-wal", "a/x.db-shm", "deploy/compose/script.json"] {
        assert!(is_ignored(ignored, path), "{path}");
    }
    for path in
        [".gitignore", "a/.git", "distant", "a/dist.rs", "x.db", "deploy/compose.yaml", "a/deploy/compose", "why"]
    {
        assert!(!is_ignored(ignored, path), "{path}");
    }
}

#[test]
fn the_image_is_built_from_all_that_is_in_git_but_what_it_does_not_have() {
    let ignored = read(&root().join(".dockerignore"));
    let listed = Command::new("git").args(["ls-files"]).current_dir(root()).output().expect("git");
    let listed = String::from_utf8(listed.stdout).expect("names");
    assert!(listed.lines().count() > 500, "{listed}");
    let without: Vec<&str> = listed.lines().filter(|path| is_ignored(&ignored, path)).collect();
    assert_eq!(without, NOT_BUILT);
    // The secrets of the compose file are in no layer and in no commit.
    assert!(read(&root().join("compose.yaml")).contains(" > .env)\n") && is_ignored(&ignored, ".env"));
    assert!(read(&root().join(".gitignore")).contains("\n/.env\n"));
    let image = read(&root().join("Dockerfile"));
    let copies = stages(&image).into_iter().flat_map(|stage| stage.instructions);
    let copies: Vec<&str> =
        copies.filter_map(|line| line.strip_prefix("COPY ")?.split_once(' ')).map(|(from, _)| from).collect();
    let (built, given): (Vec<&str>, Vec<&str>) = copies.iter().partition(|from| from.starts_with("--from="));
    assert_eq!((built.len(), &given[..]), (3, &["web", "."][..]));
    assert!(given.iter().all(|path| root().join(path).is_dir() && !is_ignored(&ignored, path)));
}

#[test]
fn the_image_is_built_with_what_the_sources_need_and_has_the_libraries_of_its_build() {
    let image = read(&root().join("Dockerfile"));
    let stages = stages(&image);
    let [console, build, last] = &stages[..] else { panic!("three stages, not {}", stages.len()) };
    let workspace = read(&root().join("Cargo.toml"));
    let tag = build.image.strip_prefix("rust:").expect("the build is of Rust");
    assert!(version(tag) >= version(between(&workspace, "\nrust-version = \"", "\"")), "{tag}");
    let package = read(&root().join("web/package.json"));
    let tag = console.image.strip_prefix("node:").expect("the console is of Node.js");
    assert!(version(tag) >= version(between(&package, "\"node\": \"", "\"")), "{tag}");
    // A program needs a libc at least as new as the one that it was linked with.
    assert!(
        build.image.ends_with("-bookworm") && last.image == "debian:bookworm-slim",
        "{} {}",
        build.image,
        last.image
    );
    for copied in [console.name, build.name].map(|name| format!("COPY --from={} /src/", name.expect("a name"))) {
        assert!(image.contains(&copied), "{copied}");
    }
}

#[test]
fn the_image_says_its_version_and_runs_as_the_user_that_it_makes() {
    let image = read(&root().join("Dockerfile"));
    let workspace = read(&root().join("Cargo.toml"));
    for (label, key) in [("version", "version"), ("licenses", "license")] {
        let value = between(&workspace, &format!("\n{key} = \""), "\"");
        assert!(image.contains(&format!("org.opencontainers.image.{label}=\"{value}\"")), "{label} is {value}");
    }
    let user = between(&image, "\nUSER ", "\n");
    // Only from a number can Kubernetes see that it is not root.
    assert!(user.parse::<u32>().is_ok_and(|user| user > 0) && image.contains(&format!("--uid {user} ")), "{user}");
}

#[test]
fn the_images_of_the_compose_file_do_what_it_asks_of_them() {
    let compose = read(&root().join("compose.yaml"));
    let of = |name: &str| version(between(&compose, &format!("image: {name}:"), "\n"));
    // The first stable version whose free edition looks names up again while it runs.
    let is_asked = read(&root().join("deploy/nginx.conf")).contains(" resolve;");
    assert!(is_asked && of("nginx") >= vec![1, 28], "{:?}", of("nginx"));
    // From 18 on the data are in another folder.
    assert!(of("postgres") < vec![18] && compose.contains("- database:/var/lib/postgresql/data\n"));
    // One of the three equal services builds the image, and none runs somebody else's image of the same name.
    assert_eq!(
        ["build: .", "image: countersign", "pull_policy: never"].map(|line| compose.matches(line).count()),
        [1; 3]
    );
}
