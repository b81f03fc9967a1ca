//! `[webhooks.*]` (spec U4).

use std::fmt;

use countersign_core::limits;
use countersign_engine::key::ApiKey;
use serde_json::json;

use super::{
    describe::Part,
    literal::warn_of_address,
    mcp::host,
    reader::Section,
    table::{boolean, choice, list, own_name, set, text, variable, whole},
};
use crate::webhooks::{ATTEMPTS, Endpoint, Format, NoticeKind, SigningKey, check};

/// A declared webhook.
#[derive(Clone, PartialEq)]
pub struct ConfigWebhook {
    /// Its name.
    pub name: String,
    /// Where messages go, a secret as a whole.
    pub url: ApiKey,
    /// What signs them.
    pub keys: Vec<SigningKey>,
    /// Their form.
    pub format: Format,
    /// Which it gets.
    pub events: Vec<NoticeKind>,
    /// Only those of this tenant.
    pub tenant: Option<String>,
    /// Whether they may go into private networks.
    pub private: bool,
    /// How often each is tried.
    pub attempts: u32,
}

impl fmt::Debug for ConfigWebhook {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ConfigWebhook").field("name", &self.name).field("host", &self.host()).finish_non_exhaustive()
    }
}

impl ConfigWebhook {
    /// The host of its address, the only part that may be shown.
    #[must_use]
    pub fn host(&self) -> Option<String> {
        host(self.url.expose())
    }

    /// The endpoint, for a server.
    #[must_use]
    pub fn endpoint(&self) -> Endpoint {
        let ConfigWebhook { name, url, keys, format, events, tenant, private, attempts } = self.clone();
        Endpoint { name, url, keys, format, kinds: events, tenant, private, attempts }
    }

    pub(super) fn read(section: &Section<'_>) -> Option<ConfigWebhook> {
        let name = section.field("name", "", own_name("webhook", limits::NAME_BYTES))?;
        let private = "Whether messages may go to addresses of private networks and of this machine, and over `http`.";
        let private = section.field("private", private, boolean().or(false))?;
        let url = url(section, private);
        let format = "The form of its messages: signed ones of Standard Webhooks, or what a chat shows.";
        let format = section.field(
            "format",
            format,
            choice("format", Format::NAMED.to_vec()).or_as("`\"standard\"`", Format::default),
        )?;
        let keys = keys(section, format);
        let known: Vec<_> = NoticeKind::ALL.into_iter().map(|kind| (kind.name(), kind)).collect();
        let events = set(choice("event", known), |kind: &NoticeKind| kind.name());
        let events = events.and(|entry, events| {
            if entry.items().is_empty() {
                entry.bad("is empty, so nothing would ever be sent; leave it out for all events");
            }
            Some(events)
        });
        let all = || NoticeKind::ALL.to_vec();
        let events =
            section.field("events", "[Which events](webhooks.md#events) it gets.", events.or_as("all", all))?;
        let tenant = "Only those of this tenant's sessions.";
        let tenant = section.field("tenant", tenant, text().optional("those of all tenants"))?;
        let attempts =
            "How often a message is tried, the first time included; after that it is kept and can be sent again.";
        let attempts = section.field("attempts", attempts, whole(1..=ATTEMPTS, "attempts").or(ATTEMPTS))?;
        Some(ConfigWebhook { name, url: url?, keys: keys?, format, events, tenant, private, attempts })
    }
}

fn url(section: &Section<'_>, private: bool) -> Option<ApiKey> {
    let (is_url, is_env) = (section.has("url").is_some(), section.has("url_env").is_some());
    if !is_url && !is_env {
        section.missing("\"url\" or \"url_env\"", ": where messages go");
    } else if is_url && is_env {
        section.bad("url_env", "cannot stand beside \"url\": an address is one or the other");
    }
    let doc = "Where messages are posted to: an `https` address. Redirects are not followed.";
    let checked = text().and(move |entry, url| {
        warn_of_address(entry, &url);
        check(&url, private).map_err(|what| entry.bad(what)).ok().map(|_| ApiKey::new(&url))
    });
    let url = section.field("url", doc, checked.called("URL").optional("one of the two"))?;
    let doc =
        "In place of `url`: the variable that has the address, where there is a secret in it, as in those of chats.";
    let in_variable = variable().and(move |entry, (variable, url)| match check(&url, private) {
        Ok(_) => Some(ApiKey::new(&url)),
        Err(what) => {
            entry.bad(format!("names the environment variable {variable}, whose address {what}"));
            None
        }
    });
    let in_variable = section.field("url_env", doc, in_variable.optional("one of the two"))?;
    url.or(in_variable)
}

fn keys(section: &Section<'_>, format: Format) -> Option<Vec<SigningKey>> {
    let key = variable().and(move |entry, (variable, secret)| {
        if format == Format::Feishu {
            return Some(SigningKey::feishu(&secret));
        }
        let key = SigningKey::standard(&secret);
        key.map_err(|what| entry.bad(format!("names the environment variable {variable}, {what}"))).ok()
    });
    let doc = "The variables that have the secrets it signs with. `standard`: each `whsec_` and 24 to 64 bytes as base64, such as \
               `echo whsec_$(openssl rand -base64 32)` prints; several while one replaces another. `feishu`: the robot's, if it has \
               one. The other formats have none.";
    let keys = list(key).schema(json!({ "maxItems": 4 })).called("list of environment variables");
    let keys = keys.and(move |entry, keys| {
        let most = if format == Format::Feishu { 1 } else { 4 };
        if !(1..=most).contains(&entry.items().len()) {
            let right = if most == 1 { "one variable: a robot has one secret" } else { "one to four variables" };
            entry.bad(format!("must name {right}"));
        }
        Some(keys)
    });
    let alien = matches!(format, Format::Slack | Format::Teams)
        .then(|| "means nothing to this format: its secret is the address, see \"url_env\"".to_owned());
    let signed = Part {
        of: "`standard`, `feishu`",
        when: json!({ "properties": { "format": { "enum": ["standard", "feishu"] } } }),
        not_meant: alien,
    };
    let written = section.has("secret_env").is_some();
    let keys = section.field("secret_env", doc, keys.or_as("none; required for `standard`", Vec::new).of(signed))?;
    // An unknown format was reported already.
    let is_known = section.peek("format").is_none_or(|said| Format::NAMED.iter().any(|(name, _)| *name == said));
    if format == Format::Standard && is_known && !written {
        section.missing("\"secret_env\"", ": what signs its messages");
        return None;
    }
    Some(keys)
}
