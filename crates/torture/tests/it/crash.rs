//! Servers that die at every failpoint, at any moment, and right after an acknowledgement.

use countersign_runtime::run::failpoint::POINTS;
use countersign_torture::{
    report::{Kind, Report},
    torture::{self, RANDOM},
};
use tokio::task::JoinSet;

use crate::{base, place, seed};

/// Worlds that are played at the same time. They wait more than they work.
const LANES: u64 = 4;

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn r1_r2_r3_r4_r7_a_kill_at_every_hit_of_every_failpoint_breaks_nothing() {
    let _place = place();
    let mut report = Report::default();
    for point in POINTS {
        let mut lanes = JoinSet::new();
        for lane in 1..=LANES {
            lanes.spawn(torture::enumerate(base(), point, lane, LANES, seed()));
        }
        while let Some(ended) = lanes.join_next().await {
            report.add(&ended.expect("a lane that ends").unwrap_or_else(|what| panic!("{what}")));
        }
    }
    println!("{report}");
    assert_eq!(report.untried(Kind::Enumerated, 1, &POINTS), Vec::<String>::new(), "{report}");
    assert!(report.all_faults() >= 100, "{report}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn r1_r2_r3_r4_r7_kills_and_power_cuts_at_any_moment_under_load_break_nothing() {
    let _place = place();
    let mut report = Report::default();
    // Faults come by the clock: on a busy machine little is done between them, and then there are more of both.
    for more in 0..3 {
        let round = torture::random(&base(), seed() + 10 * more, 16, 128, false).await;
        report.add(&round.unwrap_or_else(|what| panic!("{what}")));
        if report.untried(Kind::One, 1, &RANDOM).is_empty() {
            break;
        }
    }
    println!("{report}");
    assert_eq!(report.untried(Kind::One, 1, &RANDOM), Vec::<String>::new(), "{report}");
    assert!(report.all_faults() >= 128, "{report}");
    assert!(report.hung_up > 0, "{report}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn r3_acknowledged_requests_survive_a_kill_or_a_power_cut_at_that_very_moment() {
    let _place = place();
    let report = torture::random(&base(), seed() + 1, 4, 100, true).await.unwrap_or_else(|what| panic!("{what}"));
    println!("{report}");
    assert_eq!(report.all_faults(), 100, "{report}");
    // Each server died right after it had acknowledged a request, whatever kind it was.
    let counts = &report.counts;
    let acked = counts.messages_acked + counts.decisions_acked + counts.answers_acked + counts.cancels_acked;
    assert!(acked >= 100, "{report}");
}
