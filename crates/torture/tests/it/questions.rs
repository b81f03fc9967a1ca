//! Many clients, one question: one answer wins, and all others learn which (spec R2, Q3).

use std::{sync::Arc, time::Duration};

use countersign_torture::{
    people::{Arena, Ground, beat_the_deadline},
    rng::Rng,
};
use serde_json::{Value, json};
use tokio::{sync::Barrier, task::JoinSet};

use crate::{base, place, seed};

/// Clients that answer the same question.
const CLIENTS: usize = 8;

/// A client's reply of this kind, and what must be recorded of it; nothing is recorded if it declines.
fn reply(session: &str, key: &str, i: usize, kind: usize) -> (Value, Option<Value>) {
    let mut frame = json!({ "type": "approval", "session_id": session, "approval_key": key });
    let mine = format!("mine, says {i}");
    let recorded = match kind % 4 {
        0 => {
            frame["answers"] = json!({ "Where to?": "There", "When?": ["Now", mine] });
            Some(json!({ "Where to?": "There", "When?": format!("Now, {mine}") }))
        }
        1 => {
            frame["answers"] = json!({ "When?": mine });
            Some(json!({ "Where to?": "[No preference]", "When?": mine }))
        }
        2 => {
            frame["answers"] = json!({ "Where to?": mine, "When?": "" });
            Some(json!({ "Where to?": mine, "When?": "[No preference]" }))
        }
        _ => {
            frame["decisions"] = json!([{ "type": "reject" }]);
            None
        }
    };
    (frame, recorded)
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn r2_q3_of_eight_clients_one_answers_and_all_others_are_told_what() {
    let _place = place();
    const RACES: usize = 60;
    let arena = Arena::open(&base(), Ground::One, None).await.expect("a server");
    let session = "asked".to_owned();
    let mut owner = arena.person("owner", 0).await.expect("the owner");
    let mut clients = Vec::new();
    for _ in 0..CLIENTS {
        clients.push(arena.person("owner", 0).await.expect("a client"));
    }
    let mut winners = std::collections::HashSet::new();
    let mut declined = 0;
    for race in 0..RACES {
        let asked = owner.turn(&session, "asker", race).await.expect("a turn");
        let key = asked["approval_key"].as_str().expect("a key").to_owned();
        let start = Arc::new(Barrier::new(CLIENTS));
        let mut answering = JoinSet::new();
        for (i, mut client) in clients.drain(..).enumerate() {
            // In some races all send the same kind, so that each wins for certain.
            let kind = if race % 6 == 0 { race / 6 } else { i + race };
            let (start, (frame, recorded)) = (start.clone(), reply(&session, &key, i, kind));
            answering.spawn(async move {
                start.wait().await;
                let answer = client.ask(frame, &format!("a{race}-{i}")).await.expect("an answer");
                (i, client, recorded, answer)
            });
        }
        let mut all = Vec::new();
        while let Some(answered) = answering.join_next().await {
            all.push(answered.expect("a client"));
        }
        let resolved = owner.until(|frame| frame["type"] == "approval_resolved").await.expect("a resolution");
        assert_eq!((&resolved["approval_key"], &resolved["resolution"]), (&json!(key), &json!("decided")));
        let won: Vec<_> = all.iter().filter(|(.., answer)| answer["type"] == "ack").collect();
        let [(winner, _, recorded, _)] = won.as_slice() else {
            panic!("R2 {key}: {} clients were acknowledged", won.len());
        };
        assert_eq!(recorded.clone().unwrap_or_default(), resolved["answers"], "what was acknowledged is recorded");
        for (.., answer) in all.iter().filter(|(i, ..)| i != winner) {
            let details = &answer["details"];
            assert_eq!(answer["code"], "approval_already_resolved", "{answer}");
            assert_eq!((&details["resolution"], &details["by"]), (&json!("decided"), &json!("owner")), "{answer}");
            match recorded {
                Some(recorded) => assert_eq!(details["answers"], *recorded, "{answer}"),
                None => assert_eq!(details["decisions"][0]["type"], "reject", "{answer}"),
            }
        }
        winners.insert(*winner);
        declined += u64::from(recorded.is_none());
        all.sort_by_key(|(i, ..)| *i);
        clients.extend(all.into_iter().map(|(_, client, ..)| client));
        assert_eq!(owner.turn_over().await.expect("an end"), "completed");
    }
    let counts = arena.settle(&[session]).await.unwrap_or_else(|what| panic!("{what}"));
    println!("{RACES} races, won by {} clients, {declined} declined", winners.len());
    assert_eq!((counts.answered, counts.declined), (RACES as u64 - declined, declined), "{counts:?}");
    assert!(winners.len() > 1 && declined > 0 && counts.answered > 0, "these were no races: {counts:?}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn r2_q4_answers_and_the_deadline_have_one_winner() {
    let _place = place();
    const SESSIONS: usize = 32;
    let arena = Arena::open(&base(), Ground::One, Some(1)).await.expect("a server");
    let sessions: Vec<String> = (0..SESSIONS).map(|i| format!("late{i}")).collect();
    let mut lanes = JoinSet::new();
    for (i, session) in sessions.clone().into_iter().enumerate() {
        let mut owner = arena.person("owner", 0).await.expect("the owner");
        let mut client = arena.person("owner", 0).await.expect("a client");
        // Some answer at once, some far too late, most as close to the deadline as possible.
        let after = match i % 8 {
            0 => 100,
            1 => 1700,
            _ => 960 + Rng::of(seed(), &session).below(60),
        };
        lanes.spawn(async move {
            let asked = owner.turn(&session, "asker", 0).await?;
            let key = asked["approval_key"].as_str().unwrap_or_default().to_owned();
            tokio::time::sleep(Duration::from_millis(after)).await;
            let (frame, _) = reply(&session, &key, i, i % 3);
            let answer = client.ask(frame, "a").await?;
            let resolved = owner.until(|frame| frame["type"] == "approval_resolved").await?;
            owner.turn_over().await?;
            beat_the_deadline(&key, &answer, &resolved)
        });
    }
    let mut answered = 0;
    while let Some(lane) = lanes.join_next().await {
        answered += u64::from(lane.expect("a lane that ends").unwrap_or_else(|what| panic!("{what}")));
    }
    let counts = arena.settle(&sessions).await.unwrap_or_else(|what| panic!("{what}"));
    println!("{answered} answers and {} deadlines won", counts.unanswered);
    assert_eq!((counts.answered, counts.unanswered), (answered, SESSIONS as u64 - answered), "{counts:?}");
    assert!(answered > 0 && counts.unanswered > 0, "only one of the two ever wins: {counts:?}");
}
