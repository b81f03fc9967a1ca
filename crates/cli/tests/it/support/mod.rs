//! A separate server for each test.

pub(crate) mod ask;
pub(crate) mod fold;
mod history;
pub(crate) mod http;
pub(crate) mod issuer;
pub(crate) mod policy;
pub(crate) mod provider;
pub(crate) mod published;
pub(crate) mod receiver;
pub(crate) mod terminal;
pub(crate) mod ws;

use std::{
    fs,
    io::Read as _,
    net::SocketAddr,
    path::{Path, PathBuf},
    process::{Child, Command, ExitStatus, Stdio},
    sync::Arc,
    time::{Duration, Instant},
};

use countersign_test_postgres::Database;
use rustix::process::{Pid, Signal, kill_process};
use serde_json::{Value, json};
use tempfile::TempDir;
use tokio::io::{AsyncBufReadExt as _, BufReader};

pub(crate) use self::{http::Response, provider::Provider, ws::Ws};

/// The longest any single step may take. Test machines are slow at times.
pub(crate) const DEADLINE: Duration = Duration::from_secs(60);

/// A program of one of the environments that `cargo xtask test` makes of `tests/third-party/NAME/requirements.txt`.
pub(crate) fn python(environment: &str, program: &str) -> String {
    let environments = std::env::var("THIRD_PARTY_PYTHON").expect("cargo xtask test sets THIRD_PARTY_PYTHON");
    let path = Path::new(&environments).join(environment).join("bin").join(program);
    assert!(path.is_file(), "{} is not installed: run `cargo xtask test`", path.display());
    path.to_str().unwrap().to_owned()
}

pub(crate) const BINARY: &str = env!("CARGO_BIN_EXE_countersign");

/// Where a test's sessions are kept.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Store {
    Memory,
    Sqlite,
    Postgres,
    /// PostgreSQL through a transaction pooler, and nothing past it.
    Pooled,
    /// The same with a way past the pooler.
    PooledPast,
}

/// Makes one test for each store from a body.
#[macro_export]
macro_rules! on_both_stores {
    ($(async fn $name:ident($store:ident) $body:block)*) => {
        $(mod $name {
            #[allow(unused_imports)]
            use super::*;

            async fn body($store: $crate::support::Store) $body

            #[tokio::test]
            async fn memory() {
                body($crate::support::Store::Memory).await;
            }

            #[tokio::test]
            async fn sqlite() {
                body($crate::support::Store::Sqlite).await;
            }
        })*
    };
}

/// The setup of a test's server.
pub(crate) struct Setup {
    store: Store,
    /// Extra lines of the store.
    store_lines: String,
    script: String,
    /// Extra lines of the execute_trade tool.
    trade: String,
    /// Whole sections.
    more: String,
    model: String,
    tools: Vec<&'static str>,
    max_turns: u32,
    /// Extra lines of the agent.
    agent: String,
    locale: &'static str,
    listen: &'static str,
    server: String,
    env: Vec<(String, String)>,
    log: Option<&'static str>,
    files: Vec<(String, String)>,
}

/// The call of the printed examples (spec W4).
pub(crate) fn trade(quantity: u64) -> Value {
    json!({ "name": "execute_trade", "args": { "symbol": "VNM", "quantity": quantity, "side": "buy", "price": 82000 } })
}

impl Setup {
    /// The same with another store.
    pub(crate) fn on(self, store: Store) -> Setup {
        Setup { store, ..self }
    }

    /// An agent with this script and the tools `execute_trade` (asks) and `note` (does not). Both write their arguments
    /// to `calls.log`, a line each, and echo them.
    pub(crate) fn new(store: Store, script: &Value) -> Setup {
        Setup {
            store,
            store_lines: String::new(),
            script: script.to_string(),
            trade: "approval = { require = true, timeout = 300 }".to_owned(),
            more: String::new(),
            model: "provider = \"scripted\"\nscript = \"script.json\"".to_owned(),
            tools: vec!["execute_trade", "note"],
            max_turns: 20,
            agent: String::new(),
            locale: "en",
            listen: "127.0.0.1:0",
            server: String::new(),
            env: Vec::new(),
            log: None,
            files: Vec::new(),
        }
    }

    /// One pending trade of 100, and then a final text.
    pub(crate) fn one_trade(store: Store) -> Setup {
        Setup::new(
            store,
            &json!({ "turns": [
                { "thinking": "hm", "text": "I will trade.", "tool_calls": [trade(100)] },
                { "text": "Result: {{ last_tool_result }}" },
            ], "at_end": "repeat" }),
        )
    }

    pub(crate) fn script_text(mut self, text: &str) -> Setup {
        text.clone_into(&mut self.script);
        self
    }

    pub(crate) fn trade(mut self, lines: &str) -> Setup {
        lines.clone_into(&mut self.trade);
        self
    }

    pub(crate) fn tool(mut self, name: &'static str, section: &str) -> Setup {
        self.tools.push(name);
        self.more.push_str(&format!("\n[tools.{name}]\n{section}\n"));
        self
    }

    /// Tools that need no section.
    pub(crate) fn built_in(mut self, names: &[&'static str]) -> Setup {
        self.tools.extend(names);
        self
    }

    /// Extra lines of a tool that the agent has anyway.
    pub(crate) fn section(mut self, name: &str, section: &str) -> Setup {
        self.more.push_str(&format!("\n[tools.{name}]\n{section}\n"));
        self
    }

    /// Uses this provider instead of the script.
    pub(crate) fn provider(mut self, provider: &Provider) -> Setup {
        self.model = format!("provider = \"openai-chat\"\nmodel = \"m\"\nbase_url = \"{}\"", provider.base_url);
        self
    }

    /// Uses a model with these lines.
    pub(crate) fn model(mut self, lines: &str) -> Setup {
        lines.clone_into(&mut self.model);
        self
    }

    /// Sets a variable of the server's environment.
    pub(crate) fn env(mut self, name: &str, value: &str) -> Setup {
        self.env.push((name.to_owned(), value.to_owned()));
        self
    }

    /// Sets variables of the server's environment.
    pub(crate) fn envs(self, variables: &[(&str, String)]) -> Setup {
        variables.iter().fold(self, |setup, (name, value)| setup.env(name, value))
    }

    /// Whole sections at the end.
    pub(crate) fn agent(mut self, lines: &str) -> Setup {
        lines.clone_into(&mut self.agent);
        self
    }

    pub(crate) fn sections(mut self, text: &str) -> Setup {
        self.more.push_str(text);
        self
    }

    /// Makes the server log with this `RUST_LOG`, or the default if it is empty, into `stderr.log`; and its standard
    /// output go to `stdout.log`.
    pub(crate) fn log(mut self, filter: &'static str) -> Setup {
        self.log = Some(filter);
        self
    }

    pub(crate) fn locale(mut self, locale: &'static str) -> Setup {
        self.locale = locale;
        self
    }

    pub(crate) fn max_turns(mut self, calls: u32) -> Setup {
        self.max_turns = calls;
        self
    }

    pub(crate) fn listen(mut self, address: &'static str) -> Setup {
        self.listen = address;
        self
    }

    pub(crate) fn store(mut self, lines: &str) -> Setup {
        lines.clone_into(&mut self.store_lines);
        self
    }

    pub(crate) fn server(mut self, lines: &str) -> Setup {
        lines.clone_into(&mut self.server);
        self
    }

    /// A person with a token, which is `{subject}-secret`.
    pub(crate) fn person(self, subject: &str, roles: &[&str]) -> Setup {
        self.principal(subject, roles, "")
    }

    /// A client with a token, which is `{subject}-secret`, and extra lines of it.
    pub(crate) fn principal(mut self, subject: &str, roles: &[&str], lines: &str) -> Setup {
        let env = format!("TEST_TOKEN_{}", subject.to_uppercase());
        self.more.push_str(&format!(
            "\n[[auth.tokens]]\nsubject = \"{subject}\"\nroles = {roles:?}\ntoken_env = \"{env}\"\n{lines}\n"
        ));
        self.env.push((env, format!("{subject}-secret")));
        self
    }

    /// A file beside the configuration.
    pub(crate) fn file(mut self, name: &str, text: &str) -> Setup {
        self.files.push((name.to_owned(), text.to_owned()));
        self
    }

    /// Whole sections.
    pub(crate) fn more(mut self, sections: &str) -> Setup {
        self.more.push_str(sections);
        self
    }

    /// A sealed store. The older keys only open; each is named by the digit it is made of.
    pub(crate) fn keys(mut self, digits: &[char]) -> Setup {
        self.more.push_str(&store_keys(digits));
        for digit in digits {
            self.env.push((format!("TEST_KEY_{digit}"), digit.to_string().repeat(64)));
        }
        self
    }

    fn config(&self, database: Option<&Database>) -> String {
        let store = match self.store {
            Store::Memory => "memory:".to_owned(),
            Store::Sqlite => "sqlite:test.db".to_owned(),
            Store::Postgres => database.expect("a database").url().to_owned(),
            Store::Pooled | Store::PooledPast => database.expect("a database").pooled_url(),
        };
        let pooled = match self.store {
            Store::Pooled => "pooled = true".to_owned(),
            Store::PooledPast => format!("pooled = true\ndirect_url = {:?}", database.expect("a database").url()),
            _ => String::new(),
        };
        let Setup { store_lines, trade, more, model, tools, max_turns, agent, locale, server, listen, .. } = self;
        format!(
            r#"locale = "{locale}"
[server]
listen = "{listen}"
{server}
[store]
url = "{store}"
{pooled}
{store_lines}
[models.script]
{model}
[agents.trader]
model = "script"
tools = {tools:?}
max_turns = {max_turns}
{agent}
[tools.execute_trade]
description = "Place an order."
command = ["sh", "-c", "tee -a calls.log; echo >> calls.log"]
{trade}
[tools.execute_trade.parameters]
type = "object"
required = ["symbol", "quantity"]
[tools.execute_trade.parameters.properties]
symbol = {{ type = "string" }}
quantity = {{ type = "integer", minimum = 1 }}
side = {{ type = "string" }}
price = {{ type = "number" }}
[tools.note]
description = "Writes something down."
command = ["sh", "-c", "tee -a calls.log; echo >> calls.log"]
parameters = {{ type = "object" }}
{more}
"#
        )
    }

    pub(crate) async fn start(self) -> Server {
        let dir = Arc::new(tempfile::tempdir().unwrap());
        let database = (!matches!(self.store, Store::Memory | Store::Sqlite)).then(|| Arc::new(Database::new()));
        let config = self.config(database.as_deref());
        let refused = refused_by_schema(&config);
        assert!(refused.is_empty(), "{config}\ndoes not fit the schema of the configuration: {refused:#?}");
        fs::write(dir.path().join("countersign.toml"), config).unwrap();
        fs::write(dir.path().join("script.json"), &self.script).unwrap();
        for (name, text) in &self.files {
            fs::write(dir.path().join(name), text).unwrap();
        }
        let (child, address) = spawn(dir.path(), &self.env, self.log).await;
        Server { child, address, dir, _database: database, env: self.env, log: self.log }
    }
}

/// A running server. Killed on drop.
pub(crate) struct Server {
    child: Child,
    pub(crate) address: SocketAddr,
    dir: Arc<TempDir>,
    /// Its store, if that is not in the folder.
    /// Dropped after the server.
    _database: Option<Arc<Database>>,
    env: Vec<(String, String)>,
    log: Option<&'static str>,
}

async fn spawn(dir: &Path, env: &[(String, String)], log: Option<&str>) -> (Child, SocketAddr) {
    let mut command = Command::new(BINARY);
    command
        .args(["serve", "--config", "countersign.toml"])
        .current_dir(dir)
        .env("RUST_LOG", "warn")
        .envs(env.iter().map(|(name, value)| (name, value)))
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::inherit());
    if let Some(filter) = log {
        let appended = |name| fs::File::options().create(true).append(true).open(dir.join(name)).unwrap();
        command.stderr(appended("stderr.log")).stdout(appended("stdout.log"));
        if filter.is_empty() {
            command.env_remove("RUST_LOG")
        } else {
            command.env("RUST_LOG", filter)
        };
        let mut child = command.spawn().unwrap();
        let deadline = Instant::now() + DEADLINE;
        loop {
            let text = fs::read_to_string(dir.join("stdout.log")).unwrap();
            if let Some(address) = text.lines().last().and_then(|line| line.strip_prefix("listening on http://")) {
                return (child, address.parse().unwrap());
            }
            assert!(child.try_wait().unwrap().is_none() && Instant::now() < deadline, "the server is ready in time");
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
    }
    let mut child = command.spawn().unwrap();
    let stdout = tokio::process::ChildStdout::from_std(child.stdout.take().unwrap()).unwrap();
    let mut lines = BufReader::new(stdout).lines();
    let line = tokio::time::timeout(DEADLINE, lines.next_line()).await.expect("the server is ready in time");
    let Some(line) = line.unwrap() else { panic!("the server ended: {:?}", child.wait()) };
    let address = line.strip_prefix("listening on http://").expect(&line).parse().unwrap();
    (child, address)
}

impl Server {
    /// Another server with the same configuration, in the same folder.
    pub(crate) async fn another(&self) -> Server {
        self.another_with(&[]).await
    }

    /// The same with other values of variables of its environment.
    pub(crate) async fn another_with(&self, changed: &[(&str, String)]) -> Server {
        let mut env = self.env.clone();
        env.extend(changed.iter().map(|(name, value)| ((*name).to_owned(), value.clone())));
        let (child, address) = spawn(self.dir.path(), &env, self.log).await;
        let (dir, _database) = (self.dir.clone(), self._database.clone());
        Server { child, address, dir, _database, env, log: self.log }
    }

    /// The database of its store, if it has one.
    pub(crate) fn database(&self) -> Option<&Database> {
        self._database.as_deref()
    }

    pub(crate) fn path(&self, name: &str) -> PathBuf {
        self.dir.path().join(name)
    }

    /// Changes the configuration file.
    pub(crate) fn configure(&self, change: impl FnOnce(String) -> String) {
        let path = self.path("countersign.toml");
        let text = change(fs::read_to_string(&path).unwrap());
        // As editors do it: no reader sees half a file.
        fs::write(self.path("new.toml"), text).unwrap();
        fs::rename(self.path("new.toml"), path).unwrap();
    }

    /// Waits until the server has logged this.
    pub(crate) async fn until_logged(&self, text: &str) -> String {
        let deadline = Instant::now() + DEADLINE;
        loop {
            let log = fs::read_to_string(self.path("stderr.log")).unwrap();
            if log.contains(text) {
                return log;
            }
            assert!(Instant::now() < deadline, "{text:?} is not in {log}");
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
    }

    /// What the tools were called with, in order.
    pub(crate) fn calls(&self) -> Vec<String> {
        let text = fs::read_to_string(self.path("calls.log")).unwrap_or_default();
        text.lines().map(str::to_owned).collect()
    }

    pub(crate) async fn ws(&self) -> Ws {
        Ws::connect(self.address, &[]).await
    }

    pub(crate) async fn ws_as(&self, subject: &str) -> Ws {
        Ws::connect(self.address, &[("authorization", &format!("Bearer {subject}-secret"))]).await
    }

    pub(crate) async fn get(&self, path: &str) -> Response {
        http::request(self.address, "GET", path, &[], None).await
    }

    pub(crate) async fn post(&self, path: &str, body: &Value) -> Response {
        http::request(self.address, "POST", path, &[], Some(&body.to_string())).await
    }

    /// A request of a person.
    pub(crate) async fn ask_as(&self, subject: &str, method: &str, path: &str, body: Option<&Value>) -> Response {
        let token = format!("Bearer {subject}-secret");
        let body = body.map(Value::to_string);
        http::request(self.address, method, path, &[("authorization", &token)], body.as_deref()).await
    }

    /// Waits until a session has this status.
    pub(crate) async fn until_status(&self, session_id: &str, status: &str) -> Value {
        let deadline = Instant::now() + DEADLINE;
        loop {
            let session = self.get(&format!("/v1/sessions/{session_id}")).await.json();
            if session["status"] == status {
                return session;
            }
            assert!(Instant::now() < deadline, "{session_id} is {session}, not {status}");
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    }

    /// How much memory the server has, in bytes.
    pub(crate) fn memory(&self) -> usize {
        self.memory_of("VmRSS:")
    }

    /// How much it has had at most.
    pub(crate) fn memory_peak(&self) -> usize {
        self.memory_of("VmHWM:")
    }

    fn memory_of(&self, key: &str) -> usize {
        let status = fs::read_to_string(format!("/proc/{}/status", self.child.id())).unwrap();
        let line = status.lines().find_map(|line| line.strip_prefix(key)).unwrap();
        1024 * line.trim().trim_end_matches(" kB").parse::<usize>().unwrap()
    }

    /// Like a power cut.
    pub(crate) fn kill(&mut self) {
        self.child.kill().unwrap();
        self.child.wait().unwrap();
    }

    /// Removes variables from the server's environment, from its next start on.
    pub(crate) fn without_env(&mut self, names: &[&str]) {
        self.env.retain(|(name, _)| !names.contains(&name.as_str()));
    }

    pub(crate) async fn start_again(&mut self) {
        (self.child, self.address) = spawn(self.dir.path(), &self.env, self.log).await;
    }

    pub(crate) fn signal(&self, signal: Signal) {
        kill_process(Pid::from_child(&self.child), signal).unwrap();
    }

    /// Waits for the end of the process.
    pub(crate) async fn ended(&mut self) -> ExitStatus {
        let deadline = Instant::now() + DEADLINE;
        loop {
            if let Some(status) = self.child.try_wait().unwrap() {
                return status;
            }
            assert!(Instant::now() < deadline, "the server does not end");
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// The sections of keys, the first of which seals.
pub(crate) fn store_keys(digits: &[char]) -> String {
    let section = |digit| format!("\n[[store.keys]]\nid = \"key-{digit}\"\nkey_env = \"TEST_KEY_{digit}\"\n");
    digits.iter().map(section).collect()
}

/// The output of a command that ends by itself.
pub(crate) struct Ended {
    pub(crate) code: Option<i32>,
    pub(crate) stdout: String,
    pub(crate) stderr: String,
}

/// Runs the binary until it ends.
pub(crate) fn run(dir: &Path, arguments: &[&str], input: &str, env: &[(&str, &str)]) -> Ended {
    run_program(BINARY, dir, arguments, input, env)
}

/// Runs a program until it ends.
pub(crate) fn run_program(program: &str, dir: &Path, arguments: &[&str], input: &str, env: &[(&str, &str)]) -> Ended {
    use std::io::Write as _;
    let mut child = Command::new(program)
        .args(arguments)
        .current_dir(dir)
        .envs(env.iter().copied())
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap_or_else(|error| panic!("{program}: {error}"));
    let _ = child.stdin.take().unwrap().write_all(input.as_bytes());
    // Read while it runs: a pipe holds less than some commands print.
    let reader = |pipe: Option<Box<dyn std::io::Read + Send>>| {
        std::thread::spawn(move || {
            let mut text = String::new();
            pipe.unwrap().read_to_string(&mut text).unwrap();
            text
        })
    };
    let stdout = reader(child.stdout.take().map(|pipe| Box::new(pipe) as _));
    let stderr = reader(child.stderr.take().map(|pipe| Box::new(pipe) as _));
    // Third-party programs, such as compilers and generators, may take long.
    let deadline = Instant::now() + if program == BINARY { DEADLINE } else { 5 * DEADLINE };
    while child.try_wait().unwrap().is_none() {
        if Instant::now() > deadline {
            child.kill().unwrap();
            panic!("{arguments:?} does not end");
        }
        std::thread::sleep(Duration::from_millis(10));
    }
    let (stdout, stderr) = (stdout.join().unwrap(), stderr.join().unwrap());
    Ended { code: child.wait().unwrap().code(), stdout, stderr }
}

/// What an editor would report about a configuration.
pub(crate) fn refused_by_schema(config: &str) -> Vec<String> {
    static SCHEMA: std::sync::LazyLock<jsonschema::Validator> =
        std::sync::LazyLock::new(|| jsonschema::validator_for(&countersign_server::config::config_schema()).unwrap());
    let config: Value = toml::from_str(config).unwrap();
    SCHEMA.iter_errors(&config).map(|error| format!("{}: {error}", error.instance_path())).collect()
}
