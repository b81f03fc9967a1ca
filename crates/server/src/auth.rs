//! Who asks: bearer tokens, compared in constant time (SPEC X).

use std::{fmt, sync::Arc};

use axum::http::{HeaderMap, header};
use countersign::core::{
    approval::principal::Principal,
    refusal::{Code, Refusal},
};
use sha2::{Digest as _, Sha256};
use subtle::{ConditionallySelectable as _, ConstantTimeEq as _};

use crate::problem::Problem;

/// The beginning of the WebSocket subprotocol that carries a browser's token.
const BEARER_PROTOCOL: &str = "bearer.";

/// A token, and whose it is. Only the token's digest is kept.
#[derive(Clone)]
pub struct Token {
    subject: Arc<str>,
    roles: Vec<String>,
    digest: [u8; 32],
}

impl Token {
    /// The token `secret` of `subject`, who holds `roles`.
    #[must_use]
    pub fn new(subject: impl Into<Arc<str>>, roles: Vec<String>, secret: &str) -> Token {
        Token { subject: subject.into(), roles, digest: Sha256::digest(secret.as_bytes()).into() }
    }

    fn principal(&self) -> Principal {
        Principal::person(self.subject.clone(), self.roles.clone())
    }
}

impl fmt::Debug for Token {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Token").field("subject", &self.subject).field("roles", &self.roles).finish_non_exhaustive()
    }
}

/// Who sends a request.
pub(crate) fn identify(tokens: &[Token], headers: &HeaderMap) -> Result<Principal, Problem> {
    if tokens.is_empty() {
        return Ok(Principal::trusted());
    }
    let Some(secret) = header_token(headers).or_else(|| protocol_token(headers)) else {
        return Err(unauthenticated("a token is needed: Authorization: Bearer TOKEN"));
    };
    let digest: [u8; 32] = Sha256::digest(secret.as_bytes()).into();
    // Every token is looked at, whichever matches, so that time tells nothing.
    let mut found = 0_u64;
    for (i, token) in (1_u64..).zip(tokens) {
        found.conditional_assign(&i, digest.ct_eq(&token.digest));
    }
    let token = usize::try_from(found).ok().and_then(|found| tokens.get(found.checked_sub(1)?));
    token.map(Token::principal).ok_or_else(|| unauthenticated("the token is not known"))
}

fn unauthenticated(message: &str) -> Problem {
    Problem::of(Refusal::new(Code::Unauthenticated, message))
}

fn header_token(headers: &HeaderMap) -> Option<&str> {
    let value = headers.get(header::AUTHORIZATION)?.to_str().ok()?;
    let (scheme, token) = value.split_once(' ')?;
    scheme.eq_ignore_ascii_case("bearer").then(|| token.trim())
}

/// The token of a browser's WebSocket, which cannot send an `Authorization` header.
fn protocol_token(headers: &HeaderMap) -> Option<&str> {
    offered_protocols(headers).find_map(|name| name.strip_prefix(BEARER_PROTOCOL))
}

/// The WebSocket subprotocols a request offers.
pub(crate) fn offered_protocols(headers: &HeaderMap) -> impl Iterator<Item = &str> {
    headers
        .get_all(header::SEC_WEBSOCKET_PROTOCOL)
        .into_iter()
        .filter_map(|value| value.to_str().ok())
        .flat_map(|value| value.split(','))
        .map(str::trim)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn headers(name: header::HeaderName, value: &'static str) -> HeaderMap {
        HeaderMap::from_iter([(name, value.parse().expect("a header value"))])
    }

    #[test]
    fn x_a_token_names_its_subject_and_nothing_else_does() {
        let tokens = [Token::new("alice", vec!["user".into()], "a-secret"), Token::new("bob", vec![], "b-secret")];
        let who = |headers| identify(&tokens, &headers).ok().and_then(|p| p.subject);
        assert_eq!(who(headers(header::AUTHORIZATION, "Bearer a-secret")).as_deref(), Some("alice"));
        assert_eq!(who(headers(header::AUTHORIZATION, "bearer b-secret")).as_deref(), Some("bob"));
        let offered = "countersign.v1, bearer.b-secret";
        assert_eq!(who(headers(header::SEC_WEBSOCKET_PROTOCOL, offered)).as_deref(), Some("bob"));
        assert_eq!(who(headers(header::AUTHORIZATION, "Bearer a-secre")), None);
        assert_eq!(who(headers(header::AUTHORIZATION, "Bearer ")), None);
        assert_eq!(who(headers(header::AUTHORIZATION, "Basic a-secret")), None);
        assert_eq!(who(HeaderMap::new()), None);
        assert!(!format!("{tokens:?}").contains("secret"));
        assert!(identify(&[], &HeaderMap::new()).expect("no auth").trusted);
    }
}
