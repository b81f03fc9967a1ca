//! The examples in the documents work unchanged: configurations are checked, recipes talk with the real demo.

use std::{
    fs,
    path::Path,
    process::{Child, Command, Stdio},
    time::{Duration, Instant},
};

use serde_json::{Value, json};
use tokio::io::{AsyncBufReadExt as _, BufReader};

use crate::{
    demo::{Demo, book, demo},
    support::{BINARY, DEADLINE, Ended, Provider, python, run, run_program},
};

/// A page of the repository.
fn page(name: &str) -> String {
    fs::read_to_string(Path::new(env!("CARGO_MANIFEST_DIR")).join("../..").join(name)).unwrap()
}

/// The blocks of a page in a language, in order.
fn blocks(page: &str, language: &str) -> Vec<String> {
    let fence = format!("\n```{language}\n");
    page.split(&*fence).skip(1).map(|rest| format!("{}\n", rest.split("\n```").next().unwrap())).collect()
}

/// Checks a configuration; the key of its model is there.
fn check(config: &str) -> Ended {
    let dir = tempfile::tempdir().unwrap();
    fs::write(dir.path().join("countersign.toml"), config).unwrap();
    let keys = ["OPENAI_API_KEY", "ANTHROPIC_API_KEY", "CRM_TOKEN", "TRACKER_TOKEN", "MAIL_PASSWORD"];
    let mut variables: Vec<(&str, &str)> = keys.into_iter().map(|key| (key, "k-of-tests")).collect();
    variables.push(("DESK_SECRET", crate::support::receiver::SECRET));
    run(dir.path(), &["check"], "", &variables)
}

#[track_caller]
fn is_right(config: &str) {
    let ended = check(config);
    assert_eq!((ended.code, &*ended.stderr), (Some(0), ""), "{config}");
    assert!(ended.stdout.contains("\"Large payment\": pay, when args.amount >= 10000"), "{}", ended.stdout);
}

#[test]
fn u3_the_configuration_of_the_readme_is_right_with_each_of_its_models() {
    let config = blocks(&page("README.md"), "toml");
    let [agent, policy] = &config[..] else { panic!("{} configurations", config.len()) };
    let openai = format!("{agent}\n{policy}");
    is_right(&openai);
    let anthropic = openai.replace("\"openai\"", "\"anthropic\"").replace("OPENAI_API_KEY", "ANTHROPIC_API_KEY");
    is_right(&anthropic);
    let key = "api_key_env = \"OPENAI_API_KEY\"";
    let address = "base_url = \"http://127.0.0.1:11434/v1\"";
    assert!(agent.contains(key) && agent.contains("provider = \"openai-chat\"") && agent.contains(address));
    is_right(&openai.replace("\"openai\" ", "\"openai-chat\" ").replace(key, address));
}

#[test]
fn u3_the_configuration_of_the_quickstart_is_right_after_each_step() {
    let config = blocks(&page("docs/quickstart.md"), "toml");
    let [agent, approval, policy] = &config[..] else { panic!("{} configurations", config.len()) };
    assert_eq!(check(agent).code, Some(0));
    assert_eq!(agent.matches("approval = true\n").count(), 1);
    is_right(&format!("{}\n{policy}", agent.replace("approval = true\n", approval)));
}

#[test]
fn u3_the_configuration_of_every_guide_is_right() {
    for (guide, tells) in [
        ("docs/tools.md", "tool send_offer: POST https://crm.example.com; a person decides if args.discount > 5"),
        ("docs/policies.md", "\"Large payment\": pay, when args.amount >= 10000"),
        ("docs/questions.md", "tool ask_user_question"),
        ("docs/mcp.md", "MCP server files"),
        ("docs/webhooks.md", "webhook mail: email messages to mail.example.com"),
    ] {
        let mut config = blocks(&page(guide), "toml").concat();
        if guide == "docs/webhooks.md" {
            // It shows what is added to a file.
            config.push_str("[models.m]\nprovider = \"openai\"\nmodel = \"m\"\n[agents.a]\nmodel = \"m\"\n");
        }
        let ended = check(&config);
        assert_eq!((ended.code, &*ended.stderr), (Some(0), ""), "{guide}");
        assert!(ended.stdout.contains(tells), "{guide}: {}", ended.stdout);
    }
}

/// The commands of a page, as somebody types them in a new folder, with the program in their `PATH`.
struct Typed {
    folder: tempfile::TempDir,
    path: String,
}

impl Typed {
    fn new() -> Typed {
        let folder = tempfile::tempdir().unwrap();
        fs::create_dir(folder.path().join("bin")).unwrap();
        // `cargo xtask clean-clone` names an installed one instead.
        let program = std::env::var("COUNTERSIGN_INSTALLED").unwrap_or_else(|_| BINARY.to_owned());
        std::os::unix::fs::symlink(program, folder.path().join("bin/countersign")).unwrap();
        let path = format!("{}:{}", folder.path().join("bin").display(), std::env::var("PATH").unwrap());
        Typed { folder, path }
    }

    fn run(&self, script: &str, input: &str, url: &str) -> Ended {
        let env = [("PATH", self.path.as_str()), ("COUNTERSIGN_URL", url)];
        run_program("sh", self.folder.path(), &["-ec", script], input, &env)
    }

    /// Starts a script that serves, and returns what it has printed before, and where it listens.
    async fn serve(&self, script: &str) -> (Serving, String, String) {
        let mut child = Command::new("sh")
            .args(["-ec", script])
            .current_dir(self.folder.path())
            .env("PATH", &self.path)
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .spawn()
            .unwrap();
        let stdout = tokio::process::ChildStdout::from_std(child.stdout.take().unwrap()).unwrap();
        let serving = Serving(child);
        let (mut lines, mut before) = (BufReader::new(stdout).lines(), String::new());
        loop {
            let line = tokio::time::timeout(DEADLINE, lines.next_line()).await.unwrap().unwrap();
            let line = line.unwrap_or_else(|| panic!("it does not serve: {before}"));
            if let Some(url) = line.strip_prefix("listening on ") {
                return (serving, before, url.to_owned());
            }
            before += &(line + "\n");
        }
    }
}

/// A server that was started by a script. Killed on drop.
struct Serving(Child);

impl Drop for Serving {
    fn drop(&mut self) {
        // It may have ended by itself.
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// Only the address of the model's provider and the port of the server are others.
#[tokio::test]
async fn u3_the_commands_of_the_quickstart_do_what_it_says() {
    let quickstart = page("docs/quickstart.md");
    let (commands, config) = (blocks(&quickstart, "sh"), blocks(&quickstart, "toml"));
    let [demo, serve, chat, test, after] = &commands[..] else { panic!("{} blocks", commands.len()) };
    assert_eq!(demo, "countersign demo\n", "which the tests of the demo run");
    let call = |id: &str, name: &str, args: Value| json!({ "tool_calls": [{ "id": id, "name": name, "args": args }] });
    let paying = call("c2", "pay", json!({ "to": "ACME", "amount": 1250 }));
    let answers = vec![call("c1", "find_invoice", json!({ "number": 7 })), paying, json!({ "text": "It is paid." })];
    let provider = Provider::start(answers).await;
    let real = "provider = \"openai\"\n";
    let fake = format!("provider = \"openai-chat\"\nbase_url = \"{}\"\n", provider.base_url);
    assert!(config[0].contains(real) && serve.contains("\ncountersign serve\n"));
    let typed = Typed::new();
    let first = config[0].replace(real, &fake);
    fs::write(typed.folder.path().join("countersign.toml"), &first).unwrap();
    let serve = serve.replace("\ncountersign serve\n", "\nexec countersign serve --listen 127.0.0.1:0\n");
    let (_serving, checked, url) = typed.serve(&serve).await;
    assert!(checked.contains("tool pay: a person decides"), "{checked}");
    let typed = std::sync::Arc::new(typed);
    let run = async |script: &str, input: &'static str| {
        let (typed, script, url) = (typed.clone(), script.to_owned(), url.clone());
        tokio::task::spawn_blocking(move || typed.run(&script, input, &url)).await.unwrap()
    };
    // Without a terminal it cannot ask, and says so.
    let asked = run(chat, "Pay invoice 7\n").await;
    assert_eq!(asked.code, Some(7), "{}{}", asked.stdout, asked.stderr);
    let paid = typed.folder.path().join("paid.jsonl");
    assert!(!paid.exists(), "nothing is paid yet");
    let pending = run("countersign approvals list --json", "").await;
    let pending: Value = serde_json::from_str(done(&pending)).unwrap();
    let key = pending["approvals"][0]["approval_key"].as_str().unwrap_or_else(|| panic!("{pending}"));
    done(&run(&format!("countersign approvals approve {key} --yes"), "").await);
    until_exists(&paid).await;
    let args: Value = serde_json::from_str(&fs::read_to_string(&paid).unwrap()).unwrap();
    assert_eq!(args, json!({ "to": "ACME", "amount": 1250 }));
    let changed = format!("{}\n{}", first.replace("approval = true\n", &config[1]), config[2]);
    fs::write(typed.folder.path().join("changed.toml"), changed).unwrap();
    let keyless = run(test, "").await;
    assert!(keyless.code == Some(1) && keyless.stderr.contains("OPENAI_API_KEY"), "as it says: {}", keyless.stderr);
    let judged = run(&format!("export OPENAI_API_KEY=k\n{test}"), "").await;
    assert!(done(&judged).contains("pay"), "{}", judged.stdout);
    // Another terminal has no key.
    let told = run(after, "").await;
    let told = done(&told);
    assert!(told.contains("\"event\":\"decided\"") && told.contains("records"), "{told}");
}

async fn until_exists(path: &Path) {
    let deadline = Instant::now() + DEADLINE;
    while !fs::read_to_string(path).is_ok_and(|text| text.ends_with("}\n")) {
        assert!(Instant::now() < deadline, "{} is not there", path.display());
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
}

/// A program of the page about clients, for a server at another address.
fn recipe(language: &str, n: usize, demo: &Demo) -> String {
    recipe_of("docs/clients.md", language, n, demo)
}

/// A program of another page.
fn recipe_of(of: &str, language: &str, n: usize, demo: &Demo) -> String {
    let mut recipes = blocks(&page(of), language);
    let (recipe, address) = (recipes.remove(n), "127.0.0.1:7410");
    assert!(recipe.contains(address));
    recipe.replace(address, &demo.1.to_string())
}

#[track_caller]
fn done(ended: &Ended) -> &str {
    assert_eq!(ended.code, Some(0), "{}{}", ended.stdout, ended.stderr);
    &ended.stdout
}

#[tokio::test]
async fn u2_the_recipe_for_curl_rejects_an_order() {
    let dir = tempfile::tempdir().unwrap();
    let running = demo(dir.path(), "en").await;
    let script = recipe("sh", 0, &running) + &recipe("sh", 1, &running);
    let ended = run_program("sh", dir.path(), &["-ec", &script], "", &[]);
    let told = done(&ended);
    assert!(told.contains(r#""pending":["curl-1_1"]"#) && told.contains(r#""status":"completed""#), "{told}");
    assert!(told.contains("Not today"), "{told}");
    assert!(book(dir.path()).is_empty());
}

#[tokio::test]
async fn u2_the_recipe_for_python_approves_what_it_shows() {
    let dir = tempfile::tempdir().unwrap();
    let running = demo(dir.path(), "en").await;
    let ended = run_program("python3", dir.path(), &["-c", &recipe("python", 0, &running)], "", &[]);
    let told = done(&ended);
    assert!(told.starts_with("execute_trade {\"price\": 82000, \"quantity\": 100"), "{told}");
    assert!(told.contains("completed Done: **Order 1: buy 100 VNM"), "{told}");
    assert_eq!(book(dir.path()).len(), 1);
}

/// `cargo xtask test` runs it with those of third parties.
#[tokio::test]
#[ignore = "needs the packages of tests/third-party/clients/requirements.txt; cargo xtask test has them"]
async fn u2_third_party_websockets_approve_what_the_recipe_for_python_shows() {
    let dir = tempfile::tempdir().unwrap();
    let running = demo(dir.path(), "en").await;
    let script = recipe("python", 1, &running);
    for n in 1..=2 {
        let ended = run_program(&python("clients", "python"), dir.path(), &["-c", &script], "", &[]);
        let told = done(&ended);
        assert!(told.starts_with("Let me look up"), "{told}");
        let order = format!("**Order {n}: buy 100 VNM");
        assert!(told.contains("\n? execute_trade {\"price\": 82000") && told.contains(&order), "{told}");
        assert_eq!(book(dir.path()).len(), n);
    }
}

/// The page shows what its own commands lead to: the same checkpoints, and a fork that asks for the same order again.
#[tokio::test]
async fn g6_the_checkpoints_of_the_protocols_example_are_those_of_the_demo() {
    let protocol = page("docs/protocol.md");
    let dir = tempfile::tempdir().unwrap();
    let running = demo(dir.path(), "en").await;
    let script = |part: &str| {
        let found: Vec<String> = blocks(&protocol, "sh").into_iter().filter(|block| block.contains(part)).collect();
        let [block] = &found[..] else { panic!("{} blocks with {part}", found.len()) };
        assert!(block.contains("127.0.0.1:7410"), "{block}");
        block.replace("127.0.0.1:7410", &running.1.to_string()).replace("curl ", "curl -sS ")
    };
    let run = |script: &str| -> Value {
        serde_json::from_str(done(&run_program("sh", dir.path(), &["-ec", script], "", &[]))).unwrap()
    };
    assert_eq!(run(&script("/v1/sessions/s1/messages"))["pending"], json!(["s1_1"]));
    assert_eq!(run(&script("/v1/approvals/s1_1?wait=true"))["status"], "completed");
    let listed = run(&format!("curl -sS http://{}/v1/sessions/s1/checkpoints", running.1));
    let rows = protocol.lines().filter(|line| line.trim_start().starts_with(r#"{"checkpoint": "#));
    let rows: Vec<Value> =
        rows.map(|row| serde_json::from_str(row.trim().trim_end_matches([',', ']'])).unwrap()).collect();
    let [end, pause] = &rows[..] else { panic!("{} rows", rows.len()) };
    assert_eq!((&end["after"], &pause["after"]), (&json!("end"), &json!("answer")));
    for shown in &rows {
        let listed = listed["checkpoints"].as_array().unwrap();
        let one = listed.iter().find(|one| one["checkpoint"] == shown["checkpoint"]).cloned();
        let mut one = one.unwrap_or_else(|| panic!("no checkpoint {}: {listed:?}", shown["checkpoint"]));
        assert_eq!(one["checkpoint"] == listed[0]["checkpoint"], shown == end, "the newest is first");
        one["at"] = shown["at"].clone();
        assert_eq!(&one, shown);
    }
    let fork = run(&script("/v1/sessions/s1/fork"));
    assert_eq!(fork["forked_from"], json!({ "session_id": "s1", "checkpoint": pause["checkpoint"] }));
    let key = format!("{}_2", fork["session_id"].as_str().unwrap());
    assert_eq!((&fork["status"], &fork["pending"]), (&json!("awaiting_input"), &json!([key])));
    let asked = run(&format!("curl -sS http://{}/v1/approvals/{key}", running.1));
    assert_eq!(asked["actions"][0]["name"], "execute_trade", "{asked}");
    assert!(asked["expires_at"].is_string(), "{asked}");
}

/// A recipe is tried more than once: each run is a message of its own.
#[tokio::test]
async fn u2_the_recipe_for_javascript_approves_what_it_shows_each_time_it_runs() {
    let dir = tempfile::tempdir().unwrap();
    let running = demo(dir.path(), "en").await;
    let script = recipe_of("docs/protocol.md", "js", 0, &running);
    for n in 1..=2 {
        // Built into Node 22.
        let node = ["--experimental-websocket", "-e", &script];
        let (told, dir) = (run_program("node", dir.path(), &node, "", &[]), dir.path());
        assert!(done(&told).starts_with("execute_trade {\"price\": 82000, \"quantity\": 100"), "{}", told.stdout);
        assert_eq!(book(dir).len(), n);
    }
}
