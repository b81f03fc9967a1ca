//! `check --connect`: what only the MCP servers know (spec C, S13).

use std::{fs, net::TcpListener, time::Instant};

use serde_json::{Value, json};

use crate::support::run;

/// A program that speaks the protocol and has tools of these names.
fn server(tools: &[&str]) -> String {
    let tool = |name: &&str| json!({ "name": name, "inputSchema": { "type": "object" }, "annotations": { "readOnlyHint": *name == "read" } });
    server_of(&tools.iter().map(tool).collect::<Value>())
}

/// A program that speaks the protocol and has these tools.
fn server_of(tools: &Value) -> String {
    let list = json!({ "tools": tools });
    let script = r#"while IFS= read -r line; do
  id=$(printf '%s' "$line" | sed -n 's/.*"id":\([0-9]*\).*/\1/p')
  case "$line" in
    *'"initialize"'*) printf '%s\n' '{"jsonrpc":"2.0","id":'$id',"result":{"protocolVersion":"2025-06-18","capabilities":{"tools":{}},"serverInfo":{"name":"sh","version":"1"}}}' ;;
    *'"tools/list"'*) printf '%s\n' '{"jsonrpc":"2.0","id":'$id',"result":LIST}' ;;
    *'"id"'*) printf '%s\n' '{"jsonrpc":"2.0","id":'$id',"error":{"code":-32601,"message":"no"}}' ;;
  esac
done
"#;
    script.replace("LIST", &list.to_string())
}

fn config(dir: &std::path::Path, added: &str) {
    fs::write(dir.join("s.json"), r#"{"turns":[]}"#).unwrap();
    let text = format!(
        "[models.m]\nprovider = \"scripted\"\nscript = \"s.json\"\n[agents.a]\nmodel = \"m\"\nmcp = [\"one\", \"two\"]\n{added}"
    );
    fs::write(dir.join("c.toml"), text).unwrap();
}

#[test]
fn c_check_connect_reports_duplicate_names_and_names_of_built_in_tools() {
    let dir = tempfile::tempdir().unwrap();
    fs::write(dir.path().join("one.sh"), server(&["read", "write_todos"])).unwrap();
    fs::write(dir.path().join("two.sh"), server(&["read"])).unwrap();
    let both = "[mcp.one]\ncommand = [\"sh\", \"one.sh\"]\n[mcp.two]\ncommand = [\"sh\", \"two.sh\"]\n";
    config(dir.path(), both);
    let said = run(dir.path(), &["check", "--config", "c.toml", "--connect", "--json"], "", &[]);
    let found: Value = serde_json::from_str(&said.stdout).unwrap();
    let problems: Vec<&str> = found["problems"].as_array().unwrap().iter().filter_map(Value::as_str).collect();
    assert_eq!((said.code, &found["ok"], problems.len()), (Some(8), &json!(false), 2), "{problems:?}");
    assert!(problems[0].contains("[mcp.one]") && problems[0].contains("\"write_todos\""), "{problems:?}");
    assert!(problems[1].contains("\"read\": from [mcp.one] and from [mcp.two]"), "{problems:?}");

    config(
        dir.path(),
        &format!("{both}prefix = \"two_\"\n").replace("one.sh\"]\n", "one.sh\"]\nblocked_tools = [\"write_todos\"]\n"),
    );
    let said = run(dir.path(), &["check", "--config", "c.toml", "--connect"], "", &[]);
    assert_eq!(said.code, Some(0), "{}{}", said.stdout, said.stderr);
    assert!(said.stdout.contains("two_read"), "{}", said.stdout);
}

/// A program that answers each request with this error.
fn refusing(message: &str) -> String {
    let error = json!({ "code": 1, "message": message });
    r#"while IFS= read -r line; do
  id=$(printf '%s' "$line" | sed -n 's/.*"id":\([0-9]*\).*/\1/p')
  case "$line" in *'"id"'*) printf '%s\n' '{"jsonrpc":"2.0","id":'$id',"error":ERROR}' ;; esac
done
"#
    .replace("ERROR", &error.to_string())
}

#[test]
fn c_x_nothing_that_a_server_says_to_check_connect_is_obeyed_by_the_terminal() {
    let dir = tempfile::tempdir().unwrap();
    let bad = "\u{1b}[2J\u{9b}31m\u{202e}\u{7}";
    fs::write(dir.path().join("one.sh"), server(&["read", &format!("pay{bad}")])).unwrap();
    fs::write(dir.path().join("two.sh"), refusing(&format!("not {bad} today"))).unwrap();
    config(dir.path(), "[mcp.one]\ncommand = [\"sh\", \"one.sh\"]\n[mcp.two]\ncommand = [\"sh\", \"two.sh\"]\n");
    let obeyed = |c: &char| (c.is_control() && *c != '\n') || *c == '\u{202e}';
    for arguments in
        [&["check", "--config", "c.toml", "--connect"][..], &["check", "--config", "c.toml", "--connect", "--json"]]
    {
        let said = run(dir.path(), arguments, "", &[]);
        assert_eq!(said.code, Some(8), "{}{}", said.stdout, said.stderr);
        for text in [&said.stdout, &said.stderr] {
            assert_eq!(text.chars().find(obeyed), None, "{arguments:?}: {text:?}");
        }
        assert!(said.stderr.contains("today"), "{}", said.stderr);
        if let Ok(found) = serde_json::from_str::<Value>(&said.stdout) {
            assert_eq!(found["mcp_reached"][0]["tools"][1]["name"], format!("pay{bad}"), "as JSON it is unchanged");
        }
    }
}

#[test]
fn c_check_connect_reports_tools_that_no_agent_can_have_where_the_file_names_them() {
    let dir = tempfile::tempdir().unwrap();
    let tool = |name: &str, schema: Value| json!({ "name": name, "inputSchema": schema });
    let tools = json!([
        tool("arr", json!({ "type": "array" })),
        tool("far", json!({ "type": "object", "$ref": "https://example.com/schema.json" })),
        tool("pat", json!({ "type": "object", "properties": { "a": { "type": "string", "pattern": "(" } } })),
        tool("five", json!({ "type": "object", "properties": 5 })),
        { "name": "none" },
        tool("", json!({ "type": "object" })),
        tool("read", json!({ "type": "object" })),
    ]);
    fs::write(dir.path().join("one.sh"), server_of(&tools)).unwrap();
    fs::write(dir.path().join("two.sh"), server(&["other"])).unwrap();
    let both = "[mcp.one]\ncommand = [\"sh\", \"one.sh\"]\n[mcp.two]\ncommand = [\"sh\", \"two.sh\"]\n";
    config(dir.path(), both);
    let said = run(dir.path(), &["check", "--config", "c.toml", "--connect"], "", &[]);
    assert_eq!(said.code, Some(0), "no tool is named: {}", said.stderr);
    for left_out in ["arr", "far", "pat", "five", "none", "\"\""] {
        let line = said.stdout.lines().find(|line| line.trim_start().starts_with(&format!("{left_out} (left out: ")));
        assert!(line.is_some(), "{left_out}: {}", said.stdout);
    }
    assert!(said.stdout.contains("\n  read\n"), "{}", said.stdout);

    for name in ["arr", "far", "pat", "five", "none"] {
        for named in [
            format!("tools = [\"pay\"]\n{both}[tools.pay]\nmcp = \"one/{name}\"\n"),
            both.replacen("one.sh\"]\n", &format!("one.sh\"]\nallowed_tools = [\"{name}\"]\n"), 1),
        ] {
            config(dir.path(), &named);
            let said = run(dir.path(), &["check", "--config", "c.toml", "--connect"], "", &[]);
            let told = said.stderr.contains("[mcp.one]: ") && said.stderr.contains(&format!("{name:?}"));
            assert!(said.code == Some(8) && told, "{named}: {}{}", said.stdout, said.stderr);
            let why = if name == "none" { "the tool is malformed: " } else { "its schema is not valid: " };
            assert!(said.stderr.contains(&format!("cannot be used: {why}")), "{}", said.stderr);
        }
    }
}

/// The rules that `check` finds to match no tool, by their lines; and the line about the agent's server.
fn idle(dir: &std::path::Path, connect: &[&str]) -> (Vec<u64>, String) {
    let arguments = [&["check", "--config", "c.toml"], connect].concat();
    let said = run(dir, &arguments, "", &[]);
    let json = run(dir, &[&arguments[..], &["--json"]].concat(), "", &[]);
    let found: Value = serde_json::from_str(&json.stdout).unwrap();
    let rules = found["policy"]["rules"].as_array().unwrap();
    let idle: Vec<u64> =
        rules.iter().filter(|rule| rule["matches_no_tool"] == true).filter_map(|rule| rule["line"].as_u64()).collect();
    let marked: Vec<u64> = said
        .stdout
        .lines()
        .filter(|line| line.ends_with(" (no agent has such a tool)"))
        .filter_map(|line| line.trim().strip_prefix("line ")?.split(':').next()?.parse().ok())
        .collect();
    assert_eq!(marked, idle, "{}", said.stdout);
    let server = said.stdout.lines().find(|line| line.starts_with("  MCP server one: "));
    (idle, server.unwrap().to_owned())
}

#[test]
fn p1_check_knows_which_rules_may_match_the_tools_of_servers() {
    let dir = tempfile::tempdir().unwrap();
    fs::write(dir.path().join("one.sh"), server(&["wipe", "read"])).unwrap();
    fs::write(dir.path().join("two.sh"), server(&["wipe"])).unwrap();
    let servers = "[mcp.one]\ncommand = [\"sh\", \"one.sh\"]\nrequire_approval = \"never\"\n\
        [mcp.two]\ncommand = [\"sh\", \"two.sh\"]\nprefix = \"two_\"\n[tools.clean]\nmcp = \"two/wipe\"\n";
    let rules = ["wipe", "wpie", "two_wipe", "x_*", "clean", "two_*", "wi*"];
    let rules = rules.map(|tool| format!("[[policy.rules]]\ntool = \"{tool}\"\ndeny = true\n")).concat();
    config(
        dir.path(),
        &format!(
            "tools = [\"clean\"]\n{servers}{rules}[[policy.rules]]\nhints = {{ read_only = true }}\nrequire = false\n"
        ),
    );
    // The rules begin at line 16 and have three lines each. Not connected, any of them may match; the server with a prefix has
    // no tool without it.
    let (unmatched, one) = idle(dir.path(), &[]);
    assert!(unmatched.is_empty(), "{unmatched:?}");
    let may = "its tools run without approval; or as the first that matches of the rules at lines 16, 19, 22, 25, 31, 34, 37 says, if that is \
        stricter";
    assert_eq!(one, format!("  MCP server one: {may}"));
    let said = run(dir.path(), &["check", "--config", "c.toml"], "", &[]).stdout;
    assert!(
        said.contains(
            "  MCP server two: a person decides; or as the first that matches of the rules at lines 22, 31, 37"
        ),
        "{said}"
    );
    assert!(said.contains("  tool clean: wipe of the MCP server two; as [mcp.two] says; or as the first that matches of the rules at lines 28, 37"), "{said}");

    let (unmatched, one) = idle(dir.path(), &["--connect"]);
    // A server's own claim about a tool counts if it is stricter.
    assert_eq!(unmatched, [19, 25]);
    let may = "its tools run without approval; or as the first that matches of the rules at lines 16, 34, 37 says, if that is stricter";
    assert_eq!(one, format!("  MCP server one: {may}"));
    let said = run(dir.path(), &["check", "--config", "c.toml", "--connect", "--json"], "", &[]);
    let found: Value = serde_json::from_str(&said.stdout).unwrap();
    assert_eq!(
        (said.code, &found["problems"]),
        (Some(8), &json!(["the rule at line 19: unknown tool \"wpie\"; did you mean \"wipe\"?"]))
    );

    // The file's own settings for a server's tools are known without connecting to it.
    let few = servers.replace("\"never\"\n", "\"never\"\nallowed_tools = [\"read\"]\n");
    config(dir.path(), &format!("tools = [\"clean\"]\n{few}{rules}"));
    assert_eq!(idle(dir.path(), &[]).0, [17, 20, 26, 35]);
    // No warning about names if a server does not answer.
    config(dir.path(), &format!("tools = [\"clean\"]\n{servers}{rules}").replace("one.sh", "none.sh"));
    let said = run(dir.path(), &["check", "--config", "c.toml", "--connect"], "", &[]);
    assert!(said.code == Some(8) && said.stderr.contains("[mcp.one] cannot be reached"), "{}", said.stderr);
    assert!(!said.stderr.contains("wpie") && !said.stdout.contains("no agent has"), "{}{}", said.stdout, said.stderr);
}

#[test]
fn c_check_connect_reports_servers_and_models_that_do_not_answer_in_time() {
    let dir = tempfile::tempdir().unwrap();
    // One that accepts connections and says nothing, and one that does not exist.
    let hung = TcpListener::bind("127.0.0.1:0").unwrap();
    let gone = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
    let added = format!(
        "[mcp.one]\nurl = \"http://{}/k3y\"\nconnect_seconds = 1\n[mcp.two]\ncommand = [\"sh\", \"-c\", \"exec cat >/dev/null\"]\nconnect_seconds = 1\n\
         [models.far]\nprovider = \"openai-chat\"\nmodel = \"x\"\nbase_url = \"http://{gone}\"\n\
         [models.slow]\nprovider = \"openai-chat\"\nmodel = \"x\"\nbase_url = \"http://{}\"\n",
        hung.local_addr().unwrap(),
        hung.local_addr().unwrap()
    );
    config(dir.path(), &added);
    let began = Instant::now();
    let said = run(dir.path(), &["check", "--config", "c.toml", "--connect", "--json"], "", &[]);
    assert!(began.elapsed().as_secs() < 25, "{:?}", began.elapsed());
    let found: Value = serde_json::from_str(&said.stdout).unwrap();
    let problems = found["problems"].to_string();
    assert_eq!((said.code, found["problems"].as_array().unwrap().len()), (Some(8), 4), "{problems}");
    for name in ["[mcp.one]", "[mcp.two]", "[models.far]", "[models.slow]"] {
        assert!(problems.contains(name), "{problems}");
    }
    assert_eq!(found["models_reached"][0]["answers"], json!(false));
    assert!(!said.stdout.contains("k3y") && !said.stderr.contains("k3y"), "{}{}", said.stdout, said.stderr);
    let plain = run(dir.path(), &["check", "--config", "c.toml"], "", &[]);
    assert!(plain.code == Some(0) && plain.stdout.contains("at 127.0.0.1; a person decides"), "{}", plain.stdout);
    assert!(!plain.stdout.contains("k3y"), "{}", plain.stdout);
}

/// The command has the secrets of every key of the file in its environment.
#[cfg(target_os = "linux")]
#[test]
fn x_a_server_that_a_command_starts_cannot_read_the_environment_of_the_command() {
    use std::os::unix::{fs::MetadataExt as _, process::CommandExt as _};
    let dir = tempfile::tempdir().unwrap();
    let program = r#"command = ["sh", "-c", "stat -c %u:%g /proc/$PPID/environ > owner"]"#;
    config(dir.path(), &format!("[mcp.one]\n{program}\n[mcp.two]\n{program}\n"));
    let mut check = std::process::Command::new(crate::support::BINARY);
    check.args(["check", "--config", "c.toml", "--connect"]).current_dir(dir.path());
    if fs::metadata("/proc/self").unwrap().uid() == 0 {
        // The superuser may read it in any case: only the group tells whose it is.
        check.gid(65534);
    }
    assert_eq!(check.output().unwrap().status.code(), Some(8));
    let owner = fs::read_to_string(dir.path().join("owner")).unwrap();
    assert_eq!(owner, "0:0\n", "it is the superuser's, so that only that may read it");
}

#[test]
fn c_check_says_where_it_cannot_know_who_holds_a_role() {
    let dir = tempfile::tempdir().unwrap();
    fs::write(dir.path().join("s.json"), r#"{"turns":[]}"#).unwrap();
    let text = "[models.m]\nprovider = \"scripted\"\nscript = \"s.json\"\n[agents.a]\nmodel = \"m\"\ntools = [\"t\"]\n\
        [tools.t]\ndescription = \"Cats.\"\ncommand = [\"cat\"]\nparameters = { type = \"object\" }\n\
        approval = { levels = [\"admin\"], not_self = true }\n";
    let digest = "0123456789abcdef".repeat(4);
    let ann = format!("[[auth.tokens]]\nsubject = \"ann\"\nroles = [\"admin\"]\ntoken_sha256 = \"{digest}\"\n");
    // Also where her edit at the second level would return to the owner first.
    for levels in ["[\"admin\"]", "[\"user\", \"admin\"]"] {
        let text = text.replace("[\"admin\"], not_self", &format!("{levels}, not_self"));
        fs::write(dir.path().join("c.toml"), format!("{text}{ann}")).unwrap();
        let said = run(dir.path(), &["check", "--config", "c.toml", "--json"], "", &[]);
        let found: Value = serde_json::from_str(&said.stdout).unwrap();
        let [warning] = &found["warnings"].as_array().unwrap()[..] else { panic!("{}", said.stdout) };
        let warned = warning["message"].as_str().unwrap_or_default();
        assert!(said.code == Some(0) && warned.contains("only \"ann\" has the role"), "{levels}: {}", said.stdout);
        assert!(warned.contains("nobody to approve what they have asked for or changed"), "{levels}: {warned}");
        assert_eq!((&warning["line"], &found["roles_known"]), (&json!(11), &json!(true)));
    }

    let jwt = "[auth.jwt]\nissuer = \"https://i\"\naudience = \"a\"\njwks_url = \"https://i.example/keys\"\n";
    fs::write(dir.path().join("c.toml"), format!("{text}{jwt}")).unwrap();
    let said = run(dir.path(), &["check", "--config", "c.toml"], "", &[]);
    assert!(
        said.code == Some(0) && said.stdout.contains("whether people can satisfy every rule"),
        "{}{}",
        said.stdout,
        said.stderr
    );
}
