//! The configuration of a test's server.

use std::{fs, sync::Arc};

use countersign_test_postgres::Database;
use serde_json::{Value, json};

use super::{Provider, Server, Store};

/// The setup of a test's server.
pub(crate) struct Setup {
    store: Store,
    /// The address of another store.
    url: Option<String>,
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

    /// The same with the store at this address.
    pub(crate) fn at(self, url: String) -> Setup {
        Setup { url: Some(url), ..self }
    }

    /// An agent with this script and the tools `execute_trade` (needs approval) and `note` (does not). Both write their
    /// arguments to `calls.log`, a line each, and echo them.
    pub(crate) fn new(store: Store, script: &Value) -> Setup {
        Setup {
            store,
            url: None,
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
        let store = self.url.clone().unwrap_or(store);
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

    /// Started, with a session `s` that waits for a person.
    pub(crate) async fn pending(self) -> Server {
        let server = self.start().await;
        server.post("/v1/sessions/s/messages", &json!({ "content": "go" })).await.ok();
        server
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
        Server::start(dir, database, self.env, self.log).await
    }
}

/// The sections of keys, the first of which seals.
pub(crate) fn store_keys(digits: &[char]) -> String {
    let section = |digit| format!("\n[[store.keys]]\nid = \"key-{digit}\"\nkey_env = \"TEST_KEY_{digit}\"\n");
    digits.iter().map(section).collect()
}

/// What an editor would report about a configuration.
fn refused_by_schema(config: &str) -> Vec<String> {
    static SCHEMA: std::sync::LazyLock<jsonschema::Validator> =
        std::sync::LazyLock::new(|| jsonschema::validator_for(&countersign_server::config::config_schema()).unwrap());
    let config: Value = toml::from_str(config).unwrap();
    SCHEMA.iter_errors(&config).map(|error| format!("{}: {error}", error.instance_path())).collect()
}
