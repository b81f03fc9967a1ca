//! Spec S13, X: broken or malicious MCP servers, in every mode of `tests/hostile/modes.py`. Whatever they do, the
//! server stays up in bounded memory, other calls continue, nothing runs twice, and the model gets one clear message.
//!
//! `HOSTILE=MODE` runs only the modes whose names begin so, and prints what each has cost.

use std::{
    collections::BTreeSet,
    fs,
    path::Path,
    process::{self, Child, Command},
    sync::{
        Arc,
        atomic::{AtomicU32, Ordering},
    },
    time::{Duration, Instant},
};

use serde_json::{Value, json};
use tokio::{net::TcpListener, sync::Semaphore};

use crate::support::{Server, Setup, Store, run_program};

/// The transports to a server.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Way {
    Stdio,
    Http,
}
use Way::{Http, Stdio};

/// Both of them.
const BOTH: &[Way] = &[Stdio, Http];
/// As a list of one.
const PIPE: &[Way] = &[Stdio];
const WEB: &[Way] = &[Http];

/// The result for the model if there is no tool.
const NO_TOOL: &str = "there is no tool \"pay\"";
const LATE: &str = "did not answer within 2 seconds and the call was cancelled; whether it took effect is not known";
const UNREADABLE: &str = "sent an answer that cannot be read; whether the call took effect is not known";
const LOST: &str = "was sent and has no answer; whether it took effect is not known";
/// What the log says of a server that asks and reads no answers.
const DEAF: &str = "reads no answers; its connection is closed";
const LONG: &str = "a message of more than 8 MiB";

/// Each mode: how often its tool runs, and the call's result for the model.
const MODES: &[(&str, &[Way], usize, &str)] = &[
    ("good", BOTH, 1, "paid"),
    ("never_answers_initialize", BOTH, 0, NO_TOOL),
    ("speaks_another_revision", BOTH, 0, NO_TOOL),
    ("drips_its_beginning", BOTH, 0, NO_TOOL),
    ("ends_at_once", PIPE, 0, NO_TOOL),
    ("writes_logs_to_its_output", PIPE, 1, "paid"),
    ("floods_its_errors", PIPE, 1, "paid"),
    ("has_ten_megabytes_of_tools", BOTH, 0, NO_TOOL),
    ("has_tools_without_end", PIPE, 1, "paid"),
    ("has_empty_pages_without_end", PIPE, 0, NO_TOOL),
    ("has_one_name_twice", PIPE, 1, "paid"),
    ("has_names_of_built_in_tools", PIPE, 1, "paid"),
    ("has_names_that_deceive", PIPE, 1, "paid"),
    ("has_a_description_that_deceives", PIPE, 1, "paid"),
    ("has_a_schema_that_is_none", PIPE, 1, "paid"),
    ("has_a_schema_that_contradicts_itself", PIPE, 0, NO_TOOL),
    ("has_a_schema_in_circles", PIPE, 0, NO_TOOL),
    ("has_a_schema_that_is_deep", PIPE, 0, NO_TOOL),
    ("has_a_schema_from_elsewhere", PIPE, 0, NO_TOOL),
    ("has_a_pattern_that_takes_for_ever", PIPE, 0, "does not match"),
    ("takes_its_tool_away", PIPE, 0, "Unknown tool: pay"),
    ("answers_another_request", PIPE, 1, LATE),
    ("answers_another_request", WEB, 1, LOST),
    ("answers_nobody", BOTH, 1, LATE),
    ("answers_twice", BOTH, 1, "paid"),
    ("answers_what_is_no_result", BOTH, 1, UNREADABLE),
    ("answers_result_and_error", PIPE, 1, UNREADABLE),
    ("writes_a_line_without_end", PIPE, 1, LATE),
    ("writes_a_line_without_end", WEB, 1, LONG),
    ("drips_its_answer", BOTH, 1, LATE),
    ("answers_invalid_utf_8", PIPE, 1, UNREADABLE),
    ("answers_invalid_utf_8", WEB, 1, LOST),
    ("answers_nul_bytes", PIPE, 1, UNREADABLE),
    ("answers_deep_nesting", BOTH, 1, UNREADABLE),
    ("answers_values_in_a_text", BOTH, 1, " are kept]"),
    ("answers_values_that_nobody_can_count", BOTH, 1, UNREADABLE),
    ("answers_twenty_megabytes", PIPE, 1, LONG),
    ("answers_twenty_megabytes", WEB, 1, LONG),
    ("answers_an_error_of_megabytes", PIPE, 1, "not paid"),
    ("refuses_in_megabytes", BOTH, 0, "not paid"),
    ("answers_what_is_no_text", PIPE, 1, "[image: image/png"),
    ("answers_what_nobody_knows", PIPE, 1, UNREADABLE),
    ("floods_with_notifications", BOTH, 1, "paid"),
    ("sends_progress_of_megabytes", BOTH, 1, "paid"),
    ("says_without_end_that_its_tools_change", BOTH, 1, "paid"),
    ("asks_without_end", BOTH, 1, "paid"),
    ("asks_without_end_one_after_the_other", BOTH, 1, "paid"),
    ("asks_for_what_is_dangerous", PIPE, 1, "paid"),
    ("asks_for_secrets", PIPE, 1, "paid"),
    ("asks_for_a_model_and_for_folders", BOTH, 1, "paid"),
    ("asks_and_never_reads", PIPE, 1, LATE),
    ("asks_and_never_takes_answers", WEB, 1, LATE),
    ("ends_in_the_call", BOTH, 1, LOST),
    ("closes_its_output", PIPE, 1, LOST),
    ("leads_elsewhere", WEB, 0, "HTTP 307"),
    ("leads_elsewhere_at_once", WEB, 0, NO_TOOL),
    ("streams_without_end", WEB, 1, LATE),
    ("streams_an_event_without_end", WEB, 1, LONG),
    ("breaks_off_and_wants_to_be_asked_again", WEB, 1, LATE),
    ("answers_a_bomb", WEB, 1, LONG),
    ("has_heads_without_end", WEB, 1, LOST),
    ("speaks_no_http", WEB, 1, LOST),
    ("ran_it_and_says_the_session_is_closed", WEB, 1, LOST),
    ("ran_it_and_its_gateway_says_the_session_is_closed", WEB, 1, LOST),
    ("ran_it_and_broke_down", WEB, 1, "it broke down (-32603)"),
    ("accepts_and_never_answers", WEB, 1, UNREADABLE),
    ("answers_a_page", WEB, 1, UNREADABLE),
    ("wants_rounds_without_end", WEB, 0, "it never came to an end"),
    ("wants_much_kept_for_it", WEB, 0, "it wants too much to be kept for it"),
    ("asks_under_a_name_of_megabytes", WEB, 1, "paid"),
];

/// Most memory that one hostile server may cost at any moment: several of the longest messages that are read.
const MEMORY: usize = 80 * 1024 * 1024;
/// The longest another server's call may take meanwhile.
const OTHERS: Duration = Duration::from_secs(40);
/// The longest that all of it may take: connecting, deciding, calling.
const WHOLE: Duration = Duration::from_secs(240);
/// Servers that are tried concurrently; most of the time is spent waiting.
const AT_ONCE: usize = 3;
/// A secret in the address.
const SECRET: &str = "s3cret-path";
/// What no model, person or log may read: names of libraries and of their types.
const FOREIGN: [&str; 7] = ["rmcp", "reqwest", "hyper", "serde", "tokio", "::", "Error("];

fn program() -> String {
    let own = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../tests/hostile/mcp.py");
    own.canonicalize().unwrap().to_str().unwrap().to_owned()
}

/// A listener that nothing may reach.
async fn canary() -> (u16, Arc<AtomicU32>) {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let (port, reached) = (listener.local_addr().unwrap().port(), Arc::new(AtomicU32::new(0)));
    let counts = reached.clone();
    tokio::spawn(async move {
        while listener.accept().await.is_ok() {
            counts.fetch_add(1, Ordering::SeqCst);
        }
    });
    (port, reached)
}

/// A hostile server at an address. Killed on drop.
struct Process(Child);

impl Drop for Process {
    fn drop(&mut self) {
        // It may have ended by itself.
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// The hostile server, the lines that declare it, and the folder in which it counts.
struct Hostile {
    lines: String,
    folder: tempfile::TempDir,
    _process: Option<Process>,
}

fn hostile(mode: &str, way: Way, canary: u16) -> Hostile {
    let folder = tempfile::tempdir().unwrap();
    let program = program();
    let canary = canary.to_string();
    if way == Stdio {
        let command = ["python3", "-B", &program, mode, "stdio", &canary];
        let lines = format!("command = {command:?}\ncwd = {:?}", folder.path());
        return Hostile { lines, folder, _process: None };
    }
    let mut child = Command::new("python3")
        .args(["-B", &program, mode, "http", &canary])
        .current_dir(folder.path())
        .stdin(process::Stdio::null())
        .stdout(process::Stdio::piped())
        .stderr(process::Stdio::null())
        .spawn()
        .unwrap();
    let mut port = String::new();
    std::io::BufRead::read_line(&mut std::io::BufReader::new(child.stdout.take().unwrap()), &mut port).unwrap();
    let lines = format!("url = \"http://127.0.0.1:{}/{SECRET}\"", port.trim());
    Hostile { lines, folder, _process: Some(Process(child)) }
}

/// A server with an agent that calls the hostile server's tool, and another agent, which has a good server.
async fn start(hostile: &Hostile, told: &str) -> Server {
    // Where no timeout is expected, a slow machine must not reach it.
    let timeout = if told == LATE { 2 } else { 60 };
    let connect = if told == NO_TOOL { 3 } else { 60 };
    // It matches no pattern of repeated letters, although it looks like one.
    let args = json!({ "n": format!("{}!", "a".repeat(40)) });
    let said = json!({ "text": "{{ last_tool_result }}" });
    let turns =
        |args| json!({ "turns": [{ "tool_calls": [{ "name": "pay", "args": args }] }, said], "at_end": "repeat" });
    let good = ["python3", "-B", &program(), "good", "stdio"];
    Setup::new(Store::Sqlite, &turns(args))
        .agent("mcp = [\"bank\"]")
        .file("other.json", &turns(json!({})).to_string())
        .more(&format!(
            "[mcp.bank]\ntime_limit = {timeout}\nconnect_seconds = {connect}\nidempotent = [\"absent\"]\n{}\n[mcp.good]\ncommand = {good:?}\nconnect_seconds = 120\nrequire_approval = \"never\"\n\
             [models.other]\nprovider = \"scripted\"\nscript = \"other.json\"\n\
             [agents.other]\nmodel = \"other\"\nmcp = [\"good\"]\n",
            hostile.lines
        ))
        .log("warn")
        .start()
        .await
}

/// What a person has seen and done until the call had ended.
struct Seen {
    /// The result for the model.
    told: String,
    /// The requests to approve.
    requests: Vec<Value>,
    /// The server's questions in the middle of its call.
    questions: Vec<Value>,
}

/// Sends the message, approves the call, and leaves its questions unanswered.
async fn converse(server: &Server) -> Seen {
    let (mut requests, mut questions) = (Vec::new(), Vec::new());
    let mut outcome = server.post("/v1/sessions/s/messages", &json!({ "content": "go" })).await.ok();
    while let Some(key) = outcome["pending"][0].as_str().map(str::to_owned) {
        let path = format!("/v1/approvals/{key}");
        let request = server.get(&path).await.ok();
        let answer = if request["kind"] == "input" {
            questions.push(request);
            json!({ "resume": { "action": "cancel" } })
        } else {
            requests.push(request);
            json!({ "decisions": [{ "type": "approve" }] })
        };
        outcome = server.post(&format!("{path}?wait=true"), &answer).await.ok();
    }
    assert_eq!(outcome["status"], "completed", "{outcome}");
    Seen { told: outcome["text"].as_str().unwrap().to_owned(), requests, questions }
}

/// Calls of another server in other sessions, while the hostile one is running.
async fn others(server: &Server) {
    for n in 0..3 {
        let began = Instant::now();
        let message = json!({ "content": "go", "agent": "other" });
        let outcome = server.post(&format!("/v1/sessions/other{n}/messages"), &message).await.ok();
        assert_eq!(outcome["text"], "paid", "another server's call completes: {outcome}");
        assert!(began.elapsed() < OTHERS, "another server's call took {:?}", began.elapsed());
        tokio::time::sleep(Duration::from_millis(300)).await;
    }
}

/// Descriptions of failed expectations.
#[derive(Default)]
struct Broken(Vec<String>);

impl Broken {
    fn must(&mut self, holds: bool, otherwise: impl FnOnce() -> String) {
        if !holds {
            self.0.push(format!("{:.1500}", otherwise()));
        }
    }
}

/// The expectations of this mode alone.
fn also(mode: &str, tools: &[String], seen: &Seen, folder: &Path, broken: &mut Broken) {
    let questions = seen.questions.len();
    let asked = |most: usize| (1..=most).contains(&questions);
    match mode {
        "has_tools_without_end" => broken.must(tools.len() <= 1024 + 2, || format!("{} tools", tools.len())),
        "has_names_of_built_in_tools" => broken.must(tools.len() == 3, || format!("only its own is used: {tools:?}")),
        "has_a_description_that_deceives" => {
            let shown = seen.requests[0].to_string().len();
            broken.must(shown < 64 * 1024, || format!("{shown} bytes are shown"));
        }
        // Fewer than a call may ask one after the other: how many find a place in the queue depends on how fast it fills.
        "asks_without_end" => broken.must(asked(63), || format!("{questions} questions")),
        "asks_without_end_one_after_the_other" => broken.must(asked(64), || format!("{questions} questions")),
        "asks_for_secrets" => {
            let from = &seen.questions[0]["actions"][0]["args"]["from"];
            broken.must(from == "bank", || format!("{from} asks"));
        }
        "asks_for_what_is_dangerous" | "asks_for_a_model_and_for_folders" | "asks_under_a_name_of_megabytes" => {
            broken.must(questions == 0, || format!("{:?}", seen.questions))
        }
        "breaks_off_and_wants_to_be_asked_again" => {
            let asked = fs::read_to_string(folder.join(format!("{mode}.asked"))).unwrap_or_default().lines().count();
            broken.must(asked < 20, || format!("it was asked {asked} times"));
        }
        _ => {}
    }
}

async fn holds(mode: &'static str, way: Way, ran: usize, told: &'static str) -> Broken {
    let mut broken = Broken::default();
    let (port, reached) = canary().await;
    let hostile = hostile(mode, way, port);
    let server = start(&hostile, told).await;
    let (before, began) = (server.memory(), Instant::now());
    let whole = async { tokio::join!(converse(&server), others(&server)) };
    let Ok((seen, ())) = tokio::time::timeout(WHOLE, whole).await else {
        broken.must(false, || "it never comes to an end".to_owned());
        return broken;
    };
    let took = began.elapsed();
    if mode.starts_with("asks_and_never_") {
        // It disappears when the call has ended.
        let log = || fs::read_to_string(server.path("stderr.log")).unwrap();
        while began.elapsed() < WHOLE && !log().contains(DEAF) {
            tokio::time::sleep(Duration::from_millis(100)).await;
        }
    }
    broken.must(seen.told.contains(told), || format!("the model is told: {}", seen.told));
    broken.must(seen.told.len() <= 260 * 1024, || format!("{} bytes of a result are told", seen.told.len()));
    let folder = hostile.folder.path();
    let times = fs::read_to_string(folder.join(format!("{mode}.ran"))).unwrap_or_default().lines().count();
    broken.must(times == ran, || format!("it ran {times} times"));
    // The kernel counts either only roughly.
    let memory = server.memory_peak().saturating_sub(before);
    broken.must(memory < MEMORY, || format!("{} MiB of memory", memory >> 20));

    let agents = server.get("/v1/agents").await.ok();
    let name = |tool: &Value| tool.as_str().or_else(|| tool["name"].as_str()).unwrap().to_owned();
    let trader = agents["agents"].as_array().unwrap().iter().find(|agent| agent["name"] == "trader").unwrap();
    let tools: Vec<String> = trader["tools"].as_array().unwrap().iter().map(name).collect();
    let fits = |tool: &String| {
        (1..=64).contains(&tool.len()) && tool.chars().all(|c| c.is_ascii_alphanumeric() || matches!(c, '_' | '-'))
    };
    let names: BTreeSet<&String> = tools.iter().collect();
    broken.must(names.len() == tools.len() && tools.iter().all(fits), || format!("its tools are {tools:?}"));
    also(mode, &tools, &seen, folder, &mut broken);

    let log = fs::read_to_string(server.path("stderr.log")).unwrap();
    let whole = |line: &str| line.starts_with("20");
    let clean = log.lines().all(whole) && !log.contains(['\u{1b}', '\u{202e}', '\0']);
    broken.must(clean, || format!("a line of the log is forged: {log:?}"));
    if mode.starts_with("asks_and_never_") {
        broken.must(log.contains(DEAF), || "its connection stays up".to_owned());
    }
    if mode == "has_empty_pages_without_end" {
        broken.must(log.contains("most_pages=64"), || format!("the log does not say which limit it is: {log}"));
    }
    broken.must(log.len() < 64 * 1024, || format!("{} bytes are logged: {log}", log.len()));
    for not in FOREIGN {
        broken.must(!seen.told.contains(not), || format!("{not} is told: {}", seen.told));
    }
    let shown = format!("{}{:?}{:?}{log}", seen.told, seen.requests, seen.questions);
    broken.must(!shown.contains(SECRET), || format!("the address is told: {shown}"));
    let reached = reached.load(Ordering::SeqCst);
    broken.must(reached == 0, || format!("{reached} connections were made for it to another address"));
    broken.must(server.get("/healthz").await.status == 200, || "the server is not there".to_owned());
    if std::env::var_os("HOSTILE").is_some() {
        eprintln!("{mode} {way:?}: {took:?}, {} MiB: {:.300}", memory >> 20, seen.told);
    }
    broken
}

/// Runs them, some at a time, and reports every failed expectation.
async fn all(way: Way) {
    let only = std::env::var("HOSTILE").unwrap_or_default();
    let places = Arc::new(Semaphore::new(AT_ONCE));
    let rows = MODES.iter().filter(|(mode, ways, ..)| ways.contains(&way) && mode.starts_with(&only));
    let tries: Vec<_> = rows
        .map(|&(mode, _, ran, told)| {
            let places = places.clone();
            let trial = tokio::spawn(async move {
                let _place = places.acquire_owned().await.unwrap();
                holds(mode, way, ran, told).await
            });
            (mode, trial)
        })
        .collect();
    let mut told = String::new();
    for (mode, trial) in tries {
        let broken = trial.await.unwrap_or_else(|error| Broken(vec![error.to_string()]));
        told.extend(broken.0.iter().map(|what| format!("\n{mode}: {what}")));
    }
    assert!(told.is_empty(), "over {way:?}: {told}");
}

#[test]
fn s13_each_mode_of_the_hostile_server_has_its_expectation() {
    let listed = run_program("python3", &std::env::temp_dir(), &["-B", &program(), "modes"], "", &[]);
    assert_eq!(listed.code, Some(0), "{}", listed.stderr);
    let theirs: BTreeSet<String> = listed.stdout.lines().map(str::to_owned).collect();
    let ours = MODES.iter().map(|(mode, ..)| {
        let expected = MODES.iter().filter(|(other, ..)| other == mode).flat_map(|(_, ways, ..)| ways.iter());
        let ways: Vec<String> = expected.map(|way| format!("{way:?}").to_lowercase()).collect();
        format!("{mode} {}", ways.join(" "))
    });
    assert_eq!(ours.collect::<BTreeSet<String>>(), theirs);
    assert!(theirs.len() > 31, "{}", theirs.len());
}

#[tokio::test(flavor = "multi_thread")]
async fn s13_x_hostile_programs_cost_their_own_calls_only() {
    all(Stdio).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn s13_x_hostile_addresses_cost_their_own_calls_only() {
    all(Http).await;
}
