//! `[models.*]` of the providers with their own APIs (spec M1, S13).

use std::collections::BTreeMap;

use countersign_core::{call::gate::Ask, call::timeout::Timeout};
use countersign_engine::{
    key::ApiKey,
    model::{TakesImages, hosted_mcp::HostedApproval},
};
use countersign_models::{COMPATIBLE_PROVIDERS, GENAI_PROVIDERS, anthropic::Thinking, default_base_url};
use countersign_runtime::agent::OnCut;

use super::{MINIMAL, lines};
use crate::config::{
    ConfigApproval, ConfigEndpoint, ConfigHostedMcp, ConfigModel, ConfigProvider, ConfigRequire, hosted_mcp,
};

fn read(added: &str) -> ConfigModel {
    let config = super::parse(&format!("{MINIMAL}{added}")).unwrap_or_else(|errors| panic!("{errors:?}"));
    config.models[1].clone()
}

fn endpoint() -> ConfigEndpoint {
    ConfigEndpoint {
        model: "x".to_owned(),
        base_url: "http://h/v1".to_owned(),
        api_key_env: Some("BOB_TOKEN".to_owned()),
        headers: BTreeMap::new(),
        max_tokens: None,
    }
}

#[test]
fn m1_whether_a_model_takes_images_follows_from_its_provider_unless_the_file_says_it() {
    use TakesImages::{All, Inline, None};
    for (provider, takes) in
        [("openai", All), ("anthropic", All), ("openai-chat", None), ("deepseek", None), ("openrouter", None)]
    {
        let model = |at: &str, more: &str| {
            read(&format!("[models.m]\nprovider = {provider:?}\nmodel = \"x\"\n{at}{more}")).images
        };
        if let Some(own) = default_base_url(provider) {
            assert_eq!((model("", ""), model(&format!("base_url = \"{own}/\"\n"), "")), (takes, takes), "{provider}");
        }
        // Another server at that address might fetch any address it is given.
        let there = |more: &str| model("base_url = \"http://127.0.0.1/v1\"\n", more);
        assert_eq!(there(""), if takes == All { Inline } else { takes }, "{provider}");
        assert_eq!(
            (there("images = \"none\""), there("images = \"inline\""), there("images = \"all\"")),
            (None, Inline, All)
        );
    }
    for wrong in ["\"yes\"", "true"] {
        let errors = super::parse(&format!("{MINIMAL}[models.m]\nprovider = \"openai\"\n{AT}images = {wrong}"));
        let errors = errors.expect_err("none of the three");
        let names = |error: &dyn std::fmt::Display| error.to_string().contains("\"none\", \"inline\" or \"all\"");
        assert!(errors.iter().any(|error| names(error)), "{errors:?}");
    }
}

const AT: &str = "model = \"x\"\nbase_url = \"http://h/v1/\"\napi_key_env = \"BOB_TOKEN\"\n";

#[test]
fn m1_openai_and_anthropic_are_read_with_their_options() {
    let model = read(&format!("[models.m]\nprovider = \"openai\"\n{AT}"));
    let plain = ConfigProvider::OpenAi {
        at: endpoint(),
        reasoning_effort: None,
        reasoning_summary: false,
        encrypted_reasoning: None,
    };
    assert_eq!((&model.provider, model.provider.name()), (&plain, "openai"));
    let options = "reasoning_effort = \"low\"\nreasoning_summary = true\nencrypted_reasoning = false\nmax_tokens = 900";
    let full = ConfigProvider::OpenAi {
        at: ConfigEndpoint { max_tokens: Some(900), ..endpoint() },
        reasoning_effort: Some("low".to_owned()),
        reasoning_summary: true,
        encrypted_reasoning: Some(false),
    };
    assert_eq!(read(&format!("[models.m]\nprovider = \"openai\"\n{AT}{options}")).provider, full);
    for (said, thinking) in [("4096", Thinking::Budget(4096)), ("\"adaptive\"", Thinking::Adaptive)] {
        let model = read(&format!("[models.m]\nprovider = \"anthropic\"\n{AT}max_tokens = 9000\nthinking = {said}"));
        let want = ConfigProvider::Anthropic {
            at: ConfigEndpoint { max_tokens: Some(9000), ..endpoint() },
            thinking: Some(thinking),
        };
        assert_eq!(model.provider, want);
    }
}

#[test]
fn m1_providers_with_chat_completions_are_known_by_name() {
    for provider in ["deepseek", "groq", "xai", "cohere", "mistral", "openrouter"] {
        let model = read(&format!("[models.m]\nprovider = {provider:?}\n{AT}"));
        assert_eq!(model.provider, ConfigProvider::Compatible { provider: provider.to_owned(), at: endpoint() });
        assert_eq!(model.provider.name(), provider);
    }
}

#[test]
fn m1_a_provider_that_is_known_by_name_has_an_address_of_its_own() {
    let at = |provider: &str| {
        let model = read(&format!("[models.m]\nprovider = {provider:?}\nmodel = \"x\""));
        model.provider.endpoint().expect("an address").base_url.clone()
    };
    assert_eq!(at("openai"), "https://api.openai.com/v1");
    assert_eq!(at("anthropic"), "https://api.anthropic.com/v1");
    for provider in COMPATIBLE_PROVIDERS {
        assert_eq!(Some(&*at(provider)), default_base_url(provider), "{provider}");
    }
    for provider in GENAI_PROVIDERS {
        assert!(default_base_url(provider).is_some(), "{provider}");
    }
    assert_eq!(default_base_url("openai-chat"), None, "it may be any server");
}

#[test]
fn m1_every_provider_takes_headers_and_a_bound_on_its_answers() {
    for provider in ["openai-chat", "openai", "anthropic", "deepseek"] {
        let more = "max_tokens = 50\nheaders = { X-Title = \"desk\", X-Token = { env = \"BOB_TOKEN\" } }";
        let model = read(&format!("[models.m]\nprovider = {provider:?}\n{AT}{more}"));
        let at = model.provider.endpoint().expect("an address");
        assert_eq!(at.max_tokens, Some(50));
        assert_eq!(at.headers.keys().collect::<Vec<_>>(), ["X-Title", "X-Token"]);
        assert_eq!(at.headers["X-Title"], ApiKey::new("desk"));
        assert!(!format!("{at:?}").contains("desk"), "a header may be a secret");
    }
}

#[test]
fn s23_an_agent_says_what_follows_when_an_answer_is_not_whole() {
    for (said, on_cut) in [("end", OnCut::End), ("fail", OnCut::Fail), ("continue", OnCut::Continue)] {
        let config = super::parse(&format!("{MINIMAL}on_cut = {said:?}")).unwrap_or_else(|errors| panic!("{errors:?}"));
        assert_eq!(config.agents[0].on_cut, on_cut);
    }
    let want = r#"countersign.toml:6: "on_cut" in [agents.trader] is "stop"; it must be "end", "fail" or "continue""#;
    assert_eq!(lines(&format!("{MINIMAL}on_cut = \"stop\"")), [want]);
}

#[test]
fn m1_providers_of_genai_are_known_by_name() {
    let text = format!("[models.m]\nprovider = \"gemini\"\n{AT}");
    if cfg!(feature = "genai") {
        let want = ConfigProvider::Genai { provider: "gemini".to_owned(), at: endpoint() };
        assert_eq!(read(&text).provider, want);
    } else {
        let want = r#"countersign.toml:7: "provider" in [models.m] is "gemini", which this build does not have (it was built without the feature "genai"); use "openai-chat" if the provider has an address for OpenAI's chat completions"#;
        assert_eq!(lines(&format!("{MINIMAL}{text}")), [want]);
    }
}

/// Only the provider knows their names, so a rule may name any.
#[test]
fn s13_a_rule_may_name_a_tool_of_a_server_that_the_provider_calls() {
    let rule = "[[policy.rules]]\ntool = \"mcp__bank__wipe\"\ndeny = true\n";
    let bank =
        format!("[models.m]\nprovider = \"openai\"\n{AT}[models.m.hosted_mcp.bank]\nserver_url = \"https://b\"\n");
    assert_eq!(lines(&format!("{MINIMAL}{bank}{rule}")), Vec::<String>::new());
    let [told] = &lines(&format!("{MINIMAL}{rule}"))[..] else { panic!("it exists nowhere") };
    assert!(told.contains("unknown tool \"mcp__bank__wipe\""), "{told}");
}

#[test]
fn s13_servers_that_the_provider_calls_are_read_in_all_their_forms() {
    let of = |added: &str| {
        let text = format!(
            "[models.m]\nprovider = \"openai\"\n{AT}[models.m.hosted_mcp.bank]\nserver_url = \"https://b\"\n{added}"
        );
        let model = read(&text);
        let server = model.hosted_mcp[0].clone();
        hosted_mcp(&server, Some(ApiKey::new("t"))).expect("it can be used");
        server
    };
    let always = ConfigApproval { require: ConfigRequire::Always, ask: Ask::default() };
    let plain = ConfigHostedMcp {
        label: "bank".to_owned(),
        server_url: "https://b".to_owned(),
        description: None,
        authorization_env: None,
        allowed_tools: None,
        require_approval: HostedApproval::Always,
        approval: always,
    };
    assert_eq!(of(""), plain);
    assert_eq!(of("require_approval = \"never\"").require_approval, HostedApproval::Never);
    let lists = of("require_approval = { always = { tool_names = [\"send\"] }, never = { tool_names = [\"look\"] } }");
    let want = HostedApproval::Lists { always: vec!["send".to_owned()], never: vec!["look".to_owned()] };
    assert_eq!(lists.require_approval, want);
    let full = of(concat!(
        "description = \"Money.\"\nauthorization_env = \"BOB_TOKEN\"\nallowed_tools = [\"send\"]\n",
        "approval = { require = \"args.amount > 5\", timeout = 60 }"
    ));
    let approval = ConfigApproval {
        require: ConfigRequire::When("args.amount > 5".to_owned()),
        ask: Ask { timeout: Timeout::of(60), ..Ask::default() },
    };
    let want = ConfigHostedMcp {
        description: Some("Money.".to_owned()),
        authorization_env: Some("BOB_TOKEN".to_owned()),
        allowed_tools: Some(vec!["send".to_owned()]),
        approval,
        ..plain
    };
    assert_eq!(full, want);
}

#[test]
fn m149_each_mistake_is_told_with_its_line() {
    // Text appended to MINIMAL (so it begins in line 6), and the resulting errors.
    let openai = |added: &str| format!("[models.m]\nprovider = \"openai\"\n{AT}{added}");
    let anthropic = |added: &str| format!("[models.m]\nprovider = \"anthropic\"\n{AT}{added}");
    let bank = |added: &str| openai(&format!("[models.m.hosted_mcp.bank]\n{added}"));
    let in_bank = "in [models.m.hosted_mcp.bank]";
    for (added, want) in [
        (
            "[models.m]\nprovider = \"openai\"".to_owned(),
            vec![r#"6: missing "model" in [models.m]"#.to_owned()],
        ),
        (
            openai("thinking = 5000\nscript = \"demo.json\""),
            vec![
                r#"11: "thinking" in [models.m] means nothing to the provider "openai""#.to_owned(),
                r#"12: "script" in [models.m] means nothing to the provider "openai""#.to_owned(),
            ],
        ),
        (
            openai("max_tokens = 0\nheaders = { a = 1 }"),
            vec![
                r#"11: "max_tokens" in [models.m] is 0; it must be 1 to 10000000 tokens"#.to_owned(),
                r#"12: "headers" in [models.m] must have a string for "a", or { env = "VARIABLE" }"#.to_owned(),
            ],
        ),
        (
            openai("headers = { a = { env = \"NONE\" } }"),
            vec![r#"11: "headers" in [models.m] names the environment variable NONE, which is not set"#.to_owned()],
        ),
        (
            anthropic("hosted_mcp = {}"),
            vec![r#"11: "hosted_mcp" in [models.m] means nothing to the provider "anthropic""#.to_owned()],
        ),
        (
            anthropic("thinking = 5"),
            vec![r#"11: "thinking" in [models.m] is 5; it must be 1024 to 10000000 tokens"#.to_owned()],
        ),
        (
            anthropic("thinking = \"much\""),
            vec![
                r#"11: "thinking" in [models.m] is "much"; it must be a whole number of tokens or "adaptive""#.to_owned(),
            ],
        ),
        (
            anthropic("thinking = 2000\nmax_tokens = 2000"),
            vec![
                r#"12: "max_tokens" in [models.m] is 2000; it must be more than "thinking" (2000), which counts as part of it"#.to_owned(),
            ],
        ),
        (bank(""), vec![format!(r#"11: missing "server_url" {in_bank}"#)]),
        (
            bank("server_url = \"bank\"\nrequire_aproval = \"never\""),
            vec![
                format!(r#"12: "server_url" {in_bank} must be a URL with http or https, without a password, query or fragment"#),
                format!(r#"13: unknown key "require_aproval" {in_bank}; did you mean "require_approval"?"#),
            ],
        ),
        (
            bank("server_url = \"https://b\"\nrequire_approval = \"sometimes\""),
            vec![format!(
                r#"13: "require_approval" {in_bank} is "sometimes"; it must be "always", "never" or {{ always = {{ tool_names = […] }}, never = {{ tool_names = […] }} }}"#
            )],
        ),
        (
            bank("server_url = \"https://b\"\nrequire_approval = { always = { tool_names = [\"a\", \"b\"] }, never = { tool_names = [\"b\"] } }"),
            vec![format!(r#"13: "require_approval" {in_bank} has "b" both under "always" and under "never""#)],
        ),
        (
            bank("server_url = \"https://b\"\nrequire_approval = { sometimes = {}, never = { names = [] } }"),
            vec![
                r#"13: unknown key "sometimes" in [models.m.hosted_mcp.bank.require_approval]"#.to_owned(),
                r#"13: missing "tool_names" in [models.m.hosted_mcp.bank.require_approval.never]"#.to_owned(),
                r#"13: unknown key "names" in [models.m.hosted_mcp.bank.require_approval.never]"#.to_owned(),
            ],
        ),
        (
            openai("[models.m.hosted_mcp.a__b]\nserver_url = \"https://b\""),
            vec![
                r#"11: "a__b" is not a valid label of an MCP server; it must have 1 to 64 of the characters A-Z a-z 0-9 _ -, begin and end with a letter or digit, and have no __ in it"#.to_owned(),
            ],
        ),
    ] {
        let want: Vec<String> = want.iter().map(|line| format!("countersign.toml:{line}")).collect();
        assert_eq!(lines(&format!("{MINIMAL}{added}")), want, "{added}");
    }
}
