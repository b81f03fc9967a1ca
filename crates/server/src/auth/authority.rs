//! Whether the makers of standing rules still have the authority to decide (spec P4).
//!
//! Holders of static tokens are looked up as they are now. Holders of JWTs are known only once seen: a person counts
//! as holding a role for a set time after presenting one with it. Only this process remembers that, so after a
//! restart a rule is suspended until its maker is seen again, which is the safe side.

use std::{
    collections::{BTreeSet, HashMap},
    sync::{Arc, Mutex, MutexGuard, PoisonError},
};

use countersign_core::approval::principal::{Principal, PrincipalKind};
use countersign_runtime::run::{Authority, RuleMaker, Suspension, SuspensionCode};

use super::{Access, Auth, pass::now};

/// Most persons remembered. Beyond that the one seen longest ago is forgotten, and rules of theirs are suspended until
/// they are seen again.
const PERSONS: usize = 10_000;
/// Most roles remembered for one person.
const ROLES: usize = 256;

/// A subject in its tenant.
type Person = (Option<Arc<str>>, Arc<str>);

/// When a person was last seen.
#[derive(Default)]
struct LastSeen {
    /// With any role.
    any: Sighting,
    /// With each role.
    roles: HashMap<String, Sighting>,
}

/// Both in Unix seconds.
#[derive(Clone, Copy, Default)]
struct Sighting {
    at: u64,
    /// When the last of the tokens that were presented expires.
    until: u64,
}

impl Sighting {
    /// A clock set back must not make a sighting older.
    fn again(&mut self, at: u64, until: u64) {
        *self = Sighting { at: self.at.max(at), until: self.until.max(until) };
    }
}

/// The persons who presented a valid JWT, with the time (Unix seconds).
#[derive(Default)]
pub(crate) struct Seen(Mutex<Persons>);

#[derive(Default)]
struct Persons {
    known: HashMap<Person, LastSeen>,
    /// Whether anybody was ever forgotten.
    forgot: bool,
}

impl Seen {
    /// Records a person whose token is valid `until` then; only persons decide.
    pub(super) fn note(&self, by: &Principal, now: u64, until: Option<u64>) {
        let (PrincipalKind::Person, Some(subject)) = (by.kind, &by.subject) else { return };
        let person = (by.tenant.clone(), subject.clone());
        let mut seen = self.seen();
        if seen.known.len() >= PERSONS && !seen.known.contains_key(&person) {
            let oldest = seen.known.iter().min_by_key(|(_, last)| last.any.at).map(|(oldest, _)| oldest.clone());
            seen.forgot |= oldest.is_some_and(|oldest| seen.known.remove(&oldest).is_some());
        }
        let last = seen.known.entry(person).or_default();
        let until = until.unwrap_or(u64::MAX);
        last.any.again(now, until);
        for role in &by.roles {
            if let Some(sighting) = last.roles.get_mut(role) {
                sighting.again(now, until);
            } else if last.roles.len() < ROLES {
                last.roles.insert(role.clone(), Sighting { at: now, until });
            }
        }
    }

    /// When this person was last seen with the role, or at all without one.
    fn when(&self, person: &Person, role: Option<&str>) -> Option<u64> {
        let seen = self.seen();
        let last = seen.known.get(person)?;
        role.map_or(Some(last.any), |role| last.roles.get(role).copied()).map(|sighting| sighting.at)
    }

    /// Whether some valid token gives this person each of these roles, as far as is known: who decides was seen, and may
    /// have been forgotten.
    fn holds_still(&self, person: &Person, roles: &[String], now: u64) -> bool {
        let seen = self.seen();
        let Some(last) = seen.known.get(person) else { return seen.forgot };
        let known = roles.iter().filter_map(|role| last.roles.get(role));
        known.chain([&last.any]).all(|sighting| now < sighting.until)
    }

    /// Whether this person was possibly seen, and forgotten for others.
    fn may_have_forgotten(&self, person: &Person) -> bool {
        let seen = self.seen();
        seen.forgot && !seen.known.contains_key(person)
    }

    /// Poisoning is harmless: nothing panics under the lock, and entries may be lost at any time.
    fn seen(&self) -> MutexGuard<'_, Persons> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Authority for Auth {
    fn check(&self, maker: RuleMaker<'_>) -> Result<(), Suspension> {
        self.access().check(maker, now())
    }

    fn still(&self, by: &Principal) -> bool {
        self.access().still(by, now())
    }

    fn holders(&self, role: &str, tenant: Option<&str>) -> Option<BTreeSet<Arc<str>>> {
        self.access().holders(role, tenant)
    }
}

impl Access {
    /// The persons who hold a role, if no JWT can make others hold it.
    fn holders(&self, role: &str, tenant: Option<&str>) -> Option<BTreeSet<Arc<str>>> {
        if self.open.is_some() || self.jwt.is_some() {
            return None;
        }
        let people = (self.tokens.iter().map(|token| &token.principal))
            .filter(|by| by.kind == PrincipalKind::Person && by.tenant.as_deref() == tenant && by.holds(role));
        Some(people.filter_map(|by| by.subject.clone()).collect())
    }

    /// Whether it is what its tokens say now. Of the holder of a JWT it is known when that expires, and no more.
    fn still(&self, by: &Principal, now: u64) -> bool {
        let tokens = self.tokens.iter().map(|token| &token.principal);
        let mut own = tokens.filter(|one| (&one.subject, &one.tenant) == (&by.subject, &by.tenant)).peekable();
        let of_jwt = || match (&self.jwt, &by.subject) {
            (Some(jwt), Some(subject)) if by.kind == PrincipalKind::Person => {
                jwt.seen().holds_still(&(by.tenant.clone(), subject.clone()), &by.roles, now)
            }
            (jwt, _) => jwt.is_some(),
        };
        self.open.is_some() || (own.peek().is_none() && of_jwt()) || own.any(|one| **one == *by)
    }

    fn check(&self, maker: RuleMaker<'_>, now: u64) -> Result<(), Suspension> {
        if self.open.is_some() {
            return Ok(());
        }
        let Some(subject) = maker.subject else {
            return Err(Suspension::new(SuspensionCode::MakerUnknown, "it is not on record who made it"));
        };
        let mut tokens = self.tokens.iter().map(|token| &token.principal).filter(|by| {
            by.subject.as_deref() == Some(subject)
                && by.tenant.as_deref() == maker.tenant
                && by.kind == PrincipalKind::Person
        });
        let has_token = tokens.clone().next().is_some();
        if tokens.any(|by| maker.role.is_none_or(|role| by.holds(role))) {
            return Ok(());
        }
        let with = maker.role.map_or_else(String::new, |role| format!(" with the role {role:?}"));
        let Some(jwt) = &self.jwt else {
            let (code, with) = if has_token { (SuspensionCode::NoRole, &*with) } else { (SuspensionCode::NoToken, "") };
            return Err(Suspension::new(code, format!("{subject:?} has no token{with} any more")));
        };
        let bound = jwt.options().standing_for.as_secs();
        let person = (maker.tenant.map(Arc::from), Arc::from(subject));
        match jwt.seen().when(&person, maker.role) {
            Some(at) if now < at.saturating_add(bound) => Ok(()),
            Some(_) => {
                let why = format!("{subject:?} was not seen{with} for {bound} seconds");
                Err(Suspension::new(SuspensionCode::NotSeen, why))
            }
            None if jwt.seen().may_have_forgotten(&person) => {
                let why = format!("{subject:?} is not among the {PERSONS} persons who were seen last");
                Err(Suspension::new(SuspensionCode::Other, why))
            }
            None => {
                let why = format!("{subject:?} was not seen{with} since the server started");
                Err(Suspension::new(SuspensionCode::NotSeenYet, why))
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::{
        super::{JwtOptions, KeySource, Token, jwt::Jwt},
        *,
    };

    fn person(subject: &str, tenant: Option<&str>, roles: &[&str]) -> Principal {
        let roles = roles.iter().map(|role| (*role).to_owned()).collect();
        Principal { tenant: tenant.map(Into::into), ..Principal::person(subject, roles) }
    }

    fn maker<'a>(subject: &'a str, role: Option<&'a str>) -> RuleMaker<'a> {
        RuleMaker { subject: Some(subject), tenant: None, role }
    }

    fn access(tokens: &[Principal], jwt: Option<Jwt>) -> Access {
        let tokens = tokens.iter().map(|by| Token::new(by.clone(), "secret")).collect();
        Access { open: None, tokens, jwt: jwt.map(Arc::new) }
    }

    #[test]
    fn p4_who_holds_a_role_is_known_without_jwts() {
        let service = Principal { kind: PrincipalKind::Service, ..person("bot", None, &["admin"]) };
        let access =
            access(&[person("bob", None, &["admin"]), person("eve", Some("north"), &["admin"]), service], None);
        let named =
            |role, tenant| access.holders(role, tenant).map(|people| people.iter().map(ToString::to_string).collect());
        assert_eq!(named("admin", None), Some(vec!["bob".to_owned()]));
        assert_eq!(named("admin", Some("north")), Some(vec!["eve".to_owned()]));
        assert_eq!(named("cfo", None), Some(Vec::new()));
        assert_eq!(Access { open: Some(Arc::default()), tokens: Vec::new(), jwt: None }.holders("admin", None), None);
    }

    #[test]
    fn x_who_has_other_rights_than_their_tokens_give_now_is_known_unless_they_come_from_a_jwt() {
        let (bob, legal) = (person("bob", None, &["admin"]), person("bob", None, &["legal"]));
        let zoe = person("zoe", None, &["admin"]);
        let tokens = access(std::slice::from_ref(&bob), None);
        assert_eq!([&bob, &legal, &zoe].map(|by| tokens.still(by, 0)), [true, false, false]);
        let keys = KeySource::File("keys.json".into());
        let jwt = Jwt::new(JwtOptions::new("https://id.example", "countersign", keys));
        let both = access(std::slice::from_ref(&bob), Some(jwt));
        assert_eq!([&bob, &legal, &zoe].map(|by| both.still(by, 0)), [true, false, false]);
        assert!(Access { open: Some(Arc::default()), tokens: Vec::new(), jwt: None }.still(&zoe, 0));
    }

    #[test]
    fn x_who_decides_by_a_jwt_has_its_rights_until_it_expires() {
        let jwt = Jwt::new(JwtOptions::new("https://id.example", "countersign", KeySource::File("keys.json".into())));
        let access = access(&[], Some(jwt));
        let jwt = access.jwt.clone().expect("JWTs");
        let (admin, user) = (person("zoe", None, &["admin", "user"]), person("zoe", None, &["user"]));
        jwt.seen().note(&admin, 1000, Some(2000));
        assert_eq!([1999, 2000].map(|now| access.still(&admin, now)), [true, false]);
        // Another token of hers does not give her the first one's roles.
        jwt.seen().note(&user, 1000, Some(3000));
        assert_eq!([&admin, &user].map(|by| access.still(by, 2000)), [false, true]);
        jwt.seen().note(&admin, 1500, Some(4000));
        assert!(access.still(&admin, 3500), "she has got a new one");
        assert!(!access.still(&person("zoe", Some("north"), &["admin"]), 1000), "her token was a static one");
    }

    #[test]
    fn p4_a_rule_counts_while_its_maker_has_a_token_with_its_role() {
        let service = Principal { kind: PrincipalKind::Service, ..person("bot", None, &["admin"]) };
        let access =
            access(&[person("bob", None, &["admin"]), person("eve", Some("north"), &["admin"]), service], None);
        let check = |maker| access.check(maker, 0).map_err(|why| why.code);
        assert_eq!(check(maker("bob", Some("admin"))), Ok(()));
        assert_eq!(check(maker("bob", None)), Ok(()));
        assert_eq!(check(maker("bob", Some("cfo"))), Err(SuspensionCode::NoRole));
        for gone in [maker("eve", Some("admin")), maker("bot", Some("admin")), maker("x", None)] {
            assert_eq!(check(gone), Err(SuspensionCode::NoToken), "{gone:?}");
        }
        assert_eq!(check(RuleMaker { tenant: Some("north"), ..maker("eve", Some("admin")) }), Ok(()));
        assert_eq!(check(RuleMaker { subject: None, ..maker("", None) }), Err(SuspensionCode::MakerUnknown));
        assert!(
            Access { open: Some(Arc::default()), tokens: Vec::new(), jwt: None }
                .check(maker("x", Some("y")), 0)
                .is_ok()
        );
    }

    #[test]
    fn p4_a_rule_counts_for_so_long_after_its_maker_was_seen_with_its_role() {
        let mut options = JwtOptions::new("https://id.test", "countersign", KeySource::File("none".into()));
        options.standing_for = Duration::from_secs(100);
        let access = access(&[], Some(Jwt::new(options)));
        let jwt = access.jwt.clone().expect("JWTs");
        let why = |maker, now| access.check(maker, now).map_err(|why| why.code);
        let check = |maker, now| why(maker, now).is_ok();
        assert_eq!(why(maker("bob", None), 0), Err(SuspensionCode::NotSeenYet));
        jwt.seen().note(&person("bob", None, &["admin"]), 1000, None);
        jwt.seen().note(&person("bob", None, &["user"]), 1050, None);
        assert!(check(maker("bob", Some("admin")), 1099) && !check(maker("bob", Some("admin")), 1100));
        assert!(check(maker("bob", None), 1149));
        assert_eq!(why(maker("bob", None), 1150), Err(SuspensionCode::NotSeen));
        assert!(!check(RuleMaker { tenant: Some("north"), ..maker("bob", None) }, 1000), "another bob");
        jwt.seen().note(&Principal { kind: PrincipalKind::Agent, ..person("bot", None, &["admin"]) }, 1000, None);
        assert!(!check(maker("bot", Some("admin")), 1000), "no person");
        jwt.seen().note(&person("many", None, &[]), 1000, None);
        let roles: Vec<String> = (0..2 * ROLES).map(|n| format!("r{n}")).collect();
        jwt.seen().note(&Principal::person("many", roles), 1000, None);
        assert!(jwt.seen().seen().known[&(None, Arc::from("many"))].roles.len() <= ROLES);
    }

    #[test]
    fn p4_r9_one_person_too_many_makes_the_one_seen_longest_ago_forgotten_and_nobody_else() {
        let mut options = JwtOptions::new("https://id.test", "countersign", KeySource::File("none".into()));
        options.standing_for = Duration::from_secs(1_000_000);
        let access = access(&[], Some(Jwt::new(options)));
        let jwt = access.jwt.clone().expect("JWTs");
        let note = |subject: &str, now| jwt.seen().note(&person(subject, None, &["admin"]), now, None);
        let why = |subject| access.check(maker(subject, Some("admin")), 20_000).map_err(|why| why.code);
        note("old", 1);
        note("bob", 2);
        for n in 0..PERSONS as u64 - 2 {
            note(&format!("p{n}"), 3 + n);
        }
        assert_eq!((why("old"), why("bob"), why("none")), (Ok(()), Ok(()), Err(SuspensionCode::NotSeenYet)));
        note("bob", 15_000);
        note("one more", 15_000);
        assert_eq!(jwt.seen().seen().known.len(), PERSONS);
        assert_eq!((why("bob"), why("p0"), why("one more")), (Ok(()), Ok(()), Ok(())));
        // It cannot say any more that somebody was not seen since it started.
        assert_eq!((why("old"), why("none")), (Err(SuspensionCode::Other), Err(SuspensionCode::Other)));
    }
}
