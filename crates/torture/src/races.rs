//! Many people, one interruption: one of them wins, and all others learn who (spec R2).

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
/// A decision or a cancel that is this much earlier than the other wins for certain.
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

/// From 2 to [`DECIDERS`] people decide at once, each over a connection to any of the servers, in this many races per
/// session.
///
/// # Errors
/// Not exactly one of them won, or another did not learn who; or the attempts did not overlap.
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
    Ok(Report { counts, races: [raced, 0, 0, 0], told, ..Report::default() })
}

/// All decide at once, with this kind of decision or several; returns the winner's name, and the people.
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

/// In each of this many sessions somebody decides near the deadline.
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
            // The deadline is one second after the question, which has come by now. A decision far too late must be so
            // on a slow machine, too.
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
    Ok(Report { counts, races: [0, raced, 0, 0], ..Report::default() })
}

/// Somebody decides while the owner cancels, in this many races.
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
        // The two lead in turn: once each by far, and then by next to nothing.
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
            // The turn that the decision resumed may be cancelled, or have ended.
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
    Ok(Report { counts, races: [0, 0, races as u64, 0], ..Report::default() })
}

/// How many people decide in each race of [`all_at_once`].
const CROWD: usize = 6;

/// In each of this many sessions several people decide near the deadline, when the owner cancels too; each at any of
/// the servers.
///
/// # Errors
/// Not exactly one of them all won, or somebody did not learn who; or one of the three never wins.
pub async fn all_at_once(base: &Base, ground: Ground, seed: u64, sessions: usize) -> Result<Report, String> {
    let arena = Arena::open(base, ground, None).await?;
    let sessions: Vec<String> = (0..sessions).map(|i| format!("all{i}")).collect();
    let mut lanes = JoinSet::new();
    for (i, session) in sessions.clone().into_iter().enumerate() {
        let mut owner = arena.person("owner", i).await?;
        let canceller = arena.person("owner", i + 1).await?;
        let mut deciders = Vec::new();
        for at in 0..CROWD {
            deciders.push(arena.person(&format!("r{}", (i + 7 * at) % DECIDERS), i + at).await?);
        }
        lanes.spawn(async move {
            let mut rng = Rng::of(seed, &session);
            let asked = owner.turn(&session, "brief", i).await?;
            let (begun, key) = (Instant::now(), asked["approval_key"].as_str().unwrap_or_default().to_owned());
            let (decide, cancel) = moments(i, &mut rng);
            let mut racing = JoinSet::new();
            for (at, mut person) in deciders.into_iter().enumerate() {
                let frame = approval(&session, &key, &json!([decision(at % 2, at)]));
                // All of them within a few milliseconds.
                let moment = decide + Duration::from_micros(rng.below(5000));
                racing.spawn(async move {
                    tokio::time::sleep(moment.saturating_sub(begun.elapsed())).await;
                    let answer = person.ask(frame.clone(), "d").await;
                    answer.map(|answer| Racer { name: Some(person.name), frame, answer })
                });
            }
            let (mut person, frame) = (canceller, json!({ "type": "cancel", "session_id": session }));
            racing.spawn(async move {
                tokio::time::sleep(cancel.saturating_sub(begun.elapsed())).await;
                let answer = person.ask(frame.clone(), "c").await;
                answer.map(|answer| Racer { name: None, frame, answer })
            });
            let mut racers = Vec::new();
            while let Some(racer) = racing.join_next().await {
                racers.push(racer.map_err(|error| error.to_string())??);
            }
            let resolved = owner.until(|frame| frame["type"] == "approval_resolved").await?;
            owner.turn_over().await?;
            one_of_all(&key, &racers, &resolved)
        });
    }
    let (mut won, mut told) = ([0; 3], 0);
    while let Some(lane) = lanes.join_next().await {
        let (winner, losers) = lane.map_err(|error| error.to_string())??;
        won[winner] += 1;
        told += losers;
    }
    let raced = sessions.len() as u64;
    let counts = arena.settle(&sessions).await?;
    if counts.resolved != won || won.iter().sum::<u64>() != raced {
        return Err(format!("R2: of {raced} races decisions, deadlines and cancels won {won:?}, and {counts:?}"));
    }
    if won.contains(&0) {
        return Err(format!("one of the three never wins: {won:?}"));
    }
    Ok(Report { counts, races: [0, 0, 0, raced], told, ..Report::default() })
}

/// A person in a race, what they sent, and the answer; those who cancel have no name.
struct Racer {
    name: Option<String>,
    frame: Value,
    answer: Value,
}

/// When people decide and when the owner cancels, from when the question is seen, one second before the deadline. Of
/// every six races, each of the three is early enough in one to win for certain; in the others all come together.
fn moments(i: usize, rng: &mut Rng) -> (Duration, Duration) {
    let near = |rng: &mut Rng| Duration::from_millis(960 + rng.below(60));
    let (early, late) = (Duration::ZERO, Duration::from_millis(1800));
    match i % 6 {
        0 => (early, near(rng)),
        1 => (near(rng), early),
        2 => (late, late),
        _ => {
            let moment = near(rng);
            (moment, moment + Duration::from_micros(rng.below(5000)))
        }
    }
}

/// Which of a decision (0), the deadline (1) and a cancel (2) has won, and how many deciders have lost; everybody must
/// have learned that it was this one.
fn one_of_all(key: &str, racers: &[Racer], resolved: &Value) -> Result<(usize, u64), String> {
    let told =
        || racers.iter().map(|racer| format!("{:?}: {}", racer.name, racer.answer)).collect::<Vec<_>>().join("; ");
    let wrong =
        |what: &str| format!("R2 {key}: {what}; it was resolved as {resolved}, and people were told {}", told());
    let how = resolved["resolution"].as_str().unwrap_or_default();
    let at = ["decided", "timeout", "cancelled"].into_iter().position(|known| known == how);
    let at = at.ok_or_else(|| wrong("nothing has won"))?;
    let (deciders, cancels): (Vec<&Racer>, Vec<&Racer>) = racers.iter().partition(|racer| racer.name.is_some());
    let acked: Vec<&&Racer> = deciders.iter().filter(|racer| racer.answer["type"] == "ack").collect();
    let winner = match (acked.as_slice(), how) {
        ([winner], "decided") => Some(**winner),
        ([], "timeout" | "cancelled") => None,
        _ => return Err(wrong("not exactly one has won")),
    };
    for racer in deciders.iter().filter(|racer| racer.answer["type"] != "ack") {
        let (answer, details) = (&racer.answer, &racer.answer["details"]);
        let by_winner = winner.is_none_or(|winner| {
            details["by"] == json!(winner.name) && details["decisions"] == winner.frame["decisions"]
        });
        if answer["code"] != "approval_already_resolved" || details["resolution"] != how || !by_winner {
            return Err(wrong("somebody was not told who has won"));
        }
    }
    // The turns that the others resumed may be cancelled too, or have ended.
    let may_lose = |racer: &&Racer| how != "cancelled" && racer.answer["code"] == "nothing_to_cancel";
    if !cancels.iter().all(|racer| racer.answer["type"] == "ack" || may_lose(racer)) {
        return Err(wrong("who cancelled was told something else"));
    }
    Ok((at, (deciders.len() - acked.len()) as u64))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn racer(name: Option<&str>, answer: Value) -> Racer {
        let frame = json!({ "decisions": [decision(0, 0)] });
        Racer { name: name.map(str::to_owned), frame, answer }
    }

    fn lost(how: &str, by: &str) -> Value {
        let details = json!({ "resolution": how, "by": by, "decisions": [decision(0, 0)] });
        json!({ "type": "error", "code": "approval_already_resolved", "details": details })
    }

    #[test]
    fn r2_two_winners_none_and_losers_who_are_not_told_are_found() {
        let ack = || json!({ "type": "ack" });
        let over = || json!({ "type": "error", "code": "nothing_to_cancel" });
        let race = |how: &str, a: Value, b: Value, cancel: Value| {
            let racers = [racer(Some("a"), a), racer(Some("b"), b), racer(None, cancel)];
            one_of_all("k", &racers, &json!({ "resolution": how }))
        };
        assert_eq!(race("decided", ack(), lost("decided", "a"), over()), Ok((0, 1)));
        assert_eq!(race("timeout", lost("timeout", ""), lost("timeout", ""), ack()), Ok((1, 2)));
        assert_eq!(race("cancelled", lost("cancelled", ""), lost("cancelled", ""), ack()), Ok((2, 2)));
        for (how, a, b, cancel, what) in [
            ("decided", ack(), ack(), over(), "not exactly one"),
            ("decided", lost("decided", "b"), lost("decided", "a"), over(), "not exactly one"),
            ("timeout", ack(), lost("timeout", ""), over(), "not exactly one"),
            ("decided", ack(), lost("decided", "c"), over(), "not told who"),
            ("decided", ack(), lost("timeout", ""), over(), "not told who"),
            ("timeout", lost("cancelled", ""), lost("timeout", ""), ack(), "not told who"),
            ("cancelled", lost("cancelled", ""), lost("cancelled", ""), over(), "who cancelled"),
            ("", lost("", ""), lost("", ""), ack(), "nothing has won"),
        ] {
            let found = race(how, a, b, cancel).expect_err(what);
            assert!(found.contains(what), "{what}: {found}");
        }
    }
}
