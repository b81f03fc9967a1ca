//! `[auth]`: who may connect (spec C, X).

use std::{collections::HashMap, fmt};

use countersign_core::{
    approval::principal::{Principal, PrincipalKind},
    call::ask_check::role_error,
    limits,
};
use sha2::{Digest as _, Sha256};
use toml::de::DeValue;

use super::{
    error::nearest,
    reader::{At, Section},
    server::secret,
};
use crate::auth::{JwtAlgorithm, JwtOptions, KeySource, Token, check_url, count_keys};

/// Longest time that the issuer's clock may be off, in seconds.
const LEEWAY_MAX: u32 = 300;
/// Longest time for which a standing approval outlives the last sight of its maker, in seconds.
const STANDING_FOR_MAX: u32 = 366 * 24 * 60 * 60;
/// Longest issuer or audience, in bytes.
const ISSUER_BYTES: usize = 1024;

/// A person or program that may use the server (spec C). Of the token only its digest is kept.
#[derive(Clone, PartialEq, Eq)]
pub struct ConfigToken {
    /// Who it is. A subject may have several tokens, which then say the same of it.
    pub subject: String,
    /// The roles it holds.
    pub roles: Vec<String>,
    /// The tenant it belongs to.
    pub tenant: Option<String>,
    /// What it is.
    pub kind: PrincipalKind,
    /// The token's SHA-256.
    digest: [u8; 32],
}

impl fmt::Debug for ConfigToken {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let ConfigToken { subject, roles, tenant, kind, .. } = self;
        let mut shown = f.debug_struct("ConfigToken");
        shown.field("subject", subject).field("roles", roles).field("tenant", tenant).field("kind", kind);
        shown.finish_non_exhaustive()
    }
}

impl ConfigToken {
    /// The token, for a server.
    #[must_use]
    pub fn token(&self) -> Token {
        let person = Principal::person(self.subject.as_str(), self.roles.clone());
        let tenant = self.tenant.as_deref().map(Into::into);
        Token::with_digest(Principal { tenant, kind: self.kind, ..person }, self.digest)
    }

    /// Whether it says the same of its subject.
    fn agrees(&self, other: &ConfigToken) -> bool {
        let sorted = |token: &ConfigToken| {
            let mut roles = token.roles.clone();
            roles.sort();
            roles
        };
        sorted(self) == sorted(other) && self.tenant == other.tenant && self.kind == other.kind
    }
}

/// The tokens, and the rules for JWTs.
pub(super) fn read(root: &Section<'_>) -> (Vec<ConfigToken>, Option<JwtOptions>) {
    let Some(auth) = root.table("auth") else { return (Vec::new(), None) };
    let no_tokens = match auth.value("tokens") {
        None => true,
        Some(At { value: DeValue::Array(items), .. }) => items.is_empty(),
        Some(_) => false,
    };
    if no_tokens && auth.has("jwt").is_none() {
        // Without either everybody would be trusted, which is not what somebody who writes [auth] wants.
        let message = "[auth] needs [[auth.tokens]] or [auth.jwt]: without either, nobody could be told apart";
        auth.document.error(auth.at, message.to_owned());
    }
    let tokens = tokens(&auth);
    let jwt = auth.table("jwt").and_then(|section| jwt(&section));
    auth.finish();
    (tokens, jwt)
}

fn tokens(auth: &Section<'_>) -> Vec<ConfigToken> {
    let mut tokens: Vec<ConfigToken> = Vec::new();
    let mut known: HashMap<[u8; 32], String> = HashMap::new();
    for section in auth.tables("tokens") {
        let subject = name(&section, "subject", true);
        let tenant = name(&section, "tenant", false);
        let kind = kind(&section);
        let roles = roles(&section);
        let digest = digest(&section);
        section.finish();
        let Some((digest, at, key, shown)) = digest else { continue };
        if let Some(other) = known.insert(digest, shown.clone()) {
            section.bad(at, key, format!("is {shown}, whose token is the same as that of {other}"));
        }
        let Some(subject) = subject else { continue };
        let tenant = tenant.map(|tenant| tenant.value);
        let token = ConfigToken { subject: subject.value, roles, tenant, kind, digest };
        if tokens.iter().any(|other| other.subject == token.subject && !other.agrees(&token)) {
            let what = format!(
                "is {:?}, which another token gives other roles, another tenant or another kind; a subject is one, however \
                 many tokens it has",
                token.subject
            );
            section.bad(subject.at, "subject", what);
        }
        tokens.push(token);
    }
    tokens
}

/// A name of somebody or of a tenant.
fn name(section: &Section<'_>, key: &'static str, required: bool) -> Option<At<String>> {
    let name = if required { section.required(key)? } else { section.string(key)? };
    if name.value.is_empty() || name.value.len() > limits::SUBJECT_BYTES || name.value.contains(char::is_control) {
        section.bad(name.at, key, format!("must have 1 to {} bytes and no control characters", limits::SUBJECT_BYTES));
    }
    Some(name)
}

fn kind(section: &Section<'_>) -> PrincipalKind {
    let Some(kind) = section.string("kind") else { return PrincipalKind::Person };
    PrincipalKind::from_name(&kind.value).unwrap_or_else(|| {
        let what = format!("is {:?}; it must be one of \"person\", \"service\", \"agent\"", kind.value);
        section.bad(kind.at, "kind", what);
        PrincipalKind::Person
    })
}

fn roles(section: &Section<'_>) -> Vec<String> {
    let mut roles: Vec<String> = Vec::new();
    for role in section.strings("roles").unwrap_or_default() {
        match role_error(&role.value) {
            Some(what) => section.bad(role.at, "roles", what),
            None if roles.contains(&role.value) => section.bad(role.at, "roles", format!("has {:?} twice", role.value)),
            None => roles.push(role.value),
        }
    }
    roles
}

/// The token's digest, where it stands, and what to call it in errors.
fn digest(section: &Section<'_>) -> Option<([u8; 32], usize, &'static str, String)> {
    match (section.has("token_env"), section.has("token_sha256")) {
        (Some(_), None) => {
            let variable = section.string("token_env")?;
            // A file read into a variable often ends with a newline, which is not part of a token.
            let digest = Sha256::digest(secret(section, "token_env", &variable)?.trim().as_bytes());
            Some((digest.into(), variable.at, "token_env", format!("{:?}", variable.value)))
        }
        (None, Some(_)) => {
            let text = section.string("token_sha256")?;
            let Some(digest) = hex(&text.value) else {
                // The text is not repeated: somebody may have put the token itself there.
                let what = "must be 64 hexadecimal digits, the SHA-256 of the token (printf %s \"$TOKEN\" | sha256sum)";
                section.bad(text.at, "token_sha256", what);
                return None;
            };
            let shown = text.value.get(..8).unwrap_or_default();
            Some((digest, text.at, "token_sha256", format!("{shown:?} …")))
        }
        (Some(_), Some(at)) => {
            section.bad(at, "token_sha256", "stands beside \"token_env\"; one of them is the token");
            None
        }
        (None, None) => {
            let message = format!("missing \"token_env\" or \"token_sha256\"{}", section.place());
            section.document.error(section.at, message);
            None
        }
    }
}

fn hex(text: &str) -> Option<[u8; 32]> {
    let mut digest = [0; 32];
    if text.len() != 64 || !text.bytes().all(|b| b.is_ascii_hexdigit()) {
        return None;
    }
    for (byte, pair) in digest.iter_mut().zip(text.as_bytes().chunks(2)) {
        *byte = u8::from_str_radix(std::str::from_utf8(pair).ok()?, 16).ok()?;
    }
    Some(digest)
}

fn jwt(section: &Section<'_>) -> Option<JwtOptions> {
    let required = |key| {
        let text = section.required(key)?;
        if text.value.is_empty() || text.value.len() > ISSUER_BYTES {
            section.bad(text.at, key, format!("must have 1 to {ISSUER_BYTES} bytes"));
        }
        Some(text.value)
    };
    let (issuer, audience) = (required("issuer"), required("audience"));
    let keys = keys(section);
    let algorithms = algorithms(section);
    let claim = |key| {
        let claim = section.string(key)?;
        if claim.value.is_empty() || claim.value.len() > limits::SUBJECT_BYTES {
            section.bad(claim.at, key, format!("must have 1 to {} bytes, the name of a claim", limits::SUBJECT_BYTES));
        }
        Some(claim.value)
    };
    let [subject, roles, tenant_claim, kind_claim] =
        ["subject_claim", "roles_claim", "tenant_claim", "kind_claim"].map(claim);
    let leeway = section.whole("leeway", 0..=LEEWAY_MAX, " seconds");
    let standing_for = section.whole("standing_for", 0..=STANDING_FOR_MAX, " seconds");
    section.finish();
    let mut options = JwtOptions::new(issuer?, audience?, keys?);
    options.algorithms = algorithms.unwrap_or(options.algorithms);
    options.subject_claim = subject.unwrap_or(options.subject_claim);
    options.roles_claim = roles.unwrap_or(options.roles_claim);
    options.leeway = leeway.map_or(options.leeway, |leeway| leeway.value);
    options.standing_for = standing_for.map_or(options.standing_for, |seconds| seconds.value);
    Some(JwtOptions { tenant_claim, kind_claim, ..options })
}

fn keys(section: &Section<'_>) -> Option<KeySource> {
    match (section.has("jwks_url"), section.has("jwks_file")) {
        (Some(_), None) => {
            let url = section.string("jwks_url")?;
            match check_url(&url.value) {
                Ok(()) => Some(KeySource::Url(url.value)),
                Err(what) => {
                    section.bad(url.at, "jwks_url", what);
                    None
                }
            }
        }
        (None, Some(_)) => {
            let file = section.string("jwks_file")?;
            let path = section.document.path(&file.value);
            match count_keys(&path) {
                Ok(0) => {
                    section.bad(file.at, "jwks_file", format!("names {}, which has no usable key", path.display()))
                }
                Ok(_) => {}
                Err(what) => section.bad(file.at, "jwks_file", format!("names {}: {what}", path.display())),
            }
            Some(KeySource::File(path))
        }
        (Some(_), Some(at)) => {
            section.bad(at, "jwks_file", "stands beside \"jwks_url\"; the keys come from one of them");
            None
        }
        (None, None) => {
            section.document.error(section.at, format!("missing \"jwks_url\" or \"jwks_file\"{}", section.place()));
            None
        }
    }
}

fn algorithms(section: &Section<'_>) -> Option<Vec<JwtAlgorithm>> {
    let at = section.has("algorithms")?;
    let names = section.strings("algorithms")?;
    if names.is_empty() {
        section.bad(at, "algorithms", "must name at least one");
    }
    let mut algorithms = Vec::new();
    for name in names {
        match JwtAlgorithm::from_name(&name.value) {
            Some(algorithm) if algorithms.contains(&algorithm) => {
                section.bad(name.at, "algorithms", format!("has {:?} twice", name.value));
            }
            Some(algorithm) => algorithms.push(algorithm),
            None if name.value.eq_ignore_ascii_case("none") || name.value.to_ascii_uppercase().starts_with("HS") => {
                let what = format!(
                    "has {:?}: whoever checks such a token could make one; only signatures with a public key are taken",
                    name.value
                );
                section.bad(name.at, "algorithms", what);
            }
            None => {
                let message = format!("unknown algorithm {:?}{}", name.value, section.place());
                section.document.error_near(name.at, message, nearest(&name.value, JwtAlgorithm::names()));
            }
        }
    }
    Some(algorithms)
}
