//! A reader of a stream that is slower than the model gets larger pieces, and nothing twice (spec S15).

use std::{
    sync::atomic::{AtomicUsize, Ordering},
    time::Duration,
};

use countersign::{
    Agent, BoxStream, RunConfig, RunEvent, RunStream, Runner,
    model::{Model, ModelError, ModelEvent, ModelRequest, retry::RetryPolicy},
    run_streamed,
};
use futures::StreamExt as _;

/// Pieces of an answer.
const PIECES: usize = 10_000;

/// A model that writes as fast as it can; each answer of it but the last breaks off.
struct Fast(Vec<String>, AtomicUsize);

impl Fast {
    fn new(answers: &[String]) -> Fast {
        Fast(answers.to_vec(), AtomicUsize::new(0))
    }
}

impl Model for Fast {
    fn call(&self, _: ModelRequest) -> BoxStream<'static, Result<ModelEvent, ModelError>> {
        let n = self.1.fetch_add(1, Ordering::SeqCst);
        let pieces: Vec<String> = self.0[n].split_inclusive(' ').map(str::to_owned).collect();
        let end = if n + 1 < self.0.len() { Err(ModelError::transient("broke off")) } else { Ok(ModelEvent::Stop) };
        let text = futures::stream::iter(pieces.into_iter().map(|piece| Ok(ModelEvent::Text(piece))));
        Box::pin(text.chain(futures::stream::iter([end])))
    }
}

/// The output of a reader that prints each piece, the whole texts that it got, and how often it had to start over.
async fn printed(mut stream: RunStream, pause: Duration) -> (String, String, usize) {
    let (mut printed, mut whole, mut restarts, mut events) = (String::new(), String::new(), 0, 0);
    while let Some(event) = stream.next().await.expect("event") {
        match event {
            RunEvent::TextDelta { text, .. } => printed.push_str(&text),
            RunEvent::Text { text, .. } => whole = text,
            RunEvent::BlockRestarted => restarts += 1,
            _ => continue,
        }
        events += 1;
        if events % 50 == 0 {
            tokio::time::sleep(pause).await;
        }
    }
    (printed, whole, restarts)
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn s15_a_reader_that_is_slower_than_the_model_prints_the_answer_once() {
    let answer: String = (0..PIECES).map(|n| format!("word{n:03} ")).collect();
    for pause in [Duration::ZERO, Duration::from_millis(2), Duration::from_millis(20)] {
        let agent = Agent::new("Helper", ("fast", Fast::new(std::slice::from_ref(&answer))));
        let stream = run_streamed(&agent, "go").await.expect("begins");
        let (printed, whole, restarts) = printed(stream, pause).await;
        assert_eq!((printed.len(), restarts), (answer.len(), 0), "{pause:?}");
        assert!(printed == answer && whole == answer, "{pause:?}");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn s15_an_answer_that_breaks_off_begins_anew_only_where_it_says_something_else() {
    let words = |from: usize, to: usize| (from..to).map(|n| format!("w{n} ")).collect::<String>();
    // The text before the break, the text after it, and the output of a reader.
    for (before, after, prints, restarts) in [
        (words(0, 400), words(0, 900), words(0, 900), 0),
        (words(0, 400), words(0, 200) + "else", words(0, 400) + &words(0, 200) + "else", 1),
        (words(0, 400), words(0, 100), words(0, 400) + &words(0, 100), 1),
        (words(0, 400), words(500, 600), words(0, 400) + &words(500, 600), 1),
    ] {
        let agent = Agent::new("Helper", ("fast", Fast::new(&[before, after.clone()])));
        let retry = RetryPolicy { initial_delay: Duration::from_millis(100), jitter: 0.0, ..RetryPolicy::default() };
        let stream = Runner::new(RunConfig::new().retry(retry)).run_streamed(&agent, "go").await.expect("begins");
        let told = printed(stream, Duration::ZERO).await;
        assert_eq!(told, (prints, after, restarts));
    }
}
