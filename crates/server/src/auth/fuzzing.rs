//! Parsing of untrusted tokens and key sets, for `fuzz/`, without a server.

use super::{
    jwt::{BadJwt, Jwt, JwtOptions},
    keys::{self, KeySource},
};

/// The number of usable keys in a JWK Set.
///
/// # Errors
/// Not a JWK Set.
pub fn keys(set: &[u8]) -> Result<usize, String> {
    keys::parse(set).map(|keys| keys.len())
}

/// The subject of a token, checked with the keys of a JWK Set.
///
/// # Errors
/// The token or the set is invalid; the text is what the server logs.
pub fn jwt(set: &[u8], token: &str) -> Result<Option<String>, String> {
    let keys = keys::parse(set)?;
    let options = JwtOptions::new("https://id.test", "countersign", KeySource::File("none".into()));
    let known = Jwt::new(options).verify(&keys, token).map_err(BadJwt::text)?;
    Ok(known.by.subject.as_deref().map(str::to_owned))
}
