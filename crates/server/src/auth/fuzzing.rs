//! Tokens and key sets of others, for `fuzz/`: read without a server.

use super::{
    jwt::{BadJwt, Jwt, JwtOptions},
    keys::{self, KeySource},
};

/// How many usable keys a JWK Set has.
///
/// # Errors
/// It is none.
pub fn keys(set: &[u8]) -> Result<usize, String> {
    keys::parse(set).map(|keys| keys.len())
}

/// Whose token it is, by the keys of a JWK Set.
///
/// # Errors
/// It is nobody's, or the set is none: what is logged.
pub fn jwt(set: &[u8], token: &str) -> Result<Option<String>, String> {
    let keys = keys::parse(set)?;
    let options = JwtOptions::new("https://id.test", "countersign", KeySource::File("none".into()));
    let known = Jwt::new(options).verify(&keys, token).map_err(BadJwt::text)?;
    Ok(known.by.subject.as_deref().map(str::to_owned))
}
