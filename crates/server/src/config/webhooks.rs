//! `[webhooks.*]` (spec U4).
//!
//! E-mail is one more form of message: recipients, retries and failed deliveries work the same way.

use countersign_core::limits;
use countersign_engine::key::ApiKey;
use serde_json::json;

use super::{
    describe::Part,
    literal::{always, warn_of_address, warn_of_plain},
    reader::Section,
    table::{boolean, choice, list, own_name, set, short, text, variable, whole},
};
use crate::webhooks::{ATTEMPTS, Endpoint, Format, Mail, NoticeKind, PEOPLE, SigningKey, address, check, server};

/// Reads a declared webhook.
pub(super) fn read(section: &Section<'_>) -> Option<Endpoint> {
    let name = section.field("name", "", own_name("webhook", limits::NAME_BYTES))?;
    let format = "The form of its messages: signed ones of Standard Webhooks, those of a chat, or e-mail.";
    let format = section.field(
        "format",
        format,
        choice("format", Format::NAMED.to_vec()).or_as("`\"standard\"`", Format::default),
    )?;
    let posted = |key: &'static str, doc: &'static str, alien: &str| {
        let part = Part {
            of: "all but `email`",
            when: json!({ "not": { "properties": { "format": { "const": "email" } }, "required": ["format"] } }),
            not_meant: (format == Format::Email).then(|| format!("means nothing to e-mail: {alien}")),
        };
        section.field(key, doc, boolean().or(false).of(part))
    };
    let allow_private_networks = posted(
        "allow_private_networks",
        "Whether messages may go to addresses of private networks and of this machine. A mail server may be anywhere.",
        "the mail server may be anywhere",
    )?;
    let allow_http = posted(
        "allow_http",
        "Whether its address may be an `http` one: anybody on the network path can read its messages.",
        "see \"tls\"",
    )?;
    let url = url(section, format, allow_private_networks, allow_http);
    let keys = keys(section, format);
    let mail = mail(section, format, url.as_ref());
    let known: Vec<_> = NoticeKind::ALL.iter().map(|kind| (kind.name(), *kind)).collect();
    let events = set(choice("event", known), |kind: &NoticeKind| kind.name());
    let events = events.and(|entry, events| {
        if entry.items().is_empty() {
            entry.bad("is empty, so nothing would ever be sent; leave it out for all events");
        }
        Some(events)
    });
    let all = || NoticeKind::ALL.to_vec();
    let kinds = section.field("events", "[Which events](webhooks.md#events) it gets.", events.or_as("all", all))?;
    let tenant = short(limits::SUBJECT_BYTES).optional("those of all tenants");
    let tenant = section.field("tenant", "Only those of this tenant's sessions.", tenant)?;
    let attempts =
        "The most attempts to send a message, including the first; after that it is kept and can be sent again.";
    let max_attempts = section.field("max_attempts", attempts, whole(1..=ATTEMPTS, "attempts").or(ATTEMPTS))?;
    let (url, keys, mail) = (url?, keys?, mail?);
    Some(Endpoint { name, url, keys, format, mail, kinds, tenant, allow_private_networks, allow_http, max_attempts })
}

fn url(section: &Section<'_>, format: Format, allow_private_networks: bool, allow_http: bool) -> Option<ApiKey> {
    let check = move |url: &str| match format {
        Format::Email => server(url),
        _ => check(url, allow_private_networks, allow_http),
    };
    let (is_url, is_env) = (section.has("url").is_some(), section.has("url_env").is_some());
    if !is_url && !is_env {
        section.missing("\"url\" or \"url_env\"", ": where messages go");
    } else if is_url && is_env {
        section.bad("url_env", "cannot be combined with \"url\": an address is one or the other");
    }
    let doc = "Where messages are posted to: an `https` address. Redirects are not followed. For `email` the mail server: \
               `smtps://HOST` (TLS from the beginning, port 465) or `smtp://HOST` (STARTTLS, port 587), with `:PORT` for another port.";
    let checked = text().and(move |entry, url| {
        warn_of_address(entry, &url);
        check(&url).map_err(|what| entry.bad(what)).ok().map(|_| ApiKey::new(&url))
    });
    let url = section.field("url", doc, checked.called("URL").optional("one of the two"))?;
    let doc =
        "In place of `url`: the variable that holds the address, for one with a secret in it, as those of chats have.";
    let in_variable = variable().and(move |entry, (variable, url)| match check(&url) {
        Ok(_) => Some(ApiKey::new(&url)),
        Err(what) => {
            entry.bad(format!("names the environment variable {variable}, whose address {what}"));
            None
        }
    });
    let in_variable = section.field("url_env", doc, in_variable.optional("one of the two"))?;
    if let Some(url) = &in_variable {
        warn_of_plain(section, url.expose(), &[("url_env", always)]);
    }
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
    let doc = "The variables that hold the secrets it signs with. `standard`: each `whsec_` and 24 to 64 bytes as base64, such as \
               `echo whsec_$(openssl rand -base64 32)` prints; several while one replaces another. `feishu`: the robot's, if it has \
               one. The other formats have none.";
    let keys = list(key).schema(json!({ "maxItems": 4 })).called("list of environment variables");
    let keys = keys.and(move |entry, keys| {
        let most = if format == Format::Feishu { 1 } else { 4 };
        if !(1..=most).contains(&entry.items().len()) {
            let right =
                if most == 1 { "one variable: this webhook type takes one secret" } else { "one to four variables" };
            entry.bad(format!("must name {right}"));
        }
        Some(keys)
    });
    let alien = match format {
        Format::Slack | Format::Teams => {
            Some("means nothing to this format: its secret is the address, see \"url_env\"")
        }
        Format::Email => Some("means nothing to e-mail: its secret is the password, see \"password_env\""),
        Format::Standard | Format::Feishu => None,
    };
    let alien = alien.map(str::to_owned);
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

/// The keys of e-mail; `Some(None)` for another form. `url`: the mail server, whichever key has named it.
fn mail(section: &Section<'_>, format: Format, url: Option<&ApiKey>) -> Option<Option<Mail>> {
    let is_mail = format == Format::Email;
    let part = || Part {
        of: "`email`",
        when: json!({ "properties": { "format": { "const": "email" } }, "required": ["format"] }),
        not_meant: (!is_mail).then(|| "is for e-mail, format = \"email\"".to_owned()),
    };
    let one = || text().try_map(|text| address(&text).map(|_| text)).called("address");
    let doc = "The sender: `desk@example.com` or `Desk <desk@example.com>`.";
    let from = section.field("from", doc, one().optional("required for `email`").of(part()))?;
    let to = list(one()).schema(json!({ "minItems": 1, "maxItems": PEOPLE })).called("list of addresses");
    let to = to.and(|entry, to| {
        if !(1..=PEOPLE).contains(&entry.items().len()) {
            entry.bad(format!("must name 1 to {PEOPLE} addresses"));
        }
        Some(to)
    });
    let doc = "Recipients. Each sees the others.";
    let to = section.field("to", doc, to.optional("required for `email`").of(part()))?;
    let doc = "`required`: the mail server must offer TLS, with a certificate that this machine trusts (`SSL_CERT_FILE` names \
               others). `none`: without, port 25, for a mail server on this machine.";
    let tls = choice("mode", vec![("required", true), ("none", false)]).or_as("`\"required\"`", || true);
    let tls = section.field("tls", doc, tls.of(part()))?;
    let doc = "The name to sign in with at the mail server; with `password_env`.";
    let user = section.field("user", doc, short(limits::NAME_BYTES).optional("nobody signs in").of(part()))?;
    let doc = "The variable that holds the password. It is sent with TLS only.";
    let password = section.field("password_env", doc, variable().optional("nobody signs in").of(part()))?;
    if !is_mail {
        return Some(None);
    }
    for (key, what) in [("from", ": whom its e-mails come from"), ("to", ": whom they go to, a list")] {
        if section.has(key).is_none() {
            section.missing(&format!("{key:?}"), what);
        }
    }
    let encrypted = url.is_some_and(|url| server(url.expose()).is_ok_and(|url| url.scheme() == "smtps"));
    match (tls, &user, &password) {
        (false, ..) if encrypted => {
            section.bad("tls", "is \"none\", but an smtps address is TLS; without TLS it is smtp")
        }
        (false, Some(_), _) | (false, _, Some(_)) => {
            section
                .bad("tls", "is \"none\", so the password could be read on the way; leave it out, or sign in nowhere");
        }
        (true, Some(_), None) if section.has("password_env").is_none() => {
            section.missing("\"password_env\"", ": what \"user\" signs in with");
        }
        (true, None, Some(_)) if section.has("user").is_none() => section.missing("\"user\"", ": whose password it is"),
        _ => {}
    }
    // Their errors were reported.
    let mail = Mail::new(&from?, &to?).ok()?;
    let mail = if tls { mail } else { mail.plain() };
    Some(Some(match (user, password) {
        (Some(user), Some((_, password))) => mail.login(&user, ApiKey::new(&password)),
        _ => mail,
    }))
}
