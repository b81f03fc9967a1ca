//! Every target over its seeds, and over mutations of them that are always the same. More of them:
//! `COUNTERSIGN_FUZZ_RUNS=100 cargo test -p countersign-fuzz-targets` runs a hundred times as many.

#![allow(clippy::unwrap_used, clippy::panic, reason = "these are tests")]

use std::{
    fs,
    panic::{AssertUnwindSafe, catch_unwind},
    path::{Path, PathBuf},
};

use countersign_fuzz_targets::{TARGETS, Target};

/// Longest mutated input, in bytes.
const LONGEST: usize = 4096;

fn folder() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).parent().unwrap().to_owned()
}

fn seeds(name: &str) -> Vec<Vec<u8>> {
    let mut files: Vec<PathBuf> =
        fs::read_dir(folder().join("seeds").join(name)).unwrap().map(|file| file.unwrap().path()).collect();
    // A folder lists its files in any order.
    files.sort();
    files.iter().map(|file| fs::read(file).unwrap()).collect()
}

/// Numbers that look random and are always the same (xorshift64*).
struct Chance(u64);

impl Chance {
    fn below(&mut self, end: usize) -> usize {
        self.0 ^= self.0 >> 12;
        self.0 ^= self.0 << 25;
        self.0 ^= self.0 >> 27;
        let high = self.0.wrapping_mul(0x2545_F491_4F6C_DD1D) >> 33;
        usize::try_from(high).unwrap() % end.max(1)
    }
}

/// Changes an input in one of the ways that fuzzers do.
fn mutate(input: &mut Vec<u8>, seeds: &[Vec<u8>], words: &[&str], chance: &mut Chance) {
    let at = chance.below(input.len() + 1);
    let end = at + chance.below((input.len() - at).min(32) + 1);
    match chance.below(8) {
        0 if at < input.len() => input[at] ^= 1 << chance.below(8),
        1 if at < input.len() => input[at] = [0, b'0', b'"', b'\\', 0x7f, 0xff, b'\n', b'}'][chance.below(8)],
        2 => drop(input.drain(at..end)),
        3 => {
            let again = input[at..end].to_vec();
            let to = chance.below(input.len() + 1);
            input.splice(to..to, again);
        }
        4 => {
            let other = &seeds[chance.below(seeds.len())];
            let from = chance.below(other.len() + 1);
            input.truncate(at);
            input.extend(&other[from..]);
        }
        5 => input.truncate(at.max(1)),
        _ => {
            let word = words[chance.below(words.len())];
            let end = if chance.below(2) == 0 { at } else { end };
            input.splice(at..end, word.bytes());
        }
    }
    input.truncate(LONGEST);
}

fn checked(target: &Target, input: &[u8]) {
    if catch_unwind(AssertUnwindSafe(|| (target.run)(input))).is_err() {
        panic!("{}: {:?}", target.name, String::from_utf8_lossy(input));
    }
}

fn run(name: &str) {
    let target = TARGETS.iter().find(|target| target.name == name).unwrap();
    let seeds = seeds(name);
    assert!(seeds.len() > 2, "{name} has no seeds");
    seeds.iter().for_each(|seed| checked(target, seed));
    let times: u32 = std::env::var("COUNTERSIGN_FUZZ_RUNS").map_or(1, |times| times.parse().unwrap());
    let mut chance = Chance(0x9E37_79B9_7F4A_7C15);
    for _ in 0..target.runs * times {
        let mut input = seeds[chance.below(seeds.len())].clone();
        for _ in 0..=chance.below(5) {
            mutate(&mut input, &seeds, target.words, &mut chance);
        }
        checked(target, &input);
    }
}

#[test]
fn every_target_has_its_program_its_seeds_and_its_test() {
    let own = fs::read_to_string(folder().join("targets/tests/it.rs")).unwrap();
    let manifest = fs::read_to_string(folder().join("Cargo.toml")).unwrap();
    let programs = fs::read_dir(folder().join("fuzz_targets")).unwrap().count();
    assert_eq!(programs, TARGETS.len());
    for Target { name, .. } in TARGETS {
        let program = fs::read_to_string(folder().join(format!("fuzz_targets/{name}.rs"))).unwrap();
        assert!(program.contains(&format!("countersign_fuzz_targets::{name}(bytes)")), "{name}");
        assert!(manifest.contains(&format!("[[bin]]\nname = \"{name}\"\n")), "{name}");
        assert!(own.contains(&format!("run(\"{name}\");")), "{name}");
    }
}

/// Seeds that are refused at once lead nowhere.
#[test]
fn the_saved_states_among_the_seeds_are_taken() {
    for name in ["asks", "failed", "waits"] {
        let text = fs::read_to_string(folder().join("seeds/run_state").join(name)).unwrap();
        let read = countersign_runtime::run_state::RunState::from_json(&text);
        assert!(read.is_ok(), "{name}: {:?}", read.err());
    }
}

#[test]
fn r9_fuzzed_frames_are_taken_and_written_again_or_refused_with_a_code() {
    run("frame");
}

#[test]
fn r9_fuzzed_json_is_read_exactly_or_refused_where_it_is_wrong() {
    run("json");
}

#[test]
fn r1_fuzzed_arguments_are_shown_as_they_run_or_refused() {
    run("args");
}

#[test]
fn r9_fuzzed_schemas_never_take_long_and_never_panic() {
    run("schema");
}

#[test]
fn c_fuzzed_configurations_are_taken_or_refused_with_a_line_of_the_file() {
    run("config");
}

#[test]
fn p2_fuzzed_conditions_never_take_long_and_never_panic() {
    run("condition");
}

#[test]
fn r8_fuzzed_audit_logs_verify_only_as_they_were_written() {
    run("audit");
}

#[test]
fn s21_fuzzed_run_states_are_refused_or_written_again_to_the_same() {
    run("run_state");
}

#[test]
fn x_fuzzed_sealed_values_never_open() {
    run("sealed");
}

#[test]
fn m1_fuzzed_streams_give_the_same_events_however_they_are_cut() {
    run("events");
}

#[test]
fn m4_fuzzed_scripts_are_taken_or_refused_with_a_line() {
    run("script");
}

#[test]
fn m1_fuzzed_answers_say_the_same_however_they_are_cut() {
    run("answers");
}

#[test]
fn s13_fuzzed_lines_of_mcp_servers_cost_themselves_only() {
    run("mcp");
}

#[test]
fn x_fuzzed_tokens_are_nobodys() {
    run("jwt");
}

#[test]
fn s12_fuzzed_patches_fit_or_are_refused_in_words() {
    run("patch");
}

#[test]
fn q1_fuzzed_questions_are_recorded_as_they_are_answered() {
    run("questions");
}

#[test]
fn w4_fuzzed_keys_are_written_as_they_are_read() {
    run("key");
}
