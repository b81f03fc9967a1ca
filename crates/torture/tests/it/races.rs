//! Many people, one interruption: one of them wins, and all others learn who (spec R2); at one server, and each at
//! another node (spec R5).

use countersign_torture::{
    people::Ground,
    races::{all_at_once, cancels, deadlines, deciders},
    report::Report,
};

use crate::{base, place, seed};

const NODES: Ground = Ground::Nodes(3);

fn told(raced: Result<Report, String>) -> Report {
    let report = raced.unwrap_or_else(|what| panic!("{what}"));
    println!("{report}");
    report
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn r2_of_two_to_64_deciders_one_wins_and_all_others_are_told_who() {
    let _place = place();
    let Report { counts, told, .. } = self::told(deciders(&base(), Ground::One, 30).await);
    assert!(told > 1000 && counts.gated_effects > 0 && counts.rejected > 0 && counts.edited_effects > 0, "{counts:?}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn r2_r5_of_two_to_64_deciders_at_three_nodes_one_wins_and_all_others_are_told_who() {
    let _place = place();
    let Report { counts, told, .. } = self::told(deciders(&base(), NODES, 12).await);
    assert!(told > 400 && counts.gated_effects > 0 && counts.rejected > 0 && counts.edited_effects > 0, "{counts:?}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn r2_decisions_and_the_deadline_have_one_winner() {
    let _place = place();
    told(deadlines(&base(), Ground::One, seed(), 48).await);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn r2_r5_decisions_at_one_node_and_the_deadline_at_another_have_one_winner() {
    let _place = place();
    told(deadlines(&base(), NODES, seed(), 48).await);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn r2_decisions_and_a_cancel_have_one_winner() {
    let _place = place();
    told(cancels(&base(), Ground::One, seed(), 60).await);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn r2_r5_decisions_at_one_node_and_a_cancel_at_another_have_one_winner() {
    let _place = place();
    told(cancels(&base(), NODES, seed(), 40).await);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn r2_several_deciders_the_deadline_and_a_cancel_at_once_have_one_winner() {
    let _place = place();
    told(all_at_once(&base(), Ground::One, seed(), 36).await);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn r2_r5_several_deciders_the_deadline_and_a_cancel_at_three_nodes_have_one_winner() {
    let _place = place();
    told(all_at_once(&base(), NODES, seed(), 36).await);
}
