//! Which connections are taken for silent, and what unfinished messages may take.

use std::{sync::Arc, time::Duration};

use countersign_core::approval::principal::Principal;
use countersign_models::scripted::Scripted;
use countersign_runtime::{
    agent::Agent,
    run::{NewMessage, Runtime},
};
use countersign_server::{ConnectionLimits, Options};
use countersign_store::memory::MemoryStore;
use futures::{SinkExt as _, StreamExt as _};
use serde_json::json;
use tokio::{
    io::{AsyncReadExt as _, AsyncWriteExt as _},
    net::{TcpSocket, TcpStream},
};
use tokio_tungstenite::{
    WebSocketStream,
    tungstenite::{Message, protocol::frame::coding::CloseCode},
};

use super::{DEADLINE, connect, connect_by, embedded, mounted, next, says_hi, served};

#[tokio::test]
async fn r9_who_answers_no_ping_is_disconnected_and_who_does_is_not() {
    let address = embedded(Options { heartbeat: Duration::from_secs(1), ..Options::default() }).await;
    let (mut silent, mut lively) = (connect(address).await, connect(address).await);
    // A client answers a ping when it reads it: the lively one reads, the silent one does not.
    let mut pings = 0;
    while pings < 5 {
        match next(&mut lively).await {
            Message::Ping(_) => pings += 1,
            Message::Text(_) => {}
            other => panic!("{other:?}"),
        }
    }
    // The raw bytes: a client that reads pings would answer them.
    let mut bytes = Vec::new();
    let end = silent.get_mut().read_to_end(&mut bytes);
    tokio::time::timeout(DEADLINE, end).await.expect("in time").expect("an orderly end");
    let close =
        bytes.windows(4).any(|frame| frame[0] == 0x88 && frame[2..] == u16::from(CloseCode::Policy).to_be_bytes());
    assert!(close, "a close frame says why: {bytes:?}");
    lively.send(Message::text(r#"{"type":"ping"}"#)).await.unwrap();
    while next(&mut lively).await != Message::text(r#"{"type":"pong"}"#) {}
}

const QUICK: Duration = Duration::from_secs(1);

/// The head of a text frame of this length, with a mask that changes nothing.
fn head(length: usize) -> Vec<u8> {
    [&[0x81, 0x80 | 127][..], &(length as u64).to_be_bytes(), &[0; 4]].concat()
}

#[tokio::test]
async fn r9_who_is_sending_a_large_frame_is_not_taken_for_silent() {
    let address = served(Options { heartbeat: QUICK, ..Options::default() }).await;
    let mut ws = connect(address).await;
    let text = format!(r#"{{"type":"message","session_id":"s","content":"{}"}}"#, "x".repeat(1024 * 1024));
    for piece in [head(text.len()), text.into_bytes()].concat().chunks(50 * 1024) {
        ws.get_mut().write_all(piece).await.unwrap();
        tokio::time::sleep(Duration::from_millis(250)).await;
    }
    loop {
        match next(&mut ws).await {
            Message::Text(text) if text.contains("\"hello\"") => {}
            Message::Text(text) => return assert!(text.contains("invalid_message"), "{text}"),
            Message::Ping(_) => {}
            other => panic!("{other:?}"),
        }
    }
}

#[tokio::test]
async fn r9_a_byte_of_a_frame_now_and_then_is_no_sign_of_life() {
    let address = served(Options { heartbeat: QUICK, ..Options::default() }).await;
    let (mut input, mut output) = connect(address).await.into_inner().into_split();
    let dripping = tokio::spawn(async move {
        output.write_all(&head(1024 * 1024)).await?;
        while output.write_all(b"x").await.is_ok() {
            tokio::time::sleep(Duration::from_millis(100)).await;
        }
        std::io::Result::Ok(())
    });
    let mut bytes = Vec::new();
    // Bytes on their way when it is closed reset the connection.
    let _ = tokio::time::timeout(DEADLINE, input.read_to_end(&mut bytes)).await.expect("in time");
    let close =
        bytes.windows(4).any(|frame| frame[0] == 0x88 && frame[2..] == u16::from(CloseCode::Policy).to_be_bytes());
    assert!(close, "a close frame says why: {bytes:?}");
    dripping.abort();
}

/// Waits for the close of a connection that answers every ping, while `meanwhile` is sent between its answers.
async fn closed_though_it_answers(ws: &mut WebSocketStream<TcpStream>, meanwhile: &[u8]) -> Message {
    loop {
        match next(ws).await {
            // Reading a ping queues the answer.
            Message::Ping(_) => ws.get_mut().write_all(meanwhile).await.unwrap(),
            Message::Text(_) | Message::Pong(_) => {}
            other => return other,
        }
    }
}

/// Spec R9, X: a message that is never finished is not kept for as long as its sender answers pings.
#[tokio::test]
async fn r9_who_answers_pings_amid_a_message_does_not_keep_it_unfinished() {
    let address = served(Options { heartbeat: QUICK, ..Options::default() }).await;
    // The head of a fragment: a text, or its continuation, that is not the last.
    let fragment = |opcode, length: usize| [&[opcode], &head(length)[1..], &vec![b'x'; length]].concat();
    // A ping of the client's own is no progress of the message either.
    let ping = [&[0x89, 0x80 | 125, 0, 0, 0, 0][..], &[b'x'; 125]].concat().repeat(50);
    for meanwhile in [Vec::new(), ping] {
        let mut ws = connect(address).await;
        for (n, opcode) in [0x01, 0x00, 0x00].into_iter().enumerate() {
            ws.get_mut().write_all(&fragment(opcode, 100_000 * (n + 1))).await.unwrap();
        }
        let closed = tokio::time::timeout(DEADLINE, closed_though_it_answers(&mut ws, &meanwhile));
        match closed.await.expect("in time") {
            Message::Close(Some(close)) => assert_eq!(close.code, CloseCode::Policy, "{close:?}"),
            other => panic!("{other:?}"),
        }
    }
}

/// Spec R9, X: nor for as long as an answer is there whenever the server looks.
#[tokio::test]
async fn r9_who_answers_without_end_amid_a_message_does_not_keep_it_unfinished() {
    let mut ws = connect(served(Options { heartbeat: QUICK, ..Options::default() }).await).await;
    let length = 100_000;
    ws.get_mut().write_all(&[&[0x01], &head(length)[1..], &vec![b'x'; length]].concat()).await.unwrap();
    let pongs = [0x8a, 0x80, 0, 0, 0, 0].repeat(20);
    let closed = async {
        loop {
            // The server may have closed it already, and its reason is still to be read.
            let _ = ws.get_mut().write_all(&pongs).await;
            let heard = tokio::time::timeout(Duration::from_millis(1), next(&mut ws)).await;
            if let Ok(Message::Close(close)) = heard {
                return close.expect("a reason");
            }
        }
    };
    let close = tokio::time::timeout(DEADLINE, closed).await.expect("in time");
    assert_eq!(close.code, CloseCode::Policy, "{close:?}");
}

/// Spec R9, X: many connections are no way around the bound of one.
#[tokio::test]
async fn r9_unfinished_messages_on_many_connections_are_bounded_together() {
    let address = served(Options::default()).await;
    let (length, part) = (9 * 1000 * 1000, vec![b'x'; 8 * 1000 * 1000]);
    let mut open = Vec::new();
    for n in 0..10 {
        let mut ws = connect(address).await;
        ws.get_mut().write_all(&head(length)).await.unwrap();
        // The last ones may be closed while they write.
        let written = ws.get_mut().write_all(&part).await;
        assert!(written.is_ok() || n >= 8, "{n}: {written:?}");
        open.push(ws);
    }
    let mut closed = 0;
    for mut ws in open {
        // What came before the end, such as a greeting, may be read first.
        let ended = async { while let Some(Ok(_)) = ws.next().await {} };
        closed += usize::from(tokio::time::timeout(Duration::from_millis(500), ended).await.is_ok());
    }
    assert!((2..=4).contains(&closed), "{closed} of 10 connections with 8 MB each were closed");
}

#[tokio::test]
async fn r9_who_sends_a_message_in_small_fragments_between_answers_is_not_taken_for_silent() {
    let address = served(Options { heartbeat: QUICK, ..Options::default() }).await;
    let mut ws = connect(address).await;
    let text = format!(r#"{{"type":"message","session_id":"s","content":"{}"}}"#, "x".repeat(60_000));
    let pieces: Vec<&[u8]> = text.as_bytes().chunks(100).collect();
    for (n, piece) in pieces.iter().enumerate() {
        let opcode = u8::from(n == 0) | if n + 1 == pieces.len() { 0x80 } else { 0 };
        let length = u8::try_from(piece.len()).unwrap();
        ws.get_mut().write_all(&[&[opcode, 0x80 | length, 0, 0, 0, 0][..], piece].concat()).await.unwrap();
        tokio::time::sleep(Duration::from_millis(8)).await;
    }
    while !next(&mut ws).await.to_text().unwrap_or_default().contains("\"completed\"") {}
    // Answered pings count again.
    let mut pings = 0;
    while pings < 5 {
        pings += u32::from(matches!(next(&mut ws).await, Message::Ping(_)));
    }
}

#[tokio::test]
async fn r9_who_reads_slowly_is_not_taken_for_silent() {
    let runtime = says_hi();
    runtime.start().await.unwrap();
    // More than the connection's buffers hold.
    for _ in 0..40 {
        let long = NewMessage::text("s", "x".repeat(250_000));
        runtime.run(&Principal::trusted(), long).await.unwrap();
    }
    let address = mounted(runtime, Options { heartbeat: QUICK, ..Options::default() }).await;
    let socket = TcpSocket::new_v4().unwrap();
    socket.set_recv_buffer_size(64 * 1024).unwrap();
    let mut ws = connect_by(socket.connect(address).await.unwrap(), address).await;
    ws.send(Message::text(r#"{"type":"subscribe","session_id":"s","after":0}"#)).await.unwrap();
    // The server's write takes several heartbeats.
    tokio::time::sleep(4 * QUICK).await;
    let mut completed = 0;
    loop {
        match next(&mut ws).await {
            Message::Text(text) if text.contains("\"completed\"") => completed += 1,
            Message::Text(_) | Message::Ping(_) => {}
            other => panic!("{other:?}"),
        }
        if completed == 40 {
            return;
        }
    }
}

/// Spec R9, R7: a frame is written when the next one is given, or by the flush, and has its time there.
#[tokio::test]
async fn r9_r7_one_large_event_is_given_the_time_of_the_slowest_reader() {
    let script = json!({ "turns": [{ "text": "\u{1}".repeat(2_000_000) }], "chunk_chars": 2_000_000 });
    let agent = Agent::new("helper", ("script", Arc::new(Scripted::from_json(&script.to_string()).unwrap())));
    let runtime = Runtime::builder(Arc::new(MemoryStore::new())).agent(agent).build().unwrap();
    runtime.start().await.unwrap();
    runtime.run(&Principal::trusted(), NewMessage::text("s", "go")).await.unwrap();
    let connections = ConnectionLimits { read_timeout: QUICK, ..ConnectionLimits::default() };
    let address = mounted(runtime, Options { connections, ..Options::default() }).await;
    let socket = TcpSocket::new_v4().unwrap();
    socket.set_recv_buffer_size(64 * 1024).unwrap();
    let mut ws = connect_by(socket.connect(address).await.unwrap(), address).await;
    ws.send(Message::text(r#"{"type":"subscribe","session_id":"s","after":0}"#)).await.unwrap();
    tokio::time::sleep(3 * QUICK).await;
    let mut largest = 0;
    loop {
        match next(&mut ws).await {
            Message::Text(text) if text.contains("\"completed\"") => break,
            Message::Text(text) => largest = largest.max(text.len()),
            other => panic!("{other:?}"),
        }
    }
    assert!(largest > 10_000_000, "{largest}");
}
