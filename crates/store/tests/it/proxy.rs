//! A proxy between a store and its database that cuts a connection at a chosen answer.

use std::sync::{
    Arc, Mutex,
    atomic::{AtomicBool, Ordering},
};

use tokio::{
    io::{AsyncRead, AsyncReadExt as _, AsyncWrite, AsyncWriteExt as _},
    net::{TcpListener, TcpStream, UnixStream},
};
use tokio_postgres::config::{Config, Host};

/// It listens on the loopback until the runtime ends.
pub(crate) struct Proxy {
    /// The database's URL, through it.
    pub(crate) url: String,
    armed: Armed,
}

/// What is said on the connection that is to be cut, if one is.
type Armed = Arc<Mutex<Option<&'static str>>>;

impl Proxy {
    /// In front of a database. Once armed it cuts the next connection on which something was said and the database says that it
    /// has done `command`: nobody hears that.
    pub(crate) async fn before(url: &str, command: &'static str) -> Proxy {
        let config: Config = url.parse().expect("a URL");
        let listener = TcpListener::bind("127.0.0.1:0").await.expect("a port");
        let port = listener.local_addr().expect("an address").port();
        let user = config.get_user().unwrap_or("postgres");
        let password = config.get_password().map(|p| format!(":{}", String::from_utf8_lossy(p))).unwrap_or_default();
        let through = format!("postgres://{user}{password}@127.0.0.1:{port}/{}", config.get_dbname().expect("a name"));
        let armed = Armed::default();
        let cuts = armed.clone();
        tokio::spawn(async move {
            while let Ok((client, _)) = listener.accept().await {
                let (config, cuts) = (config.clone(), cuts.clone());
                tokio::spawn(async move {
                    let port = config.get_ports().first().copied().unwrap_or(5432);
                    match config.get_hosts().first().expect("a host") {
                        Host::Tcp(host) => {
                            let server = TcpStream::connect((&**host, port)).await.expect("the server");
                            pass(client, server, command, &cuts).await;
                        }
                        Host::Unix(folder) => {
                            let socket = folder.join(format!(".s.PGSQL.{port}"));
                            pass(client, UnixStream::connect(socket).await.expect("the server"), command, &cuts).await;
                        }
                    }
                });
            }
        });
        Proxy { url: through, armed }
    }

    /// Cuts a connection on which this text is sent from now on: a store has others, on which it looks for what there is to do.
    pub(crate) fn arm(&self, said: &'static str) {
        *self.armed.lock().expect("armed") = Some(said);
    }

    /// Whether it has cut a connection since it was armed.
    pub(crate) fn has_cut(&self) -> bool {
        self.armed.lock().expect("armed").is_none()
    }
}

/// Whether a text is among bytes.
fn has(bytes: &[u8], text: &str) -> bool {
    bytes.windows(text.len()).any(|part| part == text.as_bytes())
}

async fn pass(client: TcpStream, server: impl AsyncRead + AsyncWrite, command: &str, armed: &Mutex<Option<&str>>) {
    let done = format!("{command}\0");
    let (mut from_client, mut to_client) = client.into_split();
    let (mut from_server, mut to_server) = tokio::io::split(server);
    let was_said = AtomicBool::new(false);
    let there = async {
        let mut bytes = vec![0; 64 * 1024];
        while let Ok(read @ 1..) = from_client.read(&mut bytes).await {
            if armed.lock().expect("armed").is_some_and(|said| has(&bytes[..read], said)) {
                was_said.store(true, Ordering::SeqCst);
            }
            if to_server.write_all(&bytes[..read]).await.is_err() {
                break;
            }
        }
    };
    let back = async {
        let mut bytes = vec![0; 64 * 1024];
        while let Ok(read @ 1..) = from_server.read(&mut bytes).await {
            if was_said.load(Ordering::SeqCst)
                && has(&bytes[..read], &done)
                && armed.lock().expect("armed").take().is_some()
            {
                break;
            }
            if to_client.write_all(&bytes[..read]).await.is_err() {
                break;
            }
        }
    };
    // Dropped, both are closed.
    tokio::select! {
        () = there => {}
        () = back => {}
    }
}
