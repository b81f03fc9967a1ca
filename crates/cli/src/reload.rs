//! Reloading `[auth]` while the server runs: on SIGHUP, and when the configuration file has changed.

use std::{
    convert::Infallible,
    os::unix::fs::MetadataExt as _,
    path::{Path, PathBuf},
    sync::Arc,
    time::Duration,
};

use countersign_server::{
    Auth,
    config::{Config, ConfigRule},
};
use tokio::{
    signal::unix::Signal,
    sync::Notify,
    time::{MissedTickBehavior, interval},
};

use crate::loaded::{lines, log_warnings};

/// How often the file is checked. A removed token's connections are closed soon after.
const LOOK: Duration = Duration::from_secs(1);

/// Distinguishes a changed file from an unchanged one. Another hash of a token has the same length, and `cp -p` and
/// `rsync -t` keep the time of modification: only the time of the last change of the file itself cannot be set.
#[derive(Clone, Copy, PartialEq, Eq)]
struct Stamp {
    modified: (i64, i64),
    changed: (i64, i64),
    file: (u64, u64),
    size: u64,
}

impl Stamp {
    /// `None` if there is no file now, as in the middle of being replaced.
    fn of(path: &Path) -> Option<Stamp> {
        let file = std::fs::metadata(path).ok()?;
        Some(Stamp {
            modified: (file.mtime(), file.mtime_nsec()),
            changed: (file.ctime(), file.ctime_nsec()),
            file: (file.dev(), file.ino()),
            size: file.size(),
        })
    }
}

/// The watched configuration file.
pub(crate) struct Watched {
    path: PathBuf,
    /// The server's configuration at start; all of it except `[auth]` is still in force.
    running: Config,
    auth: Auth,
    seen: Option<Stamp>,
    /// Requests a fetch of the issuer's keys. One more is enough, however often the file is read during a fetch.
    keys_due: Arc<Notify>,
}

impl Watched {
    /// Watches the file that `running` was read from; `seen` is its state before that.
    pub(crate) fn new(path: PathBuf, running: Config, auth: Auth, seen: Seen) -> Watched {
        Watched { path, running, auth, seen: seen.0, keys_due: Arc::default() }
    }

    /// Never ends.
    pub(crate) async fn watch(self, hangup: Signal) {
        // Concurrently: an issuer that does not answer must not delay the next change.
        tokio::join!(keep_fetching(self.auth.clone(), self.keys_due.clone()), self.look(hangup));
    }

    async fn look(mut self, mut hangup: Signal) -> Infallible {
        let mut ticks = interval(LOOK);
        ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
        loop {
            let asked = tokio::select! {
                _ = ticks.tick() => false,
                _ = hangup.recv() => true,
            };
            let stamp = Stamp::of(&self.path);
            if asked || (stamp.is_some() && stamp != self.seen) {
                self.seen = stamp;
                self.read().await;
            }
        }
    }

    async fn read(&mut self) {
        let path = self.path.clone();
        // Conditions are compiled and files are read, which takes a while.
        let loaded = tokio::task::spawn_blocking(move || Config::load(&path)).await;
        let config = match loaded {
            Ok(Ok(config)) => config,
            Ok(Err(errors)) => {
                tracing::error!("the configuration has errors, so nothing changes:\n{}", lines(&errors));
                return;
            }
            Err(error) => {
                tracing::error!("the configuration cannot be reloaded: {error}");
                return;
            }
        };
        log_warnings(&config);
        let elsewhere = elsewhere(&self.running, &config);
        if !elsewhere.is_empty() {
            tracing::warn!("changes in {} need a restart", elsewhere.join(", "));
        }
        if config.is_open() {
            if !self.auth.is_open() {
                tracing::error!(
                    "[auth] was removed; opening the server to everybody needs a restart, so nothing changes until then"
                );
            }
            return;
        }
        if (&config.tokens, &config.jwt) == (&self.running.tokens, &self.running.jwt) && !self.auth.is_open() {
            // The issuer may have withdrawn a key.
            self.keys_due.notify_one();
            return;
        }
        self.auth.replace_now(config.server_tokens(), config.jwt.clone());
        self.keys_due.notify_one();
        tracing::info!(tokens = config.tokens.len(), jwt = config.jwt.is_some(), "[auth] was reloaded");
        self.running.tokens = config.tokens;
        self.running.jwt = config.jwt;
    }
}

/// Fetches the issuer's keys when they are due.
async fn keep_fetching(auth: Auth, due: Arc<Notify>) -> Infallible {
    loop {
        due.notified().await;
        auth.renew_keys().await;
    }
}

/// The state of the file at some time.
#[derive(Clone, Copy)]
pub(crate) struct Seen(Option<Stamp>);

impl Seen {
    /// Its current state.
    pub(crate) fn now(path: &Path) -> Seen {
        Seen(Stamp::of(path))
    }
}

/// The changed parts other than `[auth]`.
fn elsewhere(running: &Config, read: &Config) -> Vec<&'static str> {
    // All fields, so that none is forgotten. A file that was read changes with the part that names it.
    let Config {
        locale,
        server,
        store,
        store_keys,
        models,
        agents,
        tools,
        mcp,
        guardrails,
        workspace,
        computer,
        rules: _,
        tokens: _,
        jwt: _,
        tracing,
        webhooks,
        files: _,
        warnings: _,
    } = read;
    let parts = [
        ("locale", running.locale != *locale),
        ("[server]", running.server != *server),
        ("[store]", running.store != *store || running.store_keys != *store_keys),
        ("[models]", running.models != *models),
        ("[agents]", running.agents != *agents),
        ("[policy]", rules(running) != rules(read)),
        ("[tools]", running.tools != *tools),
        ("[guardrails]", running.guardrails != *guardrails),
        ("[computer]", running.computer != *computer),
        ("[workspace]", running.workspace != *workspace),
        ("[mcp]", running.mcp != *mcp),
        ("[tracing]", running.tracing != *tracing),
        ("[webhooks]", running.webhooks != *webhooks),
    ];
    parts.into_iter().filter(|(_, other)| *other).map(|(name, _)| name).collect()
}

/// The rules without their line numbers: a file with lines inserted above them has the same policy.
fn rules(config: &Config) -> Vec<ConfigRule> {
    config.rules.iter().map(|rule| ConfigRule { line: 0, ..rule.clone() }).collect()
}

#[cfg(test)]
mod tests {
    use std::{fs, time::SystemTime};

    use super::*;

    #[test]
    fn a_file_that_was_replaced_by_one_of_its_size_and_time_is_read_again() {
        let dir = tempfile::tempdir().expect("directory");
        let (path, new) = (dir.path().join("a.toml"), dir.path().join("new.toml"));
        let write = |path: &Path, text: &str| {
            fs::write(path, text).expect("write");
            let file = fs::File::options().write(true).open(path).expect("open");
            file.set_modified(SystemTime::UNIX_EPOCH).expect("the time");
        };
        write(&path, "aaaa");
        let first = Stamp::of(&path);
        assert!(first == Stamp::of(&path), "nothing has changed");
        write(&new, "bbbb");
        fs::rename(&new, &path).expect("rename");
        let replaced = Stamp::of(&path);
        assert!(replaced != first, "another file");
        // The clock of the file system goes in steps of some milliseconds.
        std::thread::sleep(Duration::from_millis(50));
        write(&path, "cccc");
        assert!(Stamp::of(&path) != replaced, "the same file with other words");
    }

    #[test]
    fn c_every_changed_part_is_named_and_a_key_of_the_store_is_one_of_its_part() {
        let dir = tempfile::tempdir().expect("directory");
        fs::write(dir.path().join("s.json"), r#"{"turns":[]}"#).expect("script");
        let key = |name: &str| Some(if name == "NEW" { "0e" } else { "0f" }.repeat(32));
        let parsed = |text: &str| {
            let all =
                format!("{text}[models.m]\nprovider = \"scripted\"\nscript = \"s.json\"\n[agents.a]\nmodel = \"m\"\n");
            Config::parse(&all, "c.toml", dir.path(), &key).expect("configuration")
        };
        let old = "[[store.keys]]\nid = \"old\"\nkey_env = \"OLD\"\n";
        let new = format!("[[store.keys]]\nid = \"new\"\nkey_env = \"NEW\"\n{old}");
        let running = parsed(old);
        assert!(elsewhere(&running, &parsed(&format!("# a comment\n{old}"))).is_empty());
        assert_eq!(elsewhere(&running, &parsed(&new)), ["[store]"]);
        let both = parsed(&format!("[server]\nkeep_days = 9\n{new}"));
        assert_eq!(elsewhere(&running, &both), ["[server]", "[store]"]);
    }
}
