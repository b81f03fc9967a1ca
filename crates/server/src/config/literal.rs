//! Secrets written into the file itself, those taken from the environment, and where they are sent.

use countersign_engine::outgoing::is_loopback;
use reqwest::Url;

use super::reader::{Entry, Section};

/// Parts of the names of headers, variables and parameters that hold secrets.
const SECRET: [&str; 9] =
    ["authoriz", "token", "secret", "password", "passwd", "apikey", "cookie", "credential", "signature"];
/// Shortest path segment that may be a key, in bytes.
const SEGMENT_BYTES: usize = 16;

/// Whether this name suggests a secret.
pub(super) fn is_secret(name: &str) -> bool {
    let plain: String = name.to_ascii_lowercase().chars().filter(char::is_ascii_alphanumeric).collect();
    SECRET.iter().any(|word| plain.contains(word))
        || ["key", "auth"].iter().any(|end| plain.ends_with(end))
        || matches!(&*plain, "sig" | "pat" | "pwd")
}

/// The value of an environment variable; reported if it has none.
pub(super) fn variable_value(entry: &Entry<'_>, name: &str) -> Option<String> {
    if !is_variable(name) {
        entry.bad(format!("is {name:?}, which is not a valid environment variable name"));
        return None;
    }
    let value = (entry.section.document.env)(name);
    let wrong = match &value {
        None => "is not set",
        Some(value) if value.trim().is_empty() => "is set, but empty or not in UTF-8",
        Some(_) => return value,
    };
    entry.bad(format!("names the environment variable {name}, which {wrong}"));
    None
}

/// Whether this is a valid name of an environment variable.
pub(super) fn is_variable(name: &str) -> bool {
    !name.is_empty() && !name.contains(['=', '\0'])
}

/// Warns of a header or a variable whose secret is in the file.
pub(super) fn warn_of_value(entry: &Entry<'_>, name: &str) {
    if is_secret(name) {
        entry.warn(format!(
            "has the value of {name:?} in this file, and it looks like a secret; write {{ env = \"VARIABLE\" }} in its place"
        ));
    }
}

/// A key whose value is sent, and whether that value holds a secret.
pub(super) type Sent<'k> = (&'k str, fn(&Entry<'_>) -> bool);

/// Warns of keys whose secrets are sent to an address without TLS, unless it is on this machine. Of the address only the
/// host is repeated.
pub(super) fn warn_of_plain(section: &Section<'_>, url: &str, keys: &[Sent<'_>]) {
    let Ok(url) = Url::parse(url.trim()) else { return };
    if url.scheme() != "http" || is_loopback(&url) {
        return;
    }
    for (key, is_secret) in keys {
        if let Some(entry) = section.entry(key, None).filter(|entry| is_secret(entry)) {
            let host = url.host_str().unwrap_or_default();
            entry.warn(format!("is sent to {host} without TLS, and whoever is on the way can read it; use https"));
        }
    }
}

/// Whatever the value: the key itself names a secret.
pub(super) fn always(_: &Entry<'_>) -> bool {
    true
}

/// Whether a table of texts has a secret: a variable's value, or one whose name suggests it.
pub(super) fn has_secrets(entry: &Entry<'_>) -> bool {
    entry.members().iter().any(|(name, member)| is_secret(name) || member.value.get_ref().is_table())
}

/// Warns of an address that contains a key, and says whether it does. The address itself is not repeated.
pub(super) fn warn_of_address(entry: &Entry<'_>, text: &str) -> bool {
    let Ok(url) = Url::parse(text.trim()) else { return false };
    let in_query = url.query_pairs().find(|(name, value)| is_secret(name) && !value.is_empty());
    let mixed = |segment: &&str| {
        segment.len() >= SEGMENT_BYTES
            && segment.bytes().any(|byte| byte.is_ascii_digit())
            && segment.bytes().any(|byte| byte.is_ascii_alphabetic())
    };
    let place = match (in_query, url.path_segments().and_then(|mut segments| segments.find(mixed))) {
        (Some((name, _)), _) => format!("its parameter {name:?}"),
        (None, Some(_)) => "a part of its path".to_owned(),
        (None, None) => return false,
    };
    entry.warn(format!(
        "has in this file what looks like a secret, {place}; put the address into a variable and name it with \"url_env\""
    ));
    true
}
