//! A folder with everything a server needs: configuration, scripts, store, ledger.

use std::{
    fs,
    net::Ipv4Addr,
    path::{Path, PathBuf},
    process,
    sync::atomic::{AtomicU32, Ordering},
};

use clap::ValueEnum;
use countersign_runtime::run::failpoint::{EVICTED, EVICTS, FIRED, LEAVES_DEADLINES};
use countersign_store::sqlite::CLOSED;
use countersign_test_machine::{Clock, Clocks, Disk, together};
use serde_json::{Value, json};
use tempfile::TempDir;

/// The agents of a world; sessions take them in turn.
pub const AGENTS: [&str; 3] = ["trader", "clerk", "slow"];

/// The one whose conversation is compressed in every turn but the first.
pub const COMPRESSED: &str = AGENTS[1];

/// The people of a world with identities: the session's owner, and those with the role `admin`.
pub const DECIDERS: usize = 64;

/// What is different in a whole run.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Switch {
    /// A session that pauses leaves memory at once
    Evicted,
    /// Nodes are not notified of others' changes, and poll
    Polling,
    /// Each request of a session goes to another node than the one before
    Hopping,
    /// People reconnect after every 3 events
    Reconnecting,
    /// No process fires the deadlines of its own requests: another one does, which finds them in the store
    Timerless,
}

impl Switch {
    /// The event that it causes: a run without that event does not count.
    #[must_use]
    pub fn label(self) -> &'static str {
        match self {
            Switch::Evicted => "a paused session left memory at once",
            Switch::Polling => "a node heard no notification",
            Switch::Hopping => "a request went to another node than the one before",
            Switch::Reconnecting => "a person connected anew after 3 events",
            Switch::Timerless => "a deadline was fired by another process than the one that asked",
        }
    }

    /// Whether it needs several servers on one database.
    #[must_use]
    pub fn needs_nodes(self) -> bool {
        matches!(self, Switch::Polling | Switch::Hopping)
    }
}

/// What all worlds of a run have in common.
#[derive(Clone, Debug)]
pub struct Base {
    /// The program whose subcommand `ledger-tool` is every tool.
    pub tool: PathBuf,
    /// The switches.
    pub switches: Vec<Switch>,
}

impl Base {
    /// Whether this switch is set.
    #[must_use]
    pub fn has(&self, switch: Switch) -> bool {
        self.switches.contains(&switch)
    }
}

/// A folder that is removed when this is dropped.
#[derive(Debug)]
pub struct World {
    dir: TempDir,
    /// The server's program.
    pub program: PathBuf,
    /// Whether people have names and tokens here.
    pub named: bool,
    /// Seconds to answer questions, if not the default.
    question_timeout: Option<u32>,
    /// The PostgreSQL database that its servers share; without one, SQLite.
    pub database: Option<String>,
    /// The settings that it shares with others.
    pub base: Base,
    /// The disk under its servers' store, if it may have faults.
    disk: Option<Disk>,
    /// The clock of the machine that they run on, if it may be set.
    clock: Option<Clock>,
}

/// An address of this machine on which no other world's server listens. Whoever still looks for a server that was killed
/// would otherwise reach another world's as soon as that has the free port, and take its sessions for their own.
fn own_host() -> Ipv4Addr {
    static WORLDS: AtomicU32 = AtomicU32::new(0);
    let [.., high, low] = process::id().to_be_bytes();
    let [.., world] = WORLDS.fetch_add(1, Ordering::Relaxed).to_be_bytes();
    Ipv4Addr::new(127, high | 0x80, low, world.clamp(1, 254))
}

/// The configuration of its servers.
pub const CONFIG: &str = "countersign.toml";
/// How long a node of a world outlives its last renewal, in seconds.
pub const LEASE_SECONDS: u32 = 2;

impl World {
    /// Makes one. With `named` there is an owner and [`DECIDERS`] people with the deciding role.
    ///
    /// # Errors
    /// The server's program is missing, or the folder cannot be written.
    pub fn new(base: &Base, named: bool) -> Result<World, String> {
        World::with(base, named, None, None)
    }

    /// The same without names, for several servers on a PostgreSQL database.
    ///
    /// # Errors
    /// As [`World::new`].
    pub fn on(base: &Base, database: &str) -> Result<World, String> {
        World::with(base, false, None, Some(database))
    }

    /// The same, with this many seconds to answer questions, on a PostgreSQL database.
    ///
    /// # Errors
    /// As [`World::new`].
    pub fn with(
        base: &Base,
        named: bool,
        question_timeout: Option<u32>,
        database: Option<&str>,
    ) -> Result<World, String> {
        let program = server_program()?;
        let dir = tempfile::Builder::new().prefix("countersign-torture-").tempdir();
        let dir = dir.map_err(|error| format!("no folder could be made: {error}"))?;
        let database = database.map(str::to_owned);
        let base = base.clone();
        let world = World { dir, program, named, question_timeout, database, base, disk: None, clock: None };
        world.write(CONFIG, &world.config())?;
        for agent in AGENTS {
            let text = serde_json::to_string_pretty(&script(agent)).map_err(|error| error.to_string())?;
            world.write(&format!("{agent}.json"), &text)?;
        }
        for (agent, tool, args) in [
            ("race", "gated", json!({ "n": 1 })),
            ("brief", "brief", json!({ "n": 1 })),
            ("asker", ASK, questions("Where to?")),
        ] {
            let turns = json!([{ "thinking": "Hm.", "tool_calls": [call(tool, &args)] }, { "text": "Decided." }]);
            world.write(&format!("{agent}.json"), &json!({ "turns": turns, "at_end": "repeat" }).to_string())?;
        }
        Ok(world)
    }

    /// A file of the world.
    #[must_use]
    pub fn path(&self, name: &str) -> PathBuf {
        self.dir.path().join(name)
    }

    /// Writes the same configuration for a server that reaches the database by this URL.
    ///
    /// # Errors
    /// The folder cannot be read or written, or there is no database.
    pub fn configure(&self, name: &str, url: &str) -> Result<PathBuf, String> {
        let direct = Value::from(self.database.as_deref().ok_or("the world has no database")?).to_string();
        let text =
            fs::read_to_string(self.path(CONFIG)).map_err(|error| format!("{CONFIG} cannot be read: {error}"))?;
        self.write(name, &text.replace(&direct, &Value::from(url).to_string()))?;
        Ok(self.path(name))
    }

    /// The clocks of the machines that its servers run on.
    ///
    /// # Errors
    /// There is no C compiler, or it fails.
    pub fn clocks(&self) -> Result<Clocks, String> {
        Clocks::new(self.dir.path())
    }

    /// Puts its servers' store on a disk that forgets unsynced data.
    ///
    /// # Errors
    /// There is no C compiler, or it fails.
    pub fn may_forget(&mut self) -> Result<(), String> {
        self.disk = Some(Disk::new(self.dir.path())?);
        Ok(())
    }

    /// Has its servers run on a machine whose clock may be set while they do.
    ///
    /// # Errors
    /// There is no C compiler, or it fails.
    pub fn may_step(&mut self) -> Result<(), String> {
        self.clock = Some(self.clocks()?.clock("clock"));
        Ok(())
    }

    /// Sets that clock ahead by this many seconds, or back if they are negative.
    ///
    /// # Errors
    /// The world has no such clock, or the folder cannot be written.
    pub fn set_clock(&self, seconds: i64) -> Result<(), String> {
        self.clock.as_ref().ok_or("the world has no clock of its own")?.set(seconds)
    }

    /// That disk.
    ///
    /// # Errors
    /// The world has none.
    pub fn disk(&self) -> Result<&Disk, String> {
        self.disk.as_ref().ok_or_else(|| "the world has no disk".to_owned())
    }

    /// Cuts the power of a server that was killed: see [`Disk::cut_power`].
    ///
    /// # Errors
    /// The world has no disk, or its files cannot be written.
    pub fn cut_power(&self, reaches: impl FnMut() -> bool) -> Result<usize, String> {
        self.disk()?.cut_power(self.dir.path(), reaches)
    }

    /// Repairs its disk.
    ///
    /// # Errors
    /// The folder cannot be written.
    pub fn mend(&self) -> Result<(), String> {
        self.disk.as_ref().map_or(Ok(false), Disk::mend).map(drop)
    }

    /// Keeps the folder, for inspection.
    pub fn keep(&mut self) -> &Path {
        self.dir.disable_cleanup(true);
        self.dir.path()
    }

    /// Other variables in the environment of its servers.
    #[must_use]
    pub fn environment(&self) -> Vec<(String, String)> {
        let switches = [(Switch::Evicted, EVICTS), (Switch::Timerless, LEAVES_DEADLINES)];
        let switches = switches.into_iter().filter(|(switch, _)| self.base.has(*switch));
        let switches = switches.map(|(_, variable)| (variable.to_owned(), "1".to_owned()));
        let machine =
            self.disk.iter().flat_map(Disk::environment).chain(self.clock.iter().flat_map(Clock::environment));
        let machine = together(machine).into_iter().map(|(name, value)| (name.to_owned(), value));
        self.tokens().into_iter().chain(switches).chain(machine).collect()
    }

    /// Counts the sessions that left memory when they paused, by the servers' logs so far.
    ///
    /// # Errors
    /// The log cannot be read.
    pub fn evicted(&self) -> Result<u64, String> {
        self.logged(EVICTED)
    }

    /// Counts, in the same logs, the deadlines fired by another process than the one that made the request.
    ///
    /// # Errors
    /// The log cannot be read.
    pub fn fired_elsewhere(&self) -> Result<u64, String> {
        self.logged(FIRED)
    }

    /// Counts, in the same logs, the stores that were closed because they could not rely on their disk.
    ///
    /// # Errors
    /// The log cannot be read.
    pub fn closed(&self) -> Result<u64, String> {
        self.logged(CLOSED)
    }

    fn logged(&self, what: &str) -> Result<u64, String> {
        let log = fs::read_to_string(self.path("server.log")).map_err(|error| format!("server.log: {error}"))?;
        Ok(log.matches(what).count() as u64)
    }

    /// The tokens: variables of the server's environment, and their subjects.
    #[must_use]
    pub fn tokens(&self) -> Vec<(String, String)> {
        let names = std::iter::once("owner".to_owned()).chain((0..DECIDERS).map(|i| format!("r{i}")));
        names.filter(|_| self.named).map(|name| (format!("TOKEN_{name}"), token(&name))).collect()
    }

    fn write(&self, name: &str, text: &str) -> Result<(), String> {
        fs::write(self.path(name), text).map_err(|error| format!("{name} cannot be written: {error}"))
    }

    fn config(&self) -> String {
        // JSON strings are TOML strings too.
        let quoted = |path: &Path| Value::from(path.to_string_lossy()).to_string();
        let command = |name: &str| {
            format!("[{}, \"ledger-tool\", {}, \"{name}\"]", quoted(&self.base.tool), quoted(&self.path("ledger")))
        };
        let store = match &self.database {
            Some(url) => {
                // As if a pooler were in between: then there are no notifications.
                let pooled = self.base.has(Switch::Polling);
                format!("url = {}\nlease_seconds = {LEASE_SECONDS}\npooled = {pooled}", Value::from(url.as_str()))
            }
            None => "url = \"sqlite:test.db\"".to_owned(),
        };
        let mut text = format!("[server]\nlisten = \"{}:0\"\n[store]\n{store}\n", own_host());
        for agent in AGENTS.into_iter().chain(["race", "brief", "asker"]) {
            text += &format!("[models.{agent}]\nprovider = \"scripted\"\nscript = \"{agent}.json\"\n");
            let tools = match agent {
                "race" => "\"gated\"",
                "brief" => "\"brief\"",
                "asker" => "\"ask_user_question\"",
                _ => "\"pay\", \"post\", \"note\", \"look\", \"ask_user_question\"",
            };
            text += &format!("[agents.{agent}]\nmodel = \"{agent}\"\ntools = [{tools}]\n");
            if agent == COMPRESSED {
                text += "compression = { context_tokens = 60, keep_turns = 1, strategy = \"trim\" }\n";
            }
        }
        if let Some(seconds) = self.question_timeout {
            text += &format!("[tools.{ASK}]\napproval = {{ timeout = {seconds} }}\n");
        }
        let all = "[\"approve\", \"reject\", \"edit\", \"respond\", \"defer\"]";
        let asked = format!("{{ timeout = 0, allowed_decisions = {all} }}");
        let levels = if self.named { "levels = [\"admin\"], " } else { "" };
        for (name, idempotent, approval) in [
            ("pay", false, asked.clone()),
            ("post", true, asked),
            ("note", false, "false".to_owned()),
            ("look", true, "false".to_owned()),
            ("gated", false, format!("{{ {levels}timeout = 0 }}")),
            ("brief", false, format!("{{ {levels}timeout = 1 }}")),
        ] {
            text += &format!(
                "[tools.{name}]\ndescription = \"Writes to the ledger.\"\ncommand = {}\nidempotent = {idempotent}\napproval = {approval}\n\
                 parameters = {{ type = \"object\", required = [\"n\"], properties = {{ n = {{ type = \"integer\" }}, ms = {{ type = \"integer\" }} }} }}\n",
                command(name)
            );
        }
        for (variable, _) in self.tokens() {
            let name = variable.trim_start_matches("TOKEN_");
            let roles = if name == "owner" { "\"user\"" } else { "\"admin\"" };
            text += &format!("[[auth.tokens]]\nsubject = \"{name}\"\nroles = [{roles}]\ntoken_env = \"{variable}\"\n");
        }
        text
    }
}

/// The token of a person.
#[must_use]
pub fn token(name: &str) -> String {
    format!("{name}-token-0123456789-0123456789")
}

/// The server's program: beside this one, or in the folder above it (tests run in `deps`).
///
/// # Errors
/// It does not exist.
pub fn server_program() -> Result<PathBuf, String> {
    let own = std::env::current_exe().map_err(|error| format!("this program's own path is not known: {error}"))?;
    let found = own.ancestors().skip(1).take(2).map(|folder| folder.join("countersign")).find(|path| path.is_file());
    found.ok_or_else(|| {
        "there is no program `countersign` beside this one: build the workspace first (cargo build --workspace)"
            .to_owned()
    })
}

fn call(name: &str, args: &Value) -> Value {
    json!({ "name": name, "args": args })
}

/// The built-in tool for questions.
const ASK: &str = "ask_user_question";

/// Two questions, one with several choices.
fn questions(first: &str) -> Value {
    json!({ "questions": [
        { "question": first, "header": "Place", "options": [{ "label": "Here" }, { "label": "There", "description": "far off" }] },
        { "question": "When?", "multiSelect": true, "options": [{ "label": "Now" }, { "label": "Then" }] }
    ] })
}

fn script(agent: &str) -> Value {
    let turns = match agent {
        "trader" => json!([
            { "text": "I will pay for {{ last_user }}.", "tool_calls": [call("pay", &json!({ "n": 1, "ms": 2, "for": "{{ last_user }}" }))] },
            { "text": "It says: {{ last_tool_result }}" },
            { "thinking": "Several at once.", "text": "Three things to do.", "tool_calls": [
                call("pay", &json!({ "n": 2, "rate": 1.5 })), call("note", &json!({ "n": 3, "ms": 3 })), call("post", &json!({ "ms": 3, "n": 4 }))] },
            { "thinking": "Better ask.", "tool_calls": [call(ASK, &questions("Where to?"))] },
            { "text": "All of it is done." },
            { "tool_calls": [call("look", &json!({ "n": 5 })), call("note", &json!({ "n": 6, "fail": true }))] },
            { "text": "Now the rest.", "tool_calls": [call("post", &json!({ "n": 7 })), call("pay", &json!({ "n": 8, "ms": 2 }))] },
            { "text": "That was it." },
            { "text": "Nothing to do this time." }
        ]),
        "clerk" => json!([
            { "tool_calls": [call("pay", &json!({ "n": 1, "ms": 15, "for": "{{ last_user }}" })), call("pay", &json!({ "n": 2, "ms": 5 }))] },
            { "text": "Both are through?", "tool_calls": [call("look", &json!({ "n": 9 })), call(ASK, &questions("Which one?")), call("pay", &json!({ "n": 10 }))] },
            { "text": "Both are through." },
            { "thinking": "Hm.", "tool_calls": [call("post", &json!({ "n": 3, "ms": 20 })), call("look", &json!({ "n": 4, "ms": 10 }))] },
            { "text": "Posted." }
        ]),
        _ => json!([
            { "text": "Slowly, slowly, one word after the other, I come to the point: {{ last_user }}", "delay_ms": 60,
              "tool_calls": [call("note", &json!({ "n": 1, "ms": 30 })), call("pay", &json!({ "n": 2, "ms": 30, "why": "because it must be done, after all" }))] },
            { "thinking": "Slowly thought about, before anybody is asked.", "delay_ms": 50, "tool_calls": [call(ASK, &questions("Why?")), call("look", &json!({ "n": 3 }))] },
            { "thinking": "What did it say? {{ last_tool_result }}", "text": "The answer takes its time as well.", "delay_ms": 40 },
            { "text": "Nothing more, but that slowly.", "delay_ms": 50 }
        ]),
    };
    json!({ "turns": turns, "at_end": "repeat", "chunk_chars": 20 })
}
