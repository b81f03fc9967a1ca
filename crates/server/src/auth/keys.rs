//! The issuer's public keys: fetched, cached and refreshed (RFC 7517).

use std::{
    path::PathBuf,
    sync::Arc,
    time::{Duration, Instant},
};

use jsonwebtoken::{
    Algorithm, DecodingKey,
    jwk::{AlgorithmParameters, EllipticCurve, Jwk, PublicKeyUse},
};
use reqwest::Url;
use serde_json::Value;
use tokio::{io::AsyncReadExt as _, sync::watch};

use crate::outgoing::{chain, client, is_loopback};

/// How often the age of the keys is checked.
pub(super) const LOOK: Duration = Duration::from_secs(5);
/// The age at which keys are refreshed.
const OLD: Duration = Duration::from_secs(600);
/// How soon a failed fetch is retried in the background.
const AGAIN: Duration = Duration::from_secs(30);
/// Shortest time between two fetches, however many tokens name unknown keys.
const PAUSE: Duration = Duration::from_secs(10);
/// Time limit of a fetch.
const FETCH: Duration = Duration::from_secs(5);
/// Largest key set, in bytes.
pub(super) const BYTES: usize = 1024 * 1024;
/// Most keys kept.
const KEYS: usize = 256;

/// Where the public keys of JWTs come from.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum KeySource {
    /// A JWK Set at this address: https, or http on this machine.
    Url(String),
    /// A JWK Set in this file.
    File(PathBuf),
}

/// Whether keys may be fetched from this address.
///
/// # Errors
/// What is wrong with it.
pub(crate) fn check_url(text: &str) -> Result<(), String> {
    let url = Url::parse(text).map_err(|e| format!("is not an address: {e}"))?;
    if !url.username().is_empty() || url.password().is_some() {
        return Err("must not contain a user or a password".to_owned());
    }
    match url.scheme() {
        "https" => Ok(()),
        "http" if is_loopback(&url) => Ok(()),
        _ => {
            Err("must begin with https:// (http:// only for this machine): whoever can change the answer makes tokens"
                .to_owned())
        }
    }
}

pub(super) type KeySet = Arc<[Key]>;

/// A public key.
pub(super) struct Key {
    /// Its `kid`, by which tokens refer to it.
    pub(super) kid: Option<String>,
    /// The algorithms it may be used with.
    algorithms: Vec<Algorithm>,
    pub(super) decoding: DecodingKey,
    /// Its source text, to detect changes.
    text: String,
}

impl Key {
    pub(super) fn is_for(&self, algorithm: Algorithm) -> bool {
        self.algorithms.contains(&algorithm)
    }
}

/// The keys of one source.
pub(super) struct Keys {
    source: KeySource,
    current: watch::Sender<KeySet>,
    tries: Arc<tokio::sync::Mutex<Tries>>,
    /// Shortest time between two fetches.
    pause: Duration,
}

#[derive(Default)]
struct Tries {
    last: Option<Instant>,
    succeeded: Option<Instant>,
    /// Whether the last one failed.
    failed: bool,
}

impl Tries {
    /// Whether to fetch in the background. What failed is tried again soon, however new the known keys are: a key may have
    /// been withdrawn.
    fn are_due(&self) -> bool {
        let since = |at: Option<Instant>, limit: Duration| at.is_none_or(|at| at.elapsed() >= limit);
        (self.failed || since(self.succeeded, OLD)) && since(self.last, AGAIN)
    }
}

impl Keys {
    pub(super) fn new(source: KeySource) -> Keys {
        Keys { source, current: watch::Sender::new(Arc::new([])), tries: Arc::default(), pause: PAUSE }
    }

    /// The keys of the same issuer from another source. Until the first fetch from it has ended, the old keys count:
    /// having none would close everybody's connections.
    pub(super) fn moved(&self, source: KeySource) -> Keys {
        Keys { current: watch::Sender::new(self.get()), ..Keys::new(source) }
    }

    pub(super) fn get(&self) -> KeySet {
        self.current.borrow().clone()
    }

    /// Notifies of changed keys.
    pub(super) fn follow(&self) -> watch::Receiver<KeySet> {
        self.current.subscribe()
    }

    /// Fetches the keys unless that was tried a moment ago; waits for a fetch in progress.
    pub(super) async fn refresh(self: &Arc<Self>) {
        // The common case under a flood of bad tokens must cost almost nothing.
        if self.tries.try_lock().is_ok_and(|tries| tries.last.is_some_and(|at| at.elapsed() < self.pause)) {
            return;
        }
        let keys = self.clone();
        // In its own task: a requester that disconnects must not cancel the fetch.
        let _ = tokio::spawn(async move { keys.fetch_once(keys.pause).await }).await;
    }

    /// Fetches the keys, however recently that was tried.
    pub(super) async fn renew(&self) {
        self.fetch_once(Duration::ZERO).await;
    }

    /// Fetches the keys if they are old, or the last fetch failed a while ago.
    pub(super) async fn refresh_if_old(self: &Arc<Self>) {
        let due = self.tries.lock().await.are_due();
        if due {
            self.refresh().await;
        }
    }

    async fn fetch_once(&self, pause: Duration) {
        let mut tries = self.tries.lock().await;
        if tries.last.is_some_and(|at| at.elapsed() < pause) {
            return;
        }
        tries.last = Some(Instant::now());
        let fetched = tokio::time::timeout(FETCH, self.fetch())
            .await
            .unwrap_or_else(|_| Err(format!("it took longer than {} seconds", FETCH.as_secs())));
        let fetched = fetched.and_then(|text| parse(&text));
        tries.failed = fetched.is_err();
        match fetched {
            Ok(keys) => {
                tries.succeeded = Some(Instant::now());
                self.current.send_if_modified(|current| {
                    let same = current.len() == keys.len() && current.iter().zip(&keys).all(|(a, b)| a.text == b.text);
                    if !same {
                        *current = keys.into();
                    }
                    !same
                });
            }
            Err(what) => {
                if tries.succeeded.is_none() {
                    // They came from another source.
                    self.current.send_if_modified(|current| !std::mem::replace(current, Arc::new([])).is_empty());
                }
                let kept = self.current.borrow().len();
                tracing::warn!(source = self.shown(), kept, "the keys of JWTs cannot be fetched: {what}");
            }
        }
    }

    /// The source without its query, which may hold a secret.
    fn shown(&self) -> String {
        match &self.source {
            KeySource::Url(url) => url.split(['?', '#']).next().unwrap_or_default().to_owned(),
            KeySource::File(path) => path.display().to_string(),
        }
    }

    async fn fetch(&self) -> Result<Vec<u8>, String> {
        match &self.source {
            KeySource::File(path) => {
                let file = tokio::fs::File::open(path).await.map_err(|e| e.to_string())?;
                let mut text = Vec::new();
                file.take(BYTES as u64 + 1).read_to_end(&mut text).await.map_err(|e| e.to_string())?;
                Ok(text)
            }
            KeySource::Url(url) => {
                let url = Url::parse(url).map_err(|e| e.to_string())?;
                let mut answer = client(&url, FETCH)?.get(url).send().await.map_err(chain)?;
                if answer.status() != reqwest::StatusCode::OK {
                    return Err(format!("the answer is {}", answer.status()));
                }
                let mut text = Vec::new();
                while let Some(part) = answer.chunk().await.map_err(chain)? {
                    text.extend_from_slice(&part);
                    if text.len() > BYTES {
                        break;
                    }
                }
                Ok(text)
            }
        }
    }
}

/// The usable keys of a JWK Set. Unusable keys are skipped: issuers publish keys for other purposes too.
pub(super) fn parse(text: &[u8]) -> Result<Vec<Key>, String> {
    if text.len() > BYTES {
        return Err(format!("it has more than {BYTES} bytes"));
    }
    let set: Value = serde_json::from_slice(text).map_err(|e| format!("it is not JSON: {e}"))?;
    let Some(keys) = set.get("keys").and_then(Value::as_array) else {
        return Err("it is not a JWK Set: there is no list \"keys\"".to_owned());
    };
    Ok(keys.iter().filter_map(key).take(KEYS).collect())
}

fn key(value: &Value) -> Option<Key> {
    use Algorithm::{ES256, ES384, EdDSA, PS256, PS384, PS512, RS256, RS384, RS512};
    let jwk: Jwk = serde_json::from_value(value.clone()).ok()?;
    if !matches!(jwk.common.public_key_use, None | Some(PublicKeyUse::Signature)) {
        return None;
    }
    let mut algorithms = match &jwk.algorithm {
        AlgorithmParameters::RSA(_) => vec![RS256, RS384, RS512, PS256, PS384, PS512],
        AlgorithmParameters::EllipticCurve(key) if key.curve == EllipticCurve::P256 => vec![ES256],
        AlgorithmParameters::EllipticCurve(key) if key.curve == EllipticCurve::P384 => vec![ES384],
        AlgorithmParameters::OctetKeyPair(key) if key.curve == EllipticCurve::Ed25519 => vec![EdDSA],
        // Shared secrets and other curves are not supported.
        _ => return None,
    };
    if let Some(only) = jwk.common.key_algorithm {
        algorithms.retain(|algorithm| jsonwebtoken::jwk::KeyAlgorithm::from(*algorithm) == only);
    }
    let decoding = DecodingKey::from_jwk(&jwk).ok().filter(|_| !algorithms.is_empty())?;
    Some(Key { kid: jwk.common.key_id, algorithms, decoding, text: value.to_string() })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn x_keys_come_over_tls_or_from_this_machine() {
        for good in ["https://id.example.com/jwks", "http://127.0.0.1:1/k", "http://localhost:1", "http://[::1]/k"] {
            assert_eq!(check_url(good), Ok(()), "{good}");
        }
        for (bad, why) in [
            ("http://id.example.com/jwks", "https://"),
            ("ftp://127.0.0.1/k", "https://"),
            ("file:///k", "https://"),
            ("http://127.0.0.1.evil.test/", "https://"),
            ("https://me:secret@id.example.com", "user or a password"),
            ("jwks", "is not an address"),
        ] {
            let error = check_url(bad).expect_err(bad);
            assert!(error.contains(why) && !error.contains("secret"), "{error}");
        }
    }

    #[test]
    fn x_only_public_keys_for_signatures_are_kept() {
        let set = r#"{"keys": [
            {"kty": "OKP", "crv": "Ed25519", "x": "11qYAYKxCrfVS_7TyWQHOg7hcvPapiMlrwIaaPcHURo", "kid": "ed"},
            {"kty": "oct", "k": "c2VjcmV0", "kid": "shared"},
            {"kty": "RSA", "n": "AQAB", "e": "AQAB", "use": "enc", "kid": "enc"},
            {"kty": "RSA", "n": "AQAB", "e": "AQAB", "alg": "RSA-OAEP", "kid": "oaep"},
            {"kty": "RSA", "n": "AQAB", "e": "AQAB", "alg": "PS256", "kid": "ps"},
            {"kty": "EC", "crv": "P-521", "x": "AQ", "y": "AQ", "kid": "p521"},
            {"kty": "EC", "crv": "P-256", "x": "A Q", "y": "AQ", "kid": "broken"},
            {"kty": "new"}, 7
        ]}"#;
        let keys = parse(set.as_bytes()).expect("a set");
        let kept: Vec<_> = keys.iter().map(|key| (key.kid.as_deref(), &key.algorithms[..])).collect();
        assert_eq!(kept, [(Some("ed"), &[Algorithm::EdDSA][..]), (Some("ps"), &[Algorithm::PS256])]);
        assert!(parse(b"{}").is_err() && parse(b"[").is_err());
    }

    #[tokio::test]
    async fn x_what_cannot_be_fetched_leaves_the_keys_as_they_are() {
        let folder = tempfile::tempdir().expect("folder");
        let path = folder.path().join("jwks.json");
        let write = |text: &str| std::fs::write(&path, text).expect("written");
        let keys = Arc::new(Keys { pause: Duration::ZERO, ..Keys::new(KeySource::File(path.clone())) });
        keys.refresh().await;
        assert!(keys.get().is_empty());
        write(r#"{"keys": [{"kty": "OKP", "crv": "Ed25519", "x": "11qYAYKxCrfVS_7TyWQHOg7hcvPapiMlrwIaaPcHURo"}]}"#);
        let mut changes = keys.follow();
        keys.refresh().await;
        assert_eq!(keys.get().len(), 1);
        assert!(changes.has_changed().expect("open"));
        changes.mark_unchanged();
        keys.refresh().await;
        assert!(!changes.has_changed().expect("open"), "the same keys are no change");
        for bad in ["no JSON", &" ".repeat(BYTES + 1)] {
            write(bad);
            keys.refresh().await;
            assert_eq!(keys.get().len(), 1);
        }
        write(r#"{"keys": []}"#);
        keys.refresh().await;
        assert!(keys.get().is_empty(), "keys that were withdrawn go");
    }

    #[tokio::test]
    async fn x_a_fetch_that_failed_is_tried_again_soon_so_that_a_withdrawn_key_is_not_trusted_for_long() {
        let folder = tempfile::tempdir().expect("folder");
        let path = folder.path().join("jwks.json");
        let write = |text: &str| std::fs::write(&path, text).expect("written");
        let keys = Arc::new(Keys { pause: Duration::ZERO, ..Keys::new(KeySource::File(path.clone())) });
        write(r#"{"keys": [{"kty": "OKP", "crv": "Ed25519", "x": "11qYAYKxCrfVS_7TyWQHOg7hcvPapiMlrwIaaPcHURo"}]}"#);
        keys.refresh_if_old().await;
        // An operator withdraws them, and the first fetch fails.
        write("");
        keys.renew().await;
        write(r#"{"keys": []}"#);
        keys.refresh_if_old().await;
        assert_eq!(keys.get().len(), 1, "not at once");
        keys.tries.lock().await.last = Instant::now().checked_sub(AGAIN);
        keys.refresh_if_old().await;
        assert!(keys.get().is_empty(), "and not after ten minutes only");
        write("");
        keys.tries.lock().await.last = Instant::now().checked_sub(AGAIN);
        keys.refresh_if_old().await;
        assert!(!keys.tries.lock().await.failed, "what has succeeded is not fetched again so soon");
    }

    #[tokio::test]
    async fn x_however_many_ask_keys_are_fetched_once_in_a_while() {
        let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.expect("bound");
        let url = format!("http://{}/jwks", listener.local_addr().expect("address"));
        let keys = Arc::new(Keys::new(KeySource::Url(url)));
        let asking: Vec<_> = (0..20)
            .map(|_| {
                let keys = keys.clone();
                tokio::spawn(async move { keys.refresh().await })
            })
            .collect();
        let (first, _) = listener.accept().await.expect("asked");
        drop(first);
        for asked in asking {
            asked.await.expect("answered");
        }
        keys.refresh().await;
        let second = tokio::time::timeout(Duration::from_millis(50), listener.accept()).await;
        assert!(second.is_err(), "only once");
    }
}
