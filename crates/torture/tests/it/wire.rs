//! Streams that break off inside a block, and continue differently.

use countersign_torture::{
    client::Conn,
    follow::Follow,
    harness::{Server, Started},
    world::World,
};
use serde_json::{Value, json};

use crate::{base, place};

async fn serve(world: &World, failpoint: Option<&str>) -> Box<Server> {
    match Server::start(world, failpoint).await {
        Ok(Started::Listening(server)) => server,
        other => panic!("the server does not start: {other:?}"),
    }
}

/// Reads until `last`, folding the session's events.
async fn read(conn: &mut Conn, follow: &mut Follow, last: impl Fn(&Value) -> bool) -> Result<(), String> {
    loop {
        let frame = conn.recv().await?;
        if frame["message_id"].is_string() || frame["seq"].is_u64() {
            follow.event(&frame)?;
        }
        if last(&frame) {
            return Ok(());
        }
    }
}

/// The block being written is lost with the server, and the turn is cancelled before it is written again. A client that
/// has seen its start must reach the same state as one that has not.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn r7_a_block_lost_in_a_crash_can_be_followed_by_a_cancel() {
    let _place = place();
    for subscribed_first in [true, false] {
        let world = World::new(&base(), false).expect("a world");
        let mut server = serve(&world, Some("model.mid_stream:4")).await;
        let mut conn = Conn::open(server.address, None).await.expect("a connection");
        let mut follow = Follow::new("s");
        let message =
            json!({ "type": "message", "session_id": "s", "agent": "slow", "content": "go", "request_id": "m" });
        conn.send(&message).await.expect("sent");
        let broken = read(&mut conn, &mut follow, |_| false).await.expect_err("it dies");
        assert!(broken.starts_with("Gone"), "{broken}");
        server.dead(&world).await.expect("dead by its failpoint");

        let server = serve(&world, None).await;
        let mut conn = Conn::open(server.address, None).await.expect("a connection");
        let subscribe = json!({ "type": "subscribe", "session_id": "s", "after": follow.seq });
        let cancel = json!({ "type": "cancel", "session_id": "s", "request_id": "c" });
        let both = if subscribed_first { [subscribe, cancel] } else { [cancel, subscribe] };
        for frame in both {
            conn.send(&frame).await.expect("sent");
        }
        conn.send(&json!({ "type": "ping" })).await.expect("sent");
        read(&mut conn, &mut follow, |frame| frame["status"] == "cancelled")
            .await
            .unwrap_or_else(|what| panic!("subscribed first: {subscribed_first}: {what}"));

        let mut conn = Conn::open(server.address, None).await.expect("a connection");
        conn.send(&json!({ "type": "subscribe", "session_id": "s", "after": 0 })).await.expect("sent");
        let mut fresh = Follow::new("s");
        read(&mut conn, &mut fresh, |frame| frame["status"] == "cancelled").await.expect("a replay");
        assert_eq!(follow.fold, fresh.fold, "subscribed first: {subscribed_first}");
        server.kill(&world).await.expect("killed");
    }
}
