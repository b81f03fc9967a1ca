//! Authentication: bearer tokens, compared in constant time, and JWTs (spec X).
//!
//! [`Auth`] decides who may connect, and may be replaced while the server runs; a [`pass::Pass`] is a connection's
//! credential, checked again with each message.

mod authority;
#[cfg(feature = "fuzzing")]
pub(crate) mod fuzzing;
pub(crate) mod jwt;
mod keys;
pub(crate) mod pass;
mod signatures;

use std::{fmt, io::Read as _, path::Path, sync::Arc};

use axum::http::{HeaderMap, header};
use countersign_core::{
    approval::principal::Principal,
    refusal::{Code, Refusal},
};
use sha2::{Digest as _, Sha256};
use subtle::{ConditionallySelectable as _, ConstantTimeEq as _};
use tokio::sync::watch;

pub(crate) use self::keys::check_url;
use self::{
    jwt::{BadJwt, Jwt},
    pass::Credential,
};
pub use self::{
    jwt::{JwtAlgorithm, JwtOptions},
    keys::KeySource,
};

/// The beginning of the WebSocket subprotocol that carries a browser's token.
const BEARER_PROTOCOL: &str = "bearer.";
/// Longest token, in bytes.
const TOKEN_BYTES: usize = 8 * 1024;

/// A token and its principal. Only the token's digest is kept.
#[derive(Clone)]
pub struct Token {
    principal: Arc<Principal>,
    digest: [u8; 32],
}

impl Token {
    /// The token `secret` of `principal`.
    #[must_use]
    pub fn new(principal: Principal, secret: &str) -> Token {
        Token::with_digest(principal, Sha256::digest(secret.as_bytes()).into())
    }

    /// The token of `principal` with this SHA-256.
    #[must_use]
    pub fn with_digest(principal: Principal, digest: [u8; 32]) -> Token {
        Token { principal: Arc::new(principal), digest }
    }
}

impl fmt::Debug for Token {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Token").field("principal", &self.principal).finish_non_exhaustive()
    }
}

/// Who may connect. Cheap to clone; clones share their state, so any of them can [replace](Auth::replace) it while a
/// server runs.
#[derive(Clone)]
pub struct Auth {
    current: Arc<watch::Sender<Arc<Access>>>,
}

/// Why no client could sign in with this token. The text contains no part of it.
///
/// # Errors
/// What is wrong with it.
pub(crate) fn check_token(token: &str) -> Result<(), String> {
    if token.is_empty() {
        return Err("is empty".to_owned());
    }
    if token.len() > TOKEN_BYTES {
        return Err(format!("has more than {TOKEN_BYTES} bytes"));
    }
    if !token.chars().all(|c| (' '..='~').contains(&c)) {
        return Err("has characters other than printable ASCII, which no header carries".to_owned());
    }
    Ok(())
}

/// Whether a browser's WebSocket can send this token, which names it as a subprotocol (RFC 7230, `token`).
pub(crate) fn is_subprotocol(token: &str) -> bool {
    token.chars().all(|c| c.is_ascii_alphanumeric() || "!#$%&'*+-.^_`|~".contains(c))
}

/// Whether this is the SHA-256 of an empty token, or of the newline that a shell prints for an unset variable.
pub(crate) fn is_of_nothing(digest: &[u8; 32]) -> bool {
    ["", "\n"].iter().any(|nothing| Sha256::digest(nothing)[..] == digest[..])
}

/// The number of usable keys in a JWK Set file.
///
/// # Errors
/// It cannot be read, or is not a JWK Set.
pub(crate) fn count_keys(path: &Path) -> Result<usize, String> {
    let mut text = Vec::new();
    let file = std::fs::File::open(path).map_err(|error| error.to_string())?;
    file.take(keys::BYTES as u64 + 1).read_to_end(&mut text).map_err(|error| error.to_string())?;
    keys::parse(&text).map(|keys| keys.len())
}

/// A snapshot of who may connect.
pub(crate) struct Access {
    /// Who everyone is, if nobody needs a token.
    open: Option<Arc<Principal>>,
    tokens: Vec<Token>,
    jwt: Option<Arc<Jwt>>,
}

/// A principal, known for as long as the credential is valid.
#[derive(Clone)]
pub(crate) struct Known {
    pub(crate) by: Arc<Principal>,
    /// When it expires, in Unix seconds.
    until: Option<u64>,
}

impl Default for Auth {
    fn default() -> Auth {
        Auth::open()
    }
}

impl fmt::Debug for Auth {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let access = self.access();
        let jwt = access.jwt.as_ref().map(|jwt| jwt.options());
        f.debug_struct("Auth").field("tokens", &access.tokens).field("jwt", &jwt).finish()
    }
}

impl Auth {
    /// Everyone who can reach the server is its one trusted user.
    #[must_use]
    pub fn open() -> Auth {
        Auth::only(Principal::trusted())
    }

    /// Everyone who can reach the server is this principal: for a program that already knows who uses it.
    #[must_use]
    pub fn only(by: Principal) -> Auth {
        Auth::of(Access { open: Some(Arc::new(by)), tokens: Vec::new(), jwt: None })
    }

    /// The holders of these tokens, and of JWTs if there are rules for them. With neither, nobody may connect.
    #[must_use]
    pub fn new(tokens: Vec<Token>, jwt: Option<JwtOptions>) -> Auth {
        Auth::of(Access { open: None, tokens, jwt: jwt.map(|options| Arc::new(Jwt::new(options))) })
    }

    /// Notes that this person acts now, as if by a JWT: for a program whose user says who acts, without a token.
    #[doc(hidden)]
    pub fn note(&self, by: &Principal) {
        if let Some(jwt) = &self.access().jwt {
            jwt.seen().note(by, pass::now(), None);
        }
    }

    fn of(access: Access) -> Auth {
        Auth { current: Arc::new(watch::Sender::new(Arc::new(access))) }
    }

    /// Whether requests need no authentication.
    #[must_use]
    pub fn is_open(&self) -> bool {
        self.access().open.is_some()
    }

    /// [Replaces](Auth::replace_now) the set of clients that may connect, and then [fetches](Auth::renew_keys) the keys of JWTs.
    pub async fn replace(&self, tokens: Vec<Token>, jwt: Option<JwtOptions>) {
        self.replace_now(tokens, jwt);
        self.renew_keys().await;
    }

    /// Replaces the set of clients that may connect. It is in force when this returns, whether or not the issuer of
    /// JWTs answers: a connection whose credential is no longer valid is closed, one whose roles changed continues with
    /// the new ones.
    ///
    /// Keys are kept if they come from the same source, and sightings of people with their roles if the same claims of
    /// the same issuer name them. If an issuer's keys move to another source, the old ones count until the first fetch
    /// from there has ended. Call [`Auth::renew_keys`] next, to fetch them.
    pub fn replace_now(&self, tokens: Vec<Token>, jwt: Option<JwtOptions>) {
        self.current.send_modify(|access| {
            let jwt = jwt.map(|options| match &access.jwt {
                Some(before) => before.changed(options),
                None => Arc::new(Jwt::new(options)),
            });
            *access = Arc::new(Access { open: None, tokens, jwt });
        });
    }

    /// Fetches the JWT keys now, however recently they were fetched: an operator asks for it when a key must not be trusted
    /// any longer. If the fetch fails, the known keys stay.
    pub async fn renew_keys(&self) {
        if let Some(jwt) = self.access().jwt.clone() {
            jwt.keys().renew().await;
        }
    }

    /// Fetches the JWT keys now, and whenever they are old, so that a key that the issuer withdrew is no longer trusted. Never
    /// returns.
    pub(crate) async fn keep_fresh(self) {
        loop {
            let jwt = self.access().jwt.clone();
            if let Some(jwt) = jwt {
                jwt.keys().refresh_if_old().await;
            }
            tokio::time::sleep(keys::LOOK).await;
        }
    }

    fn access(&self) -> Arc<Access> {
        self.current.borrow().clone()
    }

    /// Authenticates a request.
    ///
    /// # Errors
    /// `unauthenticated`
    pub(crate) async fn identify(&self, headers: &HeaderMap) -> Result<(Known, Credential), Refusal> {
        let access = self.access();
        let credential = access.credential(headers)?;
        let known = match access.know(&credential) {
            // The issuer may have rotated its keys since the last fetch.
            Err(BadJwt::UnknownKey(_)) => {
                if let Some(jwt) = &access.jwt {
                    jwt.keys().refresh().await;
                }
                access.know(&credential)
            }
            known => known,
        };
        Ok((known.map_err(|bad| unauthenticated(bad.text()))?, credential))
    }
}

impl Access {
    /// The credential of a request.
    fn credential(&self, headers: &HeaderMap) -> Result<Credential, Refusal> {
        if self.open.is_some() {
            return Ok(Credential::Open);
        }
        let secret = header_token(headers).or_else(|| protocol_token(headers));
        // An empty secret counts as none, whatever tokens there are: it would admit everybody.
        let Some(secret) = secret.filter(|secret| !secret.is_empty()) else {
            return Err(unauthenticated("a token is needed: Authorization: Bearer TOKEN"));
        };
        if secret.len() > TOKEN_BYTES {
            return Err(unauthenticated(format!("a token has at most {TOKEN_BYTES} bytes")));
        }
        let digest: [u8; 32] = Sha256::digest(secret.as_bytes()).into();
        Ok(match (self.token(&digest), &self.jwt) {
            (None, Some(_)) if secret.bytes().filter(|b| *b == b'.').count() == 2 => {
                Credential::Jwt(digest, secret.into())
            }
            _ => Credential::Token(digest),
        })
    }

    /// The principal of a credential.
    fn know(&self, credential: &Credential) -> Result<Known, BadJwt> {
        let unknown = || BadJwt::Refused("the token is not known".to_owned());
        match credential {
            Credential::Open => match &self.open {
                Some(by) => Ok(Known { by: by.clone(), until: None }),
                None => Err(BadJwt::Refused("a token is needed now".to_owned())),
            },
            Credential::Token(digest) => {
                self.token(digest).map(|by| Known { by: by.clone(), until: None }).ok_or_else(unknown)
            }
            Credential::Jwt(digest, text) => {
                let jwt = self.jwt.as_ref().ok_or_else(unknown)?;
                let known = jwt.know(digest, text)?;
                self.no_namesake(&known.by)?;
                jwt.seen().note(&known.by, pass::now(), known.until);
                Ok(known)
            }
        }
    }

    /// The same name from two sources is two people; neither may get the other's sessions, rules and votes.
    fn no_namesake(&self, by: &Principal) -> Result<(), BadJwt> {
        let taken = |token: &Token| token.principal.subject == by.subject && token.principal.tenant == by.tenant;
        if !self.tokens.iter().any(taken) {
            return Ok(());
        }
        let subject = by.subject.as_deref().unwrap_or_default();
        Err(BadJwt::Refused(format!(
            "the JWT's subject {subject:?} is that of a token in [[auth.tokens]]; one of the two needs another name"
        )))
    }

    fn token(&self, digest: &[u8; 32]) -> Option<&Arc<Principal>> {
        // All tokens are compared, whichever matches, so that timing reveals nothing.
        let mut found = 0_u64;
        for (i, token) in (1_u64..).zip(&self.tokens) {
            found.conditional_assign(&i, digest.ct_eq(&token.digest));
        }
        let token = usize::try_from(found).ok().and_then(|found| self.tokens.get(found.checked_sub(1)?));
        token.map(|token| &token.principal)
    }
}

fn unauthenticated(message: impl Into<String>) -> Refusal {
    Refusal::new(Code::Unauthenticated, message)
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

/// The WebSocket subprotocols that a request offers.
pub(crate) fn offered_protocols(headers: &HeaderMap) -> impl Iterator<Item = &str> {
    headers
        .get_all(header::SEC_WEBSOCKET_PROTOCOL)
        .into_iter()
        .filter_map(|value| value.to_str().ok())
        .flat_map(|value| value.split(','))
        .map(str::trim)
}

#[cfg(test)]
mod tests;
