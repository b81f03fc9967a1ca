//! Groups while they are written: a crash or a broken stream never retracts more than the start of one block, whatever
//! the model says next (spec W2, R7, Q5).

use std::{sync::Arc, time::Duration};

use countersign::{
    run::{NewMessage, Runtime},
    store::{Store, memory::MemoryStore},
};
use countersign_runtime::run::subscription::Subscription;
use futures::FutureExt as _;
use tokio::task::yield_now;

use crate::{
    client::Client,
    failing::Failing,
    paced::{self, Paced, Part, broken, call, input, stop, text, thinking},
    support::{me, stores},
};

/// One process after the other over the same store. Dropping the executor ends every task where it is.
struct Life {
    executor: tokio::runtime::Runtime,
    runtime: Runtime,
    model: Arc<Paced>,
    store: Arc<dyn Store>,
    /// Whether the store answers at once.
    quick: bool,
}

impl Life {
    /// In memory.
    fn quick(streams: Vec<Vec<Part>>) -> Life {
        let life = Life::new(Arc::new(MemoryStore::new()), Paced::new(streams));
        Life { quick: true, ..life }
    }

    fn new(store: Arc<dyn Store>, model: Arc<Paced>) -> Life {
        let executor = tokio::runtime::Builder::new_current_thread().enable_all().build().expect("executor");
        let runtime = paced::runtime(&store, &model);
        Life { executor, runtime, model, store, quick: false }
    }

    fn run<T>(&self, run: impl Future<Output = T>) -> T {
        self.executor.block_on(run)
    }

    /// Takes the first message; with a client that follows, if asked.
    fn message(&self, follow: bool) -> Option<Subscription> {
        let stored = self.run(crate::support::message(&self.runtime, NewMessage::text("s", "go"), follow));
        stored.expect("stored").follow
    }

    fn step(&self, parts: usize) {
        self.model.release(parts);
        self.run(self.model.settle(&self.runtime, "s"));
        self.model.hold();
    }

    /// Dies, and another process takes its place.
    fn crash(self) -> Life {
        let Life { executor, runtime, model, store, quick } = self;
        drop((executor, runtime));
        model.hold();
        let life = Life { quick, ..Life::new(store, model) };
        life.run(async {
            life.store.check().await.expect("check");
            life.runtime.start().await.expect("start");
            life.model.settle(&life.runtime, "s").await;
        });
        life
    }

    fn follow(&self, after: u64) -> Subscription {
        self.run(self.runtime.subscribe(&me(), "s", Some(after))).expect("follow")
    }

    /// Takes all frames that are there.
    fn read(&self, following: &mut Subscription, client: &mut Client) {
        self.run(async {
            let last = self.runtime.state(&me(), "s").await.expect("state").seq;
            loop {
                let patience = async {
                    if client.seq < last {
                        tokio::time::sleep(Duration::from_secs(20)).await;
                    } else if self.quick {
                        yield_now().await;
                    } else {
                        tokio::time::sleep(Duration::from_millis(3)).await;
                    }
                };
                tokio::select! {
                    biased;
                    frame = following.next() => client.take(&frame.expect("frame").json),
                    () = patience => break assert!(client.seq >= last, "seq {last} never comes"),
                }
            }
        });
    }

    /// Runs to the end; then a client that was there, a new one, and the history are the same. Returns what was shown.
    fn agrees(&self, client: &mut Client, following: Option<Subscription>) -> Vec<String> {
        self.model.release(1000);
        self.run(self.model.settle(&self.runtime, "s"));
        let mut following = following.unwrap_or_else(|| self.follow(client.seq));
        self.read(&mut following, client);
        let mut fresh = Client::default();
        self.read(&mut self.follow(0), &mut fresh);
        assert_eq!(*client, fresh, "a client that was there, and a replay");
        let history = self.run(self.runtime.whole_history(&me(), "s")).expect("history");
        assert_eq!(serde_json::to_value(history).expect("json"), serde_json::Value::from(fresh.history()));
        assert!(!client.is_writing(), "every block is closed");
        client.shape()
    }
}

/// The first block of an answer, of each kind: what is streamed outside groups, in them, and not at all.
fn firsts() -> Vec<(&'static str, Vec<Part>)> {
    vec![
        ("text", vec![text("Words"), text(" and more")]),
        ("thinking", vec![thinking("Hm"), thinking(" hm")]),
        ("call", vec![call("x", "look"), input("{\"n\""), input(":1}")]),
        ("loud", vec![call("x", "loud"), input("{\"n\""), input(":1}")]),
        ("hidden", vec![call("x", "mute"), input("{\"n\""), input(":1}")]),
        ("thought", vec![call("x", "share_thought"), input("{\"text\""), input(":\"so\"}")]),
        ("question", vec![call("x", "ask_user_question"), input("{\"questions\""), input(":[]}")]),
        ("nothing", vec![]),
    ]
}

fn whole(parts: &[Part]) -> Vec<Part> {
    let mut parts = parts.to_vec();
    parts.push(stop());
    parts
}

fn cut(parts: &[Part], at: usize) -> Vec<Part> {
    let mut parts: Vec<Part> = parts.iter().take(at).cloned().collect();
    parts.push(broken());
    parts
}

#[test]
fn r7_whatever_the_model_says_after_a_crash_a_client_that_saw_a_block_begin_ends_as_a_replay_does() {
    for (said, first) in firsts() {
        for (says, again) in firsts() {
            for followed in [false, true] {
                let life = Life::quick(vec![first.clone(), whole(&again)]);
                let mut following = life.message(true).expect("follow");
                let mut client = Client::default();
                life.step(2);
                life.read(&mut following, &mut client);
                drop(following);
                let life = life.crash();
                // Back at once, or only after the end.
                let following = followed.then(|| life.follow(client.seq));
                let shape = life.agrees(&mut client, following);
                assert!(shape.len() < 12, "{said}, then {says}: {shape:?}");
            }
        }
    }
}

#[test]
fn r7_two_crashes_in_a_row_take_back_no_more_than_one() {
    // One of each place: outside groups, within, nowhere, and outside but not streamed.
    let firsts = || firsts().into_iter().filter(|(name, _)| matches!(*name, "text" | "call" | "hidden" | "thought"));
    for (_, first) in firsts() {
        for (_, second) in firsts() {
            for (_, third) in firsts() {
                for seen in [true, false] {
                    let life = Life::quick(vec![first.clone(), second.clone(), whole(&third)]);
                    let mut client = Client::default();
                    let mut following = life.message(true).expect("follow");
                    life.step(1);
                    life.read(&mut following, &mut client);
                    drop(following);
                    let life = life.crash();
                    // The second process runs with and without a follower.
                    let mut following = seen.then(|| life.follow(client.seq));
                    life.step(2);
                    if let Some(following) = &mut following {
                        life.read(following, &mut client);
                    }
                    drop(following);
                    life.crash().agrees(&mut client, None);
                }
            }
        }
    }
}

#[test]
fn s23_a_broken_stream_may_be_followed_by_any_first_block() {
    for (said, first) in firsts() {
        for (says, again) in firsts() {
            for at in 1..=2 {
                // From the beginning, from before the break, or from the second stream on.
                for joins in [0, at, at + 2] {
                    let life = Life::quick(vec![cut(&first, at), whole(&again)]);
                    let mut client = Client::default();
                    let mut following = life.message(joins == 0);
                    for step in 1..=at + 2 {
                        life.step(1);
                        if step == joins {
                            following = Some(life.follow(0));
                        }
                        if let Some(following) = &mut following {
                            life.read(following, &mut client);
                        }
                    }
                    let shape = life.agrees(&mut client, following);
                    assert!(shape.len() < 12, "{said}, then {says}: {shape:?}");
                }
            }
        }
    }
}

#[test]
fn s23_what_a_broken_attempt_has_shown_is_marked_as_replaced_once_the_model_says_something_else() {
    // What the broken attempt shows, what the next one says, and which blocks of the former are replaced.
    let hm = || thinking("Hm");
    let cases: Vec<(Vec<Part>, Vec<Part>, &[&str])> = vec![
        (vec![hm(), text("Wo")], vec![thinking("Well"), text("Words")], &["Hm", "Wo"]),
        // It says the same: nothing is replaced.
        (vec![hm(), text("Wo")], vec![hm(), text("Words")], &[]),
        // The open block starts over in its place.
        (vec![text("Wo")], vec![text("Other words")], &[]),
        (vec![text("Wo")], vec![hm(), text("Words")], &["Wo"]),
        (vec![hm(), call("x", "look"), input("{}"), text("Wo")], vec![text("Words")], &["Hm", "{}", "Wo"]),
        (
            vec![call("x", "look"), input("{\"n\":1}"), hm()],
            vec![call("y", "look"), input("{\"n\":2}")],
            &["{\"n\":1}", "Hm"],
        ),
    ];
    for (first, again, replaced) in cases {
        for (name, store, _dir) in stores() {
            let life = Life::new(store, Paced::new(vec![cut(&first, first.len()), whole(&again)]));
            let following = life.message(true);
            let mut client = Client::default();
            life.agrees(&mut client, following);
            assert_eq!(client.replaced(), replaced, "{name}: {:?}", client.said());
            // What the model reads next has none of it.
            let history = life.run(life.runtime.whole_history(&me(), "s")).expect("history");
            assert_eq!(history.iter().filter(|message| message.replaced).count(), replaced.len());
        }
        // After a crash as after a broken stream.
        let life = Life::quick(vec![first.clone(), whole(&again)]);
        let mut following = life.message(true).expect("follow");
        let mut client = Client::default();
        life.step(first.len());
        life.read(&mut following, &mut client);
        drop(following);
        life.crash().agrees(&mut client, None);
        for text in replaced.iter().take(replaced.len().saturating_sub(1)) {
            assert!(client.replaced().contains(text), "{text}: {:?}", client.replaced());
        }
    }
}

#[test]
fn q5_who_joins_while_the_first_block_of_a_group_is_written_sees_its_group_begin() {
    for (name, store, _dir) in stores() {
        let answer = vec![thinking("H"), thinking("m"), call("x", "look"), input("{}"), stop()];
        let life = Life::new(store, Paced::new(vec![answer]));
        life.message(false);
        life.step(1);
        let (mut early, mut late) = (Client::default(), Client::default());
        let mut first = life.follow(0);
        life.read(&mut first, &mut early);
        assert_eq!((early.shape(), early.is_writing()), (vec!["(".to_owned(), "thinking".to_owned()], true), "{name}");
        life.step(1);
        let mut second = life.follow(0);
        life.read(&mut second, &mut late);
        life.read(&mut first, &mut early);
        assert_eq!(early, late);
        assert_eq!(life.agrees(&mut early, Some(first)), ["(", "thinking", "tool_use", "tool_result", ")", "text"]);
        assert_eq!(life.agrees(&mut late, Some(second)).len(), 6);
    }
}

#[test]
fn q5_who_joins_while_a_text_is_written_after_an_open_group_sees_the_group_end() {
    for (name, store, _dir) in stores() {
        let answer = vec![thinking("Hm"), text("W"), text("ords"), stop()];
        let life = Life::new(store, Paced::new(vec![answer]));
        let mut leaves = life.message(true).expect("follow");
        let mut client = Client::default();
        life.step(1);
        life.read(&mut leaves, &mut client);
        // Nobody is there when the text begins.
        drop(leaves);
        life.step(1);
        let mut back = life.follow(client.seq);
        life.read(&mut back, &mut client);
        assert_eq!(client.shape(), ["(", "thinking", ")", "text"], "{name}");
        assert_eq!(life.agrees(&mut client, Some(back)), ["(", "thinking", ")", "text"]);
    }
}

#[test]
fn q5_an_answer_of_hidden_calls_alone_shows_nothing_of_itself() {
    for (name, store, _dir) in stores() {
        let answer = vec![call("x", "mute"), input("{}"), call("y", "mute"), input("{}"), stop()];
        let life = Life::new(store, Paced::new(vec![answer]));
        let following = life.message(true);
        assert_eq!(life.agrees(&mut Client::default(), following), ["text"], "{name}");
    }
}

/// A caller that is gone when its request is stored: followers must see it all the same, also where the state was
/// stored with it.
#[test]
fn r7_followers_miss_nothing_of_a_request_whose_caller_is_gone() {
    for yields in 0..8 {
        for cancels in [true, false] {
            let store: Arc<dyn Store> = Failing::slow(Arc::new(MemoryStore::new()));
            let life = Life::new(store, Paced::new(vec![vec![thinking("Hm"), text("more"), stop()]]));
            let mut following = life.message(true).expect("follow");
            let mut client = Client::default();
            life.step(1);
            life.read(&mut following, &mut client);
            life.run(async {
                let gone = async {
                    for _ in 0..yields {
                        yield_now().await;
                    }
                };
                let message = NewMessage {
                    on_pending: Some(countersign_core::journal::draft::OnPending::Queue),
                    ..NewMessage::text("s", "and?")
                };
                let request = async {
                    if cancels {
                        life.runtime.cancel(&me(), "s", None).await.expect("cancelled");
                    } else {
                        life.runtime.message(&me(), message).await.expect("queued");
                    }
                };
                tokio::select! { biased; () = gone => {}, () = request => {} }
            });
            life.read(&mut following, &mut client);
            life.agrees(&mut client, Some(following));
            // Another's request is no reason to call the model again.
            assert!(cancels || client.said().contains(&"more"), "{client:?}");
        }
    }
}

/// The same for the caller that runs the turn itself and is dropped in the middle, while nobody follows.
#[test]
fn r7_who_joins_after_a_run_was_given_up_sees_nothing_twice() {
    for yields in 0..60 {
        let store: Arc<dyn Store> = Failing::slow(Arc::new(MemoryStore::new()));
        let answer = vec![thinking("Hm"), text("Words"), call("x", "look"), input("{}"), stop()];
        let life = Life::new(store, Paced::new(vec![answer.clone(), answer]));
        let me = me();
        life.model.release(1000);
        life.run(async {
            let gone = async {
                for _ in 0..yields {
                    yield_now().await;
                }
            };
            let run = life.runtime.run(&me, NewMessage::text("s", "go"));
            // Somebody holds the session all the while.
            let waits = life.runtime.wait(&me, "s");
            tokio::select! { biased; () = gone => {}, _ = run => {}, _ = waits.then(|_| std::future::pending::<()>()) => {} }
        });
        if life.run(life.runtime.state(&me, "s")).is_err() {
            continue;
        }
        let mut client = Client::default();
        let mut following = life.follow(0);
        life.read(&mut following, &mut client);
        life.run(async {
            life.runtime.start().await.expect("start");
        });
        life.agrees(&mut client, Some(following));
    }
}

/// A slow reader that falls behind in the middle of a block catches up.
#[test]
fn r7_a_reader_who_falls_behind_within_a_group_misses_nothing() {
    for (name, store, _dir) in stores() {
        let mut answer = vec![thinking("Hm"), text("Words")];
        answer.extend((0..400).map(|_| thinking("more ")));
        answer.push(stop());
        let life = Life::new(store, Paced::new(vec![answer]));
        let mut following = life.message(true).expect("follow");
        let mut client = Client::default();
        life.step(300);
        life.read(&mut following, &mut client);
        let shape = ["(", "thinking", ")", "text", "(", "thinking"];
        assert_eq!(client.shape(), shape, "{name}");
        assert_eq!(life.agrees(&mut client, Some(following))[..6], shape);
    }
}

/// The deadline of a question, live.
#[test]
fn q4_a_question_that_nobody_answers_in_time_closes_for_everybody() {
    for (_, store, _dir) in stores() {
        let asks = vec![
            thinking("Hm"),
            call("x", "ask_user_question"),
            input(r#"{"questions":[{"question":"Q","options":[{"label":"A"}]}]}"#),
            stop(),
        ];
        let life = Life::new(store.clone(), Paced::new(vec![asks]));
        let mut following = life.message(true).expect("follow");
        let mut client = Client::default();
        life.step(10);
        life.read(&mut following, &mut client);
        // Recorded as another process would, whose clock is ahead of ours.
        life.run(crate::conversations::time_out(&store));
        drop(following);
        let life = life.crash();
        let shape = life.agrees(&mut client, None);
        assert_eq!(shape, ["(", "thinking", ")", "approval_request", "approval_timeout", "text"]);
    }
}
