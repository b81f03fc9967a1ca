//! Several servers on one database, and one alone.

use countersign_torture::{nodes, report::Kind};

use crate::{base, place, seed};

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn r1_r2_r3_r4_r5_r7_nodes_that_are_killed_stopped_and_cut_off_break_nothing() {
    let _place = place();
    let report = nodes::random(&base(), seed(), 3, 15, 24).await.unwrap_or_else(|what| panic!("{what}"));
    println!("{report}");
    assert_eq!(report.untried(Kind::Nodes, 1, &nodes::faults(&base())), Vec::<String>::new(), "{report}");
    assert_eq!(report.replays, 15, "{report}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn r1_r2_r3_r4_r7_a_node_that_is_alone_and_killed_stopped_and_cut_off_breaks_nothing() {
    let _place = place();
    let report = nodes::random(&base(), seed(), 1, 9, 12).await.unwrap_or_else(|what| panic!("{what}"));
    println!("{report}");
    assert_eq!(report.replays, 9, "{report}");
}
