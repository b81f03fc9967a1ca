//! A proxy between a node and its database: it cuts connections, loses answers and holds everything back, on demand.

use std::{
    sync::{
        Arc, Mutex,
        atomic::{AtomicBool, AtomicU64, Ordering},
    },
    time::Duration,
};

use tokio::{
    io::{AsyncRead, AsyncReadExt as _, AsyncWrite, AsyncWriteExt as _},
    net::{TcpListener, TcpStream, UnixStream},
    task::JoinHandle,
    time::{Instant, sleep_until},
};
use tokio_postgres::config::{Config, Host};

/// It listens on the loopback until it is dropped.
#[derive(Debug)]
pub struct Proxy {
    url: String,
    shared: Arc<Shared>,
    accepts: JoinHandle<()>,
}

/// What happens to a connection, which then ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fault {
    /// The database gets half of the message.
    HalfSaid,
    /// Half of the first answer comes.
    HalfAnswer,
    /// The answer to this completed command (`COMMIT`, `SELECT 1`) is lost.
    Lost(&'static str),
    /// The same for a statement that is a transaction by itself, and so is committed; of any number of rows (`SELECT`).
    LostAlone(&'static str),
}

/// The state that its connections share.
#[derive(Debug, Default)]
struct Shared {
    /// The next fault, and the text by which the transaction of its connection is recognised.
    armed: Mutex<Option<(Fault, &'static str)>>,
    /// Whether it has happened.
    struck: AtomicBool,
    /// No byte passes before this time.
    held_until: Mutex<Option<Instant>>,
    /// Whether that has held back a message.
    held: AtomicBool,
    notifications: AtomicU64,
}

impl Proxy {
    /// In front of the database of this URL, without TLS.
    ///
    /// # Panics
    /// The URL is invalid, or there is no port to listen on.
    pub async fn before(url: &str) -> Proxy {
        let config: Config = url.parse().expect("a URL");
        let listener = TcpListener::bind("127.0.0.1:0").await.expect("a port");
        let port = listener.local_addr().expect("an address").port();
        let user = config.get_user().unwrap_or("postgres");
        let password = config.get_password().map(|p| format!(":{}", String::from_utf8_lossy(p))).unwrap_or_default();
        let name = config.get_dbname().expect("a name");
        let url = format!("postgres://{user}{password}@127.0.0.1:{port}/{name}?sslmode=disable");
        let shared = Arc::new(Shared::default());
        let accepts = tokio::spawn(accept(listener, config, shared.clone()));
        Proxy { url, shared, accepts }
    }

    /// The database's URL, through it.
    #[must_use]
    pub fn url(&self) -> &str {
        &self.url
    }

    /// Arms one fault. It strikes once, on the next connection that sends this text in a transaction; the text selects that
    /// connection, since a store also polls on others.
    ///
    /// # Panics
    /// A connection's task has panicked.
    pub fn arm(&self, fault: Fault, said: &'static str) {
        let mut armed = self.shared.armed.lock().expect("armed");
        self.shared.struck.store(false, Ordering::SeqCst);
        *armed = Some((fault, said));
    }

    /// Disarms it. Returns whether the fault has happened.
    ///
    /// # Panics
    /// A connection's task has panicked.
    pub fn disarm(&self) -> bool {
        self.shared.armed.lock().expect("armed").take();
        self.has_struck()
    }

    /// Whether the last armed fault has happened.
    #[must_use]
    pub fn has_struck(&self) -> bool {
        self.shared.struck.load(Ordering::SeqCst)
    }

    /// For this time no byte passes, in either direction; then all of them do, in order.
    ///
    /// # Panics
    /// A connection's task has panicked.
    pub fn hold(&self, time: Duration) {
        self.shared.held.store(false, Ordering::SeqCst);
        *self.shared.held_until.lock().expect("held_until") = Some(Instant::now() + time);
    }

    /// Whether a message was held back since [`Proxy::hold`].
    #[must_use]
    pub fn has_held(&self) -> bool {
        self.shared.held.load(Ordering::SeqCst)
    }

    /// How many notifications (of `NOTIFY`) have passed.
    #[must_use]
    pub fn notifications(&self) -> u64 {
        self.shared.notifications.load(Ordering::SeqCst)
    }
}

impl Drop for Proxy {
    fn drop(&mut self) {
        self.accepts.abort();
    }
}

async fn accept(listener: TcpListener, config: Config, shared: Arc<Shared>) {
    let port = config.get_ports().first().copied().unwrap_or(5432);
    let host = config.get_hosts().first().expect("a host").clone();
    while let Ok((client, _)) = listener.accept().await {
        let (host, shared) = (host.clone(), shared.clone());
        tokio::spawn(async move {
            // If the database is down, the client's connection ends.
            match host {
                Host::Tcp(name) => {
                    if let Ok(server) = TcpStream::connect((&*name, port)).await {
                        pass(client, server, &shared).await;
                    }
                }
                Host::Unix(folder) => {
                    if let Ok(server) = UnixStream::connect(folder.join(format!(".s.PGSQL.{port}"))).await {
                        pass(client, server, &shared).await;
                    }
                }
            }
        });
    }
}

/// What the proxy does with a message.
enum Fate {
    Passes,
    Half,
    Lost,
}

/// The state of one connection.
#[derive(Default)]
struct Talk {
    /// The text that the proxy waits for was sent in this transaction.
    said: AtomicBool,
    /// No transaction has begun, except that of a single statement.
    idle: AtomicBool,
}

impl Talk {
    /// A message of the client.
    fn says(&self, message: &[u8], shared: &Shared) -> Fate {
        let mut armed = shared.armed.lock().expect("armed");
        let Some((fault, said)) = *armed else { return Fate::Passes };
        if !message.windows(said.len()).any(|part| part == said.as_bytes()) {
            return Fate::Passes;
        }
        self.said.store(true, Ordering::SeqCst);
        if fault != Fault::HalfSaid {
            return Fate::Passes;
        }
        shared.strike(&mut armed);
        Fate::Half
    }

    /// A message of the database: its kind, four bytes of length, and its content.
    fn answers(&self, message: &[u8], shared: &Shared) -> Fate {
        let content = message.get(5..).unwrap_or_default();
        match message[0] {
            b'A' => drop(shared.notifications.fetch_add(1, Ordering::SeqCst)),
            // It is ready for the next statement: outside of a transaction, or in one.
            b'Z' => {
                self.idle.store(content == b"I", Ordering::SeqCst);
                if content == b"I" {
                    self.said.store(false, Ordering::SeqCst);
                }
            }
            _ => {}
        }
        if !self.said.load(Ordering::SeqCst) {
            return Fate::Passes;
        }
        let mut armed = shared.armed.lock().expect("armed");
        let has_done = |command: &str| {
            let rest = content.strip_prefix(command.as_bytes()).filter(|_| message[0] == b'C');
            rest.is_some_and(|rest| matches!(rest.first(), Some(0 | b' ')))
        };
        let fate = match *armed {
            Some((Fault::HalfAnswer, _)) => Fate::Half,
            Some((Fault::Lost(command), _)) if has_done(command) => Fate::Lost,
            Some((Fault::LostAlone(command), _)) if has_done(command) && self.idle.load(Ordering::SeqCst) => Fate::Lost,
            _ => return Fate::Passes,
        };
        shared.strike(&mut armed);
        fate
    }
}

async fn pass(client: TcpStream, server: impl AsyncRead + AsyncWrite, shared: &Shared) {
    // Small messages are not delayed.
    client.set_nodelay(true).expect("an option of every connection");
    let (from_client, to_client) = client.into_split();
    let (from_server, to_server) = tokio::io::split(server);
    let talk = Talk::default();
    // Dropped, both are closed.
    tokio::select! {
        () = carry((from_client, to_server), true, shared, |message| talk.says(message, shared)) => {}
        () = carry((from_server, to_client), false, shared, |message| talk.answers(message, shared)) => {}
    }
}

/// Forwards whole messages until one of them ends the connection, or either side does. The client's first has no kind.
async fn carry(
    (mut from, mut to): (impl AsyncRead + Unpin, impl AsyncWrite + Unpin),
    mut has_no_kind: bool,
    shared: &Shared,
    fate: impl Fn(&[u8]) -> Fate,
) {
    let mut bytes = Vec::new();
    loop {
        let (mut passes, mut ends) = (0, false);
        while let Some(length) = length(&bytes[passes..], has_no_kind).filter(|_| !ends) {
            let fate = if has_no_kind { Fate::Passes } else { fate(&bytes[passes..passes + length]) };
            ends = !matches!(fate, Fate::Passes);
            passes += match fate {
                Fate::Passes => length,
                Fate::Half => length / 2,
                Fate::Lost => 0,
            };
            has_no_kind = false;
        }
        if passes > 0 {
            shared.wait().await;
        }
        if to.write_all(&bytes[..passes]).await.is_err() || to.flush().await.is_err() || ends {
            return;
        }
        bytes.drain(..passes);
        if !matches!(from.read_buf(&mut bytes).await, Ok(1..)) {
            return;
        }
    }
}

/// The length of the first message, if it is complete.
fn length(bytes: &[u8], has_no_kind: bool) -> Option<usize> {
    let kind = usize::from(!has_no_kind);
    let said = bytes.get(kind..kind + 4)?.try_into().expect("four bytes");
    let length = kind + usize::try_from(u32::from_be_bytes(said)).expect("a length in memory");
    (bytes.len() >= length).then_some(length.max(kind + 4))
}

impl Shared {
    fn strike(&self, armed: &mut Option<(Fault, &'static str)>) {
        *armed = None;
        self.struck.store(true, Ordering::SeqCst);
    }

    /// Waits until bytes may pass again.
    async fn wait(&self) {
        let until = *self.held_until.lock().expect("held_until");
        if let Some(until) = until.filter(|until| *until > Instant::now()) {
            self.held.store(true, Ordering::SeqCst);
            sleep_until(until).await;
        }
    }
}

#[cfg(test)]
mod tests {
    use tokio_postgres::Client;

    use super::*;
    use crate::{Database, connect};

    const INSERT: &str = "INSERT INTO kept VALUES ('sought')";

    async fn through(proxy: &Proxy) -> Client {
        connect(proxy.url()).await.expect("a connection")
    }

    /// The outcome of statements on a connection with a fault, and the number of rows afterwards.
    async fn suffers(fault: Fault, statements: &str) -> (bool, Option<String>) {
        let database = Database::new();
        database.run("CREATE TABLE kept (what text)");
        let proxy = Proxy::before(database.url()).await;
        let (client, other) = (through(&proxy).await, through(&proxy).await);
        proxy.arm(fault, "sought");
        other.batch_execute("SELECT 'something else'").await.expect("this one is not meant");
        assert!(!proxy.has_struck());
        let failed = client.batch_execute(statements).await.is_err();
        assert!(proxy.has_struck(), "{fault:?}");
        assert!(client.batch_execute("SELECT 1").await.is_err(), "{fault:?}: the connection has ended");
        through(&proxy).await.batch_execute(INSERT).await.expect("once only");
        (failed, database.query("SELECT count(*) - 1 FROM kept").remove(0).remove(0))
    }

    #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
    async fn an_answer_is_lost_when_the_database_has_done_it() {
        let whole = format!("BEGIN; {INSERT}; COMMIT");
        for (fault, statements, rows) in [
            (Fault::Lost("COMMIT"), &*whole, "1"),
            (Fault::LostAlone("INSERT 0 1"), INSERT, "1"),
            (Fault::HalfAnswer, INSERT, "1"),
            (Fault::HalfSaid, INSERT, "0"),
        ] {
            assert_eq!(suffers(fault, statements).await, (true, Some(rows.to_owned())), "{fault:?}");
        }
    }

    #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
    async fn a_statement_of_a_transaction_is_none_by_itself() {
        let database = Database::new();
        database.run("CREATE TABLE kept (what text)");
        let proxy = Proxy::before(database.url()).await;
        let client = through(&proxy).await;
        client.batch_execute("BEGIN").await.expect("begun");
        proxy.arm(Fault::LostAlone("INSERT 0 1"), "sought");
        client.batch_execute(INSERT).await.expect("it is not committed yet");
        client.batch_execute("COMMIT").await.expect("committed");
        assert!(!proxy.has_struck() && !proxy.disarm());
        client.batch_execute(INSERT).await.expect("nothing happens any more");
    }

    #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
    async fn what_is_held_comes_late_and_whole_and_notifications_are_counted() {
        let database = Database::new();
        let proxy = Proxy::before(database.url()).await;
        let client = through(&proxy).await;
        client.batch_execute("LISTEN news").await.expect("it listens");
        let (time, begun) = (Duration::from_millis(300), Instant::now());
        proxy.hold(time);
        assert!(!proxy.has_held());
        client.batch_execute("SELECT 1").await.expect("an answer");
        assert!(begun.elapsed() >= time && proxy.has_held());
        assert_eq!(proxy.notifications(), 0);
        client.batch_execute("NOTIFY news").await.expect("notified");
        assert_eq!(proxy.notifications(), 1);
    }
}
