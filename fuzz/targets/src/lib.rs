//! The promises about input from outside, one function for each decoder: each takes any bytes, and panics if
//! the promise is broken. `fuzz/fuzz_targets` runs them guided by coverage, `tests` over the seeds and mutations of
//! them.

mod conditions;
mod config;
mod others;
mod state;
mod text;

pub use self::{
    conditions::{condition, schema},
    config::{config, script},
    others::{answers, jwt, key, mcp, patch, questions},
    state::{audit, run_state, sealed},
    text::{args, events, frame, json},
};

/// A function that is fuzzed.
#[derive(Clone, Copy, Debug)]
pub struct Target {
    /// Its name, which is that of its seeds' folder and of its file in `fuzz_targets`.
    pub name: &'static str,
    /// The function.
    pub run: fn(&[u8]),
    /// How many mutations an ordinary test runs: what takes some seconds without optimisation.
    pub runs: u32,
    /// The words that mutations insert.
    pub words: &'static [&'static str],
}

const JSON: &[&str] = &[
    "{",
    "}",
    "[",
    "]",
    ":",
    ",",
    "\"",
    "\\",
    "\\u0000",
    "\\ud800",
    "\\udc00",
    "null",
    "true",
    "1.10",
    "1e400",
    "-0",
    "9007199254740993",
    "18446744073709551616",
    "\"type\":",
    "\"a\":",
    "{}",
    "[]",
    "\u{202e}",
    "\u{feff}",
];
const TOML: &[&str] = &[
    "\n",
    "[",
    "]",
    "[[",
    "]]",
    "=",
    "\"",
    "'''",
    "{",
    "}",
    ".",
    "[store]\n",
    "[[store.keys]]\n",
    "[tools.t]\n",
    "approval = true\n",
    "[agents.a]\n",
    "[models.m]\n",
    "1",
    "-1",
    "true",
    "1979-05-27",
    "0x7f",
    "inf",
    "#",
    "\u{e9}",
];
const CEL: &[&str] = &[
    "args",
    ".",
    "(",
    ")",
    "[",
    "]",
    "{",
    "}",
    "&&",
    "||",
    "!",
    "==",
    "<",
    "+",
    "-",
    "*",
    "/",
    "%",
    "?",
    ":",
    "'",
    "\"",
    "r'",
    "in",
    "has(",
    ".map(x, ",
    ".all(x, ",
    ".exists(x, ",
    ".filter(x, ",
    "size(",
    "string(",
    "bytes(",
    "1",
    "1u",
    "1.5",
    "9223372036854775807",
    "b'\\xff'",
    "null",
    "args.l",
    "\n",
];
const PATCH: &[&str] = &[
    "\n",
    "\r\n",
    "*** Begin Patch\n",
    "*** End Patch",
    "*** Update File: a\n",
    "*** Add File: b\n",
    "*** Delete File: c\n",
    "*** Move to: d\n",
    "*** End of File\n",
    "@@\n",
    "@@ one\n",
    "+",
    "-",
    " ",
    "one\n",
    "\n====\n",
];
const JWT: &[&str] = &[
    ".",
    "\n",
    "eyJhbGciOiJFZERTQSIsImtpZCI6ImEifQ",
    "eyJhbGciOiJub25lIn0",
    "eyJhbGciOiJIUzI1NiJ9",
    "=",
    "-",
    "_",
    "\"kid\":\"a\"",
    "\"kty\":\"RSA\"",
    "\"kty\":\"EC\"",
    "\"n\":\"AQAB\"",
    "{",
    "}",
    "[",
    "]",
];
const SSE: &[&str] = &["\n", "\r", "\r\n", "\n\n", "data:", "data: ", "event:", "id:", "retry:", ":", "\u{feff}"];

/// All of them.
pub const TARGETS: [Target; 17] = [
    Target { name: "frame", run: frame, runs: 20_000, words: JSON },
    Target { name: "json", run: json, runs: 20_000, words: JSON },
    Target { name: "args", run: args, runs: 20_000, words: JSON },
    Target { name: "schema", run: schema, runs: 1_000, words: JSON },
    Target { name: "config", run: config, runs: 1_500, words: TOML },
    Target { name: "condition", run: condition, runs: 800, words: CEL },
    Target { name: "audit", run: audit, runs: 8_000, words: JSON },
    Target { name: "run_state", run: run_state, runs: 5_000, words: JSON },
    Target { name: "sealed", run: sealed, runs: 3_000, words: &["\u{1}", "\u{0}", "k", "2026-11"] },
    Target { name: "events", run: events, runs: 10_000, words: SSE },
    Target { name: "script", run: script, runs: 5_000, words: JSON },
    Target { name: "answers", run: answers, runs: 5_000, words: SSE },
    Target { name: "mcp", run: mcp, runs: 4_000, words: JSON },
    Target { name: "jwt", run: jwt, runs: 3_000, words: JWT },
    Target { name: "patch", run: patch, runs: 5_000, words: PATCH },
    Target { name: "questions", run: questions, runs: 4_000, words: JSON },
    Target { name: "key", run: key, runs: 5_000, words: &["_", "0", "1", "+1", "01", "4294967296", "-1", " "] },
];
