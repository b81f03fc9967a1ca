//! Files of any content (spec R9).

use std::time::Instant;

use proptest::prelude::*;

use super::*;

#[test]
fn r9_a_hostile_file_neither_crashes_nor_hangs() {
    let start = Instant::now();
    for text in [
        format!("{} = 1", vec!["a"; 100_000].join(".")),
        format!("[{}]", vec!["a"; 100_000].join(".")),
        format!("a = {}", "[".repeat(100_000)),
        format!("a = {}1{}", "{a=".repeat(50_000), "}".repeat(50_000)),
        "[[a]]\n".repeat(50_000),
        format!(
            "{MINIMAL}[tools.t]\ncommand = [\"./tool\"]\n[tools.t.parameters.{}]\na = 1",
            vec!["not"; 5000].join(".")
        ),
        (0..20_000).map(|i| format!("key{i} = 1\n")).collect(),
        "x".repeat(FILE_BYTES + 1),
    ] {
        assert!(!lines(&text).is_empty());
    }
    assert!(start.elapsed().as_secs() < 60, "{:?}", start.elapsed());
}

#[test]
fn c_the_last_line_says_that_there_are_more_errors_than_are_listed() {
    let wrong = |keys: usize| {
        let text: String = (0..keys).map(|i| format!("key{i} = 1\n")).collect();
        parse(&format!("{text}{MINIMAL}")).expect_err("unknown keys")
    };
    assert_eq!(wrong(ERRORS).len(), ERRORS);
    for (keys, told) in [
        (ERRORS + 1, "countersign.toml: 1 more error is not listed"),
        (ERRORS + 20, "countersign.toml: 20 more errors are not listed"),
        (20_000, "countersign.toml: at least 900 more errors are not listed"),
    ] {
        let errors = wrong(keys);
        assert_eq!((errors.len(), &*errors[ERRORS].to_string()), (ERRORS + 1, told));
    }
}

fn any_toml() -> impl Strategy<Value = String> {
    let words = prop::sample::select(vec![
        "[server]",
        "[agents.a]",
        "[tools.t]",
        "[tools.t.approval]",
        "[[auth.tokens]]",
        "[models.demo]",
        "[mcp.x]",
        "[store]",
        "[auth]",
        "[a.b]",
        "model",
        "tools",
        "command",
        "approval",
        "require",
        "levels",
        "parameters",
        "listen",
        "url",
        "provider",
        "script",
        "timeout",
        "=",
        "=",
        "=",
        "=",
        ".",
        ",",
        "[",
        "]",
        "{",
        "}",
        "\n",
        "\n",
        "\n",
        "\"demo\"",
        "\"ü\"",
        "'",
        "\"\"\"",
        "1",
        "-1",
        "0x1f",
        "1e999",
        "nan",
        "true",
        "1979-05-27",
        "\"demo.json\"",
        "\"args.a > 1\"",
        "\\",
        "#",
        "\t",
    ]);
    prop_oneof![prop::collection::vec(words, 0..60).prop_map(|words| words.join(" ")), ".{0,200}"]
}

proptest! {
    #[test]
    fn r9_any_text_gives_an_answer(text in any_toml()) {
        let folder = std::env::temp_dir();
        if let Err(errors) = Config::parse(&text, "countersign.toml", &folder, &env) {
            prop_assert!(!errors.is_empty());
            for error in errors {
                prop_assert!(error.line >= 1 && error.line <= text.matches('\n').count() + 1);
                prop_assert!(!error.to_string().contains('\n'), "{:?}", error);
            }
        }
    }
}
