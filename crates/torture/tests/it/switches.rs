//! Runs with a switch throughout.

use countersign_torture::{
    nodes,
    report::{OUTSIDE, Report},
    torture,
    world::{Base, Switch},
};

use crate::{different, place, seed};

/// Whether all of these happened.
fn happened(report: &Report, faults: impl IntoIterator<Item = &'static str>) {
    let faults: Vec<&str> = faults.into_iter().collect();
    assert_eq!(report.missing(&faults, 1), Vec::<String>::new(), "{report}");
}

fn labels(base: &Base) -> impl Iterator<Item = &'static str> {
    base.switches.iter().map(|switch| switch.label())
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn r1_r3_r4_r7_sessions_that_leave_memory_whenever_they_pause_lose_nothing_in_kills() {
    let _place = place();
    let base = different(&[Switch::Evicted]);
    let report = torture::random(&base, seed(), 10, 30, false).await.unwrap_or_else(|what| panic!("{what}"));
    happened(&report, labels(&base).chain([OUTSIDE]));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn r7_people_who_connect_anew_after_every_3_events_see_in_all_what_a_replay_shows() {
    let _place = place();
    let base = different(&[Switch::Reconnecting]);
    let report = torture::random(&base, seed(), 10, 20, false).await.unwrap_or_else(|what| panic!("{what}"));
    happened(&report, labels(&base).chain([OUTSIDE]));
    assert_eq!(report.replays, 10, "{report}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn r6_deadlines_fire_from_the_store_though_whoever_asked_fires_none() {
    let _place = place();
    let base = different(&[Switch::Timerless]);
    let report = torture::random(&base, seed(), 5, 10, false).await.unwrap_or_else(|what| panic!("{what}"));
    happened(&report, labels(&base).chain([OUTSIDE]));
    assert!(!report.counts.late.is_empty(), "{report}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn r2_r4_r5_r6_r7_each_request_at_another_node_and_none_is_notified_or_has_paused_sessions_or_timers_in_memory() {
    let _place = place();
    let base = different(&[Switch::Evicted, Switch::Polling, Switch::Hopping, Switch::Timerless]);
    let report = nodes::random(&base, seed(), 3, 9, 12).await.unwrap_or_else(|what| panic!("{what}"));
    happened(&report, labels(&base).chain([OUTSIDE, nodes::LOST_COMMIT, nodes::HELD]));
    assert_eq!(report.notifications, 0, "{report}");
}
