//! Each mistake with the exact line an operator reads.

use super::{Config, MINIMAL, lines};

#[test]
fn c_several_errors_are_reported_at_once_in_the_order_of_the_file() {
    let text = r#"locale = "fr"
[server]
listen = "everywhere"
[models.demo]
provider = "script"
[agents.trader]
model = "dmo"
instuctions = "x"
max_turns = 0
tools = ["ordr", 3]
[tools.order]
command = "./order"
approval = { require = "arg.price > 5", timeout = -1 }
"#;
    assert_eq!(
        lines(text),
        [
            r#"countersign.toml:1: "locale" is "fr"; it must be "en", "vi" or "zh""#,
            r#"countersign.toml:3: "listen" in [server] is "everywhere"; it must be an address and a port, such as "127.0.0.1:7410""#,
            r#"countersign.toml:5: unknown provider "script" in [models.demo]; did you mean "scripted"?"#,
            r#"countersign.toml:7: unknown model "dmo" in [agents.trader]; did you mean "demo"?"#,
            r#"countersign.toml:8: unknown key "instuctions" in [agents.trader]; did you mean "instructions"?"#,
            r#"countersign.toml:9: "max_turns" in [agents.trader] is 0; it must be 1 to 1000"#,
            r#"countersign.toml:10: "tools" in [agents.trader] must be a list of strings, not a whole number"#,
            r#"countersign.toml:12: "command" in [tools.order] must be a list of strings, not a string"#,
            r#"countersign.toml:13: "require" in [tools.order.approval]: unknown variable `arg`; did you mean `args`?"#,
            r#"countersign.toml:13: "timeout" in [tools.order.approval] is -1; it must be 0 to 34560000 seconds"#,
        ]
    );
}

#[test]
fn c_each_mistake_is_told_with_its_line() {
    // Text appended to MINIMAL (so it begins in line 6), and its one error.
    for (added, line) in [
        ("handofs = []", r#"6: unknown key "handofs" in [agents.trader]; did you mean "handoffs"?"#),
        ("handoffs = [\"trader\"]", r#"6: "handoffs" in [agents.trader] names "trader" itself; name other agents"#),
        ("zzz = 1", r#"6: unknown key "zzz" in [agents.trader]"#),
        ("instructions = 5", r#"6: "instructions" in [agents.trader] must be a string, not a whole number"#),
        ("max_turns = \"5\"", r#"6: "max_turns" in [agents.trader] must be a whole number, not a string"#),
        ("tools = [\"task\"]", r#"6: the tool "task" in [agents.trader] is not available in this version"#),
        ("tools = [\"shell\"]", r#"6: the tool "shell" in [agents.trader] needs a folder; set "path" in [workspace]"#),
        ("[workspace]", r#"6: missing "path" in [workspace]"#),
        ("[workspace]\npath = \"nowhere\"", r#"7: "path" in [workspace] names nowhere, which is not a folder"#),
        ("[workspace]\npath = \".\"\nfolder = 1", r#"8: unknown key "folder" in [workspace]"#),
        ("[tools.shell]", r#"6: missing "workspace" in [tools.shell]: the folder it works on"#),
        (
            "[tools.sh]\nbuiltin = \"shel\"\nworkspace = \".\"",
            r#"7: unknown built-in tool "shel" in [tools.sh]; did you mean "shell"?"#,
        ),
        (
            "[tools.sh]\nbuiltin = \"shell\"\nworkspace = \"none\"",
            r#"8: "workspace" in [tools.sh] names none, which is not a folder"#,
        ),
        (
            "[tools.rd]\nbuiltin = \"read_file\"\nworkspace = \".\"\ntime_limit = 5",
            r#"9: "time_limit" in [tools.rd] means nothing to this built-in tool; it is for "command", "http", "shell""#,
        ),
        (
            "[tools.sh]\nbuiltin = \"shell\"\nworkspace = \".\"\ncommand = [\"x\"]",
            r#"9: "command" in [tools.sh] cannot be combined with "builtin": a tool is one or the other"#,
        ),
        ("[agents.b]\nmodel = 1", r#"7: "model" in [agents.b] must be a string, not a whole number"#),
        ("[agents.b]", r#"6: missing "model" in [agents.b]"#),
        (
            "[agents.\"a b\"]\nmodel = \"demo\"",
            r#"6: "a b" is not a valid name of an agent; it must have 1 to 128 of the characters A-Z a-z 0-9 _ -, such as "a-b""#,
        ),
        (
            "[agents.\"Data agent\"]\nmodel = \"demo\"",
            r#"6: "Data agent" is not a valid name of an agent; it must have 1 to 128 of the characters A-Z a-z 0-9 _ -, such as "Data-agent""#,
        ),
        (
            "[agents.\"数据代理\"]\nmodel = \"demo\"",
            r#"6: "数据代理" is not a valid name of an agent; it must have 1 to 128 of the characters A-Z a-z 0-9 _ -"#,
        ),
        ("[agents]\nb = 1", r#"7: "b" in [agents] must be a table, not a whole number"#),
        ("[agnts.b]\nmodel = \"demo\"", r#"6: unknown key "agnts"; did you mean "agents"?"#),
        (
            "[server]\nlisten = \"0.0.0.0:7410\"",
            r#"7: "listen" in [server] is 0.0.0.0:7410, which other machines can reach; declare who may connect with [[auth.tokens]], or listen on 127.0.0.1"#,
        ),
        (
            "[server]\nallowed_origins = [\"https://a.b/c\"]",
            r#"7: "allowed_origins" in [server] has "https://a.b/c", which is not an origin; each is written out, such as "https://app.example.com""#,
        ),
        (
            "[server]\nallowed_origins = [\"null\"]",
            r#"7: "allowed_origins" in [server] has "null", which is not an origin; each is written out, such as "https://app.example.com""#,
        ),
        (
            "[server]\nallowed_origins = [\"*\"]",
            r#"7: "allowed_origins" in [server] has "*", which is not an origin; each is written out, such as "https://app.example.com""#,
        ),
        (
            "[store]\nurl = \"mysql:x\"",
            r#"7: "url" in [store] is "mysql:x"; it must be "memory:", "sqlite:PATH" or "postgres://USER@HOST/DATABASE""#,
        ),
        (
            "[store]\nurl = \"mysql://ann:hunter2@db/x\"",
            r#"7: "url" in [store] is "mysql://…"; it must be "memory:", "sqlite:PATH" or "postgres://USER@HOST/DATABASE""#,
        ),
        (
            "[store]\npassword_env = \"STORE_KEY\"",
            r#"7: "password_env" in [store] is for a PostgreSQL database, and "url" names none"#,
        ),
        (
            "[store]\nurl = \"sqlite:\"",
            r#"7: "url" in [store] must name a file after "sqlite:"; for no file use "memory:""#,
        ),
        (
            "[store]\nurl = \"sqlite:a.db?mode=ro\"",
            r#"7: "url" in [store] is "sqlite:a.db?mode=ro", and there are no parameters after a path; name the file alone, such as "sqlite:a.db""#,
        ),
        (
            "[[store.keys]]\nid = \"k\"\nkey_env = \"NOT_SET\"",
            r#"8: "key_env" in [[store.keys]] names the environment variable NOT_SET, which is not set"#,
        ),
        (
            "[[store.keys]]\nid = \"k\"\nkey_env = \"ALICE_TOKEN\"",
            r#"8: "key_env" in [[store.keys]] names the environment variable ALICE_TOKEN, which has no key; one is 32 random bytes as base64, such as `openssl rand -base64 32` prints, or as 64 hexadecimal digits"#,
        ),
        (
            "[[store.keys]]\nid = \"a b\"\nkey_env = \"STORE_KEY\"",
            r#"7: "id" in [[store.keys]] is "a b"; it must have 1 to 64 of the characters A-Z a-z 0-9 _ - ."#,
        ),
        ("[[store.keys]]\nkey_env = \"STORE_KEY\"", r#"6: missing "id" in [[store.keys]]"#),
        (
            "[[store.keys]]\nid = \"k\"\nkey = \"0f\"\nkey_env = \"STORE_KEY\"",
            r#"8: unknown key "key" in [[store.keys]]"#,
        ),
        (
            "[[store.keys]]\nid = \"k\"\nkey_env = \"STORE_KEY\"\n[[store.keys]]\nid = \"k\"\nkey_env = \"OLD_STORE_KEY\"",
            r#"10: "id" in [[store.keys]] is "k", which another key has already"#,
        ),
        (
            "[[store.keys]]\nid = \"k\"\nkey_env = \"STORE_KEY\"\n[[store.keys]]\nid = \"j\"\nkey_env = \"STORE_KEY_AGAIN\"",
            r#"11: "key_env" in [[store.keys]] is "STORE_KEY_AGAIN", whose key is the same as that of "STORE_KEY""#,
        ),
        (
            "[store]\nurl = \"memory:\"\n[[store.keys]]\nid = \"k\"\nkey_env = \"STORE_KEY\"",
            r#"8: "keys" in [store] mean nothing to a store in memory, which has no file"#,
        ),
        ("[store]\nurl = \"sqlite:/\"", r#"7: "url" in [store] names /, which is a folder"#),
        (
            "[store]\nurl = \"sqlite:/no/such/place.db\"",
            r#"7: "url" in [store] names /no/such/place.db, whose folder does not exist"#,
        ),
        ("[models.m]", r#"6: missing "provider" in [models.m]"#),
        ("[models.m]\nprovider = \"scripted\"", r#"6: missing "script" in [models.m]"#),
        (
            "[models.m]\nprovider = \"scripted\"\nscript = \"none.json\"",
            r#"8: "script" in [models.m] names none.json, which cannot be read: No such file or directory (os error 2)"#,
        ),
        (
            "[models.m]\nprovider = \"scripted\"\nscript = \"broken.json\"",
            r#"8: "script" in [models.m] names broken.json, which is not a script: line 1, column 9: invalid type: map, expected a sequence"#,
        ),
        (
            "[models.m]\nprovider = \"scripted\"\nscript = \"demo.json\"\nbase_url = \"http://x\"",
            r#"9: "base_url" in [models.m] means nothing to the provider "scripted""#,
        ),
        ("[models.m]\nprovider = \"openai-chat\"\nmodel = \"x\"", r#"6: missing "base_url" in [models.m]"#),
        ("[models.m]\nprovider = \"openai-chat\"\nbase_url = \"http://x\"", r#"6: missing "model" in [models.m]"#),
        (
            "[models.m]\nprovider = \"openai-chat\"\nmodel = \"x\"\nbase_url = \"example.com/v1\"",
            r#"9: "base_url" in [models.m] must be a URL with http or https, without a password, query or fragment"#,
        ),
        (
            "[models.m]\nprovider = \"openai-chat\"\nmodel = \"x\"\nbase_url = \"http://x\"\napi_key_env = \"NONE\"",
            r#"10: "api_key_env" in [models.m] names the environment variable NONE, which is not set"#,
        ),
        (
            "[[auth.tokens]]\nsubject = \"a\"\ntoken_env = \"EMPTY\"",
            r#"8: "token_env" in [[auth.tokens]] names the environment variable EMPTY, which is set, but empty or not in UTF-8"#,
        ),
        ("[[auth.tokens]]\nsubject = \"a\"", r#"6: missing "token_env" or "token_sha256" in [[auth.tokens]]"#),
        (
            "[[auth.tokens]]\nsubject = \"a\"\nroles = [\"x\"]\ntoken_env = \"BOB_TOKEN\"\n[[auth.tokens]]\nsubject = \"a\"\ntoken_env = \"ALICE_TOKEN\"",
            r#"11: "subject" in [[auth.tokens]] is "a", which another token gives other roles, another tenant or another kind; a subject is one, however many tokens it has"#,
        ),
        (
            "[[auth.tokens]]\nsubject = \"a\"\ntoken_env = \"BOB_TOKEN\"\n[[auth.tokens]]\nsubject = \"a\"\ntenant = \"t\"\ntoken_env = \"ALICE_TOKEN\"",
            r#"10: "subject" in [[auth.tokens]] is "a", which another token gives other roles, another tenant or another kind; a subject is one, however many tokens it has"#,
        ),
        (
            "[[auth.tokens]]\nsubject = \"a\"\nkind = \"human\"\ntoken_env = \"BOB_TOKEN\"",
            r#"8: "kind" in [[auth.tokens]] is "human"; it must be "person", "service" or "agent""#,
        ),
        (
            "[[auth.tokens]]\nsubject = \"a\"\ntenant = \"\"\ntoken_env = \"BOB_TOKEN\"",
            r#"8: "tenant" in [[auth.tokens]] must have 1 to 128 bytes and no control characters"#,
        ),
        (
            "[[auth.tokens]]\nsubject = \"a\"\ntoken_env = \"BOB_TOKEN\"\ntoken_sha256 = \"00\"",
            r#"9: "token_sha256" in [[auth.tokens]] stands beside "token_env"; one of them is the token"#,
        ),
        (
            "[[auth.tokens]]\nsubject = \"a\"\ntoken_sha256 = \"my-own-token\"",
            r#"8: "token_sha256" in [[auth.tokens]] must be 64 hexadecimal digits, the SHA-256 of the token (printf %s "$TOKEN" | sha256sum)"#,
        ),
        (
            "[[auth.tokens]]\nsubject = \"a\"\ntoken_env = \"LETTERS\"",
            r#"8: "token_env" in [[auth.tokens]] names the environment variable LETTERS, whose token has characters other than printable ASCII, which no header carries"#,
        ),
        (
            "[[auth.tokens]]\nsubject = \"a\"\ntoken_env = \"LONG\"",
            r#"8: "token_env" in [[auth.tokens]] names the environment variable LONG, whose token has more than 8192 bytes"#,
        ),
        (
            // printf %s "$TOKEN" | sha256sum, where there is no TOKEN.
            "[[auth.tokens]]\nsubject = \"a\"\ntoken_sha256 = \"e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855\"",
            r#"8: "token_sha256" in [[auth.tokens]] is the SHA-256 of an empty text, not of a token: was the variable set when you made it?"#,
        ),
        (
            // echo "$TOKEN" | sha256sum
            "[[auth.tokens]]\nsubject = \"a\"\ntoken_sha256 = \"01ba4719c80b6fe911b091a7c05124b64eeece964e09c058ef8f9805daca546b\"",
            r#"8: "token_sha256" in [[auth.tokens]] is the SHA-256 of an empty text, not of a token: was the variable set when you made it?"#,
        ),
        (
            // The digest of BOB_TOKEN.
            "[[auth.tokens]]\nsubject = \"a\"\ntoken_env = \"BOB_TOKEN\"\n[[auth.tokens]]\nsubject = \"b\"\ntoken_sha256 = \"71ead2ff132d0423440bcf8842de76bedfaddcfc0c566e328dcbc4c23748f373\"",
            r#"11: "token_sha256" in [[auth.tokens]] is "71ead2ff" …, whose token is the same as that of "BOB_TOKEN""#,
        ),
        (
            "[auth]\ntokens = []",
            r"6: [auth] needs [[auth.tokens]] or [auth.jwt]: without either, callers cannot be identified",
        ),
        ("[auth.jwt]\nissuer = \"i\"\naudience = \"a\"", r#"6: missing "jwks_url" or "jwks_file" in [auth.jwt]"#),
        ("[auth.jwt]\nissuer = \"i\"\njwks_url = \"https://i.test/k\"", r#"6: missing "audience" in [auth.jwt]"#),
        (
            "[auth.jwt]\nissuer = \"\"\naudience = \"a\"\njwks_url = \"https://i.test/k\"",
            r#"7: "issuer" in [auth.jwt] must have 1 to 1024 bytes and no control characters"#,
        ),
        (
            "[auth.jwt]\nissuer = \"i\"\naudience = \"a\"\njwks_url = \"http://i.test/k\"",
            r#"9: "jwks_url" in [auth.jwt] must begin with https:// (http:// only for this machine): whoever can change the answer makes tokens"#,
        ),
        (
            "[auth.jwt]\nissuer = \"i\"\naudience = \"a\"\njwks_url = \"https://i.test/k\"\njwks_file = \"k\"",
            r#"10: "jwks_file" in [auth.jwt] stands beside "jwks_url"; the keys come from one of them"#,
        ),
        (
            "[auth.jwt]\nissuer = \"i\"\naudience = \"a\"\njwks_url = \"https://i.test/k\"\nalgorithms = [\"HS256\"]",
            r#"10: "algorithms" in [auth.jwt] has "HS256": whoever checks such a token could make one; only signatures with a public key are taken"#,
        ),
        (
            "[auth.jwt]\nissuer = \"i\"\naudience = \"a\"\njwks_url = \"https://i.test/k\"\nalgorithms = [\"none\"]",
            r#"10: "algorithms" in [auth.jwt] has "none": whoever checks such a token could make one; only signatures with a public key are taken"#,
        ),
        (
            "[auth.jwt]\nissuer = \"i\"\naudience = \"a\"\njwks_url = \"https://i.test/k\"\nalgorithms = [\"RS265\"]",
            r#"10: unknown algorithm "RS265" in [auth.jwt]; did you mean "RS256"?"#,
        ),
        (
            "[auth.jwt]\nissuer = \"i\"\naudience = \"a\"\njwks_url = \"https://i.test/k\"\nalgorithms = []",
            r#"10: "algorithms" in [auth.jwt] must name at least one"#,
        ),
        (
            "[auth.jwt]\nissuer = \"i\"\naudience = \"a\"\njwks_url = \"https://i.test/k\"\nleeway_seconds = 301",
            r#"10: "leeway_seconds" in [auth.jwt] is 301; it must be 0 to 300 seconds"#,
        ),
        (
            "[server]\nallowed_hosts = [\"https://a.b\"]",
            r#"7: "allowed_hosts" in [server] has "https://a.b", which is not a host; one looks like "agents.example.com""#,
        ),
        (
            "[[auth.tokens]]\nsubject = \"a\"\ntoken_env = \"ALICE_AGAIN\"\n[[auth.tokens]]\nsubject = \"b\"\ntoken_env = \"ALICE_TOKEN\"",
            r#"11: "token_env" in [[auth.tokens]] is "ALICE_TOKEN", whose token is the same as that of "ALICE_AGAIN""#,
        ),
        (
            "[[auth.tokens]]\nsubject = \"a\"\nroles = [\"a b\"]\ntoken_env = \"BOB_TOKEN\"",
            r#"8: "roles" in [[auth.tokens]] has "a b", which is not a role; a role has the characters A-Z a-z 0-9 _ - . :"#,
        ),
        (
            "[auth]\ntokens = 1",
            r#"7: "tokens" in [auth] must be a list of tables ([[auth.tokens]]), not a whole number"#,
        ),
        ("[tools.t]\ndescription = \"x\"", r#"6: missing "command" or "http" in [tools.t]: what the tool runs"#),
        ("[tools.t]\nagent = \"nobody\"", r#"7: unknown agent "nobody" in [tools.t]"#),
        ("[tools.t]\nmcp = \"files/read\"", r#"7: unknown MCP server "files" in [tools.t]"#),
        ("[tools.t]\nmcp = \"files\"", r#"7: "mcp" in [tools.t] is "files"; it must be "server/tool""#),
    ] {
        assert_eq!(lines(&format!("{MINIMAL}{added}\n")), [format!("countersign.toml:{line}")], "{added}");
    }
}

#[test]
fn c_each_mistake_in_a_tool_is_told_with_its_line() {
    // Text appended to a tool (so it begins in line 8), and its one error.
    for (added, line) in [
        (
            "agent = \"trader\"",
            r#"8: "agent" in [tools.t] cannot be combined with "command": a tool is one or the other"#,
        ),
        ("time_limit = 0", r#"8: "time_limit" in [tools.t] is 0; it must be 1 to 86400 seconds"#),
        (
            "time_limit = 99999999999999999999",
            r#"8: "time_limit" in [tools.t] is 99999999999999999999; it must be 1 to 86400 seconds"#,
        ),
        (
            "time_limit = 1.5",
            r#"8: "time_limit" in [tools.t] must be a whole number of seconds, not a number with a point"#,
        ),
        ("output_limit = 262145", r#"8: "output_limit" in [tools.t] is 262145; it must be 1 to 262144 bytes"#),
        ("idempotent = \"yes\"", r#"8: "idempotent" in [tools.t] must be true or false, not a string"#),
        ("idempotant = true", r#"8: unknown key "idempotant" in [tools.t]; did you mean "idempotent"?"#),
        ("cwd = \"nowhere\"", r#"8: "cwd" in [tools.t] names nowhere, which is not a folder"#),
        (
            "env = [\"A=b\"]",
            r#"8: "env" in [tools.t] has "A=b"; it lists names of environment variables, without values"#,
        ),
        (
            "env = [\"COUNTERSIGN_X\"]",
            r#"8: "env" in [tools.t] has "COUNTERSIGN_X"; names with COUNTERSIGN_ are the server's own"#,
        ),
        (
            "content_message = \"a {{ args.x\"",
            r#"8: "content_message" in [tools.t] has a place that cannot be filled in: "{{ args.x" does not end; write {{ args.NAME }}"#,
        ),
        (
            "content_message = 7",
            r#"8: "content_message" in [tools.t] must be a text such as "Reading {{ args.path }}", or true to let the model say it, not a whole number"#,
        ),
        (
            "parameters = { properties = { tool_content_message = { type = \"string\" } } }",
            r#"8: "parameters" in [tools.t] has "tool_content_message", which is reserved"#,
        ),
        (
            "content_message = \"{{ x }}\"",
            r#"8: "content_message" in [tools.t] has a place that cannot be filled in: "{{ x }}" is not known; write {{ args.NAME }}"#,
        ),
        (
            "[tools.ask_user_question]\ncommand = [\"x\"]",
            r#"9: "command" in [tools.ask_user_question] cannot be set: ask_user_question is a built-in tool; give yours another name"#,
        ),
        (
            "[tools.write_todos]\napproval = true",
            r#"9: "approval" in [tools.write_todos] means nothing to this built-in tool; it is for all but "write_todos", "share_thought""#,
        ),
        ("stream = { tool_us = true }", r#"8: unknown key "tool_us" in [tools.t.stream]; did you mean "tool_use"?"#),
        ("parameters = \"x\"", r#"8: "parameters" in [tools.t] must be a table (a JSON Schema), not a string"#),
        (
            "parameters = { type = \"strnig\" }",
            r#"8: "parameters" in [tools.t] is not a JSON Schema: arguments are always an object, but the schema's `type` is "strnig""#,
        ),
        (
            "parameters = { \"$ref\" = \"http://example.com/\" }",
            r##"8: "parameters" in [tools.t] is not a JSON Schema: `$ref` "http://example.com/" is not supported; only places in the same schema (`#/…`) can be referred to"##,
        ),
        (
            "[tools.t.parameters]\ndefault = 2020-01-01",
            r#"9: "parameters" in [tools.t] has a date, which JSON cannot express; write it as a string"#,
        ),
        (
            "[tools.t.parameters]\n\ndefault = nan",
            r#"10: "parameters" in [tools.t] has nan, which JSON cannot express"#,
        ),
        ("approval = 1", r#"8: "approval" in [tools.t] must be true, false or a table, not a whole number"#),
        (
            "approval = { requires = true }",
            r#"8: unknown key "requires" in [tools.t.approval]; did you mean "require"?"#,
        ),
        (
            "approval = { require = 1 }",
            r#"8: "require" in [tools.t.approval] must be true, false or a condition, not a whole number"#,
        ),
        (
            "[tools.t.approval]\nrequire = \"args.a.startWith('x')\"",
            r#"9: "require" in [tools.t.approval]: unknown function `startWith`; did you mean `startsWith`?"#,
        ),
        (
            "approval = { require = \"args.a >\" }",
            r#"8: "require" in [tools.t.approval]: the condition is not valid CEL: it ends too early (at character 9)"#,
        ),
        (
            "approval = { on_timeout = \"escalate:admin\" }",
            r#"8: "on_timeout" in [tools.t.approval] is "escalate:admin"; it must be "reject", { escalate = "ROLE" } or { escalate = ["ROLE", …] }"#,
        ),
        (
            "approval = { on_timeout = \"allow\" }",
            r#"8: "on_timeout" in [tools.t.approval] is "allow"; it must be "reject", { escalate = "ROLE" } or { escalate = ["ROLE", …] }"#,
        ),
        (
            "approval = { not_self = true }",
            r#"8: "not_self" in [tools.t.approval] leaves nobody who may approve: name a role other than "user" in "levels""#,
        ),
        (
            "approval = { allowed_decisions = [\"aprove\"] }",
            r#"8: unknown decision "aprove" in [tools.t.approval]; did you mean "approve"?"#,
        ),
        (
            "approval = { allowed_decisions = [\"defer\"] }",
            r#"8: "allowed_decisions" in [tools.t.approval] must have one of "approve", "reject", "edit" and "respond""#,
        ),
        (
            "approval = { require = false, levels = [\"a\"] }",
            r#"8: "levels" in [tools.t.approval] cannot be combined with "require = false": nobody is asked"#,
        ),
        ("cwd = \"\"", r#"8: "cwd" in [tools.t] must not be empty; "." is the folder of this file"#),
        ("approval = { levels = [] }", r#"8: "levels" in [tools.t.approval] must name at least one role"#),
        ("approval = { levels = [\"a\", \"a\"] }", r#"8: "levels" in [tools.t.approval] has "a" twice"#),
        (
            "approval = { quorum = 2 }",
            r#"8: "quorum" in [tools.t.approval] is 2, but the session's owner is one person; name other roles in "levels""#,
        ),
        ("approval = { quorum = 0 }", r#"8: "quorum" in [tools.t.approval] is 0; it must be 1 to 100"#),
    ] {
        let text = format!("{MINIMAL}[tools.t]\ncommand = [\"./tool\"]\n{added}\n");
        assert_eq!(lines(&text), [format!("countersign.toml:{line}")], "{added}");
    }
    for (command, line) in [
        ("[]", r#"7: "command" in [tools.t] must begin with a program"#),
        (r#"["a", 1]"#, r#"7: "command" in [tools.t] must be a list of strings, not a whole number"#),
        (r#"["a\u0000"]"#, r#"7: "command" in [tools.t] must not contain a NUL character"#),
    ] {
        let text = format!("{MINIMAL}[tools.t]\ncommand = {command}\n");
        assert_eq!(lines(&text), [format!("countersign.toml:{line}")], "{command}");
    }
}

/// Withdrawing all keys must not be refused: those that are withdrawn would still be trusted.
#[test]
fn x_a_file_of_keys_without_any_is_a_warning() {
    let folder = tempfile::tempdir().expect("folder");
    std::fs::write(folder.path().join("demo.json"), r#"{"turns":[]}"#).expect("a script");
    std::fs::write(folder.path().join("keys.json"), r#"{"keys":[]}"#).expect("no keys");
    let text = format!("{MINIMAL}[auth.jwt]\nissuer = \"i\"\naudience = \"a\"\njwks_file = \"keys.json\"\n");
    let config = Config::parse(&text, "countersign.toml", folder.path(), &|_| None).expect("config");
    let warned: Vec<String> = config.warnings.iter().map(ToString::to_string).collect();
    let [warned] = &warned[..] else { panic!("{warned:?}") };
    assert!(warned.starts_with("countersign.toml:9: \"jwks_file\" in [auth.jwt] names "), "{warned}");
    assert!(warned.ends_with("keys.json, which has no usable key: every JWT is refused"), "{warned}");
}

#[test]
fn x_a_file_of_keys_that_is_none_is_named() {
    let jwt = "[auth.jwt]\nissuer = \"i\"\naudience = \"a\"\njwks_file = ";
    for (file, what) in [("demo.json", "there is no list \"keys\""), ("none.json", "No such file")] {
        let lines = lines(&format!("{MINIMAL}{jwt}{file:?}\n"));
        assert!(lines.len() == 1 && lines[0].contains(what) && lines[0].contains(file), "{lines:?}");
    }
}
