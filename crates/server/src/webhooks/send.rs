//! One attempt to deliver a message.

use std::{
    sync::Arc,
    time::{Duration, SystemTime},
};

use countersign_core::locale::Locale;
use countersign_engine::outgoing;
use countersign_store::machine_time;
use reqwest::{Client, Response, StatusCode, Url, header};
use serde::Deserialize;

use super::{Active, Endpoint, Format, Way, format::body, guard::PublicOnly, notice::Notice};

/// The longest time of an attempt, from the name to the end of the answer.
pub(super) const TIME_LIMIT: Duration = Duration::from_secs(15);
/// How much of an answer is read. Only Feishu's says whether the message arrived.
const ANSWER_BYTES: usize = 4 * 1024;
/// The longest pause that a receiver may request.
const PAUSE_MOST: Duration = Duration::from_hours(24);

/// The outcome of an attempt.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Outcome {
    Delivered,
    /// It arrived, but not for everybody, and is not attempted again: those who have it would get it twice.
    Partly {
        why: String,
    },
    Failed {
        why: String,
        /// The pause that the receiver requests.
        pause: Option<Duration>,
    },
    /// The receiver wants no more messages.
    Gone {
        why: String,
    },
}

/// A client for an endpoint.
pub(super) fn client(url: &Url, private: bool) -> Result<Client, String> {
    let names = Arc::new(PublicOnly::unless(private, url));
    outgoing::client(url).timeout(TIME_LIMIT).dns_resolver(names).build().map_err(outgoing::chain)
}

/// Attempts once.
pub(super) async fn once(active: &Active, notice: &Notice, locale: Locale) -> Outcome {
    match &active.way {
        Way::Post { url, client } => post(&active.endpoint, (url, client), notice, locale).await,
        Way::Mail(sender) => sender.once(notice, locale).await,
    }
}

async fn post(endpoint: &Endpoint, (url, client): (&Url, &Client), notice: &Notice, locale: Locale) -> Outcome {
    let seconds = machine_time() / 1000;
    let body = body(endpoint.format, notice, locale, endpoint.keys.first(), seconds).to_string();
    let mut request = client.post(url.clone()).header(header::CONTENT_TYPE, "application/json");
    if endpoint.format == Format::Standard {
        let signed: Vec<String> = endpoint.keys.iter().map(|key| key.sign(&notice.id, seconds, &body)).collect();
        request = request
            .header("webhook-id", &notice.id)
            .header("webhook-timestamp", seconds)
            .header("webhook-signature", signed.join(" "));
    }
    match request.body(body).send().await {
        Ok(answer) => judge(endpoint.format, answer).await,
        Err(error) => Outcome::Failed { why: outgoing::chain(error), pause: None },
    }
}

async fn judge(format: Format, mut answer: Response) -> Outcome {
    let status = answer.status();
    let pause = retry_after(&answer);
    let why = outgoing::status(status);
    if status == StatusCode::GONE {
        return Outcome::Gone { why };
    }
    if status.is_redirection() {
        let why = format!("{why}; redirects are not followed");
        return Outcome::Failed { why, pause };
    }
    if !status.is_success() {
        return Outcome::Failed { why, pause };
    }
    if format == Format::Feishu {
        let why = match said_by_feishu(&mut answer).await {
            Some(0) => return Outcome::Delivered,
            Some(code) => format!("{why}, but refused with code {code}"),
            // A portal or a proxy, perhaps.
            None => format!("{why}, but no answer of Feishu"),
        };
        return Outcome::Failed { why, pause };
    }
    Outcome::Delivered
}

/// Feishu's answer, whose status is 200 even when a message was refused. Its older form has the other member, some
/// answers have both.
#[derive(Deserialize)]
struct Said {
    code: Option<i64>,
    #[serde(rename = "StatusCode")]
    status_code: Option<i64>,
}

/// The code that Feishu answers, 0 if the message arrived; `None` if this is no answer of Feishu, or not all of one.
async fn said_by_feishu(answer: &mut Response) -> Option<i64> {
    let (text, error) = outgoing::body(answer, ANSWER_BYTES + 1).await;
    if error.is_some() || text.len() > ANSWER_BYTES {
        return None;
    }
    let Said { code, status_code } = serde_json::from_slice(&text).ok()?;
    code.filter(|code| *code != 0).or(status_code).or(code)
}

/// The pause that the receiver requests: in seconds, or until a date.
fn retry_after(answer: &Response) -> Option<Duration> {
    let said = answer.headers().get(header::RETRY_AFTER)?.to_str().ok()?.trim();
    let pause = match said.parse() {
        Ok(seconds) => Duration::from_secs(seconds),
        Err(_) => httpdate::parse_http_date(said).ok()?.duration_since(SystemTime::now()).ok()?,
    };
    Some(pause.min(PAUSE_MOST))
}
