//! Spec G7, U3: graphs as pictures, over HTTP and on the command line.

use serde_json::{Value, json};

use crate::support::{Setup, Store, http::request, run};

#[tokio::test]
async fn g7_a_sessions_graph_is_served_in_three_formats_with_its_position() {
    let server = Setup::one_trade(Store::Memory).pending().await;
    let graph = server.get("/v1/sessions/s/graph").await.ok();
    assert_eq!((&graph["agent"], &graph["status"]), (&json!("trader"), &json!("awaiting_input")));
    let state = server.get("/v1/sessions/s/state").await.ok();
    assert_eq!(graph["seq"], state["seq"]);
    assert_eq!(graph["drawing"]["current"], json!([{ "node": "approval", "running": 0, "waiting": 1 }]));
    assert_eq!(server.get("/v1/sessions/s/graph?format=json").await.ok(), graph);

    for (path, media, mark) in [
        ("/v1/sessions/s/graph?format=mermaid", "text/vnd.mermaid; charset=utf-8", "class approval waiting"),
        ("/v1/sessions/s/graph?format=dot", "text/vnd.graphviz; charset=utf-8", "class=\"current waiting\""),
        (
            "/v1/agents/trader/graph?session_id=s&format=dot",
            "text/vnd.graphviz; charset=utf-8",
            "class=\"current waiting\"",
        ),
    ] {
        let answer = request(server.address, "GET", path, &[], None).await;
        assert_eq!((answer.status, answer.header("content-type")), (200, Some(media)), "{path}");
        assert!(answer.body.contains(mark), "{path}: {}", answer.body);
    }
    let svg = server.get("/v1/sessions/s/graph?format=svg").await;
    svg.problem(400, "invalid_message");
    server.get("/v1/sessions/none/graph").await.problem(404, "session_not_found");

    server.post("/v1/approvals/s_1?wait=true", &json!({ "decisions": [{ "type": "approve" }] })).await.ok();
    let graph = server.get("/v1/sessions/s/graph").await.ok();
    assert_eq!(graph["drawing"]["current"], json!([{ "node": "END", "running": 0, "waiting": 0 }]));
}

/// A failure is a pause: the picture shows where the turn will continue, and what is still pending there.
#[tokio::test]
async fn g7_a_failed_turn_stands_where_its_retry_continues() {
    let note = json!({ "tool_calls": [{ "name": "note", "args": {} }] });
    let script = json!({ "turns": [note, { "text": "done" }] });
    let server = Setup::new(Store::Memory, &script).max_turns(1).start().await;
    let stands = async || {
        let graph = server.get("/v1/sessions/s/graph").await.ok();
        (graph["status"].clone(), graph["drawing"]["current"].clone())
    };
    let mut ws = server.ws().await;
    ws.message("s", "go").await;
    ws.until_status("failed").await;
    // It has no model call left, so the agent's is what comes next.
    let at = |node: &str| json!([{ "node": node, "running": 0, "waiting": 0 }]);
    assert_eq!(stands().await, (json!("failed"), at("agent")));
    server.post("/v1/sessions/s/retry", &json!({ "more_calls": 1 })).await.ok();
    ws.until_status("completed").await;
    assert_eq!(stands().await, (json!("completed"), at("END")));
}

#[tokio::test]
async fn g7_the_command_line_draws_a_session_of_a_running_server() {
    let server = Setup::one_trade(Store::Memory).person("alice", &["user"]).start().await;
    let token = "alice-secret";
    let headers = [("authorization", "Bearer alice-secret")];
    let said = request(server.address, "POST", "/v1/sessions/s/messages", &headers, Some(r#"{"content":"go"}"#)).await;
    said.ok();
    let url = format!("http://{}", server.address);
    let dir = server.path("");
    let ask = |session: &'static str, more: &'static [&'static str], token: &'static str| {
        let (dir, url) = (dir.clone(), url.clone());
        tokio::task::spawn_blocking(move || {
            let arguments = [&["graph", "--session", session, "--url", &url][..], more].concat();
            run(&dir, &arguments, "", &[("COUNTERSIGN_TOKEN", token)])
        })
    };
    let mermaid = ask("s", &[], token).await.unwrap();
    assert_eq!(mermaid.code, Some(0), "{}", mermaid.stderr);
    assert!(mermaid.stdout.contains("class approval waiting"), "{}", mermaid.stdout);
    let data = ask("s", &["--json"], token).await.unwrap();
    let data: Value = serde_json::from_str(&data.stdout).unwrap();
    assert_eq!(data["drawing"]["current"][0]["node"], "approval");

    // As for every other command, the address may be in the environment, and the token in another variable.
    let own = server.command_with(&["graph", "--session", "s", "--token-env", "MINE"], "", &[("MINE", token)]);
    assert!(own.ok().contains("class approval waiting"), "{}", own.stdout);
    let none = ask("other", &[], token).await.unwrap();
    assert_eq!((none.code, none.stdout.as_str()), (Some(3), ""));
    assert!(none.stderr.contains("other"), "{}", none.stderr);
    let stranger = ask("s", &[], "wrong").await.unwrap();
    assert!(stranger.stderr.contains("COUNTERSIGN_TOKEN"), "{}", stranger.stderr);
    let step = ask("..", &[], token).await.unwrap();
    assert!(step.stderr.contains("neither . nor .."), "{}", step.stderr);
}

#[test]
fn g7_the_command_line_draws_an_agents_graph_from_the_configuration() {
    let dir = tempfile::tempdir().unwrap();
    let config = "[models.m]\nprovider = \"scripted\"\nscript = \"s.json\"\n[agents.trader]\nmodel = \"m\"\n";
    std::fs::write(dir.path().join("s.json"), r#"{"turns":[]}"#).unwrap();
    std::fs::write(dir.path().join("countersign.toml"), config).unwrap();
    let graph = |arguments: &[&str]| run(dir.path(), &[&["graph"][..], arguments].concat(), "", &[]);
    for arguments in [&[][..], &["trader"], &["--format", "mermaid", "--config", "countersign.toml"]] {
        let mermaid = graph(arguments);
        assert_eq!(mermaid.code, Some(0), "{}", mermaid.stderr);
        assert!(mermaid.stdout.starts_with("flowchart TD\n") && mermaid.stdout.contains("agent -.->"));
    }
    let dot = graph(&["--format", "dot"]);
    assert!(dot.stdout.starts_with("digraph {") && dot.stdout.contains("\"agent\" -> \"tools\""), "{}", dot.stdout);
    let data: Value = serde_json::from_str(&graph(&["trader", "--json"]).stdout).unwrap();
    assert_eq!((&data["agent"], &data["drawing"]["nodes"][0]["kind"]), (&json!("trader"), &json!("start")));

    let near = graph(&["tradre"]);
    assert_eq!((near.code, near.stdout.as_str()), (Some(3), ""), "as of any agent that is not there");
    assert!(near.stderr.contains("did you mean \"trader\"?"), "{}", near.stderr);
    assert!(graph(&["something"]).stderr.contains("there is trader"));
    let far =
        run(dir.path(), &["graph", "--session", "s", "--url", "http://example.com"], "", &[("COUNTERSIGN_TOKEN", "t")]);
    assert!(far.stderr.contains("unencrypted"), "{}", far.stderr);
    let both = graph(&["trader", "--session", "s"]);
    let half = graph(&["--url", "http://127.0.0.1:1"]);
    assert!(half.code == Some(2) && half.stderr.contains("needs '--session'"), "{}", half.stderr);
    assert!(both.code == Some(2) && both.stderr.contains("cannot be used with"), "{}", both.stderr);
}
