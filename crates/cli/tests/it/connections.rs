//! Spec X, R9: silent connections take nothing from clients with a token.

use std::{net::SocketAddr, time::Duration};

use futures::future::join_all;
use serde_json::json;
use tokio::{
    io::{AsyncReadExt as _, AsyncWriteExt as _},
    net::{TcpSocket, TcpStream},
    time::{sleep, timeout},
};

use crate::support::{DEADLINE, OPEN_FILES, Server, Setup, Store};

/// Small limits, so that the test needs few connections.
async fn small(lines: &str) -> Server {
    let setup = Setup::one_trade(Store::Memory).server(lines);
    setup.person("alice", &["user"]).person("bob", &["user"]).start().await
}

/// Connections from an address of this machine that have sent this much of a request.
async fn hold(to: SocketAddr, from: [u8; 4], count: usize, sent: &str) -> Vec<TcpStream> {
    let connect = async |_| {
        let socket = TcpSocket::new_v4().unwrap();
        socket.bind((from, 0).into()).unwrap();
        let mut stream = socket.connect(to).await.unwrap();
        // Some of them are expected to be closed at once.
        let _ = stream.write_all(sent.as_bytes()).await;
        stream
    };
    join_all((0..count).map(connect)).await
}

/// Waits until the server has closed it, and returns the answer.
async fn closed(stream: &mut TcpStream) -> String {
    let mut said = Vec::new();
    // A reset is an end too.
    let _ = timeout(DEADLINE, stream.read_to_end(&mut said)).await.expect("it is closed in time");
    String::from_utf8(said).unwrap()
}

/// Those that are still open.
async fn open(streams: &mut [TcpStream]) -> usize {
    let mut open = 0;
    for stream in streams {
        let mut byte = [0];
        open += usize::from(timeout(Duration::from_millis(1), stream.read(&mut byte)).await.is_err());
    }
    open
}

#[tokio::test]
async fn x_silent_connections_take_no_slot_from_clients_with_a_token() {
    let lines =
        "max_connections = 60\nmax_unknown_connections = 40\nmax_connections_per_address = 60\nheader_seconds = 600";
    let server = small(lines).await;
    let mut before = server.ws_as("alice").await;
    let half = "GET /v1/sessions HTTP/1.1\r\nhost: localhost\r\nx-";
    let refused = "GET /v1/sessions HTTP/1.1\r\nhost: localhost\r\nauthorization: Bearer no\r\n\r\n";
    let mut held = Vec::new();
    for (i, sent) in ["", half, "\r\n", refused, ""].into_iter().enumerate() {
        held.extend(hold(server.address, [127, 0, 0, 1], 70, sent).await);
        // Hundreds try to stay, forty do, and clients with a token get in.
        assert_eq!(server.ask_as("bob", "GET", "/v1/sessions", None).await.status, 200);
        let mut ws = server.ws_as("bob").await;
        ws.message(&format!("s{i}"), "go").await;
        ws.until_status("awaiting_input").await;
    }
    before.nothing_more().await;
    // So do those that need no token, and send a request at once.
    assert_eq!(server.get("/healthz").await.status, 200);
    assert!(open(&mut held).await <= 40);
}

#[tokio::test]
async fn x_silent_connections_leave_an_approved_call_its_files() {
    let setup = Setup::one_trade(Store::Sqlite).server("header_seconds = 600").log("warn");
    let server = setup.person("alice", &["user"]).env(OPEN_FILES, "700").start().await;
    server.until_logged("enough for 350 connections and not for 16384").await;
    let mut ws = server.ws_as("alice").await;
    ws.message("s", "go").await;
    ws.until_status("awaiting_input").await;
    let _held = hold(server.address, [127, 0, 0, 2], 900, "").await;
    ws.decide("s_1", json!([{ "type": "approve" }])).await;
    ws.until_status("completed").await;
    // Counted here: a connection that the server never got, as too many came at once, never looks closed to its client.
    let closed = async {
        while server.sockets() > 200 {
            sleep(Duration::from_millis(20)).await;
        }
    };
    timeout(DEADLINE, closed).await.expect("the others are closed");
    assert_eq!(std::fs::read_to_string(server.path("calls.log")).unwrap().lines().count(), 1);
}

#[tokio::test]
async fn x_an_address_has_no_more_than_its_share_of_connections() {
    let lines =
        "max_connections = 100\nmax_unknown_connections = 90\nmax_connections_per_address = 20\nheader_seconds = 600";
    let server = small(lines).await;
    let mut others = hold(server.address, [127, 0, 0, 3], 10, "").await;
    let mut held = hold(server.address, [127, 0, 0, 2], 200, "").await;
    assert_eq!(server.ask_as("alice", "GET", "/v1/sessions", None).await.status, 200);
    assert_eq!(server.get("/healthz").await.status, 200);
    assert!(open(&mut held).await <= 20);
    assert_eq!(open(&mut others).await, 10, "no one else lost a slot to them");
}

#[tokio::test]
async fn x_a_connection_without_a_request_is_closed_in_time() {
    let server = small("header_seconds = 1\nidle_seconds = 1").await;
    let mut ws = server.ws_as("alice").await;
    let half = "GET /healthz HTTP/1.1\r\nhost: ";
    let whole = format!("GET /healthz HTTP/1.1\r\nhost: {}\r\n\r\n", server.address);
    let begun = format!("{whole}{half}");
    for (sent, answers) in [("", 0), (half, 0), (&*whole, 1), (&*begun, 1)] {
        for mut stream in hold(server.address, [127, 0, 0, 1], 20, sent).await {
            let said = closed(&mut stream).await;
            assert_eq!(said.matches("HTTP/1.1 200").count(), answers, "{sent:?}: {said}");
        }
    }
    // A byte now and then is not a request either.
    let mut slow = hold(server.address, [127, 0, 0, 1], 1, "").await.remove(0);
    let (mut read, mut write) = slow.split();
    let drip = async {
        for byte in half.bytes().chain(std::iter::repeat(b'x')) {
            if write.write_all(&[byte]).await.is_err() {
                break;
            }
            tokio::time::sleep(std::time::Duration::from_millis(100)).await;
        }
    };
    let mut said = Vec::new();
    let end = async {
        let _ = read.read_to_end(&mut said).await;
    };
    timeout(DEADLINE, async {
        tokio::select! { () = drip => {}, () = end => {} }
    })
    .await
    .expect("it is closed in time");
    // A silent WebSocket is kept alive by its pings.
    ws.nothing_more().await;
}
