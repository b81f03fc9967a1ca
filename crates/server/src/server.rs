//! The server: its routes, and its life until it shuts down.

use std::{sync::Arc, time::Duration};

use axum::{
    Router,
    body::{Body, to_bytes},
    http::{Request, header::CONTENT_TYPE},
    middleware::{from_fn, from_fn_with_state},
};
use countersign_runtime::run::Runtime;
use hyper::{server::conn::http1, service::Service as _};
use hyper_util::{
    rt::{TokioIo, TokioTimer},
    service::TowerToHyperService,
};
use tokio::{
    io::DuplexStream,
    net::TcpListener,
    sync::{oneshot, watch},
    task::JoinHandle,
};

use crate::{
    app::{Alongside, App},
    console, http,
    metrics::{self, Metrics},
    options::Options,
    origin, serving,
    webhooks::Webhooks,
};

/// How long running tools may take to finish when the server stops.
const GRACE: Duration = Duration::from_secs(10);
/// How long connections may take to close after that.
const CLOSING: Duration = Duration::from_secs(3);
/// The unread bytes that a connection within this process buffers at most.
const PIPE_BYTES: usize = 64 * 1024;

/// A server without a network, for its own process only. The answers are those of the HTTP interface.
pub struct InProcess {
    router: TowerToHyperService<Router>,
}

impl InProcess {
    /// The status and the text of the answer to a request for this URL (only its path and query count) with this JSON
    /// body, if any.
    ///
    /// # Errors
    /// The request is invalid, or its answer cannot be read to its end.
    pub async fn answer(&self, method: &str, url: &str, body: Option<String>) -> Result<(u16, String), String> {
        let request = Request::builder().method(method).uri(url).header(CONTENT_TYPE, "application/json");
        let request = request.body(Body::from(body.unwrap_or_default())).map_err(|error| error.to_string())?;
        let Ok(answer) = self.router.call(request).await;
        let status = answer.status().as_u16();
        let bytes = to_bytes(answer.into_body(), usize::MAX).await.map_err(|error| error.to_string())?;
        Ok((status, String::from_utf8(bytes.into()).map_err(|error| error.to_string())?))
    }

    /// A connection to it, such as for a WebSocket. Call it in a tokio runtime.
    #[must_use]
    pub fn connect(&self) -> DuplexStream {
        let (here, there) = tokio::io::duplex(PIPE_BYTES);
        let router = self.router.clone();
        tokio::spawn(async move {
            let served = http1::Builder::new().timer(TokioTimer::new()).serve_connection(TokioIo::new(there), router);
            if let Err(error) = served.with_upgrades().await {
                tracing::debug!(%error, "a connection in this process ended");
            }
        });
        here
    }
}

/// A server over a runtime.
pub struct Server {
    runtime: Runtime,
    options: Options,
    webhooks: Option<Webhooks>,
}

impl Server {
    /// A server for `runtime`, which the caller must have [started](Runtime::start).
    #[must_use]
    pub fn new(runtime: Runtime, options: Options) -> Server {
        Server { runtime, options, webhooks: None }
    }

    /// Notifies by these webhooks, as long as the server [serves](Server::serve) or its [router](Server::router) exists.
    #[must_use]
    pub fn webhooks(self, webhooks: Webhooks) -> Server {
        Server { webhooks: Some(webhooks), ..self }
    }

    /// The routes, to mount in another application under a path of their own. They answer whatever is below it, so nest
    /// them as a service, which leaves the application its own fallback and routes: `merge` panics if both have one. The
    /// console is at that path. It is axum's type, of the version that this crate depends on, which a minor version may change.
    ///
    /// Its webhooks send, and the keys of JWTs are kept fresh, until the last clone of the router is dropped. The
    /// application shuts the runtime down, which ends event streams and WebSockets, and closes other connections itself;
    /// body and frame limits are enforced, `Host` is only checked if the options say so. Without [`Options::auth`] everyone
    /// who reaches the application may decide. Call it in a tokio runtime.
    ///
    /// ```
    /// use std::{sync::Arc, time::Duration};
    ///
    /// use axum::{Router, routing::get};
    /// use countersign::{Agent, Message, run::Runtime, store::memory::MemoryStore};
    /// use countersign_server::{Options, Server};
    ///
    /// # tokio::runtime::Builder::new_current_thread().enable_all().build()?.block_on(async {
    /// let agent = Agent::new("helper", |_: Vec<Message>| async { "Hello." });
    /// let runtime = Runtime::builder(Arc::new(MemoryStore::new())).agent(agent).build()?;
    /// // Without it nothing is ready: no deadline would expire, and nothing that a crash interrupted would resume.
    /// runtime.start().await?;
    /// let app = Router::new()
    ///     .route("/healthz", get(|| async { "my own" }))
    ///     .nest_service("/agents", Server::new(runtime.clone(), Options::default()).router())
    ///     .fallback(|| async { "my own too" });
    /// let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await?;
    /// # let signal = std::future::ready(());
    /// let stop = async move {
    ///     signal.await;
    ///     // First, since a listener waits for those who follow a session.
    ///     runtime.shutdown(Duration::from_secs(10)).await;
    /// };
    /// axum::serve(listener, app).with_graceful_shutdown(stop).await?;
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// # })?;
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn router(self) -> Router {
        let (silence, silent) = watch::channel(false);
        let fresh = tokio::spawn(self.options.auth.clone().keep_fresh());
        let webhooks = self.webhooks.clone();
        self.app(watch::channel(false).1, |metrics| {
            let notifying = webhooks.map(|webhooks| {
                tokio::spawn(async move {
                    // It ends with the task.
                    let _silence = silence;
                    webhooks.run(metrics, silent).await;
                })
            });
            Alongside([fresh].iter().chain(&notifying).map(JoinHandle::abort_handle).collect())
        })
    }

    /// Answers in this process, over no network, and does nothing else.
    #[doc(hidden)]
    #[must_use]
    pub fn in_process(self) -> InProcess {
        let router = self.app(watch::channel(false).1, |_| Alongside::default());
        InProcess { router: TowerToHyperService::new(router) }
    }

    /// Serves until `shutdown` resolves; then running tools get ten seconds, in which it is not ready and starts no new
    /// effects, connections are closed, and it returns.
    ///
    /// # Errors
    /// The listener has no address.
    pub async fn serve(
        mut self,
        listener: TcpListener,
        shutdown: impl Future<Output = ()> + Send + 'static,
    ) -> std::io::Result<()> {
        self.options.check_host |= listener.local_addr()?.ip().is_loopback();
        let connections = self.options.connections;
        let listening = |router, stopped: oneshot::Receiver<()>| {
            serving::serve(listener, router, connections, async {
                // An error means that the sender is gone, which is a reason to stop too.
                let _ = stopped.await;
            })
        };
        self.live(listening, |_| shutdown).await;
        Ok(())
    }

    /// Serves this process alone, over no network and until `used` resolves; then it shuts down as [`Server::serve`] does.
    #[doc(hidden)]
    pub async fn serve_in_process<U: Future>(self, used: impl FnOnce(InProcess) -> U) -> U::Output {
        let used = |router| used(InProcess { router: TowerToHyperService::new(router) });
        self.live(|_, _| std::future::ready(()), used).await
    }

    /// The life of a server: `connections` are served with its routes until they are signalled to stop, some time after
    /// `until` has resolved.
    async fn live<C, U>(
        self,
        connections: impl FnOnce(Router, oneshot::Receiver<()>) -> C,
        until: impl FnOnce(Router) -> U,
    ) -> U::Output
    where
        C: Future<Output = ()> + Send + 'static,
        U: Future,
    {
        let (runtime, auth) = (self.runtime.clone(), self.options.auth.clone());
        let (closing, receiver) = watch::channel(false);
        let (stop, stopped) = oneshot::channel();
        let (silence, silent) = watch::channel(false);
        let (webhooks, mut notifying) = (self.webhooks.clone(), None);
        let router = self.app(receiver, |metrics| {
            notifying = webhooks.map(|webhooks| tokio::spawn(webhooks.run(metrics, silent)));
            Alongside::default()
        });
        let serving = tokio::spawn(connections(router.clone(), stopped));
        let fresh = tokio::spawn(auth.keep_fresh());
        let ended = until(router).await;
        fresh.abort();
        // It still answers meanwhile, and reports that it is not ready.
        runtime.shutdown(GRACE).await;
        let _ = stop.send(());
        silence.send_replace(true);
        if let Some(notifying) = notifying {
            // Messages being sent are abandoned, and sent again after the next start.
            let _ = notifying.await;
        }
        closing.send_replace(true);
        // WebSockets have left the listener, but each holds a receiver until it is closed.
        let closed = async {
            let _ = serving.await;
            closing.closed().await;
        };
        if tokio::time::timeout(CLOSING, closed).await.is_err() {
            tracing::info!("some connections did not close in time");
        }
        ended
    }

    /// Its routes. `alongside` starts the tasks that run as long as they exist.
    fn app(self, closing: watch::Receiver<bool>, alongside: impl FnOnce(Arc<Metrics>) -> Alongside) -> Router {
        let metrics = Arc::new(Metrics::new(self.runtime.clone()));
        let alongside = alongside(metrics.clone());
        let app = App {
            runtime: self.runtime,
            options: Arc::new(self.options),
            metrics,
            readiness: Arc::default(),
            webhooks: self.webhooks,
            closing,
            _alongside: Arc::new(alongside),
        };
        let mut router = http::routes(&app);
        if app.options.console {
            router = router.merge(console::routes());
        }
        router
            .fallback(http::not_found)
            .method_not_allowed_fallback(http::method_not_allowed)
            .layer(from_fn_with_state(app.clone(), origin::guard))
            .layer(from_fn(http::security_headers))
            .layer(from_fn_with_state(app.metrics.clone(), metrics::observe))
            .with_state(app)
    }
}
