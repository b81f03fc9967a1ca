//! `locale`, `[server]` and `[auth]`.

use std::{
    collections::HashMap,
    net::{Ipv4Addr, SocketAddr},
};

use axum::http::Uri;
use countersign_core::locale::Locale;

use super::{
    error::nearest,
    reader::{At, Section},
};

/// Where the server listens unless the configuration says otherwise.
pub const LISTEN: SocketAddr = SocketAddr::new(std::net::IpAddr::V4(Ipv4Addr::LOCALHOST), 7410);
/// Longest subject or role, in bytes.
const SUBJECT_BYTES: usize = 128;

/// How the server is reached (SPEC C).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ConfigServer {
    /// Its address; a loopback address unless somebody has a token.
    pub listen: SocketAddr,
    /// Origins of other sites whose pages may connect, such as `https://app.example.com`.
    pub allowed_origins: Vec<String>,
}

/// A person or program that may use the server (SPEC C). The token itself is not kept here.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ConfigToken {
    /// Who it is.
    pub subject: String,
    /// The roles it holds.
    pub roles: Vec<String>,
    /// The environment variable that has the token; it was set and not empty when the file was loaded.
    pub token_env: String,
}

pub(super) fn locale(root: &Section<'_>) -> Locale {
    let Some(name) = root.string("locale") else { return Locale::default() };
    Locale::from_name(&name.value).unwrap_or_else(|| {
        root.bad(name.at, "locale", format!("is {:?}; it must be one of \"en\", \"vi\", \"zh\"", name.value));
        Locale::default()
    })
}

pub(super) fn server(root: &Section<'_>, has_tokens: bool) -> ConfigServer {
    let mut server = ConfigServer { listen: LISTEN, allowed_origins: Vec::new() };
    let Some(section) = root.table("server") else { return server };
    if let Some(listen) = section.string("listen") {
        let address = match listen.value.strip_prefix("localhost:") {
            Some(port) => port.parse().ok().map(|port| SocketAddr::from((Ipv4Addr::LOCALHOST, port))),
            None => listen.value.parse().ok(),
        };
        match address {
            None => {
                let what = format!("is {:?}; it must be an address and a port, such as \"127.0.0.1:7410\"", listen.value);
                section.bad(listen.at, "listen", what);
            }
            Some(address) if !has_tokens && !address.ip().is_loopback() => section.bad(
                listen.at,
                "listen",
                format!("is {address}, which other machines can reach; declare who may connect with [[auth.tokens]], or listen on 127.0.0.1"),
            ),
            Some(address) => server.listen = address,
        }
    }
    for origin in section.strings("allowed_origins").unwrap_or_default() {
        match as_origin(&origin.value) {
            Some(origin) => server.allowed_origins.push(origin),
            None => {
                let what =
                    format!("has {:?}, which is no origin; one looks like \"https://app.example.com\"", origin.value);
                section.bad(origin.at, "allowed_origins", what);
            }
        }
    }
    section.finish();
    server
}

/// An origin as browsers send it: lower case, without a path.
fn as_origin(text: &str) -> Option<String> {
    let uri: Uri = text.parse().ok()?;
    let authority = uri.authority()?.as_str().to_ascii_lowercase();
    let scheme = uri.scheme_str().filter(|scheme| matches!(*scheme, "http" | "https"))?;
    let origin = format!("{scheme}://{authority}");
    (text.eq_ignore_ascii_case(&origin) && !authority.contains('@')).then_some(origin)
}

pub(super) fn tokens(root: &Section<'_>) -> Vec<ConfigToken> {
    let Some(auth) = root.table("auth") else { return Vec::new() };
    if auth.has("tokens").is_none() {
        // Without tokens everybody would be trusted, which is not what somebody who writes [auth] wants.
        auth.document
            .error(auth.at, "[auth] needs [[auth.tokens]]: without any, nobody could be told apart".to_owned());
    }
    let mut tokens: Vec<ConfigToken> = Vec::new();
    let mut secrets: HashMap<String, String> = HashMap::new();
    for section in auth.tables("tokens") {
        let subject = section.required("subject");
        let token_env = section.required("token_env");
        let mut roles: Vec<String> = Vec::new();
        for role in section.strings("roles").unwrap_or_default() {
            match role_error(&role.value) {
                Some(what) => section.bad(role.at, "roles", what),
                None if roles.contains(&role.value) => {
                    section.bad(role.at, "roles", format!("has {:?} twice", role.value));
                }
                None => roles.push(role.value),
            }
        }
        section.finish();
        if let Some(subject) = &subject {
            if subject.value.is_empty()
                || subject.value.len() > SUBJECT_BYTES
                || subject.value.contains(char::is_control)
            {
                section.bad(
                    subject.at,
                    "subject",
                    format!("must have 1 to {SUBJECT_BYTES} bytes and no control characters"),
                );
            } else if tokens.iter().any(|token| token.subject == subject.value) {
                section.bad(subject.at, "subject", format!("is {:?}, which has a token already", subject.value));
            }
        }
        if let Some(token_env) = &token_env
            && let Some(secret) = secret(&section, "token_env", token_env)
            && let Some(other) = secrets.insert(secret, token_env.value.clone())
        {
            let what = format!("is {:?}, whose token is the same as that of {other:?}", token_env.value);
            section.bad(token_env.at, "token_env", what);
        }
        if let (Some(subject), Some(token_env)) = (subject, token_env) {
            tokens.push(ConfigToken { subject: subject.value, roles, token_env: token_env.value });
        }
    }
    auth.finish();
    tokens
}

/// What is wrong with the name of a role, if anything.
pub(super) fn role_error(role: &str) -> Option<String> {
    let right = !role.is_empty()
        && role.len() <= SUBJECT_BYTES
        && role.chars().all(|c| c.is_ascii_alphanumeric() || matches!(c, '_' | '-' | '.' | ':'));
    (!right).then(|| format!("has {role:?}, which is no role; a role has letters, digits and _ - . :"))
}

/// The value of the environment variable that a key names; reported if it is not set.
pub(super) fn secret(section: &Section<'_>, key: &str, variable: &At<String>) -> Option<String> {
    let name = &variable.value;
    if name.is_empty() || name.contains(['=', '\0']) {
        section.bad(variable.at, key, format!("is {name:?}, which is no name of an environment variable"));
        return None;
    }
    let value = (section.document.env)(name).filter(|value| !value.trim().is_empty());
    if value.is_none() {
        section.bad(variable.at, key, format!("names the environment variable {name}, which is not set"));
    }
    value
}

/// Reports an unknown name with the nearest known one.
pub(super) fn unknown<'k>(
    section: &Section<'_>,
    what: &str,
    name: &At<String>,
    known: impl IntoIterator<Item = &'k str>,
) {
    let message = format!("unknown {what} {:?}{}", name.value, section.place());
    section.document.error_near(name.at, message, nearest(&name.value, known));
}
