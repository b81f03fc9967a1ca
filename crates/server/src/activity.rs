//! The runtime's counters, and the pending interruptions of its store, as metrics.

use std::{
    fmt,
    sync::{
        Mutex as Shared, PoisonError,
        atomic::{AtomicU64, Ordering},
    },
    time::{Duration, Instant},
};

use countersign_core::{journal::record::Millis, wire::event::Resolution};
use countersign_runtime::run::{Durations, Runtime};
use countersign_store::PendingCount;
use prometheus_client::{
    collector::Collector,
    encoding::{DescriptorEncoder, EncodeMetric as _, NoLabelSet},
    metrics::{MetricType, counter::ConstCounter, gauge::ConstGauge},
    registry::Unit,
};
use tokio::{sync::Mutex, time::timeout};

/// How long a count of pending interruptions is reused: counting reads each.
const FRESH: Duration = Duration::from_secs(10);
/// Time limit of a count.
const PATIENCE: Duration = Duration::from_secs(2);

/// The metrics of a runtime.
pub(crate) struct Watched {
    runtime: Runtime,
    /// When it was counted last.
    counted: Mutex<Option<Instant>>,
    pending: Shared<Option<PendingCount>>,
    failed: AtomicU64,
}

impl fmt::Debug for Watched {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Watched").finish_non_exhaustive()
    }
}

impl Watched {
    pub(crate) fn new(runtime: Runtime) -> Watched {
        Watched { runtime, counted: Mutex::default(), pending: Shared::default(), failed: AtomicU64::new(0) }
    }

    /// Counts the pending interruptions, unless that was done a moment ago. Concurrent requests share one count.
    pub(crate) async fn count(&self) {
        let mut counted = self.counted.lock().await;
        if counted.is_some_and(|at| at.elapsed() < FRESH) {
            return;
        }
        // An unknown number is not shown: an old one would look current.
        let found = match timeout(PATIENCE, self.runtime.pending()).await {
            Ok(Ok(found)) => found,
            Ok(Err(_)) | Err(_) => {
                self.failed.fetch_add(1, Ordering::Relaxed);
                None
            }
        };
        *self.pending.lock().unwrap_or_else(PoisonError::into_inner) = found;
        *counted = Some(Instant::now());
    }
}

/// The time from one moment to another, in seconds.
fn age(then: Millis, now: Millis) -> f64 {
    Duration::from_millis(u64::try_from(now.saturating_sub(then)).unwrap_or_default()).as_secs_f64()
}

impl Collector for Watched {
    fn encode(&self, mut encoder: DescriptorEncoder<'_>) -> Result<(), fmt::Error> {
        let pending = *self.pending.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(PendingCount { count, oldest, .. }) = pending {
            gauge(&mut encoder, "approvals_pending", "Requests that are pending, on all nodes", None, count as f64)?;
            let age = oldest.map(|oldest| age(oldest, self.runtime.now())).unwrap_or_default();
            let help = "How long the oldest pending request has been pending";
            gauge(&mut encoder, "approvals_oldest_pending_age", help, Some(&Unit::Seconds), age)?;
        }
        let failed = self.failed.load(Ordering::Relaxed);
        counter(&mut encoder, "approvals_pending_failures", "Counts of pending requests that failed", failed)?;
        let activity = self.runtime.activity();
        let help = "Requests that ended, by how";
        let mut ended = encoder.encode_descriptor("approvals_resolved", help, None, MetricType::Counter)?;
        for (name, resolution) in
            [("decided", Resolution::Decided), ("timeout", Resolution::Timeout), ("cancelled", Resolution::Cancelled)]
        {
            let labels = [("resolution", name)];
            ConstCounter::new(activity.resolved(resolution)).encode(ended.encode_family(&labels)?)?;
        }
        let help = "Decisions that were stored, one for each action, and answers to questions";
        let mut decided = encoder.encode_descriptor("decisions", help, None, MetricType::Counter)?;
        for (kind, count) in activity.decided() {
            ConstCounter::new(count).encode(decided.encode_family(&[("type", kind)])?)?;
        }
        let help = "Calls and steps whose outcome a person was asked about";
        counter(&mut encoder, "calls_in_doubt", help, activity.in_doubt())?;
        let help = "Turns that failed, by the code of their error";
        let mut failed = encoder.encode_descriptor("turns_failed", help, None, MetricType::Counter)?;
        let mut counts = activity.failed();
        // Exported before the first one, so that an alert finds it.
        counts.entry("model_error".to_owned()).or_default();
        for (code, count) in counts {
            ConstCounter::new(count).encode(failed.encode_family(&[("code", &*code)])?)?;
        }
        let help = "Sessions of nodes that had left or died which this one took over";
        counter(&mut encoder, "sessions_taken_over", help, activity.taken_over())?;
        let help = "How long requests had been pending when they were decided";
        histogram(&mut encoder, "approvals_wait", help, &activity.waited)?;
        histogram(&mut encoder, "deadline_lateness", "How late time-outs were stored", &activity.late)?;
        histogram(&mut encoder, "commit_duration", "How long the store took for an append", &activity.committed)
    }
}

fn gauge(
    encoder: &mut DescriptorEncoder<'_>,
    name: &str,
    help: &str,
    unit: Option<&Unit>,
    value: f64,
) -> Result<(), fmt::Error> {
    ConstGauge::new(value).encode(encoder.encode_descriptor(name, help, unit, MetricType::Gauge)?)
}

fn counter(encoder: &mut DescriptorEncoder<'_>, name: &str, help: &str, value: u64) -> Result<(), fmt::Error> {
    ConstCounter::new(value).encode(encoder.encode_descriptor(name, help, None, MetricType::Counter)?)
}

fn histogram(
    encoder: &mut DescriptorEncoder<'_>,
    name: &str,
    help: &str,
    durations: &Durations,
) -> Result<(), fmt::Error> {
    let buckets = durations.buckets();
    let count = buckets.iter().map(|(_, count)| count).sum();
    let mut metric = encoder.encode_descriptor(name, help, Some(&Unit::Seconds), MetricType::Histogram)?;
    metric.encode_histogram::<NoLabelSet>(durations.sum(), count, &buckets, None)
}
