//! Asking other servers over HTTP.

use std::{error::Error as _, fmt::Write as _, time::Duration};

use reqwest::{Client, Url, redirect::Policy};

/// A client for this address. It follows no redirects: the address was checked, another was not.
///
/// # Errors
/// Why there can be none; hardly ever.
pub fn client(url: &Url, timeout: Duration) -> Result<Client, String> {
    if rustls::crypto::CryptoProvider::get_default().is_none() {
        // Fails only if somebody else was faster, which is as good.
        let _ = rustls::crypto::ring::default_provider().install_default();
    }
    let mut builder = Client::builder()
        .timeout(timeout)
        .redirect(Policy::none())
        .user_agent(concat!("countersign/", env!("CARGO_PKG_VERSION")));
    if is_loopback(url) {
        builder = builder.no_proxy();
    }
    if url.scheme() == "http" {
        // No certificates are needed, nor looked for.
        builder = builder.tls_certs_only([]);
    }
    builder.build().map_err(chain)
}

/// The error's own words and its causes', without the address, whose query may hold a secret.
#[must_use]
pub fn chain(error: reqwest::Error) -> String {
    let error = error.without_url();
    let mut text = error.to_string();
    let mut source = error.source();
    while let Some(cause) = source {
        // Writing to a string cannot fail.
        let _ = write!(text, ": {cause}");
        source = cause.source();
    }
    text
}

/// Whether the address is this machine's own.
#[must_use]
pub fn is_loopback(url: &Url) -> bool {
    let host = url.host_str().unwrap_or_default().trim_matches(['[', ']']);
    host == "localhost" || host.parse::<std::net::IpAddr>().is_ok_and(|address| address.is_loopback())
}
