//! `[mcp.*]` and `mcp = "server/tool"` (spec S13, M2).

use serde_json::json;

use super::*;

const SERVER: &str = "[mcp.files]\ncommand = [\"sh\"]\n";

#[test]
fn s13_servers_are_declared_and_agents_have_their_tools() {
    let text = format!(
        "{MINIMAL}mcp = [\"files\", \"wiki\"]\ntools = [\"remove\"]\n{SERVER}\
         env = {{ ROOT = \"/srv\", KEY = {{ env = \"BOB_TOKEN\" }} }}\n\
         require_approval = {{ always = [\"delete\"], never = [\"read\"] }}\nprefix = \"f_\"\n\
         allowed_tools = [\"read\", \"delete\"]\nblocked_tools = [\"format\"]\nidempotent = [\"read\"]\ntime_limit = 5\nconnect_seconds = 7\nanswer_seconds = 0\n\
         [mcp.wiki]\nurl = \"http://127.0.0.1:1/mcp\"\nbearer_env = \"BOB_TOKEN\"\nheaders = {{ X-Team = \"north\" }}\n\
         [tools.remove]\nmcp = \"files/delete\"\ndescription = \"Removes.\"\nidempotent = true\napproval = false\n\
         hints = {{ read_only = false }}\n[[policy.rules]]\ntool = \"f_read\"\nrequire = true\n"
    );
    let config = parse(&text).expect("config");
    assert_eq!((config.agents[0].mcp.len(), config.mcp.len(), config.tools.len()), (2, 2, 1));
    let files = &config.mcp[0];
    assert_eq!(files.require_approval, json!({ "always": ["delete"], "never": ["read"] }));
    assert_eq!(files.answer_seconds, 0);
    assert_eq!((files.time_limit, files.connect_seconds, files.prefix.as_deref()), (5, 7, Some("f_")));
    assert!(!format!("{config:?}").contains("bob's_secret"), "secrets are in no text of it");
    let servers = mcp_servers(&config).expect("servers");
    assert_eq!(sources(&config, &config.agents[0], &servers).expect("sources").len(), 3);
}

#[test]
fn s13_m148_what_is_wrong_with_a_server_is_said_with_its_line_and_what_would_be_right() {
    for (added, line) in [
        ("[mcp.files]\nprefix = \"x\"", r#"6: missing "command" or "url" in [mcp.files]: how the server is reached"#),
        (
            "[mcp.files]\ncommand = [\"sh\"]\nurl = \"http://127.0.0.1:1\"",
            r#"8: "url" in [mcp.files] cannot be combined with "command": a server is one or the other"#,
        ),
        (
            "[mcp.files]\ncommand = [\"sh\"]\nheaders = {}",
            r#"8: "headers" in [mcp.files] means nothing to a server that is a "command""#,
        ),
        (
            "[mcp.files]\nurl = \"http://127.0.0.1:1\"\nenv = []",
            r#"8: "env" in [mcp.files] means nothing to a server that is a "url""#,
        ),
        (
            "[mcp.files]\ncommand = [\"sh\"]\nrequire_aproval = \"never\"",
            r#"8: unknown key "require_aproval" in [mcp.files]; did you mean "require_approval"?"#,
        ),
        (
            "[mcp.files]\ncommand = [\"sh\"]\nrequire_approval = { sometimes = [\"a\"] }",
            r#"8: "require_approval" in [mcp.files] has the unknown list "sometimes"; the lists are "always" and "never""#,
        ),
        (
            "[mcp.files]\ncommand = [\"sh\"]\nrequire_approval = { always = [\"a\"], never = [\"a\"] }",
            r#"8: "require_approval" in [mcp.files] has "a" both in "always" and in "never""#,
        ),
        (
            "[mcp.files]\nurl = \"http://127.0.0.1:1\"\nbearer_env = \"NOT_SET\"",
            r#"8: "bearer_env" in [mcp.files] names the environment variable NOT_SET, which is not set"#,
        ),
        (
            "[mcp.files]\nurl = \"ftp://s3cret\"",
            r#"6: [mcp.files]: MCP server "files": `url` must begin with http:// or https://; it looks like https://mcp.example.com/mcp"#,
        ),
        (
            "mcp = [\"fils\"]\n[mcp.files]\ncommand = [\"sh\"]",
            r#"6: unknown MCP server "fils" in [agents.trader]; did you mean "files"?"#,
        ),
        (
            "[mcp.files]\ncommand = [\"sh\"]\n[tools.t]\nmcp = \"fils/read\"",
            r#"9: unknown MCP server "fils" in [tools.t]; did you mean "files"?"#,
        ),
        (
            "[mcp.files]\ncommand = [\"sh\"]\n[tools.t]\nmcp = \"files/read\"\nparameters = {}",
            r#"10: "parameters" in [tools.t] cannot be set: the MCP server declares them"#,
        ),
    ] {
        assert_eq!(lines(&format!("{MINIMAL}{added}\n")), [format!("countersign.toml:{line}")], "{added}");
    }
}

/// The warnings of a file without errors.
fn warnings(text: &str) -> Vec<String> {
    let config = parse(text).unwrap_or_else(|errors| panic!("{errors:?}"));
    config.warnings.iter().map(ToString::to_string).collect()
}

#[test]
fn s13_a_name_that_an_agent_has_from_two_places_is_an_error_that_names_both() {
    let two = "[mcp.one]\ncommand = [\"sh\"]\nallowed_tools = [\"read\", \"list\"]\n[mcp.two]\ncommand = [\"sh\"]\nallowed_tools = [\"read\"]\n";
    let agent = format!("{MINIMAL}mcp = [\"one\", \"two\"]\n");
    let what = "countersign.toml:6: \"mcp\" in [agents.trader] has two tools called \"read\": from [mcp.one] and from [mcp.two]; give a server a \"prefix\"";
    assert_eq!(lines(&format!("{agent}{two}")), [what]);
    for right in ["prefix = \"two_\"", "blocked_tools = [\"other\"]\nprefix = \"x\""] {
        assert_eq!(lines(&format!("{agent}{two}{right}\n")), Vec::<String>::new(), "{right}");
    }
    let named = format!(
        "{MINIMAL}mcp = [\"one\"]\ntools = [\"list\"]\n[mcp.one]\ncommand = [\"sh\"]\nallowed_tools = [\"list\"]\n[tools.list]\nmcp = \"one/read\"\n"
    );
    let said = lines(&named);
    assert!(
        said.len() == 1 && said[0].contains("[tools.list] (of the MCP server \"one\") and from [mcp.one]"),
        "{said:?}"
    );
}

#[test]
fn c_names_that_no_agent_can_give_its_tools_are_errors_of_the_file() {
    let long = "b".repeat(53);
    let handoff = format!("{MINIMAL}handoffs = [\"{long}\"]\n[agents.{long}]\nmodel = \"demo\"\n");
    let said = lines(&handoff);
    assert!(said.len() == 1 && said[0].contains("give that agent a name of at most 52"), "{said:?}");
    assert_eq!(lines(&handoff.replace(&long, &long[1..])), Vec::<String>::new());

    let hosted = |tool: &str| {
        format!(
            "[models.m]\nprovider = \"openai\"\nmodel = \"m\"\nbase_url = \"http://127.0.0.1:1\"\n\
             [models.m.hosted_mcp.shop]\nserver_url = \"https://shop.example.com\"\n\
             [agents.trader]\nmodel = \"m\"\ntools = [\"{tool}\"]\n[tools.{tool}]\ncommand = [\"true\"]\n"
        )
    };
    let what = "countersign.toml:9: \"tools\" in [agents.trader] has \"mcp__shop__buy\", which is the name of a tool of the MCP server \"shop\" that the provider of its model calls; give it another name";
    assert_eq!(lines(&hosted("mcp__shop__buy")), [what]);
    assert_eq!(lines(&hosted("mcp__shops__buy")), Vec::<String>::new());
}

#[test]
fn s13_x_an_address_is_in_no_text_of_the_configuration() {
    let text = format!(
        "{MINIMAL}[mcp.wiki]\nurl = \"https://mcp.example.com/s3cretpath?key=s3cretquery\"\n\
         [models.gpt]\nprovider = \"openai\"\nmodel = \"m\"\nbase_url = \"http://127.0.0.1:1\"\n\
         [models.gpt.hosted_mcp.shop]\nserver_url = \"https://shop.example.com/s3cretpath\"\n"
    );
    let config = parse(&text).expect("config");
    let told = format!("{config:?}");
    assert!(told.contains("mcp.example.com") && !told.contains("s3cret"), "{told}");
    assert_eq!(config.mcp[0].reach.host().as_deref(), Some("mcp.example.com"));
    let by_env = parse(&format!("{MINIMAL}[mcp.wiki]\nurl_env = \"BOB_TOKEN\"\n")).unwrap_err();
    assert!(by_env[0].to_string().contains("is not a URL") && !by_env[0].to_string().contains("bob's"), "{by_env:?}");
}

#[test]
fn s13_a_revision_of_the_protocol_is_one_that_is_known() {
    let of = |revision: &str| format!("{MINIMAL}[mcp.old]\ncommand = [\"sh\"]\nrevision = \"{revision}\"\n");
    let config = parse(&of("2025-06-18")).expect("config");
    assert_eq!(config.mcp[0].revision.as_deref(), Some("2025-06-18"));
    let said = lines(&of("2025-06-17"));
    assert!(said.len() == 1 && said[0].contains("countersign.toml:8") && said[0].contains("2025-06-18"), "{said:?}");
}

#[test]
fn x_secrets_that_are_written_into_the_file_are_told() {
    for (server, told) in [
        ("url = \"https://a.example/mcp?api_key=s3cretvalue\"", Some("its parameter \"api_key\"")),
        ("url = \"https://a.example/s/0a1b2c3d4e5f6a7b8c9d/mcp\"", Some("a part of its path")),
        ("url = \"https://a.example/streamable-http-server/mcp?team=north\"", None),
        (
            "url = \"https://a.example/\"\nheaders = { Authorization = \"Basic s3cretvalue\" }",
            Some("\"Authorization\""),
        ),
        ("url = \"https://a.example/\"\nheaders = { X-Api-Key = \"s3cretvalue\" }", Some("\"X-Api-Key\"")),
        ("url = \"https://a.example/\"\nheaders = { X-Api-Key = { env = \"BOB_TOKEN\" }, X-Team = \"a\" }", None),
        ("command = [\"sh\"]\nenv = { GITHUB_TOKEN = \"s3cretvalue\" }", Some("\"GITHUB_TOKEN\"")),
        ("command = [\"sh\"]\nenv = { MODE = \"fast\", AUTHOR = \"ann\" }", None),
    ] {
        let warned = warnings(&format!("{MINIMAL}[mcp.x]\n{server}\n"));
        match told {
            None => assert!(warned.is_empty(), "{server}: {warned:?}"),
            Some(told) => {
                assert!(
                    warned.len() == 1 && warned[0].contains(told) && warned[0].contains("secret"),
                    "{server}: {warned:?}"
                );
                assert!(!warned[0].contains("s3cret"), "{warned:?}");
            }
        }
    }
}

#[test]
fn p1_rules_that_nobody_can_satisfy_are_told_with_who_there_is() {
    let tool = |approval: &str| {
        format!(
            "{MINIMAL}tools = [\"pay\"]\n[tools.pay]\ndescription = \"Pays.\"\ncommand = [\"sh\"]\nparameters = {{ type = \"object\" }}\n\
             approval = {{ {approval} }}\n"
        )
    };
    let person = |name: &str, roles: &str, tenant: &str| {
        let digest = format!("{:0>64}", name.bytes().map(|byte| format!("{byte:02x}")).collect::<String>());
        format!("[[auth.tokens]]\nsubject = \"{name}\"\nroles = [{roles}]\ntoken_sha256 = \"{digest}\"\n{tenant}")
    };
    let (ann, bob) = (person("ann", "\"admin\"", ""), person("bob", "\"admin\"", ""));
    let agent = person("bot", "\"admin\"", "kind = \"agent\"\n");
    let apart = person("cat", "\"admin\"", "tenant = \"south\"\n");
    let (service, norths) =
        (person("bot", "\"admin\"", "kind = \"service\"\n"), person("dan", "", "tenant = \"north\"\n"));
    let (board, both) = (person("fay", "\"board\"", ""), person("gil", "\"admin\", \"board\"", ""));
    let two = "levels = [\"admin\", \"board\"]";
    let not_self = "levels = [\"admin\"], not_self = true";
    let quorum = "levels = [\"admin\"], quorum = 2";
    for (approval, people, told) in [
        (not_self, vec![&ann], Some("only \"ann\" has the role \"admin\"")),
        (not_self, vec![&ann, &agent], Some("only \"ann\" has the role \"admin\"")),
        (not_self, vec![&ann, &apart], Some("has the role \"admin\"")),
        (not_self, vec![&ann, &bob], None),
        (quorum, vec![&ann], Some("\"quorum\" needs 2 people")),
        (quorum, vec![&ann, &bob], None),
        ("levels = [\"admin\"], quorum = 2, not_self = true", vec![&ann, &bob], Some("takes 3 people")),
        ("levels = [\"boss\"]", vec![&ann], Some("nobody in [[auth.tokens]] has the role \"boss\"")),
        // Only persons decide.
        (
            "levels = [\"admin\"]",
            vec![&board, &service],
            Some("only services and agents in [[auth.tokens]] have the role \"admin\", and only persons decide"),
        ),
        ("levels = [\"admin\"]", vec![&ann, &service], None),
        // Each tenant that has people needs its own.
        (
            "levels = [\"admin\"]",
            vec![&ann, &norths],
            Some(
                "\"admin\" in [tools.pay.approval], for those of the tenant \"north\", can never be satisfied: none of them has the \
                 role \"admin\" in [[auth.tokens]]",
            ),
        ),
        (
            quorum,
            vec![&ann, &bob, &apart],
            Some("of the tenant \"south\", can never be satisfied: \"quorum\" needs 2 people, and only \"cat\""),
        ),
        (quorum, vec![&apart, &norths], Some("of the tenant \"north\", can never")),
        ("levels = [\"admin\"]", vec![&apart, &ann], None),
        // Each level needs others.
        (two, vec![&both], Some("each level needs another person, and only \"gil\" has the role \"board\"")),
        (two, vec![&ann, &both], None),
        (
            "levels = [\"admin\", \"board\"], quorum = 2",
            vec![&ann, &board, &both],
            Some("each level needs 2 other people, and only 2 have the role \"board\" (\"fay\", \"gil\")"),
        ),
        (
            "levels = [\"admin\", \"board\"], on_timeout = { escalate = \"chief\" }",
            vec![&both, &person("hal", "\"chief\"", "")],
            None,
        ),
        ("levels = [\"admin\", \"board\"], not_self = true", vec![&ann, &board, &both], None),
        (
            "levels = [\"admin\", \"board\"], not_self = true",
            vec![&ann, &both, &person("ida", "\"admin\", \"board\"", "")],
            None,
        ),
        (
            "levels = [\"admin\", \"board\"], not_self = true",
            vec![&both, &person("ida", "\"admin\", \"board\"", "")],
            Some("leaves nobody to approve what \"gil\" has asked for or changed: each level needs another person"),
        ),
    ] {
        let people: String = people.into_iter().map(String::as_str).collect();
        let warned = warnings(&format!("{}{people}", tool(approval)));
        match told {
            None => assert!(warned.is_empty(), "{approval}: {warned:?}"),
            Some(told) => assert!(warned.len() == 1 && warned[0].contains(told), "{approval}: {warned:?}"),
        }
    }
}
