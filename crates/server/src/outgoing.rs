//! HTTP requests to other servers.

use std::time::Duration;

pub use countersign::outgoing::{chain, is_loopback};
use reqwest::{Client, Url};

/// A client for this address. It follows no redirects: only this address was checked.
///
/// # Errors
/// Why it cannot be built; hardly ever.
pub fn client(url: &Url, timeout: Duration) -> Result<Client, String> {
    countersign::outgoing::client(url).timeout(timeout).build().map_err(chain)
}
