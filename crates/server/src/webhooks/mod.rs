//! Notifications by webhook (spec U4).
//!
//! The audit log is the outbox: its records are written in the transaction of each append, numbered over all sessions and
//! never changed. So nothing is decided without being notified, and nothing is notified that did not happen. Of each endpoint
//! the store keeps how far it is ([`countersign_store::letters`]); a message's id follows from its record's hash, so that
//! receivers can drop repetitions, which a crash between sending and storing makes.
//!
//! A message is thin: names, ids and times, a link that shows the request in the console, never arguments or texts, and nothing
//! in it decides. What it says comes from the record and from the request's row in the inbox ([`notice`]); [`format`] makes a
//! body of it, [`sign`] signs it, [`send`] tries once to deliver it to an address that [`guard`] allows, and [`dispatch`] does
//! that for all that is new, and again for what failed.
//!
//! Two loops belong to an endpoint, one for new records and one for those that failed before, so that neither a receiver that
//! hangs nor a long list of failures holds up what is new, or other endpoints. Messages are sent side by side and can arrive
//! in another order; they say when each happened.

mod dispatch;
mod format;
mod guard;
mod notice;
mod send;
mod sign;
#[cfg(test)]
mod tests;

use std::{
    fmt,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    time::{SystemTime, UNIX_EPOCH},
};

use countersign_core::{journal::record::Millis, locale::Locale};
use countersign_engine::key::ApiKey;
use countersign_store::Store;
use reqwest::{Client, Url};
use tokio::sync::Mutex;

pub(crate) use self::guard::check;
pub use self::{format::Format, notice::NoticeKind, sign::SigningKey};
use self::{notice::Notice, send::Outcome};

/// Most tries of a message, and so the default.
pub(crate) const ATTEMPTS: u32 = dispatch::PAUSES.len() as u32 + 1;

/// An endpoint: where messages go, which, and in which form.
#[derive(Clone, Debug)]
pub struct Endpoint {
    /// Its name; the store knows it by that.
    pub name: String,
    /// Where requests go. It may hold a secret.
    pub url: ApiKey,
    /// What signs: messages of the standard format by each of them; Feishu's by the first.
    pub keys: Vec<SigningKey>,
    /// The form of its messages.
    pub format: Format,
    /// Which messages it gets.
    pub kinds: Vec<NoticeKind>,
    /// Only those of this tenant's sessions.
    pub tenant: Option<String>,
    /// Whether its address may be of a private network, or this machine.
    pub private: bool,
    /// How often a message is tried.
    pub attempts: u32,
}

/// An endpoint at work.
struct Post {
    endpoint: Endpoint,
    url: Url,
    client: Client,
    /// It said that it is gone, so nothing is sent until the next start.
    gone: AtomicBool,
    /// Held while a test is under way.
    testing: Mutex<()>,
}

impl Post {
    fn is_gone(&self) -> bool {
        self.gone.load(Ordering::Relaxed)
    }
}

/// The webhooks of a server. Cheap to clone.
#[derive(Clone)]
pub struct Webhooks {
    store: Arc<dyn Store>,
    posts: Arc<[Arc<Post>]>,
    /// The address of the console, without a `/` at its end.
    console: Arc<str>,
    locale: Locale,
}

impl fmt::Debug for Webhooks {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Webhooks").finish_non_exhaustive()
    }
}

impl Webhooks {
    /// Webhooks of what is in the audit log of `store`. `console` is the address by which people reach the console, for
    /// links; `locale` the language of messages to chats. An endpoint that the store has never seen begins with what happens
    /// from now on, so open them before sessions are at work.
    ///
    /// # Errors
    /// An address that cannot be used, or the store cannot be.
    pub async fn open(
        store: Arc<dyn Store>,
        endpoints: Vec<Endpoint>,
        console: &str,
        locale: Locale,
    ) -> Result<Webhooks, String> {
        let post = |endpoint: Endpoint| {
            let wrong = |error: String| format!("webhook {:?}: \"url\" {error}", endpoint.name);
            let url = check(endpoint.url.expose(), endpoint.private).map_err(wrong)?;
            let client = send::client(&url, endpoint.private).map_err(wrong)?;
            Ok(Arc::new(Post { endpoint, url, client, gone: AtomicBool::new(false), testing: Mutex::default() }))
        };
        let posts = endpoints.into_iter().map(post).collect::<Result<Arc<[Arc<Post>]>, String>>()?;
        for post in posts.iter() {
            let name = &post.endpoint.name;
            store.letters().attend(name).await.map_err(|error| format!("webhook {name:?}: {error}"))?;
        }
        Ok(Webhooks { store, posts, console: console.trim_end_matches('/').into(), locale })
    }

    /// The endpoints, in the order of the file, with whether each said that it is gone.
    pub(crate) fn endpoints(&self) -> impl Iterator<Item = (&Endpoint, bool)> {
        self.posts.iter().map(|post| (&post.endpoint, post.is_gone()))
    }

    /// Where deliveries stand.
    pub(crate) fn store(&self) -> &dyn Store {
        &*self.store
    }

    /// Sends a message that says that it is a test, once; one at a time. Why it did not arrive.
    pub(crate) async fn test(&self, name: &str) -> Option<Result<(), String>> {
        let post = self.posts.iter().find(|post| post.endpoint.name == name)?;
        let Ok(_one) = post.testing.try_lock() else { return Some(Err("another test is under way".to_owned())) };
        let notice = Notice::test(&self.console, now());
        Some(match send::once(post, &notice, self.locale).await {
            Outcome::Delivered => Ok(()),
            Outcome::Failed { why, .. } | Outcome::Gone { why } => Err(why),
        })
    }
}

/// Milliseconds since 1970.
pub(crate) fn now() -> Millis {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    Millis::try_from(since.as_millis()).unwrap_or(Millis::MAX)
}
