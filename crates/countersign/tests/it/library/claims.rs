//! A state is claimed once.

use std::{
    path::Path,
    process::{Command, Stdio},
    sync::Arc,
};

use countersign::{
    Agent, DecisionError, InterruptionKind, RunConfig, RunErrorKind, RunState, RunStateError, Runner, run,
    run::Code,
    store::{Store, memory::MemoryStore},
};

use super::{Ran, calls, gated, ran, script};
use crate::support::stores;

/// Where the child finds the state; the child is this test binary once more.
const FILE: &str = "COUNTERSIGN_TEST_CLAIMS_FILE";

async fn paused(done: &Ran) -> (Agent, countersign::RunResult) {
    let agent = Agent::new("Helper", script(&[calls(&[("a", "c1", "{}")])])).tool(gated("a", done));
    let paused = run(&agent, "go").await.expect("paused");
    (agent, paused)
}

fn child(file: &Path) -> Command {
    let mut child = Command::new(std::env::current_exe().expect("this test"));
    child
        .args(["--exact", "library::claims::s17_of_two_processes_that_take_a_state_one_runs", "--nocapture"])
        .env(FILE, file)
        .stdout(Stdio::piped())
        .stderr(Stdio::piped());
    child
}

/// Takes the state, if it can, approves the pending calls, and returns the outcome.
async fn take(file: &Path) -> String {
    match RunState::take(file) {
        Err(RunStateError::Claimed { .. }) => "claimed".to_owned(),
        Err(error) => panic!("{error}"),
        Ok(mut state) => {
            let done = Ran::default();
            let (agent, _) = paused(&done).await;
            for item in &state.interruptions() {
                state.approve(item).expect("approved");
            }
            run(&agent, state).await.expect("over");
            format!("ran {}", ran(&done).len())
        }
    }
}

#[tokio::test]
async fn s17_of_two_processes_that_take_a_state_one_runs() {
    if let Ok(file) = std::env::var(FILE) {
        println!("child: {}.", take(Path::new(&file)).await);
        return;
    }
    let folder = tempfile::tempdir().expect("a folder");
    let file = folder.path().join("result.json");
    let (_, paused) = paused(&Ran::default()).await;
    paused.state.write(&file).expect("written");
    let children: Vec<_> = (0..2).map(|_| child(&file).spawn().expect("a child")).collect();
    let mut said: Vec<String> = children
        .into_iter()
        .map(|child| {
            let output = child.wait_with_output().expect("output");
            let text = String::from_utf8_lossy(&output.stdout).into_owned();
            let line = text.lines().find_map(|line| line.split_once("child: ")?.1.strip_suffix('.').map(str::to_owned));
            line.unwrap_or_else(|| panic!("{output:?}"))
        })
        .collect();
    said.sort();
    assert_eq!(said, ["claimed", "ran 1"]);
}

#[tokio::test]
async fn s17_a_state_is_written_whole_and_taken_once() {
    let folder = tempfile::tempdir().expect("a folder");
    let file = folder.path().join("result.json");
    assert!(matches!(RunState::take(&file), Err(RunStateError::File { .. })), "there is none");
    let (_, paused) = paused(&Ran::default()).await;
    for _ in 0..2 {
        paused.state.write(&file).expect("written");
        assert_eq!(RunState::take(&file).expect("taken").to_json(), paused.state.to_json());
        let error = RunState::take(&file).expect_err("taken before");
        assert!(
            matches!(&error, RunStateError::Claimed { path, .. } if *path == file.display().to_string()),
            "{error}"
        );
    }
    let names: Vec<_> =
        std::fs::read_dir(&folder).expect("folder").map(|entry| entry.expect("entry").file_name()).collect();
    assert_eq!(names, ["result.json.claimed"]);
}

#[test]
fn s17_only_a_claim_of_this_very_file_counts_and_the_error_names_it() {
    let folder = tempfile::tempdir().expect("a folder");
    let in_folder = |name: &str| folder.path().join(name);
    let path = in_folder("order");
    for other in ["order.1.claimed", "order.1", "order..claimed", "border.claimed"] {
        std::fs::write(in_folder(other), "").expect("written");
    }
    let error = RunState::take(&path).expect_err("there never was one");
    assert!(matches!(error, RunStateError::File { .. }), "{error}");
    let said = || RunState::take(&path).expect_err("taken before").to_string();
    let want = |file: &std::path::Path| {
        format!("the state in {} was taken already; it is in {}", path.display(), file.display())
    };
    // Another process has renamed it, and not written its last file yet.
    let own = in_folder("order.019ac000-0000-7000-8000-000000000001.claimed");
    std::fs::write(&own, "").expect("written");
    assert_eq!(said(), want(&own));
    std::fs::write(in_folder("order.claimed"), "").expect("written");
    assert_eq!(said(), want(&in_folder("order.claimed")));
}

/// Whether a call has run is a question about that call alone.
#[tokio::test]
async fn s7_r4_a_decision_for_the_rest_of_a_run_says_nothing_of_a_call_whose_outcome_is_unknown() {
    let folder = tempfile::tempdir().expect("a folder");
    let file = folder.path().join("result.json");
    let done = Ran::default();
    let answer = calls(&[("a", "c1", "{}"), ("a", "c2", "{}")]);
    let agent = Agent::new("Helper", script(&[answer])).tool(gated("a", &done));
    let approved = |mut state: RunState| {
        state.approve(&state.interruption("c1").expect("it waits")).expect("approved");
        state
    };
    run(&agent, "go").await.expect("paused").state.write(&file).expect("written");
    run(&agent, approved(RunState::take(&file).expect("taken"))).await.expect("paused");
    std::fs::rename(folder.path().join("result.json.claimed"), &file).expect("renamed back");
    let again = RunState::take(&file).expect("taken");
    let again = RunState::from_json(&again.to_json()).expect("read");
    let mut doubt = run(&agent, approved(again)).await.expect("paused");
    let item = |result: &countersign::RunResult, id: &str| result.state.interruption(id).expect("it waits");
    let (lost, next) = (item(&doubt, "c1"), item(&doubt, "c2"));
    assert_eq!((lost.kind, next.kind, ran(&done).len()), (InterruptionKind::InDoubt, InterruptionKind::Approval, 1));
    let error = doubt.state.always_approve(&lost).expect_err("it is not approved at all");
    assert!(matches!(error, DecisionError::InDoubt { .. }), "{error}");
    let error = doubt.state.always_reject(&lost).expect_err("this call alone").to_string();
    assert!(error.ends_with(r#""always" goes with approve or reject of an ordinary action"#), "{error}");
    doubt.state.always_approve(&next).expect("approved");
    let left = run(&agent, doubt.state).await.expect("paused");
    let kinds = [item(&left, "c1").kind, item(&left, "c2").kind];
    // The process that took the state before may have approved this one too.
    assert_eq!(
        (kinds, ran(&done).len()),
        ([InterruptionKind::InDoubt, InterruptionKind::InDoubt], 1),
        "c1 does not run again"
    );
}

/// A process takes the state and dies, before or after it has run an approved call; another one renames the file back.
#[tokio::test]
async fn r4_what_may_have_run_where_a_state_was_taken_before_is_asked_about() {
    let folder = tempfile::tempdir().expect("a folder");
    let file = folder.path().join("result.json");
    let answer = calls(&[("a", "c1", "{}"), ("b", "c2", "{}"), ("c", "c3", "{}")]);
    let done = Ran::default();
    let mut same = gated("b", &done);
    same.idempotent = true;
    let agent = || {
        Agent::new("Helper", script(std::slice::from_ref(&answer)))
            .tool(gated("a", &done))
            .tool(same.clone())
            .tool(gated("c", &done))
    };
    let approved = |mut state: RunState, ids: &[&str]| {
        for id in ids {
            state.approve(&state.interruption(id).expect("it waits")).expect("approved");
        }
        state
    };
    run(&agent(), "go").await.expect("paused").state.write(&file).expect("written");
    let first = RunState::take(&file).expect("taken");
    run(&agent(), approved(first, &["c1", "c2"])).await.expect("paused");
    assert_eq!(ran(&done), ["a {}", "b {}"]);

    std::fs::rename(folder.path().join("result.json.claimed"), &file).expect("renamed back");
    let again = RunState::take(&file).expect("taken");
    let again = RunState::from_json(&again.to_json()).expect("read");
    let doubt = run(&agent(), approved(again, &["c1", "c2"])).await.expect("paused");
    let kinds = |result: &countersign::RunResult| {
        let kinds = result.interruptions.iter().map(|item| (item.call_id.to_string(), item.kind));
        kinds.collect::<Vec<_>>()
    };
    let (c1, c3) = ("c1".to_owned(), "c3".to_owned());
    assert_eq!(kinds(&doubt), [(c1, InterruptionKind::InDoubt), (c3.clone(), InterruptionKind::Approval)]);
    assert_eq!(ran(&done), ["a {}", "b {}", "b {}"], "only what is idempotent");

    // The other process may have been asked to run the third one, too.
    let mut state = RunState::from_json(&doubt.state.to_json()).expect("read");
    state.respond(&state.interruption("c1").expect("it waits"), "a {}").expect("reported");
    let doubt = run(&agent(), approved(state, &["c3"])).await.expect("paused");
    assert_eq!(kinds(&doubt), [(c3, InterruptionKind::InDoubt)]);
    let mut state = doubt.state;
    state.run_again(&state.interruption("c3").expect("it waits")).expect("allowed");
    let over = run(&agent(), state).await.expect("over");
    assert_eq!((&*over.final_output, ran(&done).last().map(String::as_str)), ("done", Some("c {}")));
}

#[cfg(unix)]
#[tokio::test]
async fn s17_only_its_owner_can_read_a_state_in_a_file() {
    use std::os::unix::fs::PermissionsExt as _;
    let folder = tempfile::tempdir().expect("a folder");
    let file = folder.path().join("result.json");
    let (_, paused) = paused(&Ran::default()).await;
    // Also where the file was readable by others.
    std::fs::write(&file, "{}").expect("written");
    std::fs::set_permissions(&file, std::fs::Permissions::from_mode(0o644)).expect("rights");
    paused.state.write(&file).expect("written");
    assert_eq!(std::fs::metadata(&file).expect("there").permissions().mode() & 0o777, 0o600);
}

#[tokio::test]
async fn s21_a_file_that_is_no_state_is_left_where_it_is() {
    let folder = tempfile::tempdir().expect("a folder");
    let file = folder.path().join("result.json");
    std::fs::write(&file, "hello").expect("written");
    assert!(matches!(RunState::take(&file), Err(RunStateError::NotARunState(_))));
    assert_eq!(std::fs::read_to_string(&file).expect("there"), "hello");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn s16_of_two_inputs_at_once_to_one_session_the_later_one_is_told_how_it_stands() {
    for (name, store, _dir) in stores() {
        for n in 0..20 {
            let done = Ran::default();
            let agent = Agent::new("Helper", script(&[calls(&[("a", "c1", "{}")])])).tool(gated("a", &done));
            // With the application's data a session is made before the message is taken.
            let mut config = RunConfig::new().store(store.clone()).session(format!("s{n}"));
            if n % 2 == 1 {
                config = config.context(&"of the application").expect("context");
            }
            let begin = Arc::new(tokio::sync::Barrier::new(2));
            let runs = [(); 2].map(|()| {
                let (runner, agent, begin) = (Runner::new(config.clone()), agent.clone(), begin.clone());
                tokio::spawn(async move {
                    begin.wait().await;
                    runner.run(&agent, "go").await
                })
            });
            let [one, two] = runs;
            let (one, two) = (one.await.expect("joined"), two.await.expect("joined"));
            let (won, lost) = if one.is_ok() { (one, two) } else { (two, one) };
            assert_eq!(won.expect("one runs").interruptions.len(), 1, "{name}");
            let lost = lost.expect_err("it waits for a person");
            let refusal = lost.refusal().expect(name);
            let told = [Code::SessionBusy, Code::ApprovalPending].contains(&refusal.code);
            assert!(told && refusal.message.contains("RunState::load"), "{name}: {lost}");
        }
    }
}

#[tokio::test]
async fn s17_a_run_in_a_store_goes_on_from_a_state_once() {
    let done = Ran::default();
    let store: Arc<dyn Store> = Arc::new(MemoryStore::new());
    let agent = Agent::new("Helper", script(&[calls(&[("a", "c1", "{}")])])).tool(gated("a", &done));
    let runner = Runner::new(RunConfig::new().store(store));
    let mut paused = runner.run(&agent, "go").await.expect("paused");
    paused.state.approve(&paused.interruptions[0]).expect("approved");
    let (one, two) = tokio::join!(runner.run(&agent, &paused.state), runner.run(&agent, &paused.state));
    let errors = [one, two].into_iter().filter_map(Result::err);
    let claimed = errors.filter(|error| error.kind() == RunErrorKind::Claimed).count();
    assert_eq!((claimed, ran(&done).len()), (1, 1));
    let later = runner.run(&agent, &paused.state).await.expect_err("it has gone on");
    assert_eq!(later.kind(), RunErrorKind::Claimed, "{later}");
    // Restored into another store it is a separate session: there, too, only one gets it.
    let elsewhere: Arc<dyn Store> = Arc::new(MemoryStore::new());
    paused.state.save(&*elsewhere).await.expect("restored");
    assert!(matches!(paused.state.save(&*elsewhere).await, Err(RunStateError::Exists(_))));
}
