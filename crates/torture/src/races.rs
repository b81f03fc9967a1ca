//! Many people, one interruption: one of them wins, and all others are told who (spec R2).

use std::{
    collections::HashSet,
    sync::Arc,
    time::{Duration, Instant},
};

use serde_json::{Value, json};
use tokio::{sync::Barrier, task::JoinSet};

use crate::{
    people::{Arena, Ground, Person, beat_the_deadline},
    report::Report,
    rng::Rng,
    world::{Base, DECIDERS},
};

/// Sessions in which people race at the same time.
const LANES: usize = 3;
/// Of a decision and a cancel, the one that comes so much earlier wins for certain.
const LEAD: Duration = Duration::from_millis(500);
/// How many people race, one race after another, and which of their [`decision`]s wins for certain: all of them send that kind.
const CROWDS: [(usize, Option<usize>); 6] =
    [(2, None), (8, Some(2)), (3, None), (16, Some(0)), (5, Some(1)), (DECIDERS, None)];

fn decision(kind: usize, i: usize) -> Value {
    match kind % 3 {
        0 => json!({ "type": "approve" }),
        1 => json!({ "type": "reject", "message": format!("no, says {i}") }),
        _ => json!({ "type": "edit", "edited_action": { "name": "gated", "args": { "n": 100 + i } } }),
    }
}

fn approval(session: &str, key: &str, decisions: &Value) -> Value {
    json!({ "type": "approval", "session_id": session, "approval_key": key, "decisions": decisions })
}

/// From 2 to [`DECIDERS`] people decide at once, each by a connection to any of the servers, in so many races a session.
///
/// # Errors
/// Not exactly one of them won, or another was not told who; or the races were none.
pub async fn deciders(base: &Base, ground: Ground, races: usize) -> Result<Report, String> {
    let arena = Arena::open(base, ground, None).await?;
    let sessions: Vec<String> = (0..LANES).map(|i| format!("race{i}")).collect();
    let mut lanes = JoinSet::new();
    for (lane, session) in sessions.clone().into_iter().enumerate() {
        let mut owner = arena.person("owner", lane).await?;
        let mut people = Vec::new();
        for i in 0..DECIDERS {
            people.push(arena.person(&format!("r{i}"), lane + i).await?);
        }
        lanes.spawn(async move {
            let (mut winners, mut losers) = (HashSet::new(), 0);
            for race in 0..races {
                let asked = owner.turn(&session, "race", race).await?;
                let key = asked["approval_key"].as_str().unwrap_or_default().to_owned();
                // Other people each time.
                people.rotate_left(7);
                let (size, kind) = CROWDS[race % CROWDS.len()];
                let (winner, crowd) = one_race(people.drain(..size).collect(), &session, &key, race, kind).await?;
                losers += crowd.len() as u64 - 1;
                people.extend(crowd);
                winners.insert(winner);
                let status = owner.turn_over().await?;
                if status != "completed" {
                    return Err(format!("after race {race} the turn is {status}"));
                }
            }
            Ok((winners, losers))
        });
    }
    let (mut winners, mut told) = (HashSet::new(), 0);
    while let Some(lane) = lanes.join_next().await {
        let (won, lost) = lane.map_err(|error| error.to_string())??;
        winners.extend(won);
        told += lost;
    }
    let counts = arena.settle(&sessions).await?;
    let raced = (LANES * races) as u64;
    if counts.resolved != [raced, 0, 0] {
        return Err(format!("R2: {raced} races, and {counts:?}"));
    }
    if winners.len() < 2 {
        return Err("always the same one won: these were no races".to_owned());
    }
    Ok(Report { counts, races: [raced, 0, 0], told, ..Report::default() })
}

/// All decide at once, by this kind of decision or by several; returns the winner's name, and the people.
async fn one_race(
    people: Vec<Person>,
    session: &str,
    key: &str,
    race: usize,
    kind: Option<usize>,
) -> Result<(String, Vec<Person>), String> {
    let start = Arc::new(Barrier::new(people.len()));
    let mut deciding = JoinSet::new();
    for (i, mut person) in people.into_iter().enumerate() {
        let decision = decision(kind.unwrap_or(i + race), i + race);
        let (start, frame) = (start.clone(), approval(session, key, &json!([decision])));
        deciding.spawn(async move {
            start.wait().await;
            let answer = person.ask(frame.clone(), &format!("d{race}-{i}")).await;
            (person, frame, answer)
        });
    }
    let (mut people, mut answers) = (Vec::new(), Vec::new());
    while let Some(decided) = deciding.join_next().await {
        let (person, frame, answer) = decided.map_err(|error| error.to_string())?;
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
    Ok((winner.clone(), people))
}

/// In each of so many sessions somebody decides near the deadline.
///
/// # Errors
/// Both won, or none; or always the same of them.
pub async fn deadlines(base: &Base, ground: Ground, seed: u64, sessions: usize) -> Result<Report, String> {
    let arena = Arena::open(base, ground, None).await?;
    let sessions: Vec<String> = (0..sessions).map(|i| format!("late{i}")).collect();
    let mut lanes = JoinSet::new();
    for (i, session) in sessions.clone().into_iter().enumerate() {
        let mut owner = arena.person("owner", i).await?;
        let mut decider = arena.person(&format!("r{}", i % DECIDERS), i + 1).await?;
        // Some decide at once, some far too late, most as close to the deadline as possible.
        let after = match i % 8 {
            0 => Duration::ZERO,
            1 => Duration::from_millis(1700),
            _ => Duration::from_millis(960 + Rng::of(seed, &session).below(60)),
        };
        lanes.spawn(async move {
            let frame = json!({ "type": "message", "session_id": session, "agent": "brief", "content": "go" });
            let begun = Instant::now();
            let answer = owner.ask(frame, "m").await?;
            if answer["type"] != "ack" {
                return Err(format!("the message was refused: {answer}"));
            }
            let asked = owner.until(|frame| frame["content_block"]["type"] == "approval_request").await?;
            let key = asked["content_block"]["approval_key"].as_str().unwrap_or_default().to_owned();
            // The deadline is one second after the question, which came by now. What is far too late is so on a slow machine, too.
            tokio::time::sleep(if i % 8 == 1 { after } else { after.saturating_sub(begun.elapsed()) }).await;
            let answer = decider.ask(approval(&session, &key, &json!([{ "type": "approve" }])), "d").await?;
            let resolved = owner.until(|frame| frame["type"] == "approval_resolved").await?;
            owner.turn_over().await?;
            beat_the_deadline(&key, &answer, &resolved)
        });
    }
    let mut decided = 0;
    while let Some(lane) = lanes.join_next().await {
        decided += u64::from(lane.map_err(|error| error.to_string())??);
    }
    let raced = sessions.len() as u64;
    let counts = arena.settle(&sessions).await?;
    if counts.resolved != [decided, raced - decided, 0] {
        return Err(format!("R2: of {raced} races a decision won {decided}, and {counts:?}"));
    }
    if decided == 0 || decided == raced {
        return Err(format!("only one of the two ever wins: {counts:?}"));
    }
    Ok(Report { counts, races: [0, raced, 0], ..Report::default() })
}

/// Somebody decides while the owner cancels, in so many races.
///
/// # Errors
/// Both won, or none; or always the same of them.
pub async fn cancels(base: &Base, ground: Ground, seed: u64, races: usize) -> Result<Report, String> {
    let arena = Arena::open(base, ground, None).await?;
    let session = "cancelled".to_owned();
    let mut owner = arena.person("owner", 0).await?;
    let mut canceller = arena.person("owner", 1).await?;
    let mut decider = arena.person("r0", 2).await?;
    let (mut decided, mut cancelled) = (0, 0);
    for race in 0..races {
        let asked = owner.turn(&session, "race", race).await?;
        let key = asked["approval_key"].as_str().unwrap_or_default().to_owned();
        let frame = approval(&session, &key, &json!([decision(race, race)]));
        let cancel = json!({ "type": "cancel", "session_id": session });
        let (d, c) = (format!("d{race}"), format!("c{race}"));
        // Either of the two may have a small lead, and has a large one once.
        let lead = if race < 2 { LEAD } else { Duration::from_micros(Rng::of(seed, &d).below(3000)) };
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
        let (decision, cancel) = (decision?, cancel?);
        let resolved = owner.until(|frame| frame["type"] == "approval_resolved").await?;
        let details = &decision["details"];
        match resolved["resolution"].as_str() {
            // The turn that the decision resumed may be cancelled, or be over.
            Some("decided")
                if decision["type"] == "ack" && (cancel["type"] == "ack" || cancel["code"] == "nothing_to_cancel") =>
            {
                decided += 1;
            }
            Some("cancelled")
                if cancel["type"] == "ack"
                    && decision["code"] == "approval_already_resolved"
                    && details["resolution"] == "cancelled" =>
            {
                cancelled += 1;
            }
            _ => return Err(format!("R2 {key}: {decision} and {cancel}, and it was resolved as {resolved}")),
        }
        owner.turn_over().await?;
    }
    let counts = arena.settle(&[session]).await?;
    if counts.resolved != [decided, 0, cancelled] {
        return Err(format!("R2: {decided} decisions and {cancelled} cancels won, and {counts:?}"));
    }
    if decided == 0 || cancelled == 0 {
        return Err(format!("only one of the two ever wins: {counts:?}"));
    }
    Ok(Report { counts, races: [0, 0, races as u64], ..Report::default() })
}
