//! Many people, one interruption: one of them wins, and all others are told who (spec R2).

use std::{
    collections::HashSet,
    time::{Duration, SystemTime, UNIX_EPOCH},
};

use countersign_torture::{
    rng::Rng,
    world::{DECIDERS, World},
};
use serde_json::{Value, json};
use tokio::{sync::Barrier, task::JoinSet};

use crate::{
    people::{Person, beat_the_deadline, serve, settle},
    seed, tool,
};

fn decision(i: usize) -> Value {
    match i % 3 {
        0 => json!({ "type": "approve" }),
        1 => json!({ "type": "reject", "message": format!("no, says {i}") }),
        _ => json!({ "type": "edit", "edited_action": { "name": "gated", "args": { "n": 100 + i } } }),
    }
}

fn approval(session: &str, key: &str, decisions: &Value) -> Value {
    json!({ "type": "approval", "session_id": session, "approval_key": key, "decisions": decisions })
}

const SESSIONS: usize = 3;
const RACES: usize = 70;

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn r2_of_eight_deciders_one_wins_and_all_others_are_told_who() {
    let world = World::new(&tool(), true).expect("a world");
    let server = serve(&world).await;
    let mut lanes = JoinSet::new();
    let sessions: Vec<String> = (0..SESSIONS).map(|i| format!("race{i}")).collect();
    for session in sessions.clone() {
        let mut owner = Person::new(&server, "owner").await.expect("the owner");
        let mut people = Vec::new();
        for i in 0..DECIDERS {
            people.push(Person::new(&server, &format!("r{i}")).await.expect("a decider"));
        }
        lanes.spawn(async move {
            let mut winners = HashSet::new();
            for race in 0..RACES {
                let asked = owner.turn(&session, "race", race).await?;
                let key = asked["approval_key"].as_str().unwrap_or_default().to_owned();
                winners.insert(one_race(&mut people, &session, &key, race).await?);
                let status = owner.turn_over().await?;
                if status != "completed" {
                    return Err(format!("after race {race} the turn is {status}"));
                }
            }
            Ok(winners)
        });
    }
    let mut winners = HashSet::new();
    while let Some(lane) = lanes.join_next().await {
        winners.extend(lane.expect("a lane that ends").unwrap_or_else(|what: String| panic!("{what}")));
    }
    let counts = settle(&world, server, &sessions).await.unwrap_or_else(|what| panic!("{what}"));
    println!("{} races, won by {} people: {counts:#?}", SESSIONS * RACES, winners.len());
    assert_eq!(counts.resolved, [(SESSIONS * RACES) as u64, 0, 0]);
    assert!(counts.gated_effects > 0 && counts.rejected > 0 && counts.edited_effects > 0, "{counts:?}");
    assert!(winners.len() > 1, "always the same one won: these were no races");
}

/// All decide at once; returns the winner's name.
async fn one_race(people: &mut Vec<Person>, session: &str, key: &str, race: usize) -> Result<String, String> {
    let start = std::sync::Arc::new(Barrier::new(people.len()));
    let mut deciding = JoinSet::new();
    for (i, mut person) in people.drain(..).enumerate() {
        let (start, frame) = (start.clone(), approval(session, key, &json!([decision(i + race)])));
        deciding.spawn(async move {
            start.wait().await;
            let answer = person.ask(frame.clone(), &format!("d{race}-{i}")).await;
            (i, person, frame, answer)
        });
    }
    let mut all = Vec::new();
    while let Some(decided) = deciding.join_next().await {
        all.push(decided.map_err(|error| error.to_string())?);
    }
    all.sort_by_key(|(i, ..)| *i);
    let mut answers = Vec::new();
    for (_, person, frame, answer) in all {
        answers.push((person.name.clone(), frame, answer?));
        people.push(person);
    }
    let won: Vec<_> = answers.iter().filter(|(_, _, answer)| answer["type"] == "ack").collect();
    let [(winner, frame, _)] = won.as_slice() else {
        return Err(format!("R2 {key}: {} deciders were acknowledged: {answers:?}", won.len()));
    };
    for (name, _, answer) in answers.iter().filter(|(name, ..)| name != winner) {
        let details = &answer["details"];
        let told = answer["code"] == "approval_already_resolved"
            && answer["approval_key"] == key
            && details["resolution"] == "decided"
            && details["by"] == **winner
            && details["decisions"] == frame["decisions"]
            && details["at"].is_string();
        if !told {
            return Err(format!("R2 {key}: {winner} won with {}; {name} was told {answer}", frame["decisions"]));
        }
    }
    Ok(winner.clone())
}

fn now() -> Duration {
    SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn r2_decisions_and_the_deadline_have_one_winner() {
    const SESSIONS: usize = 48;
    let world = World::new(&tool(), true).expect("a world");
    let server = serve(&world).await;
    let sessions: Vec<String> = (0..SESSIONS).map(|i| format!("late{i}")).collect();
    let mut lanes = JoinSet::new();
    for (i, session) in sessions.clone().into_iter().enumerate() {
        let mut owner = Person::new(&server, "owner").await.expect("the owner");
        let mut decider = Person::new(&server, &format!("r{}", i % DECIDERS)).await.expect("a decider");
        // Some decide at once, some far too late, most as close to the deadline as possible.
        let jitter = match i % 8 {
            0 => -900,
            1 => 700,
            _ => i64::try_from(Rng::of(seed(), &session).below(60)).unwrap_or_default() - 40,
        };
        lanes.spawn(async move {
            let frame = json!({ "type": "message", "session_id": session, "agent": "brief", "content": "go" });
            let begun = now();
            let answer = owner.ask(frame, "m").await?;
            if answer["type"] != "ack" {
                return Err(format!("the message was refused: {answer}"));
            }
            let asked = owner.until(|frame| frame["content_block"]["type"] == "approval_request").await?;
            let key = asked["content_block"]["approval_key"].as_str().unwrap_or_default().to_owned();
            // The deadline is one second after the question, which came by now; only the spread matters.
            let deadline = begun + Duration::from_millis(1000);
            let shift = Duration::from_millis(jitter.unsigned_abs());
            let moment =
                if jitter < 0 { deadline.saturating_sub(shift) } else { deadline + shift }.saturating_sub(now());
            tokio::time::sleep(moment).await;
            let answer = decider.ask(approval(&session, &key, &json!([{ "type": "approve" }])), "d").await?;
            let resolved = owner.until(|frame| frame["type"] == "approval_resolved").await?;
            owner.turn_over().await?;
            beat_the_deadline(&key, &answer, &resolved)
        });
    }
    let mut decided = 0;
    while let Some(lane) = lanes.join_next().await {
        decided += u64::from(lane.expect("a lane that ends").unwrap_or_else(|what| panic!("{what}")));
    }
    let counts = settle(&world, server, &sessions).await.unwrap_or_else(|what| panic!("{what}"));
    println!("{decided} decisions and {} deadlines won", counts.resolved[1]);
    assert_eq!(counts.resolved, [decided, SESSIONS as u64 - decided, 0], "{counts:?}");
    assert!(decided > 0 && counts.resolved[1] > 0, "only one of the two ever wins: {counts:?}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn r2_decisions_and_a_cancel_have_one_winner() {
    const RACES: usize = 60;
    let world = World::new(&tool(), true).expect("a world");
    let server = serve(&world).await;
    let session = "cancelled".to_owned();
    let mut owner = Person::new(&server, "owner").await.expect("the owner");
    let mut canceller = Person::new(&server, "owner").await.expect("the owner again");
    let mut decider = Person::new(&server, "r0").await.expect("a decider");
    let (mut decided, mut cancelled) = (0, 0);
    for race in 0..RACES {
        let asked = owner.turn(&session, "race", race).await.expect("a turn");
        let key = asked["approval_key"].as_str().expect("a key").to_owned();
        let frame = approval(&session, &key, &json!([decision(race)]));
        let cancel = json!({ "type": "cancel", "session_id": session });
        let (d, c) = (format!("d{race}"), format!("c{race}"));
        // Either of the two may have a small lead.
        let lead = Duration::from_micros(Rng::of(seed(), &d).below(3000));
        let (decision, cancel) = tokio::join!(
            async {
                tokio::time::sleep(if race % 2 == 0 { lead } else { Duration::ZERO }).await;
                decider.ask(frame, &d).await
            },
            async {
                tokio::time::sleep(if race % 2 == 1 { lead } else { Duration::ZERO }).await;
                canceller.ask(cancel, &c).await
            }
        );
        let (decision, cancel) = (decision.expect("an answer"), cancel.expect("an answer"));
        let resolved = owner.until(|frame| frame["type"] == "approval_resolved").await.expect("a resolution");
        match resolved["resolution"].as_str() {
            Some("decided") => {
                assert_eq!(decision["type"], "ack", "{resolved}");
                // The turn that the decision resumed may be cancelled, or be over.
                assert!(cancel["type"] == "ack" || cancel["code"] == "nothing_to_cancel", "{cancel}");
                decided += 1;
            }
            Some("cancelled") => {
                assert_eq!(
                    (&decision["code"], &decision["details"]["resolution"]),
                    (&json!("approval_already_resolved"), &json!("cancelled")),
                    "{decision}"
                );
                assert_eq!(cancel["type"], "ack");
                cancelled += 1;
            }
            _ => panic!("R2 {key}: resolved as {resolved}"),
        }
        owner.turn_over().await.expect("an end");
    }
    let counts = settle(&world, server, &[session]).await.unwrap_or_else(|what| panic!("{what}"));
    println!("{decided} decisions and {cancelled} cancels won");
    assert_eq!(counts.resolved, [decided, 0, cancelled], "{counts:?}");
    assert!(decided > 0 && cancelled > 0, "only one of the two ever wins: {counts:?}");
}
