//! `[mcp.*]` and `mcp = "server/tool"` (SPEC S13, M2).

use serde_json::json;

use super::*;

const SERVER: &str = "[mcp.files]\ncommand = [\"sh\"]\n";

#[test]
fn s13_servers_are_declared_and_agents_have_their_tools() {
    let text = format!(
        "{MINIMAL}mcp = [\"files\", \"wiki\"]\ntools = [\"remove\"]\n{SERVER}\
         env = {{ ROOT = \"/srv\", KEY = {{ env = \"BOB_TOKEN\" }} }}\n\
         require_approval = {{ always = [\"delete\"], never = [\"read\"] }}\nprefix = \"f_\"\n\
         tools = [\"read\", \"delete\"]\nwithout = [\"format\"]\nidempotent = [\"read\"]\ntimeout = 5\nconnect_timeout = 7\nanswer_timeout = 0\n\
         [mcp.wiki]\nurl = \"http://127.0.0.1:1/mcp\"\nbearer_env = \"BOB_TOKEN\"\nheaders = {{ X-Team = \"north\" }}\n\
         [tools.remove]\nmcp = \"files/delete\"\ndescription = \"Removes.\"\nidempotent = true\napproval = false\n\
         hints = {{ read_only = false }}\n[[policy.rules]]\ntool = \"f_read\"\nrequire = true\n"
    );
    let config = parse(&text).expect("config");
    assert_eq!((config.agents[0].mcp.len(), config.mcp.len(), config.mcp_tools.len()), (2, 2, 1));
    let files = &config.mcp[0];
    assert_eq!(files.require_approval, json!({ "always": ["delete"], "never": ["read"] }));
    assert_eq!(files.answer_timeout, 0);
    assert_eq!((files.timeout, files.connect_timeout, files.prefix.as_deref()), (5, 7, Some("f_")));
    assert!(!format!("{config:?}").contains("bob's secret"), "secrets are in no text of it");
    let servers = mcp_servers(&config).expect("servers");
    assert_eq!(sources(&config, &config.agents[0], &servers).expect("sources").len(), 3);
}

#[test]
fn s13_m148_what_is_wrong_with_a_server_is_said_with_its_line_and_what_would_be_right() {
    for (added, line) in [
        ("[mcp.files]\nprefix = \"x\"", r#"6: missing "command" or "url" in [mcp.files]: how the server is reached"#),
        (
            "[mcp.files]\ncommand = [\"sh\"]\nurl = \"http://127.0.0.1:1\"",
            r#"8: "url" in [mcp.files] cannot stand beside "command": a server is one or the other"#,
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
            r#"10: "parameters" in [tools.t] cannot be set: they are the MCP server's to say"#,
        ),
    ] {
        assert_eq!(lines(&format!("{MINIMAL}{added}\n")), [format!("countersign.toml:{line}")], "{added}");
    }
}
