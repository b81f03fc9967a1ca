//! JWT validation (RFC 7519, RFC 8725).
//!
//! The accepted algorithms are our choice, never the token's: a key is only used for what it is meant for, and shared
//! secrets are never accepted.

use std::{
    collections::HashMap,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::Duration,
};

use countersign_core::approval::principal::{Principal, PrincipalKind};
use jsonwebtoken::{Algorithm, Validation, decode, decode_header, errors::ErrorKind};
use serde_json::Value;

use super::{
    Known,
    authority::Seen,
    keys::{Key, KeySet, KeySource, Keys},
    pass::now,
    signatures,
};

/// Longest subject or tenant, in bytes.
const NAME_BYTES: usize = 128;
/// Allowed clock skew, by default.
pub(crate) const LEEWAY_SECONDS: u32 = 30;
/// How long a standing approval outlives the last sighting of its maker, by default.
pub(crate) const STANDING_SECONDS: u32 = 24 * 60 * 60;
/// Most validated tokens cached.
const CHECKED: usize = 4096;

/// A signature algorithm with a public key (RFC 7518, RFC 8037).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct JwtAlgorithm(Algorithm);

impl JwtAlgorithm {
    const KNOWN: [(&'static str, Algorithm); 9] = [
        ("RS256", Algorithm::RS256),
        ("RS384", Algorithm::RS384),
        ("RS512", Algorithm::RS512),
        ("PS256", Algorithm::PS256),
        ("PS384", Algorithm::PS384),
        ("PS512", Algorithm::PS512),
        ("ES256", Algorithm::ES256),
        ("ES384", Algorithm::ES384),
        ("EdDSA", Algorithm::EdDSA),
    ];

    /// Accepted by default.
    pub const DEFAULT: &'static [JwtAlgorithm] =
        &[JwtAlgorithm(Algorithm::RS256), JwtAlgorithm(Algorithm::ES256), JwtAlgorithm(Algorithm::EdDSA)];

    /// The names of all supported algorithms.
    pub fn names() -> impl Iterator<Item = &'static str> {
        JwtAlgorithm::KNOWN.iter().map(|(name, _)| *name)
    }

    /// The algorithm of this name; never a shared-secret one, nor `none`.
    #[must_use]
    pub fn from_name(name: &str) -> Option<JwtAlgorithm> {
        JwtAlgorithm::KNOWN.iter().find(|(known, _)| *known == name).map(|(_, algorithm)| JwtAlgorithm(*algorithm))
    }

    /// Its name.
    #[must_use]
    pub fn name(self) -> &'static str {
        JwtAlgorithm::KNOWN.iter().find(|(_, algorithm)| *algorithm == self.0).map_or("", |(name, _)| name)
    }
}

/// Which JWTs are accepted, and how their claims are read.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct JwtOptions {
    /// The required `iss`.
    pub issuer: String,
    /// The required `aud`, or one of its members.
    pub audience: String,
    /// Where the issuer's public keys come from.
    pub keys: KeySource,
    /// The accepted signature algorithms; at least one.
    pub algorithms: Vec<JwtAlgorithm>,
    /// The claim that names the subject.
    pub subject_claim: String,
    /// The claim with the roles: a list of strings, or one string separated by spaces. A dotted path (`a.b`) descends
    /// into objects unless a claim has exactly that name.
    pub roles_claim: String,
    /// The claim that names the tenant; a token without it is refused. `None`: no tenants.
    pub tenant_claim: Option<String>,
    /// The claim that says `person`, `service` or `agent`; a token without it is refused. `None`: all are persons.
    pub kind_claim: Option<String>,
    /// Allowed clock skew, in whole seconds.
    pub leeway: Duration,
    /// How long a standing approval stays in force after its maker was last seen with the role it needs; rules
    /// that reject always apply.
    pub standing_for: Duration,
}

impl JwtOptions {
    /// Whether both identify people by the same claims of the same issuer: only then is a subject the same person.
    fn names_as(&self, other: &JwtOptions) -> bool {
        let JwtOptions { issuer, subject_claim, roles_claim, tenant_claim, kind_claim, .. } = self;
        *issuer == other.issuer
            && *subject_claim == other.subject_claim
            && *roles_claim == other.roles_claim
            && *tenant_claim == other.tenant_claim
            && *kind_claim == other.kind_claim
    }

    /// The default rules for the tokens of `issuer` for `audience`.
    #[must_use]
    pub fn new(issuer: impl Into<String>, audience: impl Into<String>, keys: KeySource) -> JwtOptions {
        JwtOptions {
            issuer: issuer.into(),
            audience: audience.into(),
            keys,
            algorithms: JwtAlgorithm::DEFAULT.to_vec(),
            subject_claim: "sub".to_owned(),
            roles_claim: "roles".to_owned(),
            tenant_claim: None,
            kind_claim: None,
            leeway: Duration::from_secs(LEEWAY_SECONDS.into()),
            standing_for: Duration::from_secs(STANDING_SECONDS.into()),
        }
    }
}

/// Validates JWTs.
pub(crate) struct Jwt {
    options: JwtOptions,
    /// The checks, by the token's algorithm.
    rules: Vec<(Algorithm, Validation)>,
    keys: Arc<Keys>,
    checked: Mutex<Checked>,
    seen: Arc<Seen>,
}

/// Tokens validated with these keys, by SHA-256, so that a client that sends its token with each request has its
/// signature checked once.
struct Checked {
    keys: KeySet,
    good: HashMap<[u8; 32], Known>,
}

/// Why a token is invalid. The text contains no part of the token except names that its sender chose.
#[derive(Debug)]
pub(crate) enum BadJwt {
    /// It names a key that is not in the set, or is signed with another key of that name, or by another algorithm: the set
    /// may be out of date.
    UnknownKey(String),
    /// Newer keys would not help.
    Refused(String),
}

impl BadJwt {
    pub(super) fn text(self) -> String {
        match self {
            BadJwt::UnknownKey(text) | BadJwt::Refused(text) => text,
        }
    }
}

fn refused<T>(text: impl Into<String>) -> Result<T, BadJwt> {
    Err(BadJwt::Refused(text.into()))
}

impl Jwt {
    pub(super) fn new(options: JwtOptions) -> Jwt {
        let keys = Arc::new(Keys::new(options.keys.clone()));
        Jwt::with(options, keys, Arc::default())
    }

    /// The same with other options. It keeps the keys and sightings that they do not affect, so that changing them
    /// refuses nobody whom they still allow.
    pub(super) fn changed(self: &Arc<Jwt>, options: JwtOptions) -> Arc<Jwt> {
        if options == self.options {
            return self.clone();
        }
        let keys = if options.keys == self.options.keys {
            self.keys.clone()
        } else if options.issuer == self.options.issuer {
            Arc::new(self.keys.moved(options.keys.clone()))
        } else {
            Arc::new(Keys::new(options.keys.clone()))
        };
        let seen = if options.names_as(&self.options) { self.seen.clone() } else { Arc::default() };
        Arc::new(Jwt::with(options, keys, seen))
    }

    fn with(options: JwtOptions, keys: Arc<Keys>, seen: Arc<Seen>) -> Jwt {
        signatures::install();
        let rules = options.algorithms.iter().map(|JwtAlgorithm(algorithm)| {
            let mut rule = Validation::new(*algorithm);
            rule.set_issuer(&[&options.issuer]);
            rule.set_audience(&[&options.audience]);
            rule.set_required_spec_claims(&["exp", "iss", "aud"]);
            rule.validate_nbf = true;
            rule.leeway = options.leeway.as_secs();
            (*algorithm, rule)
        });
        let rules = rules.collect();
        let checked = Mutex::new(Checked { keys: keys.get(), good: HashMap::new() });
        Jwt { options, rules, keys, checked, seen }
    }

    pub(super) fn options(&self) -> &JwtOptions {
        &self.options
    }

    pub(super) fn keys(&self) -> &Arc<Keys> {
        &self.keys
    }

    /// The persons who presented a valid token, with the time.
    pub(super) fn seen(&self) -> &Seen {
        &self.seen
    }

    /// The principal of a token whose SHA-256 is `digest`.
    pub(super) fn know(&self, digest: &[u8; 32], token: &str) -> Result<Known, BadJwt> {
        let keys = self.keys.get();
        {
            let mut checked = self.checked();
            if !Arc::ptr_eq(&checked.keys, &keys) {
                *checked = Checked { keys: keys.clone(), good: HashMap::new() };
            }
            if let Some(known) = checked.good.get(digest).filter(|known| known.until.is_some_and(|until| now() < until))
            {
                return Ok(known.clone());
            }
        }
        let known = self.verify(&keys, token)?;
        let mut checked = self.checked();
        if Arc::ptr_eq(&checked.keys, &keys) {
            if checked.good.len() >= CHECKED {
                checked.good.clear();
            }
            checked.good.insert(*digest, known.clone());
        }
        Ok(known)
    }

    /// Poisoning is harmless: nothing panics under the lock, and entries may be lost at any time.
    fn checked(&self) -> MutexGuard<'_, Checked> {
        self.checked.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(super) fn verify(&self, keys: &[Key], token: &str) -> Result<Known, BadJwt> {
        let algorithms = || self.options.algorithms.iter().map(|a| a.name()).collect::<Vec<_>>().join(", ");
        let Ok(header) = decode_header(token) else {
            return refused(format!(
                "the JWT's header cannot be read, or its algorithm is not one of {}",
                algorithms()
            ));
        };
        let Some((algorithm, rule)) = self.rules.iter().find(|(algorithm, _)| *algorithm == header.alg) else {
            return refused(format!("the JWT's algorithm {:?} is not one of {}", header.alg, algorithms()));
        };
        if header.crit.is_some() {
            return refused("the JWT's header asks for extensions (crit), which are not known here");
        }
        let key = key(keys, header.kid.as_deref(), *algorithm)?;
        let claims: Value = match decode(token, &key.decoding, rule) {
            Ok(data) => data.claims,
            Err(error) if matches!(error.kind(), ErrorKind::InvalidSignature) => {
                return Err(BadJwt::UnknownKey("the JWT's signature is not that of its key".to_owned()));
            }
            Err(error) => return refused(self.why(error.kind())),
        };
        self.read(&claims)
    }

    fn why(&self, error: &ErrorKind) -> String {
        match error {
            ErrorKind::ExpiredSignature => "the JWT has expired (exp)".to_owned(),
            ErrorKind::ImmatureSignature => "the JWT is not valid yet (nbf)".to_owned(),
            ErrorKind::InvalidIssuer => format!("the JWT is not of the issuer {:?} (iss)", self.options.issuer),
            ErrorKind::InvalidAudience => format!("the JWT is not for {:?} (aud)", self.options.audience),
            ErrorKind::MissingRequiredClaim(claim) => format!("the JWT has no usable claim {claim:?}"),
            ErrorKind::InvalidClaimFormat(claim) => format!("the JWT's claim {claim:?} is not what it must be"),
            _ => "the JWT cannot be read".to_owned(),
        }
    }

    /// The principal that the claims name.
    fn read(&self, claims: &Value) -> Result<Known, BadJwt> {
        let JwtOptions { subject_claim, roles_claim, tenant_claim, kind_claim, leeway, .. } = &self.options;
        let tenant = tenant_claim.as_ref().map(|claim| name(claims, claim)).transpose()?;
        let kind = match kind_claim {
            None => PrincipalKind::Person,
            Some(claim) => match find(claims, claim).and_then(Value::as_str).map(PrincipalKind::from_name) {
                Some(Some(kind)) => kind,
                _ => {
                    return refused(format!("the JWT's claim {claim:?} must be \"person\", \"service\" or \"agent\""));
                }
            },
        };
        // `exp` was validated: it is a number.
        let exp = claims.get("exp").and_then(Value::as_f64).unwrap_or_default();
        #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "it saturates, which is right")]
        let until = (exp as u64).saturating_add(leeway.as_secs()).saturating_add(1);
        let principal = Principal {
            subject: Some(name(claims, subject_claim)?),
            tenant,
            kind,
            roles: roles(claims, roles_claim)?,
            trusted: false,
        };
        Ok(Known { by: Arc::new(principal), until: Some(until) })
    }
}

/// The key that signed the token.
fn key<'k>(keys: &'k [Key], kid: Option<&str>, algorithm: Algorithm) -> Result<&'k Key, BadJwt> {
    if keys.is_empty() {
        return Err(BadJwt::UnknownKey("JWTs cannot be checked now: the issuer's keys are not available".to_owned()));
    }
    let Some(kid) = kid else {
        let mut fitting = keys.iter().filter(|key| key.is_for(algorithm));
        return match (fitting.next(), fitting.next()) {
            (Some(key), None) => Ok(key),
            (None, _) => {
                Err(BadJwt::UnknownKey(format!("no key of the issuer is for the JWT's algorithm {algorithm:?}")))
            }
            (Some(_), Some(_)) => refused("the JWT does not say which key it is signed with (kid)"),
        };
    };
    let mut named = keys.iter().filter(|key| key.kid.as_deref() == Some(kid)).peekable();
    if named.peek().is_none() {
        let kid: String = kid.chars().take(64).collect();
        return Err(BadJwt::UnknownKey(format!("the JWT's key (kid) {kid:?} is not one of the issuer's")));
    }
    match named.find(|key| key.is_for(algorithm)) {
        Some(key) => Ok(key),
        None => Err(BadJwt::UnknownKey(format!("the JWT's key (kid) is not for its algorithm {algorithm:?}"))),
    }
}

/// A claim by name, or by path.
fn find<'c>(claims: &'c Value, claim: &str) -> Option<&'c Value> {
    claims.get(claim).or_else(|| claim.split('.').try_fold(claims, |value, part| value.get(part)))
}

fn name(claims: &Value, claim: &str) -> Result<Arc<str>, BadJwt> {
    match find(claims, claim).and_then(Value::as_str) {
        Some(text) if !text.is_empty() && text.len() <= NAME_BYTES && !text.contains(char::is_control) => {
            Ok(text.into())
        }
        Some(_) => refused(format!("the JWT's claim {claim:?} must have 1 to {NAME_BYTES} bytes")),
        None => refused(format!("the JWT has no claim {claim:?} that is a text")),
    }
}

fn roles(claims: &Value, claim: &str) -> Result<Vec<String>, BadJwt> {
    let wrong = || BadJwt::Refused(format!("the JWT's claim {claim:?} must be a list of texts, or one with spaces"));
    match find(claims, claim) {
        None | Some(Value::Null) => Ok(Vec::new()),
        Some(Value::String(text)) => Ok(text.split_whitespace().map(str::to_owned).collect()),
        Some(Value::Array(items)) => {
            items.iter().map(|item| item.as_str().map(str::to_owned).ok_or_else(wrong)).collect()
        }
        Some(_) => Err(wrong()),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn jwt(change: impl FnOnce(&mut JwtOptions)) -> Jwt {
        let mut options = JwtOptions::new("https://id.test", "countersign", KeySource::File("none".into()));
        change(&mut options);
        Jwt::new(options)
    }

    #[test]
    fn x_claims_say_who_somebody_is() {
        let claims = json!({
            "sub": "ann", "exp": 1000, "roles": ["a", "b"], "scope": "c d", "realm_access": { "roles": ["e"] },
            "https://x.test/roles": ["f"], "org": "north", "what": "agent", "n": 7,
        });
        let who = |change: fn(&mut JwtOptions)| jwt(change).read(&claims).map(|known| known.by).map_err(BadJwt::text);
        let ann = who(|_| {}).expect("known");
        assert_eq!((ann.subject.as_deref(), ann.tenant.as_deref()), (Some("ann"), None));
        assert_eq!((ann.kind, ann.trusted), (PrincipalKind::Person, false));
        assert_eq!(ann.roles, ["a", "b"]);
        assert_eq!(who(|o| o.roles_claim = "scope".into()).expect("known").roles, ["c", "d"]);
        assert_eq!(who(|o| o.roles_claim = "realm_access.roles".into()).expect("known").roles, ["e"]);
        assert_eq!(who(|o| o.roles_claim = "https://x.test/roles".into()).expect("known").roles, ["f"]);
        assert!(who(|o| o.roles_claim = "none".into()).expect("known").roles.is_empty());
        assert_eq!(who(|o| o.tenant_claim = Some("org".into())).expect("known").tenant.as_deref(), Some("north"));
        assert_eq!(who(|o| o.kind_claim = Some("what".into())).expect("known").kind, PrincipalKind::Agent);
        for (change, why) in [
            ((|o| o.tenant_claim = Some("team".into())) as fn(&mut JwtOptions), "no claim \"team\""),
            (|o| o.kind_claim = Some("kind".into()), "\"person\", \"service\" or \"agent\""),
            (|o| o.kind_claim = Some("sub".into()), "\"person\", \"service\" or \"agent\""),
            (|o| o.subject_claim = "n".into(), "no claim \"n\" that is a text"),
            (|o| o.roles_claim = "n".into(), "a list of texts"),
        ] {
            let error = who(change).expect_err(why);
            assert!(error.contains(why), "{error}");
        }
        assert_eq!(jwt(|o| o.leeway = Duration::from_secs(5)).read(&claims).expect("known").until, Some(1006));
    }

    #[test]
    fn x_algorithms_with_shared_secrets_do_not_exist_here() {
        for name in ["none", "None", "HS256", "HS384", "HS512", "rs256", ""] {
            assert_eq!(JwtAlgorithm::from_name(name), None, "{name}");
        }
        for name in JwtAlgorithm::names() {
            assert_eq!(JwtAlgorithm::from_name(name).expect("known").name(), name);
        }
    }
}
