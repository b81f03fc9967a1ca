//! `[auth]`: who may connect (spec C, X).

use std::{cell::RefCell, collections::HashMap, fmt, time::Duration};

use countersign_core::{
    approval::principal::{Principal, PrincipalKind},
    call::ask_check::role_error,
    limits,
};
use serde_json::json;
use sha2::{Digest as _, Sha256};

use super::{
    describe::Part,
    reader::{Entry, Section},
    table::{Kind, choice, names, set, short, table, tables, text, variable, whole},
};
use crate::auth::{
    JwtAlgorithm, JwtOptions, KeySource, Token, check_token, check_url, count_keys, is_of_nothing, is_subprotocol,
    jwt::{LEEWAY_SECONDS, STANDING_SECONDS},
};

/// Most clock skew that can be allowed, in seconds.
const LEEWAY_SECONDS_MAX: u32 = 300;
/// Longest time a standing approval may outlive the last sighting of its maker, in seconds.
const STANDING_SECONDS_MAX: u32 = 366 * 24 * 60 * 60;
/// Longest issuer or audience, in bytes.
const ISSUER_BYTES: usize = 1024;

/// A person or program that may use the server (spec C). Only the token's digest is kept.
#[derive(Clone, PartialEq, Eq)]
pub struct ConfigToken {
    /// The subject. It may have several tokens, which must agree on everything else.
    pub subject: String,
    /// The roles it holds.
    pub roles: Vec<String>,
    /// The tenant it belongs to.
    pub tenant: Option<String>,
    /// Person, service or agent.
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
    /// Its subject.
    #[must_use]
    pub fn principal(&self) -> Principal {
        let person = Principal::person(self.subject.as_str(), self.roles.clone());
        Principal { tenant: self.tenant.as_deref().map(Into::into), kind: self.kind, ..person }
    }

    /// The token, for a server.
    #[must_use]
    pub fn token(&self) -> Token {
        Token::with_digest(self.principal(), self.digest)
    }

    /// Whether both tokens agree about their subject.
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
pub(super) fn read(section: &Section<'_>) -> Option<(Vec<ConfigToken>, Option<JwtOptions>)> {
    if !section.has_items("tokens") && section.has("jwt").is_none() {
        // An empty [auth] would trust everyone, which is not what its author wants.
        let message = "[auth] needs [[auth.tokens]] or [auth.jwt]: without either, callers cannot be identified";
        section.document.error(section.at, message);
    }
    let known = &RefCell::default();
    let tokens = tables(move |section| token(section, known)).or_as("none", Vec::new);
    let tokens = section.field("tokens", "[Tokens](#authtokens), each with its subject.", tokens)?;
    let jwt = table(jwt).optional("none are accepted");
    Some((tokens, section.field("jwt", "[Which JWTs](#authjwt) are taken.", jwt)?))
}

/// The tokens read so far: each subject as first declared, and the name of each token in errors.
#[derive(Default)]
struct Known {
    subjects: HashMap<String, ConfigToken>,
    digests: HashMap<[u8; 32], String>,
}

fn token(section: &Section<'_>, known: &RefCell<Known>) -> Option<ConfigToken> {
    let doc =
        "Whose token it is. A subject may have several tokens, which must agree on everything else: it is one person.";
    let subject = section.field("subject", doc, short(limits::SUBJECT_BYTES).required());
    let digest = digest(section, known);
    let roles = section.field("roles", "The roles it holds.", roles().or(Vec::new()))?;
    let tenant = section.field("tenant", "The tenant it belongs to.", short(limits::SUBJECT_BYTES).optional("none"))?;
    let kinds = PrincipalKind::ALL.iter().map(|kind| (kind.name(), *kind)).collect();
    let person = || PrincipalKind::Person;
    let kind = section.field("kind", "What it is.", choice("kind", kinds).or_as("`\"person\"`", person))?;
    let token = ConfigToken { subject: subject?, roles, tenant, kind, digest: digest? };
    let mut known = known.borrow_mut();
    let first = known.subjects.entry(token.subject.clone()).or_insert_with(|| token.clone());
    if !first.agrees(&token) {
        let what = format!(
            "is {:?}, which another token gives other roles, another tenant or another kind; a subject is one, however many \
             tokens it has",
            token.subject
        );
        section.bad("subject", what);
    }
    Some(token)
}

fn roles<'k>() -> Kind<'k, Vec<String>> {
    names(text().try_map(|role| role_error(&role).map_or(Ok(role), Err)))
}

/// The token's digest, from one of the two keys.
fn digest(section: &Section<'_>, known: &RefCell<Known>) -> Option<[u8; 32]> {
    let once = |entry: &Entry<'_>, digest: [u8; 32], shown: String| {
        if let Some(other) = known.borrow_mut().digests.insert(digest, shown.clone()) {
            entry.bad(format!("is {shown}, whose token is the same as that of {other}"));
        }
        Some(digest)
    };
    let of_variable = variable().and(|entry, (name, token)| {
        // A file read into a variable often ends with a newline, which is not part of the token.
        let token = token.trim();
        if let Err(what) = check_token(token) {
            entry.bad(format!("names the environment variable {name}, whose token {what}"));
            return None;
        }
        if !is_subprotocol(token) {
            entry.warn(format!(
                "names the environment variable {name}, whose token has other characters than letters, digits and \
                 !#$%&'*+-.^_`|~: no browser can send it, so it cannot be used in the console"
            ));
        }
        once(entry, Sha256::digest(token.as_bytes()).into(), format!("{name:?}"))
    });
    let of_text = text().schema(json!({ "pattern": "^[0-9a-fA-F]{64}$" })).and(|entry, text| {
        let mut digest = [0; 32];
        if hex::decode_to_slice(&text, &mut digest).is_err() {
            // The value is not repeated: it may be the token itself.
            entry.bad("must be 64 hexadecimal digits, the SHA-256 of the token (printf %s \"$TOKEN\" | sha256sum)");
            return None;
        }
        if is_of_nothing(&digest) {
            entry.bad("is the SHA-256 of an empty text, not of a token: was the variable set when you made it?");
            return None;
        }
        once(entry, digest, format!("{:?} …", text.get(..8).unwrap_or_default()))
    });
    let doc = "The variable that holds the token; it must be set.";
    let of_variable = section.field("token_env", doc, of_variable.optional(ONE))?;
    let doc = "The token's SHA-256 in hexadecimal: `printf %s \"$TOKEN\" \\| sha256sum`. Only for tokens that nobody can guess: \
               `openssl rand -hex 32`.";
    let beside = Beside { section, other: "token_env", why: "stands beside \"token_env\"; one of them is the token" };
    let of_text = section.field("token_sha256", doc, of_text.optional(ONE).of(beside.part()))?;
    if section.has("token_env").or_else(|| section.has("token_sha256")).is_none() {
        section.missing("\"token_env\" or \"token_sha256\"", "");
    }
    of_variable.or(of_text)
}

/// The reference's default for either of two keys.
const ONE: &str = "one of the two";

/// A key that replaces another one.
struct Beside<'b, 's> {
    section: &'b Section<'s>,
    other: &'static str,
    why: &'static str,
}

impl Beside<'_, '_> {
    fn part(&self) -> Part {
        let not_meant = self.section.has(self.other).map(|_| self.why.to_owned());
        Part { of: "all", when: json!({ "not": { "required": [self.other] } }), not_meant }
    }
}

fn jwt(section: &Section<'_>) -> Option<JwtOptions> {
    let issuer = section.field("issuer", "What `iss` must be.", short(ISSUER_BYTES).required());
    let audience = section.field("audience", "What `aud` must be, or have.", short(ISSUER_BYTES).required());
    let keys = keys(section);
    let default = JwtOptions::new("", "", KeySource::Url(String::new()));
    let claim = || short(limits::SUBJECT_BYTES).called("claim");
    let algorithms = "The accepted signature algorithms.";
    let subject = "The claim with the subject.";
    let roles =
        "The claim with the roles, a list of strings or one with spaces; `realm_access.roles` goes into an object.";
    let tenant = "The claim with the tenant; a JWT without it is refused.";
    let kind = "The claim with `person`, `service` or `agent`; a JWT without it is refused.";
    let leeway = "How far the clocks may be apart.";
    let standing = "How long a [standing approval](protocol.md#always) counts after whoever made it was last seen with a JWT that \
                    has the role, at most 366 days. What was seen is remembered, of the 10,000 people seen last, until the \
                    server stops, or is told of another issuer or other claims: after that such rules are suspended until \
                    their makers are seen again.";
    let options = JwtOptions {
        algorithms: section.field(
            "algorithms",
            algorithms,
            self::algorithms().or_as("`[\"RS256\", \"ES256\", \"EdDSA\"]`", || default.algorithms.clone()),
        )?,
        subject_claim: section.field("subject_claim", subject, claim().or(default.subject_claim.clone()))?,
        roles_claim: section.field("roles_claim", roles, claim().or(default.roles_claim.clone()))?,
        tenant_claim: section.field("tenant_claim", tenant, claim().optional("there are no tenants"))?,
        kind_claim: section.field("kind_claim", kind, claim().optional("all are persons"))?,
        leeway: seconds(section.field(
            "leeway_seconds",
            leeway,
            whole(0..=LEEWAY_SECONDS_MAX, "seconds").or(LEEWAY_SECONDS),
        )?),
        standing_for: seconds(section.field(
            "standing_seconds",
            standing,
            whole(0..=STANDING_SECONDS_MAX, "seconds").or(STANDING_SECONDS),
        )?),
        ..default.clone()
    };
    Some(JwtOptions { issuer: issuer?, audience: audience?, keys: keys?, ..options })
}

fn seconds(seconds: u32) -> Duration {
    Duration::from_secs(seconds.into())
}

fn keys(section: &Section<'_>) -> Option<KeySource> {
    let url = text().called("URL").try_map(|url| check_url(&url).map(|()| KeySource::Url(url)));
    let file = text().called("file").and(|entry, file| {
        let path = entry.section.document.own_file(&file);
        match count_keys(&path) {
            // This withdraws all keys, which must take effect at once, with a warning.
            Ok(0) => {
                entry.warn(format!("names {}, which has no usable key: every JWT is refused", path.display()));
            }
            Ok(_) => {}
            Err(what) => entry.bad(format!("names {}: {what}", path.display())),
        }
        Some(KeySource::File(path))
    });
    let doc = "Where the issuer's public keys are (a JWK Set): `https`, or `http` on this machine.";
    let url = section.field("jwks_url", doc, url.optional(ONE))?;
    let why = "stands beside \"jwks_url\"; the keys come from one of them";
    let file = file.optional(ONE).of(Beside { section, other: "jwks_url", why }.part());
    let file = section.field("jwks_file", "A file with them.", file)?;
    if section.has("jwks_url").or_else(|| section.has("jwks_file")).is_none() {
        section.missing("\"jwks_url\" or \"jwks_file\"", "");
    }
    url.or(file)
}

fn algorithms<'k>() -> Kind<'k, Vec<JwtAlgorithm>> {
    let known = JwtAlgorithm::names().filter_map(|name| Some((name, JwtAlgorithm::from_name(name)?))).collect();
    let item = choice("algorithm", known).unless(|name| {
        let is_shared = name.eq_ignore_ascii_case("none") || name.to_ascii_uppercase().starts_with("HS");
        let why = "whoever checks such a token could make one; only signatures with a public key are taken";
        is_shared.then(|| format!("has {name:?}: {why}"))
    });
    set(item, |algorithm| algorithm.name()).schema(json!({ "minItems": 1 })).and(|entry, algorithms| {
        if entry.items().is_empty() {
            entry.bad("must name at least one");
        }
        Some(algorithms)
    })
}
