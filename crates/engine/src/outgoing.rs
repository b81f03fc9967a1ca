//! What all outgoing requests share: models, MCP servers, HTTP tools.

use std::{error::Error as _, fmt::Write as _, time::Duration};

use reqwest::{Client, ClientBuilder, Response, StatusCode, Url, redirect::Policy};

/// The longest time to connect to a server, TLS included.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(10);

/// What is wrong with an address that contains a user or a password.
pub const CREDENTIALS: &str = "must not contain a user or a password";

/// Sets TLS's cryptography provider, if none is set.
pub fn install_crypto() {
    if rustls::crypto::CryptoProvider::get_default().is_none() {
        // Fails only if another thread was faster, which is just as good.
        let _ = rustls::crypto::ring::default_provider().install_default();
    }
}

/// The base of a client for this address. It follows no redirects, which could carry secrets elsewhere.
pub fn client(url: &Url) -> ClientBuilder {
    install_crypto();
    let mut builder = Client::builder()
        .connect_timeout(CONNECT_TIMEOUT)
        .redirect(Policy::none())
        .user_agent(concat!("countersign/", env!("CARGO_PKG_VERSION")));
    if is_loopback(url) {
        builder = builder.no_proxy();
    }
    if url.scheme() == "http" {
        // No certificates are needed, and a machine without any can still talk to a local server.
        builder = builder.tls_certs_only([]);
    }
    builder
}

/// The host of an address: the rest may hold a secret.
#[must_use]
pub fn host(url: &str) -> Option<String> {
    Some(Url::parse(url.trim()).ok()?.host_str()?.to_owned())
}

/// Parses an address, without its fragment.
///
/// # Errors
/// It is not an address for requests. The text says why without repeating it: an address may contain a secret.
pub fn address(text: &str) -> Result<Url, String> {
    let mut url = Url::parse(text.trim()).map_err(|error| format!("is not a URL: {error}"))?;
    if !matches!(url.scheme(), "http" | "https") {
        return Err("must begin with http:// or https://".to_owned());
    }
    if !url.username().is_empty() || url.password().is_some() {
        return Err(CREDENTIALS.to_owned());
    }
    url.set_fragment(None);
    Ok(url)
}

/// Whether it is this machine, which is never reached through a proxy.
#[must_use]
pub fn is_loopback(url: &Url) -> bool {
    let host = url.host_str().unwrap_or_default().trim_matches(['[', ']']).trim_end_matches('.');
    host == "localhost"
        || host.ends_with(".localhost")
        || host.parse::<std::net::IpAddr>().is_ok_and(|address| address.is_loopback())
}

/// The error's own text and its causes', without the address, whose query may contain a secret.
#[must_use]
pub fn chain(error: reqwest::Error) -> String {
    let error = error.without_url();
    let mut text = error.to_string();
    let mut source = error.source();
    while let Some(cause) = source {
        let _ = write!(text, ": {cause}");
        source = cause.source();
    }
    text
}

/// A status with its name, if it has one.
pub fn status(status: StatusCode) -> String {
    match status.canonical_reason() {
        Some(reason) => format!("{} {reason}", status.as_u16()),
        None => status.as_u16().to_string(),
    }
}

/// Whether the request may have had an effect though it failed with this status: the server crashed, or a gateway in
/// front of it did not wait for it (408), or considered the client disconnected (499).
#[must_use]
pub fn may_have_begun(status: StatusCode) -> bool {
    status.is_server_error() || matches!(status.as_u16(), 408 | 499)
}

/// The body, up to `most` bytes, and the error that cut it off, if any.
pub async fn body(response: &mut Response, most: usize) -> (Vec<u8>, Option<reqwest::Error>) {
    let mut body = Vec::new();
    while body.len() < most {
        match response.chunk().await {
            Ok(Some(part)) => body.extend_from_slice(&part[..part.len().min(most - body.len())]),
            Ok(None) => break,
            Err(error) => return (body, Some(error)),
        }
    }
    (body, None)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn loopback_is_recognised_in_every_spelling() {
        let loopback = |base: &str| is_loopback(&Url::parse(base).unwrap());
        for base in ["http://localhost:1", "http://LOCALHOST.", "http://127.9.9.9", "http://[::1]:80", "http://127.1"] {
            assert!(loopback(base), "{base}");
        }
        for base in ["http://localhost.example", "http://10.0.0.1", "https://example.com"] {
            assert!(!loopback(base), "{base}");
        }
    }
}
