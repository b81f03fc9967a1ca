//! `cargo xtask fuzz`: the fuzz targets, guided by coverage. Findings stay in `fuzz/artifacts`.

use std::{fs, path::Path, process::Command};

use crate::{
    Outcome, Places,
    process::{self, program, say},
};

/// Default seconds for each target.
const SECONDS: u32 = 60;

/// Runs one target, or all one after the other, each for some seconds.
pub(crate) fn run(places: &Places, words: &[String]) -> Outcome {
    let folder = places.root.join("fuzz");
    let all = targets(&folder)?;
    let (wanted, seconds) = wanted(&all, words)?;
    if process::output(&mut cargo_fuzz(places, &["--version"])).is_err() {
        process::run(program("cargo", &places.root).args(["install", "cargo-fuzz", "--locked"]))?;
    }
    // The fuzzed versions are the tested ones.
    fs::copy(places.root.join("Cargo.lock"), folder.join("Cargo.lock"))
        .map_err(|error| format!("fuzz/Cargo.lock cannot be written: {error}"))?;
    // The address sanitizer needs a nightly compiler; the promises here do not.
    let nightly = process::output(program("cargo", &places.root).args(["+nightly", "--version"])).is_ok();
    if !nightly {
        say("there is no nightly toolchain: fuzzing without address checks");
    }
    for target in wanted {
        let corpus = folder.join("corpus").join(&target);
        fs::create_dir_all(&corpus).map_err(|error| format!("{}: {error}", corpus.display()))?;
        let seeds = folder.join("seeds").join(&target);
        let mut command = if nightly {
            cargo_fuzz(places, &["run", &target])
        } else {
            cargo_fuzz(places, &["run", "--sanitizer", "none", &target])
        };
        if nightly {
            command.env("RUSTUP_TOOLCHAIN", "nightly");
        }
        command.args([&corpus, &seeds]).arg("--").arg(format!("-max_total_time={seconds}")).arg("-timeout=20");
        process::run(&mut command)?;
    }
    Ok(())
}

fn cargo_fuzz(places: &Places, words: &[&str]) -> Command {
    let mut command = program("cargo", &places.root);
    command.arg("fuzz").args(words);
    command
}

/// The targets, in alphabetical order.
fn targets(folder: &Path) -> Result<Vec<String>, String> {
    let files = fs::read_dir(folder.join("fuzz_targets")).map_err(|error| format!("no fuzz targets: {error}"))?;
    let name = |file: fs::DirEntry| Some(file.path().file_stem()?.to_str()?.to_owned());
    let mut names: Vec<String> = files.flatten().filter_map(name).collect();
    names.sort();
    Ok(names)
}

/// `[TARGET] [SECONDS]`
fn wanted(all: &[String], words: &[String]) -> Result<(Vec<String>, u32), String> {
    let seconds = |word: &String| word.parse::<u32>().ok().filter(|seconds| *seconds > 0);
    let (target, time) = match words {
        [] => (None, SECONDS),
        [word] => seconds(word).map_or((Some(word), SECONDS), |time| (None, time)),
        [target, time] => (Some(target), seconds(time).ok_or_else(|| format!("{time:?} is not a number of seconds"))?),
        _ => return Err("fuzz takes a target and a number of seconds".to_owned()),
    };
    match target {
        None => Ok((all.to_vec(), time)),
        Some(target) if all.contains(target) => Ok((vec![target.clone()], time)),
        Some(target) => Err(format!("there is no fuzz target {target:?}; known are {}", all.join(", "))),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_target_and_a_time_are_both_optional() {
        let all = ["frame", "json"].map(str::to_owned);
        let of = |words: &[&str]| wanted(&all, &words.iter().map(|word| (*word).to_owned()).collect::<Vec<_>>());
        assert_eq!(of(&[]), Ok((all.to_vec(), SECONDS)));
        assert_eq!(of(&["5"]), Ok((all.to_vec(), 5)));
        assert_eq!(of(&["json"]), Ok((vec!["json".to_owned()], SECONDS)));
        assert_eq!(of(&["json", "7"]), Ok((vec!["json".to_owned()], 7)));
        assert!(of(&["jsn"]).is_err_and(|error| error.contains("known are frame, json")));
        assert!(of(&["json", "0"]).is_err() && of(&["json", "1", "2"]).is_err());
    }
}
