//! `[computer]` and its tool (spec S14).

use super::*;

#[test]
fn s14_an_agent_with_the_computer_needs_a_browser() {
    let needs = r#"the tool "computer" in [agents.trader] needs a browser; set "program" in [computer]"#;
    assert_eq!(lines(&format!("{MINIMAL}tools = [\"computer\"]\n")), [format!("countersign.toml:6: {needs}")]);
    let needs = r#"the tool "computer_use_preview" needs a browser; set "program" in [computer]"#;
    let declared = format!("{MINIMAL}[tools.computer_use_preview]\napproval = true\n");
    assert_eq!(lines(&declared), [format!("countersign.toml:6: {needs}")]);
    // Two declared tools of these names are two separate tools.
    let own = "[tools.computer]\ncommand = [\"sh\"]\n[tools.computer_use_preview]\ncommand = [\"sh\"]\n";
    let both = format!("{MINIMAL}tools = [\"computer\", \"computer_use_preview\"]\n{own}");
    assert!(lines(&both).is_empty(), "{:?}", lines(&both));
    // A declared tool of that name takes precedence.
    assert!(lines(&format!("{MINIMAL}tools = [\"computer\"]\n[tools.computer]\ncommand = [\"sh\"]\n")).is_empty());
}

#[cfg(not(feature = "computer"))]
#[test]
fn s14_a_build_without_the_feature_refuses_a_browser_and_says_which_has_it() {
    let text = format!("{MINIMAL}tools = [\"computer\"]\n[computer]\nprogram = \"sh\"\n");
    let refused = r#"countersign.toml:7: [computer] cannot be used in this build (it was built without the feature "computer"); build it with --features computer, or take it out"#;
    assert_eq!(lines(&text), [refused]);
}

#[cfg(feature = "computer")]
mod with_the_feature {
    use countersign_core::call::timeout::Timeout;
    use countersign_tools::builtin::Hosts;

    use super::*;

    const BROWSER: &str = "[computer]\nprogram = \"sh\"\n";

    #[test]
    fn s14_both_names_are_tools_and_what_is_declared_of_them_is_changed() {
        let text = format!(
            "{MINIMAL}tools = [\"computer_use_preview\"]\n[computer]\nprogram = \"./tool\"\nstart_page = \"https://shop.example/\"\n\
             hosts = [\"shop.example\", \"*.shop.example\"]\nwidth = 640\nheight = 480\nsandbox = false\nmax_browsers = 2\n\
             [tools.computer_use_preview]\ndescription = \"Shops.\"\napproval = {{ require = \"args.action.type == 'type'\", timeout = 60 }}\n\
             [[policy.rules]]\ntool = \"computer\"\nrequire = true\n"
        );
        let folder = folder();
        let config = Config::parse(&text, "countersign.toml", folder.path(), &env).expect("config");
        assert!(config.warnings.is_empty(), "{:?}", config.warnings);
        let want = ConfigComputer {
            program: folder.path().join("./tool"),
            start_page: "https://shop.example/".to_owned(),
            hosts: Some(Hosts::new(["shop.example", "*.shop.example"]).expect("hosts")),
            width: 640,
            height: 480,
            sandbox: false,
            max_browsers: 2,
        };
        assert_eq!(config.computer, Some(want));
        let entries = tool_entries(&config).expect("entries");
        let (changed, plain) = (&entries["computer_use_preview"], &entries["computer"]);
        assert_eq!((&*changed.spec.description, changed.approval.ask.timeout), ("Shops.", Timeout::of(60)));
        let Require::When(condition) = &changed.approval.require else { panic!("a condition") };
        assert_eq!(condition.describe(), Some("args.action.type == 'type'"));
        // Settings under one name apply to both: they are one tool.
        assert_eq!((&*plain.spec.description, plain.approval.ask.timeout), ("Shops.", Timeout::of(60)));
        let Require::When(condition) = &plain.approval.require else { panic!("a condition") };
        assert_eq!(condition.describe(), Some("args.action.type == 'type'"));
        let undeclared = text.split("[tools.computer").next().expect("a part");
        let entries =
            tool_entries(&Config::parse(undeclared, "c", folder.path(), &env).expect("config")).expect("entries");
        let entry = &entries["computer"];
        assert!(matches!(entry.approval.require, Require::Always) && entry.spec.description.contains("640 x 480"));
        assert_eq!((changed.aliases, plain.aliases), (&["computer"][..], &["computer_use_preview"][..]));
    }

    #[test]
    fn s14_one_table_is_for_both_names_and_two_are_refused() {
        let two = format!(
            "{MINIMAL}{BROWSER}[tools.computer]\napproval = true\n[tools.computer_use_preview]\napproval = false\n"
        );
        let one = r#"the tools "computer" and "computer_use_preview" are one; one table is for both names"#;
        let told = lines(&two);
        assert!(told.len() == 1 && told[0].ends_with(one), "{told:?}");
    }

    #[test]
    fn s14_a_tool_of_ones_own_with_one_of_the_names_is_another_one() {
        let own = "[tools.computer]\ncommand = [\"sh\"]\n";
        let both = format!("{MINIMAL}tools = [\"computer\", \"computer_use_preview\"]\n{BROWSER}{own}");
        let entries = tool_entries(&parse(&both).expect("config")).expect("entries");
        assert_eq!((entries["computer"].aliases, entries["computer_use_preview"].aliases), (&[][..], &[][..]));
        assert!(entries["computer_use_preview"].preview.is_some() && entries["computer"].preview.is_none());
    }

    #[test]
    fn s14_the_example_of_the_documentation_is_right() {
        let text = super::super::http::example("### The computer");
        let config = parse(&text).unwrap_or_else(|errors| panic!("{errors:?}"));
        assert!(tool_entries(&config).expect("entries").contains_key("computer"));
        assert_eq!(config.agents[1].tools, ["computer"]);
    }

    #[test]
    fn x_a_browser_that_reaches_the_server_is_warned_of_where_everybody_there_may_do_everything() {
        let warnings = |text: &str| -> Vec<String> {
            parse(text).expect("config").warnings.iter().map(ToString::to_string).collect()
        };
        let warned = |line: &str| {
            format!(
                "countersign.toml:{line}, so that the browser reaches this server, and without [auth] everybody on this \
                 machine may do everything: an agent could approve its own calls there; set \"hosts\" without this \
                 machine, or [auth]"
            )
        };
        let text = format!("{MINIMAL}{BROWSER}");
        assert_eq!(warnings(&text), [warned(r#"6: [computer] has no "hosts""#)]);
        let hosts = |hosts: &str| format!("{text}hosts = [\"shop.example\"{hosts}]\n");
        assert_eq!(warnings(&hosts(r#", "localhost""#)), [warned(r#"8: [computer] has "localhost" in "hosts""#)]);
        assert_eq!(warnings(&hosts(r#", "::1""#)), [warned(r#"8: [computer] has "::1" in "hosts""#)]);
        assert!(warnings(&hosts("")).is_empty(), "it reaches no more than the shop");
        let digest = "0".repeat(64);
        let people = format!("{text}[[auth.tokens]]\nsubject = \"ana\"\ntoken_sha256 = \"{digest}\"\n");
        assert!(warnings(&people).is_empty(), "an agent has nobody's token");
    }

    #[test]
    fn s14_what_is_wrong_with_the_browser_is_said_with_its_line_and_what_would_be_right() {
        for (added, line) in [
            ("[computer]", r#"6: missing "program" in [computer]"#),
            (
                "[computer]\nprogram = \"\"",
                r#"7: "program" in [computer] must be the path of a Chromium, such as "/usr/bin/chromium""#,
            ),
            (
                "[computer]\nprogram = \"sh\"\nstart_page = \"file:///etc/passwd\"",
                r#"8: "start_page" in [computer] must begin with http:// or https://, without a password"#,
            ),
            (
                "[computer]\nprogram = \"sh\"\nhosts = []",
                r#"8: "hosts" in [computer] is empty; name the hosts that the browser may reach, or leave it out for all"#,
            ),
            (
                "[computer]\nprogram = \"sh\"\nhosts = [\"a.example\",\n\"https://b.example/\"]",
                r#"9: "hosts" in [computer] has "https://b.example/", which is not a host; it must be a name, such as "shop.example", all below one, such as "*.shop.example", or an IP address, without a port"#,
            ),
            (
                "[computer]\nprogram = \"sh\"\nhosts = [\"*.a.example\"]\nstart_page = \"http://a.example/\"",
                r#"9: "start_page" in [computer] is on "a.example", which is not in "hosts"; add it there"#,
            ),
            (
                "[computer]\nprogram = \"sh\"\nwidth = 5000",
                r#"8: "width" in [computer] is 5000; it must be 1 to 4096 pixels"#,
            ),
            (
                "[computer]\nprogram = \"sh\"\nstart_pag = \"x\"",
                r#"8: unknown key "start_pag" in [computer]; did you mean "start_page"?"#,
            ),
        ] {
            assert_eq!(lines(&format!("{MINIMAL}{added}\n")), [format!("countersign.toml:{line}")], "{added}");
        }
        let both = format!("{MINIMAL}tools = [\"computer\", \"computer_use_preview\"]\n{BROWSER}");
        let one = r#"countersign.toml:6: "tools" in [agents.trader] has "computer" and "computer_use_preview", which are one tool"#;
        assert_eq!(lines(&both), [one]);
        let condition = format!("{MINIMAL}{BROWSER}[tools.computer]\napproval = {{ require = \"arg.action\" }}\n");
        assert!(lines(&condition)[0].contains("did you mean `args`?"), "{:?}", lines(&condition));
    }
}
