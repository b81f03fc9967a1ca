//! Notifications by webhook and by e-mail (spec U4).
//!
//! The audit log is the outbox: its records are written in the transaction of each append, numbered over all sessions and
//! never changed. So no decision goes without its notification, and no notification is about something that did not
//! happen. For each endpoint the store keeps its progress ([`countersign_store::deliveries`]); a message's id is
//! derived from its record's hash, so that receivers can drop repetitions, which a crash between sending and storing
//! causes.
//!
//! A message is thin: names, ids and times, a link that shows the request in the console, never arguments or texts, and
//! it cannot be used to decide. Its content comes from the record and from the request's row in the inbox ([`notice`]);
//! [`format`] makes a body of it, [`sign`] signs it, [`send`] attempts once to deliver it to an address that [`guard`]
//! allows, or [`mail`] to a mail server, and [`dispatch`] does that for new records, and again for failed deliveries.
//!
//! Two loops belong to an endpoint, one for new records and one for those that failed before. So neither a hanging
//! receiver nor a long list of failures delays other endpoints, and new messages wait for no old failure. They do wait
//! for the batch before them: an endpoint whose receiver hangs gets one batch in each time limit of an attempt
//! ([`send`]). The messages of a batch are sent side by side and can arrive in another order; they say when each
//! happened.

mod dispatch;
mod format;
mod guard;
mod mail;
mod notice;
mod send;
mod sign;
#[cfg(test)]
mod tests;

use std::{
    fmt,
    sync::{Arc, atomic::AtomicBool},
};

use countersign_core::{locale::Locale, setting::SettingError};
use countersign_engine::{key::ApiKey, outgoing};
use countersign_store::{Store, StoreError, machine_time};
use reqwest::{Client, Url};
use tokio::sync::Mutex;

pub use self::{format::Format, mail::Mail, notice::NoticeKind, sign::SigningKey};
pub(crate) use self::{
    guard::check,
    mail::{PEOPLE, address, server},
};
use self::{mail::Sender, notice::Notice, send::Outcome};

/// Most attempts to deliver a message, and so the default.
pub(crate) const ATTEMPTS: u32 = dispatch::PAUSES.len() as u32 + 1;
/// Most endpoints of the store that are compared with the file's.
const ENDPOINTS: usize = 1000;

/// An endpoint: the address of messages, their kinds, and their form.
#[derive(Clone, PartialEq)]
#[non_exhaustive]
pub struct Endpoint {
    /// Its name; the store knows it by that.
    pub name: String,
    /// The address of requests, or of the mail server. It may hold a secret.
    pub url: ApiKey,
    /// The signing keys: messages of the standard format are signed with each of them, Feishu's with the first.
    pub keys: Vec<SigningKey>,
    /// The form of its messages.
    pub format: Format,
    /// The sender and recipients, for [`Format::Email`].
    pub mail: Option<Mail>,
    /// Which messages it gets.
    pub kinds: Vec<NoticeKind>,
    /// Only those of this tenant's sessions.
    pub tenant: Option<String>,
    /// Whether its address may be of a private network, or this machine.
    pub allow_private_networks: bool,
    /// Whether its address may be an `http` one.
    pub allow_http: bool,
    /// Most attempts to deliver a message.
    pub max_attempts: u32,
}

impl Endpoint {
    /// An endpoint at a public address, which gets every message in the standard format, unsigned.
    #[must_use]
    pub fn new(name: impl Into<String>, url: ApiKey) -> Endpoint {
        Endpoint {
            name: name.into(),
            url,
            keys: Vec::new(),
            format: Format::default(),
            mail: None,
            kinds: NoticeKind::ALL.to_vec(),
            tenant: None,
            allow_private_networks: false,
            allow_http: false,
            max_attempts: ATTEMPTS,
        }
    }

    /// The host of its address, the only part that may be shown.
    #[must_use]
    pub fn host(&self) -> Option<String> {
        outgoing::host(self.url.expose())
    }
}

impl fmt::Debug for Endpoint {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Endpoint").field("name", &self.name).field("host", &self.host()).finish_non_exhaustive()
    }
}

/// A running endpoint.
struct Active {
    endpoint: Endpoint,
    way: Way,
    /// The receiver said just now that it is gone, which is not stored yet.
    is_gone: AtomicBool,
    /// Held while a test is under way.
    testing: Mutex<()>,
}

/// How an endpoint is reached.
enum Way {
    Post { url: Url, client: Client },
    Mail(Sender),
}

/// The webhooks of a server. Cheap to clone.
#[derive(Clone)]
pub struct Webhooks {
    store: Arc<dyn Store>,
    endpoints: Arc<[Arc<Active>]>,
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
    /// Webhooks over the audit log of `store`. `console` is the address by which people reach the console, for
    /// links; `locale` the language of messages to chats. An endpoint that is new to the store begins with the next
    /// event, so open them before sessions run.
    ///
    /// # Errors
    /// An address or the store cannot be used.
    pub async fn open(
        store: Arc<dyn Store>,
        endpoints: Vec<Endpoint>,
        console: &str,
        locale: Locale,
    ) -> Result<Webhooks, SettingError> {
        Ok(Webhooks::opened(store, endpoints, console, locale).await?)
    }

    async fn opened(
        store: Arc<dyn Store>,
        endpoints: Vec<Endpoint>,
        console: &str,
        locale: Locale,
    ) -> Result<Webhooks, String> {
        let active = |endpoint: Endpoint| {
            let wrong = |error: String| format!("webhook {:?}: \"url\" {error}", endpoint.name);
            let way = match (endpoint.format, &endpoint.mail) {
                (Format::Email, Some(mail)) => {
                    Way::Mail(Sender::new(mail.clone(), endpoint.url.expose()).map_err(wrong)?)
                }
                (Format::Email, None) => return Err(format!("webhook {:?}: nobody to send e-mail to", endpoint.name)),
                _ => {
                    let private = endpoint.allow_private_networks;
                    let url = check(endpoint.url.expose(), private, endpoint.allow_http).map_err(wrong)?;
                    let client = send::client(&url, private).map_err(wrong)?;
                    Way::Post { url, client }
                }
            };
            Ok(Arc::new(Active { endpoint, way, is_gone: AtomicBool::new(false), testing: Mutex::default() }))
        };
        let endpoints = endpoints.into_iter().map(active).collect::<Result<Arc<[Arc<Active>]>, String>>()?;
        for active in endpoints.iter() {
            let name = &active.endpoint.name;
            let wrong = |error| format!("webhook {name:?}: {error}");
            // Endpoints that were gone are tried again.
            store.deliveries().set_gone(name, false).await.map_err(wrong)?;
            store.deliveries().claim(name).await.map_err(wrong)?;
        }
        let webhooks = Webhooks { store, endpoints, console: console.trim_end_matches('/').into(), locale };
        for name in webhooks.left().await.map_err(|error| format!("webhooks cannot be read: {error}"))? {
            tracing::warn!(
                "the store still knows webhook {name:?}, which is not configured: it continues where it was if it is again; \
                 `countersign webhooks forget {name}` drops it"
            );
        }
        Ok(webhooks)
    }

    /// The names of endpoints that the store knows and the file does not.
    async fn left(&self) -> Result<Vec<String>, StoreError> {
        let mut names = self.store.deliveries().endpoints(ENDPOINTS).await?;
        names.retain(|name| self.endpoints().all(|endpoint| endpoint.name != *name));
        Ok(names)
    }

    /// The endpoints, in the order of the file.
    pub(crate) fn endpoints(&self) -> impl Iterator<Item = &Endpoint> {
        self.endpoints.iter().map(|active| &active.endpoint)
    }

    /// Forgets an endpoint's progress and its failed deliveries; one that is in the file begins with the next event.
    /// Returns the number of failed deliveries; `None` if the store does not know the endpoint.
    pub(crate) async fn forget(&self, name: &str) -> Result<Option<u64>, StoreError> {
        let forgotten = self.store.deliveries().forget(name).await?;
        if self.endpoints().any(|endpoint| endpoint.name == name)
            && let Err(error) = self.store.deliveries().claim(name).await
        {
            // It is forgotten all the same, and the endpoint's own task claims it next.
            tracing::warn!("webhook {name:?} begins anew later: {error}");
        }
        Ok(forgotten)
    }

    /// The store, with the progress of deliveries.
    pub(crate) fn store(&self) -> &dyn Store {
        &*self.store
    }

    /// Sends a test message once; one at a time. Returns why it did not arrive.
    pub(crate) async fn test(&self, name: &str) -> Option<Result<(), String>> {
        let active = self.endpoints.iter().find(|active| active.endpoint.name == name)?;
        let Ok(_one) = active.testing.try_lock() else { return Some(Err("another test is under way".to_owned())) };
        let notice = Notice::test(&self.console, machine_time());
        Some(match send::once(active, &notice, self.locale).await {
            Outcome::Delivered => Ok(()),
            Outcome::Failed { why, .. } | Outcome::Partly { why } | Outcome::Gone { why } => Err(why),
        })
    }
}
