//! The accept loop, and HTTP on its connections, with time limits.

use std::{convert::Infallible, io, pin::pin, sync::Arc, time::Duration};

use axum::{Router, extract::Request, response::Response};
use hyper::{
    body::Incoming,
    server::conn::http1,
    service::{Service as _, service_fn},
};
use hyper_util::{
    rt::{TokioIo, TokioTimer},
    service::TowerToHyperService,
};
use tokio::{
    net::{TcpListener, TcpStream},
    sync::watch,
};

use crate::{
    listener::Connection,
    options::{ConnectionLimits, HEAD_BYTES},
    places::{Place, Places},
};

/// How long to stop accepting after a failure: with and without a connection closed to make room.
const NO_ROOM: (Duration, Duration) = (Duration::from_millis(20), Duration::from_secs(1));

/// Serves until `stop` resolves, and then until all connections are closed, each after its current request.
pub(crate) async fn serve(
    listener: TcpListener,
    router: Router,
    limits: ConnectionLimits,
    stop: impl Future<Output = ()>,
) {
    let places = Arc::new(Places::new(limits));
    let router = TowerToHyperService::new(router);
    // Each connection holds a receiver while it is open.
    let stopping = watch::Sender::new(false);
    let mut stop = pin!(stop);
    loop {
        let accepted = tokio::select! {
            biased;
            () = &mut stop => break,
            accepted = listener.accept() => accepted,
        };
        match accepted {
            Ok((stream, address)) => match places.take(address.ip()) {
                Some(place) => {
                    tokio::spawn(connection(stream, place, router.clone(), limits, stopping.subscribe()));
                }
                None => drop(stream),
            },
            Err(error) if is_the_peers(&error) => {}
            Err(error) => {
                // For example, the process is out of file descriptors.
                let (wait, closed) = match places.close_quietest() {
                    true => (NO_ROOM.0, true),
                    false => (NO_ROOM.1, false),
                };
                tracing::error!(%error, closed, "a connection could not be accepted");
                tokio::time::sleep(wait).await;
            }
        }
    }
    drop(listener);
    stopping.send_replace(true);
    stopping.closed().await;
}

/// Serves one connection until it ends. A WebSocket is its handler's after the upgrade.
async fn connection(
    stream: TcpStream,
    place: Place,
    router: TowerToHyperService<Router>,
    limits: ConnectionLimits,
    mut stopping: watch::Receiver<bool>,
) {
    let visitor = place.visitor();
    let service = service_fn(move |mut request: Request<Incoming>| {
        visitor.begins();
        request.extensions_mut().insert(visitor.clone());
        let answer = router.call(request);
        async move { Ok::<Response, Infallible>(answer.await.unwrap_or_else(|never| match never {})) }
    });
    let io = TokioIo::new(Connection::new(stream, place, limits));
    let mut http = http1::Builder::new();
    // Runs from an answer until the head of the next request has arrived.
    let idle_time = limits.idle_timeout;
    http.timer(TokioTimer::new()).header_read_timeout(idle_time).max_buf_size(HEAD_BYTES);
    let mut served = pin!(http.serve_connection(io, service).with_upgrades());
    let stop = async {
        // The accept loop holds the sender: this cannot fail.
        let _ = stopping.wait_for(|stopping| *stopping).await;
    };
    let mut ended = tokio::select! {
        ended = served.as_mut() => Some(ended),
        () = stop => None,
    };
    if ended.is_none() {
        served.as_mut().graceful_shutdown();
        ended = Some(served.await);
    }
    if let Some(Err(error)) = ended {
        tracing::debug!(%error, "a connection ended");
    }
}

/// Errors of a connection that ended before it was accepted.
fn is_the_peers(error: &io::Error) -> bool {
    use io::ErrorKind::{ConnectionAborted, ConnectionRefused, ConnectionReset};
    matches!(error.kind(), ConnectionRefused | ConnectionAborted | ConnectionReset)
}
