//! Spec U3: `chat --json`, for programs.

use std::{
    io::{BufRead as _, BufReader},
    process::{Command, Stdio},
    time::{Duration, Instant},
};

use futures::{SinkExt as _, StreamExt as _};
use rustix::process::{Pid, Signal, kill_process};
use serde_json::{Value, json};
use tokio::net::{TcpListener, TcpStream};
use tokio_tungstenite::{
    WebSocketStream, accept_hdr_async,
    tungstenite::{
        Message,
        handshake::server::{ErrorResponse, Request, Response},
        http::HeaderValue,
    },
};

use crate::support::{BINARY, DEADLINE, Ended, Server, Setup, Store, published, run_program, trade};

const ALONE: [&str; 4] = ["chat", "--json", "--config", "countersign.toml"];

/// The frames that were printed, each as published.
#[track_caller]
fn frames(ended: &Ended) -> Vec<Value> {
    let frames: Vec<Value> = ended.stdout.lines().map(|line| serde_json::from_str(line).expect(line)).collect();
    frames.iter().for_each(published::check_frame);
    assert_eq!(frames[0]["type"], "hello", "{}", ended.stdout);
    frames
}

/// Those of a session that have a place in it.
fn events(frames: &[Value]) -> Vec<Value> {
    frames.iter().filter(|frame| frame["seq"].is_u64()).cloned().collect()
}

fn last_seq(frames: &[Value]) -> u64 {
    frames.iter().filter_map(|frame| frame["seq"].as_u64()).max().unwrap()
}

/// The server's replay of a session from its first event on.
async fn replayed(server: &Server, session: &str, last: u64) -> Vec<Value> {
    let mut ws = server.ws().await;
    ws.subscribe(session, 0).await;
    events(&ws.until(|frame| frame["seq"] == last).await)
}

/// A trade with a price whose digits a float would lose.
fn exact(store: Store) -> Setup {
    let script = json!({ "turns": [
        { "text": "I will trade: \u{202e}much.", "tool_calls": [trade(100)] },
        { "text": "Result: {{ last_tool_result }}" },
    ], "at_end": "repeat" });
    Setup::new(store, &json!({})).script_text(&script.to_string().replace("82000", "82000.10"))
}

#[tokio::test]
async fn u3_chat_for_programs_prints_the_frames_of_the_server_and_continues_after_a_decision() {
    let server = exact(Store::Memory).start().await;
    let asked = server.command(&["chat", "--json", "buy"]);
    assert_eq!(asked.code, Some(7), "{}", asked.stderr);
    assert!(!asked.stdout.contains('\u{202e}') && asked.stdout.contains("\\u202emuch"), "{}", asked.stdout);
    assert!(asked.stdout.contains("82000.10"), "all digits: {}", asked.stdout);
    let before = frames(&asked);
    let session =
        before.iter().find(|frame| frame["type"] == "ack").unwrap()["session_id"].as_str().unwrap().to_owned();
    let key = format!("{session}_1");
    assert!(asked.stderr.contains(&format!("{key} is pending")), "{}", asked.stderr);
    let request = before.iter().find(|frame| frame["content_block"]["type"] == "approval_request");
    let request = &request.expect("the request was printed")["content_block"];
    assert_eq!(request["approval_key"], key.as_str());
    let digest = request["actions"][0]["digest"].as_str().unwrap();
    server.command(&["approvals", "approve", &key, "--digest", digest]).ok();
    server.until_status(&session, "completed").await;
    // It has ended already: nothing of it is missed.
    let after = last_seq(&before).to_string();
    let rest = server.command(&["chat", "--json", "--session", &session, "--after", &after]);
    assert_eq!(rest.code, Some(0), "{}", rest.stderr);
    let rest = frames(&rest);
    assert_eq!(rest.last().unwrap()["status"], "completed");
    let printed = [events(&before), events(&rest)].concat();
    assert_eq!(printed, replayed(&server, &session, last_seq(&rest)).await);
    let beyond = server.command(&["chat", "--json", "--session", &session, "--after", "9999"]);
    assert_eq!(beyond.code, Some(2), "{}", beyond.stderr);
    assert!(beyond.stderr.contains("the last one is"), "{}", beyond.stderr);
}

#[tokio::test]
async fn u3_chat_for_programs_takes_each_line_as_a_message_and_no_line_as_a_command() {
    let script = json!({ "turns": [{ "text": "You said {{ last_user }}." }], "at_end": "repeat" });
    let server = Setup::new(Store::Memory, &script).start().await;
    let ended = server.command_with(&["chat", "--json"], "/quit\n\n  spaces  \n", &[]);
    assert_eq!(ended.code, Some(0), "{}", ended.stderr);
    let session = ended.stderr.trim().strip_prefix("session ").unwrap();
    let history = server.get(&format!("/v1/sessions/{session}/history")).await.ok();
    let said: Vec<&Value> =
        history["messages"].as_array().unwrap().iter().map(|one| &one["content"][0]["text"]).collect();
    assert_eq!(said, ["/quit", "You said /quit.", "  spaces  ", "You said   spaces  ."]);
    // A refusal ends it, after the frame that says why.
    let long = "x".repeat(300_000);
    let refused = server.command_with(&["chat", "--json"], &format!("{long}\nnever sent\n"), &[]);
    assert_eq!(refused.code, Some(5), "{}", refused.stderr);
    let refusal = frames(&refused).pop().unwrap();
    assert_eq!((&refusal["type"], &refusal["code"]), (&json!("error"), &json!("invalid_message")));
    // Input that is too large for a frame is not sent.
    for (huge, why) in
        [("x".repeat(10 << 20), "a line of the input has more than"), ("\"".repeat(6 << 20), "that is too long")]
    {
        let began = Instant::now();
        let refused = server.command_with(&["chat", "--json"], &format!("{huge}\nnever sent\n"), &[]);
        assert_eq!(refused.code, Some(5), "{}", refused.stderr);
        assert!(refused.stderr.contains(why) && refused.stderr.contains("(too_large)"), "{}", refused.stderr);
        assert!(frames(&refused).iter().all(|frame| frame["type"] != "error"), "{}", refused.stdout);
        assert!(began.elapsed() < DEADLINE / 2, "it does not wait for an answer");
    }
    let binary = run_program(
        "sh",
        &server.path(""),
        &["-c", &format!("printf 'a\\377b\\n' | '{BINARY}' chat --json --url http://{}", server.address)],
        "",
        &[],
    );
    assert_eq!(binary.code, Some(1), "{}", binary.stderr);
    assert!(binary.stderr.contains("cannot read the input"), "{}", binary.stderr);
    let failing = Setup::new(Store::Memory, &json!({ "turns": [{ "error": "on fire" }] })).start().await;
    let ended = failing.command(&["chat", "--json", "go"]);
    assert_eq!((ended.code, &frames(&ended).pop().unwrap()["error"]["code"]), (Some(1), &json!("model_error")));
}

#[tokio::test]
async fn u3_chat_for_programs_needs_no_server() {
    let mut server = exact(Store::Sqlite).start().await;
    server.kill();
    let asked = server.command(&[&ALONE[..], &["buy"]].concat());
    assert_eq!(asked.code, Some(7), "{}", asked.stderr);
    let before = frames(&asked);
    let session =
        before.iter().find(|frame| frame["type"] == "ack").unwrap()["session_id"].as_str().unwrap().to_owned();
    let key = format!("{session}_1");
    let (config, after) = ("--config countersign.toml", last_seq(&before));
    let again = format!("then `countersign chat {config} --session {session} --json --after {after}`");
    assert!(asked.stderr.contains(&again), "{}", asked.stderr);
    server.command(&["approvals", "approve", &key, "--yes", "--config", "countersign.toml"]).ok();
    assert!(server.calls().is_empty());
    let after = last_seq(&before).to_string();
    let rest = server.command(&[&ALONE[..], &["--session", &session, "--after", &after]].concat());
    assert_eq!(rest.code, Some(0), "{}", rest.stderr);
    assert_eq!(server.calls().len(), 1);
    assert!(server.calls()[0].contains("82000.10"), "{:?}", server.calls());
    let rest = frames(&rest);
    server.start_again().await;
    assert_eq!([events(&before), events(&rest)].concat(), replayed(&server, &session, last_seq(&rest)).await);
}

/// As when a server stops: a running tool gets its time, and no outcome is unknown afterwards.
#[tokio::test]
async fn u3_chat_without_a_server_that_is_told_to_stop_lets_a_running_tool_finish() {
    let script = json!({ "turns": [{ "tool_calls": [{ "name": "slow", "args": {} }] }, { "text": "Done." }] });
    let slow = "description = \"Takes long.\"\ncommand = [\"sh\", \"-c\", \"echo begun > begun.log; sleep 2; echo ended >> calls.log\"]\nparameters = { type = \"object\" }";
    let mut server = Setup::new(Store::Sqlite, &script).tool("slow", slow).start().await;
    server.kill();
    let mut chat = Command::new(BINARY)
        .args([&ALONE[..], &["go"]].concat())
        .current_dir(server.path(""))
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let mut lines = BufReader::new(chat.stdout.take().unwrap()).lines();
    let mut sent = lines.by_ref().map(|line| serde_json::from_str::<Value>(&line.unwrap()).unwrap());
    let ack = sent.find(|frame| frame["type"] == "ack").unwrap();
    let session = ack["session_id"].as_str().unwrap().to_owned();
    let deadline = Instant::now() + DEADLINE;
    while !server.path("begun.log").exists() {
        assert!(Instant::now() < deadline, "the tool is not begun");
        std::thread::sleep(Duration::from_millis(10));
    }
    let pid = Pid::from_raw(chat.id().cast_signed()).unwrap();
    kill_process(pid, Signal::TERM).unwrap();
    let rest: Vec<String> = lines.map(Result::unwrap).collect();
    assert_eq!(chat.wait().unwrap().code(), Some(1), "{rest:?}");
    assert_eq!(server.calls(), ["ended"], "it was not killed");
    let ended = server.command(&[&ALONE[..], &["--session", &session]].concat());
    assert_eq!(ended.code, Some(0), "nothing is asked: {}", ended.stderr);
    assert_eq!(server.calls(), ["ended"], "and it is not run again");
    server.start_again().await;
    server.until_status(&session, "completed").await;
}

/// A reader that stops reading blocks the output, and nothing else.
#[tokio::test]
async fn u3_chat_without_a_server_that_nobody_reads_stops_at_a_signal() {
    let script = json!({ "turns": [{ "text": "long ".repeat(40_000) }] });
    let mut server = Setup::new(Store::Sqlite, &script).start().await;
    server.kill();
    for signal in [Signal::TERM, Signal::HUP] {
        let mut chat = Command::new(BINARY)
            .args([&ALONE[..], &["go"]].concat())
            .current_dir(server.path(""))
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .spawn()
            .unwrap();
        let deadline = Instant::now() + DEADLINE;
        let stalled = chat.stdout.as_ref().unwrap();
        while rustix::io::ioctl_fionread(stalled).unwrap() < 60_000 {
            assert!(Instant::now() < deadline, "the pipe is not full");
            std::thread::sleep(Duration::from_millis(10));
        }
        std::thread::sleep(Duration::from_millis(200));
        assert!(chat.try_wait().unwrap().is_none(), "it waits for its reader");
        kill_process(Pid::from_raw(chat.id().cast_signed()).unwrap(), signal).unwrap();
        let ended = loop {
            match chat.try_wait().unwrap() {
                Some(ended) => break ended.code(),
                None if Instant::now() > deadline => {
                    chat.kill().unwrap();
                    panic!("it does not end");
                }
                None => std::thread::sleep(Duration::from_millis(10)),
            }
        };
        assert_eq!(ended, Some(1), "in order");
    }
    server.command(&["sessions", "list", "--config", "countersign.toml"]).ok();
}

#[tokio::test]
async fn u3_chat_for_programs_ends_when_nobody_reads_it() {
    let server = exact(Store::Memory).start().await;
    let script = format!("'{BINARY}' chat --json --url http://{} buy 2> told | true; cat told", server.address);
    let ended = run_program("sh", &server.path(""), &["-c", &script], "", &[]);
    assert!(ended.stdout.contains("nobody reads the events any more"), "{}", ended.stdout);
}

/// Accepts a connection of a chat as a server, and greets it.
async fn greeted(listener: &TcpListener, heartbeat: u64) -> WebSocketStream<TcpStream> {
    let (stream, _) = listener.accept().await.unwrap();
    #[expect(clippy::result_large_err, reason = "the type is the library's")]
    fn chosen(_: &Request, mut answer: Response) -> Result<Response, ErrorResponse> {
        answer.headers_mut().insert("sec-websocket-protocol", HeaderValue::from_static("countersign.v1"));
        Ok(answer)
    }
    let mut socket = accept_hdr_async(stream, chosen).await.unwrap();
    let hello = json!({ "type": "hello", "protocol": "countersign.v1", "server": "countersign/0", "heartbeat_seconds": heartbeat, "roles": [] });
    socket.send(Message::text(hello.to_string())).await.unwrap();
    socket
}

/// Nothing closes a connection whose other end lost its power or its network: it is only silent.
#[tokio::test]
async fn u3_r7_chat_connects_again_when_the_other_end_is_silent_and_continues_after_the_last_event() {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url = format!("http://{}", listener.local_addr().unwrap());
    let chat = tokio::task::spawn_blocking(move || {
        run_program(BINARY, &std::env::temp_dir(), &["chat", "--json", "--url", &url, "go"], "", &[])
    });
    let served = async {
        let mut silent = greeted(&listener, 3).await;
        let sent: Value = serde_json::from_str(silent.next().await.unwrap().unwrap().to_text().unwrap()).unwrap();
        let (session, id) = (&sent["session_id"], &sent["request_id"]);
        for frame in [
            json!({ "type": "ack", "session_id": session, "request_id": id }),
            json!({ "type": "run_status", "session_id": session, "seq": 1, "status": "running", "pending": [] }),
        ] {
            silent.send(Message::text(frame.to_string())).await.unwrap();
        }
        let mut next = greeted(&listener, 60).await;
        let follows: Value = serde_json::from_str(next.next().await.unwrap().unwrap().to_text().unwrap()).unwrap();
        assert_eq!(follows, json!({ "type": "subscribe", "session_id": session, "after": 1 }));
        let end =
            json!({ "type": "run_status", "session_id": session, "seq": 2, "status": "completed", "pending": [] });
        next.send(Message::text(end.to_string())).await.unwrap();
        let ended = chat.await.unwrap();
        drop((silent, next));
        ended
    };
    let ended = tokio::time::timeout(DEADLINE, served).await.expect("it notices the silence");
    assert_eq!(ended.code, Some(0), "{}", ended.stderr);
    assert!(ended.stderr.contains("the connection is lost"), "{}", ended.stderr);
}

/// The next frame that a chat sends.
async fn sent(socket: &mut WebSocketStream<TcpStream>) -> Value {
    serde_json::from_str(socket.next().await.unwrap().unwrap().to_text().unwrap()).unwrap()
}

async fn send(socket: &mut WebSocketStream<TcpStream>, frame: Value) {
    socket.send(Message::text(frame.to_string())).await.unwrap();
}

fn status(session: &Value, seq: u64, status: &str) -> Value {
    json!({ "type": "run_status", "session_id": session, "seq": seq, "status": status, "pending": [] })
}

/// A chat of a program with a server at this listener, and its lines.
fn chat_with(listener: &TcpListener, lines: &'static str) -> tokio::task::JoinHandle<Ended> {
    let url = format!("http://{}", listener.local_addr().unwrap());
    tokio::task::spawn_blocking(move || {
        run_program(BINARY, &std::env::temp_dir(), &["chat", "--json", "--url", &url], lines, &[])
    })
}

/// How the chat ends, which connects no further time.
async fn ends(chat: tokio::task::JoinHandle<Ended>, listener: &TcpListener) -> Ended {
    let ended = async {
        tokio::select! {
            ended = chat => ended.unwrap(),
            _ = listener.accept() => panic!("it connects again"),
        }
    };
    tokio::time::timeout(DEADLINE, ended).await.expect("it ends")
}

/// A server sends events whole, also those beyond the 16 MiB that WebSocket libraries take by default.
#[tokio::test]
async fn u3_r9_chat_takes_an_event_that_is_larger_than_a_usual_frame() {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let chat = chat_with(&listener, "go\n");
    let mut socket = greeted(&listener, 60).await;
    let message = sent(&mut socket).await;
    let session = &message["session_id"];
    send(&mut socket, json!({ "type": "ack", "session_id": session, "request_id": message["request_id"] })).await;
    send(&mut socket, status(session, 1, "running")).await;
    let delta = json!({ "type": "text_delta", "text": "x".repeat(17 << 20) });
    let large =
        json!({ "type": "content_block_delta", "session_id": session, "message_id": "m", "index": 0, "delta": delta });
    let closed = socket
        .send(Message::text(large.to_string()))
        .await
        .and(socket.send(Message::text(status(session, 2, "completed").to_string())).await);
    let ended = ends(chat, &listener).await;
    assert!(closed.is_ok(), "{closed:?}");
    assert_eq!(ended.code, Some(0), "{}", ended.stderr);
    assert!(ended.stdout.len() > 17 << 20);
}

/// A server that breaks every connection at the same event is asked less and less often.
#[tokio::test]
async fn u3_r7_chat_does_not_connect_again_and_again_without_a_pause() {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url = format!("http://{}", listener.local_addr().unwrap());
    let mut chat = Command::new(BINARY)
        .args(["chat", "--json", "--url", &url])
        .stdin(Stdio::piped())
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn()
        .unwrap();
    let mut connections = 0;
    let broken = async {
        loop {
            drop(greeted(&listener, 60).await);
            connections += 1;
        }
    };
    let _ = tokio::time::timeout(Duration::from_millis(2500), broken).await;
    chat.kill().unwrap();
    chat.wait().unwrap();
    assert!((2..=4).contains(&connections), "{connections}");
}

/// The acknowledgement of a message that is sent again may come after all that the message led to.
#[tokio::test]
async fn u3_r7_chat_goes_on_when_a_turn_is_replayed_before_its_acknowledgement() {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let chat = chat_with(&listener, "one\ntwo\n");
    let mut first = greeted(&listener, 60).await;
    let message = sent(&mut first).await;
    let session = &message["session_id"];
    send(&mut first, json!({ "type": "ack", "session_id": session, "request_id": message["request_id"] })).await;
    send(&mut first, status(session, 1, "running")).await;
    send(&mut first, status(session, 2, "completed")).await;
    let second = sent(&mut first).await;
    drop(first);
    // A chat that waits for more hears nothing of this one soon.
    let mut next = greeted(&listener, 1).await;
    assert_eq!(sent(&mut next).await, json!({ "type": "subscribe", "session_id": session, "after": 2 }));
    assert_eq!(sent(&mut next).await, second);
    send(&mut next, status(session, 3, "running")).await;
    send(&mut next, status(session, 4, "completed")).await;
    send(&mut next, json!({ "type": "ack", "session_id": session, "request_id": second["request_id"] })).await;
    let ended = ends(chat, &listener).await;
    assert_eq!(ended.code, Some(0), "{}", ended.stderr);
}
