//! State shared by all handlers.

use std::sync::Arc;

use countersign_runtime::run::Runtime;
use tokio::{sync::watch, task::AbortHandle};

use crate::{metrics::Metrics, options::Options, readiness::Readiness, webhooks::Webhooks};

/// State shared by all handlers. Cheap to clone.
#[derive(Clone)]
pub(crate) struct App {
    pub(crate) runtime: Runtime,
    pub(crate) options: Arc<Options>,
    pub(crate) metrics: Arc<Metrics>,
    pub(crate) readiness: Arc<Readiness>,
    /// `None`: there are no webhooks.
    pub(crate) webhooks: Option<Webhooks>,
    /// True once connections must close.
    pub(crate) closing: watch::Receiver<bool>,
    /// Tasks that run as long as a router without a server.
    pub(crate) _alongside: Arc<Alongside>,
}

/// Tasks that end when nobody holds them any more.
#[derive(Default)]
pub(crate) struct Alongside(pub(crate) Vec<AbortHandle>);

impl Drop for Alongside {
    fn drop(&mut self) {
        self.0.iter().for_each(AbortHandle::abort);
    }
}

impl App {
    /// Resolves once connections must close.
    pub(crate) fn closed(&self) -> impl Future<Output = ()> + Send + 'static {
        let (mut closing, runtime) = (self.closing.clone(), self.runtime.clone());
        async move {
            if closing.wait_for(|closing| *closing).await.is_err() {
                // A router without a server closes them after its runtime.
                runtime.closed().await;
            }
        }
    }
}
