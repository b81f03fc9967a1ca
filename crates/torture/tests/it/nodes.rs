//! Three servers on one database.

use countersign_torture::{
    nodes::{self, CUT_OFF, STOPPED},
    report::OUTSIDE,
};

use crate::{seed, tool};

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn r1_r2_r3_r4_r5_r7_nodes_that_are_killed_stopped_and_cut_off_break_nothing() {
    let report = nodes::random(&tool(), seed(), 3, 12, 15).await.unwrap_or_else(|what| panic!("{what}"));
    println!("{report}");
    let counts = &report.counts;
    let tried = [counts.gated_effects, counts.free_effects, counts.edited_effects, counts.in_doubt, counts.sent_again];
    assert!(tried.iter().all(|count| *count > 0) && report.replays == 12, "{report}");
    assert_eq!([OUTSIDE, STOPPED, CUT_OFF].map(|what| report.faults[what]), [9, 3, 3], "{report}");
}
