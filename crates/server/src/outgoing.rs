//! Asking other servers over HTTP.

use std::time::Duration;

pub use countersign::outgoing::{chain, is_loopback};
use reqwest::{Client, Url};

/// A client for this address. It follows no redirects: the address was checked, another was not.
///
/// # Errors
/// Why there can be none; hardly ever.
pub fn client(url: &Url, timeout: Duration) -> Result<Client, String> {
    countersign::outgoing::client(url).timeout(timeout).build().map_err(chain)
}
