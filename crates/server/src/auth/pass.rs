//! A connection's credential, checked again with each message: a token may be revoked, expire, or get other roles
//! while the connection lives (spec X).
//!
//! A connection keeps its credential, not the principal it resolved to. The accepted tokens and the issuer's keys are
//! watched values: a message costs one version check, and only a change makes the credential be validated again. So a
//! revoked token ends its connections, and changed roles count from the next message, without a registry of
//! connections.

use std::{
    future::pending,
    pin::Pin,
    sync::Arc,
    time::{Duration, SystemTime, UNIX_EPOCH},
};

use axum::http::HeaderMap;
use countersign_core::{approval::principal::Principal, refusal::Refusal};
use tokio::{
    sync::watch,
    time::{Instant, Sleep, sleep},
};

use super::{Access, Auth, Known, jwt::Jwt, keys::KeySet, unauthenticated};

/// Longest sleep, since the clock may be set meanwhile.
const LONGEST: Duration = Duration::from_secs(3600);

/// The credential of a request. Never printed.
pub(crate) enum Credential {
    /// None, where none is required.
    Open,
    /// A token's SHA-256.
    Token([u8; 32]),
    /// A JWT, and its SHA-256.
    Jwt([u8; 32], Box<str>),
}

/// The owner of a connection, for as long as its credential is valid.
pub(crate) struct Pass {
    by: Arc<Principal>,
    credential: Credential,
    /// When the credential expires, in Unix seconds.
    until: Option<u64>,
    /// Fires then.
    expiry: Option<Pin<Box<Sleep>>>,
    access: watch::Receiver<Arc<Access>>,
    /// The keys that validate a JWT, and whose they are.
    keys: Option<(Arc<Jwt>, watch::Receiver<KeySet>)>,
    /// Whether `by` has changed since that was last asked.
    moved: bool,
    /// Whether the credential was invalid at the last check.
    bad: bool,
    /// When its owner was last noted as [seen](super::authority::Seen), in Unix seconds.
    noted: u64,
}

impl Auth {
    /// Admits a request.
    ///
    /// # Errors
    /// `unauthenticated`
    pub(crate) async fn admit(&self, headers: &HeaderMap) -> Result<Pass, Refusal> {
        // Subscribed first, so that a change during validation is seen.
        let access = self.current.subscribe();
        let keys = access.borrow().jwt.clone().map(follow);
        let (known, credential) = self.identify(headers).await?;
        let keys = keys.filter(|_| matches!(credential, Credential::Jwt(..)));
        let mut pass = Pass {
            by: known.by.clone(),
            credential,
            until: None,
            expiry: None,
            access,
            keys,
            moved: false,
            bad: false,
            noted: now(),
        };
        pass.take(known);
        Ok(pass)
    }
}

impl Pass {
    /// The principal, as of the last check.
    pub(crate) fn by(&self) -> &Arc<Principal> {
        &self.by
    }

    /// Whether the credential is unchanged since the last check. Almost free.
    pub(crate) fn is_current(&self) -> bool {
        let moved = self.access.has_changed().unwrap_or(false)
            || self.keys.as_ref().is_some_and(|(_, keys)| keys.has_changed().unwrap_or(false));
        !moved && !self.bad && self.until.is_none_or(|until| now() < until)
    }

    /// Validates the credential again, if it may have changed.
    ///
    /// # Errors
    /// `unauthenticated`: it is no longer valid.
    pub(crate) fn check(&mut self) -> Result<(), Refusal> {
        if self.is_current() {
            self.note();
            return Ok(());
        }
        let access = self.access.borrow_and_update().clone();
        if matches!(self.credential, Credential::Jwt(..)) {
            match (&access.jwt, &mut self.keys) {
                (Some(jwt), Some((of, keys))) if Arc::ptr_eq(jwt, of) => keys.mark_unchanged(),
                (jwt, keys) => *keys = jwt.clone().map(follow),
            }
        }
        let known = access.know(&self.credential);
        self.bad = known.is_err();
        let known = known.map_err(|bad| unauthenticated(bad.text()))?;
        self.moved |= known.by != self.by;
        self.take(known);
        Ok(())
    }

    /// Who acts over a connection is seen with each message, and not only when the connection began: their standing
    /// approvals count from then on (spec P4). Once a second is enough.
    fn note(&mut self) {
        let now = now();
        if let Some((jwt, _)) = &self.keys
            && now != self.noted
        {
            self.noted = now;
            jwt.seen().note(&self.by, now, self.until);
        }
    }

    /// Whether the principal's rights have changed since this was last asked: what it may see must be checked again.
    pub(crate) fn take_moved(&mut self) -> bool {
        std::mem::take(&mut self.moved)
    }

    /// Resolves when the principal [has moved](Pass::take_moved), or fails when the credential is no longer valid.
    ///
    /// # Errors
    /// `unauthenticated`
    pub(crate) async fn changed(&mut self) -> Result<(), Refusal> {
        loop {
            self.check()?;
            if self.moved {
                return Ok(());
            }
            self.something().await;
        }
    }

    /// Resolves when the credential is no longer valid, with the reason.
    pub(crate) async fn over(&mut self) -> Refusal {
        loop {
            if let Err(refusal) = self.check() {
                return refusal;
            }
            self.something().await;
        }
    }

    fn take(&mut self, known: Known) {
        self.by = known.by;
        self.until = known.until;
        self.expiry = known.until.map(|until| Box::pin(sleep(left(until))));
    }

    /// Waits until the credential may have changed.
    async fn something(&mut self) {
        async fn moves<T>(receiver: Option<&mut watch::Receiver<T>>) {
            if let Some(receiver) = receiver
                && receiver.changed().await.is_ok()
            {
                return receiver.mark_changed();
            }
            // The sender is gone: there will be no more changes.
            pending().await
        }
        async fn ends(expiry: Option<&mut Pin<Box<Sleep>>>) {
            match expiry {
                Some(expiry) => expiry.as_mut().await,
                None => pending().await,
            }
        }
        tokio::select! {
            () = moves(Some(&mut self.access)) => {}
            () = moves(self.keys.as_mut().map(|(_, keys)| keys)) => {}
            () = ends(self.expiry.as_mut()) => {
                if let (Some(expiry), Some(until)) = (&mut self.expiry, self.until) {
                    expiry.as_mut().reset(Instant::now() + left(until));
                }
            }
        }
    }
}

fn follow(jwt: Arc<Jwt>) -> (Arc<Jwt>, watch::Receiver<KeySet>) {
    let keys = jwt.keys().follow();
    (jwt, keys)
}

/// The Unix time in seconds.
pub(super) fn now() -> u64 {
    SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default().as_secs()
}

/// The time left until then, capped at the longest sleep.
fn left(until: u64) -> Duration {
    let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    Duration::from_secs(until).saturating_sub(now).min(LONGEST)
}

#[cfg(test)]
mod tests {
    use axum::http::header;

    use super::{super::Token, *};

    fn token(subject: &str, roles: &[&str], secret: &str) -> Token {
        Token::new(Principal::person(subject, roles.iter().map(|&role| role.to_owned()).collect()), secret)
    }

    async fn pass(auth: &Auth, secret: &str) -> Pass {
        let value = format!("Bearer {secret}").parse().expect("a header");
        auth.admit(&HeaderMap::from_iter([(header::AUTHORIZATION, value)])).await.expect("known")
    }

    #[tokio::test]
    async fn x_a_pass_goes_with_its_token() {
        let auth = Auth::new(vec![token("ann", &[], "a"), token("bob", &[], "b")], None);
        let (mut ann, mut bob) = (pass(&auth, "a").await, pass(&auth, "b").await);
        assert!(ann.is_current() && ann.check().is_ok());
        auth.replace(vec![token("bob", &[], "b")], None).await;
        assert!(!ann.is_current());
        assert!(ann.over().await.message.contains("not known"));
        assert!(ann.check().is_err(), "for good");
        assert!(bob.check().is_ok() && !bob.take_moved(), "nothing has happened to it");
        auth.replace(vec![token("bob", &["admin"], "b")], None).await;
        bob.changed().await.expect("good");
        assert!(bob.take_moved() && !bob.take_moved());
        assert!(bob.by().holds("admin"));
    }

    #[tokio::test]
    async fn x_who_needed_no_token_needs_one_when_there_are_some() {
        let auth = Auth::open();
        let mut anybody = auth.admit(&HeaderMap::new()).await.expect("open");
        assert!(anybody.check().is_ok());
        auth.replace(vec![token("bob", &[], "b")], None).await;
        assert!(anybody.check().expect_err("closed").message.contains("a token is needed"));
    }
}
