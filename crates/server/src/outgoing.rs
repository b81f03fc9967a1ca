//! HTTP requests to other servers.

use std::time::Duration;

pub use countersign_engine::outgoing::{chain, is_loopback};
use reqwest::{Client, Url};

/// A client for this address. It follows no redirects: only this address was checked.
///
/// # Errors
/// Why it cannot be built, which is rare.
pub fn client(url: &Url, timeout: Duration) -> Result<Client, String> {
    countersign_engine::outgoing::client(url).timeout(timeout).build().map_err(chain)
}
