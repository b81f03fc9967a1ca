//! `[agents.*.compression]` (spec G5).

use super::{MINIMAL, lines};
use crate::config::{ConfigCompression, ConfigStrategy};

#[test]
fn g5_compression_is_a_budget_and_more_if_wanted() {
    let read = |added: &str| {
        let config = super::parse(&format!("{MINIMAL}{added}")).unwrap_or_else(|errors| panic!("{errors:?}"));
        config.agents[0].compression.clone().expect("compression")
    };
    let own = ConfigStrategy::Summary { model: None };
    assert_eq!(
        read("[agents.trader.compression]\ncontext_tokens = 100_000"),
        ConfigCompression { context_tokens: 100_000, keep_turns: 2, strategy: own }
    );
    let of_model =
        read("compression = { context_tokens = 5, keep_turns = 1, strategy = \"summary\", model = \"demo\" }");
    let strategy = ConfigStrategy::Summary { model: Some("demo".to_owned()) };
    assert_eq!(of_model, ConfigCompression { context_tokens: 5, keep_turns: 1, strategy });
    assert_eq!(
        of_model.to_string(),
        "above 5 tokens, what came before the newest turn is summarised by the model demo"
    );
    let trimmed = read("compression = { context_tokens = 5, keep_turns = 3, strategy = \"trim\" }");
    assert_eq!(trimmed.to_string(), "above 5 tokens, what came before the newest 3 turns is dropped");
}

#[test]
fn g5_each_mistake_is_told_with_its_line_and_the_nearest_right_name() {
    // Text appended to MINIMAL (so it begins in line 6), and the resulting errors.
    let cases: [(&str, &[&str]); 6] = [
        (
            "[agents.trader.compression]\nkeep_turns = 3",
            &[r#"6: missing "context_tokens" in [agents.trader.compression]"#],
        ),
        (
            "[agents.trader.compression]\ncontext_tokens = 0\nkeep_turns = 0",
            &[
                r#"7: "context_tokens" in [agents.trader.compression] is 0; it must be 1 to 100000000 tokens"#,
                r#"8: "keep_turns" in [agents.trader.compression] is 0; it must be 1 to 10000 turns"#,
            ],
        ),
        (
            "[agents.trader.compression]\ncontext_tokens = 9\nstrategy = \"sumary\"",
            &[r#"8: unknown strategy "sumary" in [agents.trader.compression]; did you mean "summary"?"#],
        ),
        (
            "[agents.trader.compression]\ncontext_tokens = 9\nmodel = \"dmo\"",
            &[r#"8: unknown model "dmo" in [agents.trader.compression]; did you mean "demo"?"#],
        ),
        (
            "[agents.trader.compression]\ncontext_tokens = 9\nstrategy = \"trim\"\nmodel = \"demo\"",
            &[r#"9: "model" in [agents.trader.compression] means nothing to the strategy "trim", which asks no model"#],
        ),
        (
            "[agents.trader.compression]\ncontext_token = 9",
            &[
                r#"6: missing "context_tokens" in [agents.trader.compression]"#,
                r#"7: unknown key "context_token" in [agents.trader.compression]; did you mean "context_tokens"?"#,
            ],
        ),
    ];
    for (added, expected) in cases {
        let expected: Vec<String> = expected.iter().map(|line| format!("countersign.toml:{line}")).collect();
        assert_eq!(lines(&format!("{MINIMAL}{added}")), expected, "{added}");
    }
}
