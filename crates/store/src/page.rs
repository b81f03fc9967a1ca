//! Pages of lists: their filters, order and cursors, the same for every store.
//!
//! A list is ordered by a time, then by the session's id, then by a number, all descending; a cursor is
//! the key of the last row of its page. So rows that are added or removed between two pages never shift others.
//! Interruptions are ordered by a place instead of a time: nothing near its deadline is on a late page.

use std::{collections::HashSet, sync::Arc};

use countersign_core::{
    approval::rule::RuleId,
    call::reviewer::Reviewer,
    journal::{
        record::Millis,
        state::{State, Status},
    },
};

use super::{InterruptionRow, RuleOwner, RuleRow, StoreError, Summary};

/// A page of a list.
#[derive(Clone, Debug)]
pub struct Page {
    /// Where the page before ended; `None` for the first.
    pub cursor: Option<String>,
    /// At most this many, from 1.
    pub limit: usize,
}

/// Rows, and where the next page begins.
#[derive(Clone, Debug)]
pub struct Paged<T> {
    /// The rows. There may be fewer than fit, or none, even where there is a next page, if few of the rows examined
    /// match.
    pub rows: Vec<T>,
    /// The rows of the page that cannot be read here, by their session, and why. They are not in `rows`: one of them
    /// must not hide all others from the reader.
    pub unread: Vec<(Arc<str>, StoreError)>,
    /// The cursor of the next page, if there is one.
    pub next: Option<String>,
}

/// How many rows of one reason for visibility a page examines for a condition that no index covers, such as an agent. A
/// page that is not full by then ends there, and the next one continues: no request waits until a million rows are
/// read.
#[cfg(any(feature = "sqlite", feature = "postgres"))]
pub(super) const LOOKS_AT: usize = 10_000;

/// A row that a query of a list has read.
#[derive(Debug)]
pub struct Found<T> {
    /// Its place.
    pub key: Key,
    /// The row, or why this build cannot read it: a newer one may have stored it.
    pub row: Result<T, StoreError>,
    /// It belongs to the list.
    pub fits: bool,
    /// It is the last one that was examined, and there may be more.
    pub is_last: bool,
}

impl<T> Found<T> {
    /// A row of a query all of whose rows belong to the list.
    ///
    /// # Errors
    /// Any failure except that of reading the row.
    pub fn fitting(key: Key, row: Result<T, StoreError>) -> Result<Found<T>, StoreError> {
        match row {
            Ok(_) | Err(StoreError::Corrupt(_) | StoreError::Sealed(_) | StoreError::Newer { .. }) => {
                Ok(Found { key, row, fits: true, is_last: false })
            }
            Err(error) => Err(error),
        }
    }
}

/// The numbers reserved for the rules of one interruption.
pub(super) const RULES_EACH: u32 = 256;

/// The number of a rule in its session, in the order in which rules were made.
pub(super) fn rule_number(id: RuleId) -> u32 {
    // An interruption has at most as many actions as an answer has calls.
    id.n.get().saturating_mul(RULES_EACH).saturating_add(id.action)
}

/// The place of a row in its list.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Key {
    /// When it was used last or made, or its place.
    pub at: Millis,
    /// The session.
    pub session_id: String,
    /// The interruption's number; 0 in lists of sessions.
    pub n: u32,
}

/// A row of a list.
pub trait Row {
    /// The prefix of its cursors.
    const LIST: &'static str;
    /// Its place.
    fn key(&self) -> Key;
}

impl Row for InterruptionRow {
    const LIST: &'static str = "i";
    fn key(&self) -> Key {
        Key { at: self.place(), session_id: self.session_id.to_string(), n: self.n.get() }
    }
}

impl InterruptionRow {
    /// The lowest place of a pending one: no time is that large.
    #[cfg(feature = "sqlite")]
    pub(super) const WAITING: Millis = 1 << 61;

    /// Its place in lists, the highest first: pending ones with a deadline, the soonest first; those without one, the
    /// newest first; then resolved ones, the newest first. `schema.sql` has the same, as `place`.
    pub(super) fn place(&self) -> Millis {
        match (self.resolution, self.expires_at) {
            (None, Some(due)) => (1 << 62) - due,
            (None, None) => (1 << 61) + self.asked_at,
            (Some(_), _) => self.asked_at,
        }
    }
}

impl Row for RuleRow {
    const LIST: &'static str = "r";
    fn key(&self) -> Key {
        Key { at: self.made_at, session_id: self.session_id.to_string(), n: self.number() }
    }
}

impl RuleRow {
    /// Its number in its session, in the order in which rules were made.
    pub(super) fn number(&self) -> u32 {
        rule_number(self.rule.id)
    }

    /// Whether this one replaces an older one.
    pub(super) fn replaces(&self, older: &RuleRow) -> bool {
        let same_sessions = if self.rule.is_everywhere() {
            (&self.subject, &self.tenant) == (&older.subject, &older.tenant)
        } else {
            self.session_id == older.session_id
        };
        // The owner may reject too, but that does not end a reviewer's rejection. A session without an owner has nobody
        // to keep from it.
        let asks = older.rule.not_self && self.subject.is_some() && self.rule.by == self.subject;
        older.revoked_at.is_none()
            && same_sessions
            && !(asks && self.rule.is_everywhere())
            && self.rule.replaces(&older.rule)
    }
}

impl RuleRow {
    /// Whether it applies to all sessions of this owner, for a tool of an agent, and is not revoked.
    pub(super) fn applies_to(&self, of: &RuleOwner, agent: &str, tool: &str) -> bool {
        self.rule.is_everywhere()
            && self.revoked_at.is_none()
            && (&self.subject, &self.tenant) == (&of.subject, &of.tenant)
            && *self.rule.agent == *agent
            && *self.rule.tool == *tool
    }
}

/// Which rules to list. `None` means any.
#[derive(Clone, Debug, Default)]
pub struct RuleFilter {
    /// In force at `now` (true), or revoked or expired by then (false).
    pub standing: Option<bool>,
    /// The time at which rules are in force or not.
    pub now: Millis,
    /// For more than the session they were made in (true), or for that one only (false).
    pub everywhere: Option<bool>,
    /// Made in this session.
    pub session_id: Option<String>,
    /// Only this one.
    pub id: Option<RuleId>,
    /// Only what this person may see: rules of their own sessions, those they made, those made for their roles.
    pub visible_to: Option<Visible>,
}

impl RuleFilter {
    /// Whether a row matches.
    #[must_use]
    pub fn matches(&self, row: &RuleRow) -> bool {
        let RuleFilter { standing, now, everywhere, session_id, id, visible_to } = self;
        let in_force = row.is_in_force(*now);
        standing.is_none_or(|standing| standing == in_force)
            && everywhere.is_none_or(|everywhere| everywhere == row.rule.is_everywhere())
            && session_id.as_ref().is_none_or(|id| **id == *row.session_id)
            && id.is_none_or(|id| id == row.rule.id)
            && visible_to.as_ref().is_none_or(|who| {
                let own = |name: Option<&str>| name.is_some() && name == who.subject.as_deref();
                row.tenant.as_deref() == who.tenant.as_deref()
                    && (own(row.subject.as_deref())
                        || own(row.rule.by.as_deref())
                        || who.reviewing().any(|role| row.rule.role.role() == Some(role.as_str())))
            })
    }
}

impl Row for Summary {
    const LIST: &'static str = "s";
    fn key(&self) -> Key {
        Key { at: self.updated_at, session_id: self.session_id.to_string(), n: 0 }
    }
}

/// Where the page begins: after this key.
///
/// # Errors
/// [`StoreError::BadCursor`].
pub fn start<T: Row>(page: &Page) -> Result<Option<Key>, StoreError> {
    let Some(cursor) = &page.cursor else { return Ok(None) };
    let mut parts = cursor.splitn(4, '.');
    let mut next = || parts.next().ok_or(StoreError::BadCursor);
    if next()? != T::LIST {
        return Err(StoreError::BadCursor);
    }
    let at = next()?.parse().map_err(|_| StoreError::BadCursor)?;
    let n = next()?.parse().map_err(|_| StoreError::BadCursor)?;
    let key = Key { at, session_id: next()?.to_owned(), n };
    // One spelling per key: a cursor that no page returned is refused.
    if write::<T>(&key) == *cursor { Ok(Some(key)) } else { Err(StoreError::BadCursor) }
}

fn write<T: Row>(key: &Key) -> String {
    format!("{}.{}.{}.{}", T::LIST, key.at, key.n, key.session_id)
}

/// The cursor of the page after this row.
#[must_use]
pub fn after<T: Row>(row: &T) -> String {
    write::<T>(&row.key())
}

/// The room on a page whose rows may be long: it ends before the row that would exceed its bytes, but has at least one.
#[derive(Debug)]
pub struct Room {
    left: usize,
    is_empty: bool,
}

impl Room {
    /// Of an empty page.
    #[must_use]
    pub fn new(bytes: usize) -> Room {
        Room { left: bytes, is_empty: true }
    }

    /// Whether the next row, of so many bytes, is on the page.
    #[must_use]
    pub fn takes(&mut self, bytes: usize) -> bool {
        let fits = bytes <= self.left || self.is_empty;
        self.left = self.left.saturating_sub(bytes);
        self.is_empty = false;
        fits
    }
}

/// The size of the page, at least one.
#[must_use]
pub fn limit(page: &Page) -> usize {
    page.limit.max(1)
}

/// Makes the page from the rows of all queries of a list, each of which may have one more than fits. Some may be of the
/// same thing.
#[must_use]
pub fn merged<T: Row>(mut found: Vec<Found<T>>, page: &Page) -> Paged<T> {
    // Not all queries have read rows below it.
    let floor = found.iter().filter(|one| one.is_last).map(|one| one.key.clone()).max();
    found.retain(|one| one.fits && floor.as_ref().is_none_or(|floor| one.key >= *floor));
    found.sort_unstable_by(|one, other| other.key.cmp(&one.key));
    // One that is used, or resolved, between two queries has another place in the second.
    let mut listed = HashSet::new();
    found.retain(|one| listed.insert((one.key.session_id.clone(), one.key.n)));
    let more = found.len() > limit(page);
    found.truncate(limit(page));
    let end = found.last().filter(|_| more).map(|one| &one.key);
    let next = end.or(floor.as_ref()).map(write::<T>);
    let (mut rows, mut unread) = (Vec::with_capacity(found.len()), Vec::new());
    for one in found {
        match one.row {
            Ok(row) => rows.push(row),
            Err(error) => unread.push((one.key.session_id.into(), error)),
        }
    }
    Paged { rows, unread, next }
}

/// Makes the page from ordered rows, of which there may be one more than fits.
#[must_use]
pub fn cut<T: Row>(mut rows: Vec<T>, page: &Page) -> Paged<T> {
    let limit = limit(page);
    let more = rows.len() > limit;
    rows.truncate(limit);
    let next = if more { rows.last().map(after) } else { None };
    Paged { rows, unread: Vec::new(), next }
}

/// Which interruptions to list. `None` means any.
#[derive(Clone, Debug, Default)]
pub struct InterruptionFilter {
    /// Pending (true) or resolved (false).
    pub waiting: Option<bool>,
    /// Who decides: a role, or `user`, the session's owner.
    pub role: Option<String>,
    /// The agent that asks.
    pub agent: Option<String>,
    /// A tool it asks about.
    pub tool: Option<String>,
    /// The session.
    pub session_id: Option<String>,
    /// Only what this person may see: of sessions with the subject, or for one of the roles.
    pub visible_to: Option<Visible>,
}

impl InterruptionFilter {
    /// Whether a row matches.
    #[must_use]
    pub fn matches(&self, row: &InterruptionRow) -> bool {
        let InterruptionFilter { waiting, role, agent, tool, session_id, visible_to } = self;
        waiting.is_none_or(|waiting| waiting == row.resolution.is_none())
            && role.as_ref().is_none_or(|role| row.role == *role)
            && agent.as_ref().is_none_or(|agent| **agent == *row.agent)
            && tool.as_ref().is_none_or(|tool| row.tools.iter().any(|t| **t == **tool))
            && session_id.as_ref().is_none_or(|id| **id == *row.session_id)
            && visible_to.as_ref().is_none_or(|who| {
                who.is_of(row.tenant.as_deref())
                    && (who.owns(row.subject.as_deref()) || who.reviewing().any(|held| *held == row.role))
            })
    }
}

/// Which sessions to list. `None` means any.
#[derive(Clone, Debug, Default)]
pub struct SessionFilter {
    /// The status.
    pub status: Option<Status>,
    /// The agent.
    pub agent: Option<String>,
    /// Only what this person may see: their own, and those where one of their roles was ever asked.
    pub visible_to: Option<Visible>,
}

impl SessionFilter {
    /// Whether a session in this state matches.
    #[must_use]
    pub fn matches(&self, state: &State) -> bool {
        let SessionFilter { status, agent, visible_to } = self;
        status.is_none_or(|status| status == state.status)
            && agent.as_ref().is_none_or(|agent| **agent == *state.agent)
            && visible_to.as_ref().is_none_or(|who| {
                who.is_of(state.tenant.as_deref())
                    && (who.owns(state.subject.as_deref())
                        || who.reviewing().any(|role| state.reviewers.contains(role)))
            })
    }
}

/// A person, for lists.
#[derive(Clone, Debug, Default)]
pub struct Visible {
    /// Their name.
    pub subject: Option<String>,
    /// Their tenant: nothing of another tenant is listed. `None` is a separate tenant.
    pub tenant: Option<String>,
    /// Their roles, without `user`.
    pub roles: Vec<String>,
}

impl Visible {
    /// Whether it belongs to this tenant.
    #[must_use]
    pub fn is_of(&self, tenant: Option<&str>) -> bool {
        self.tenant.as_deref() == tenant
    }

    /// Whether a session of this subject, in its tenant, is their own. A session without a subject is nobody's own.
    #[must_use]
    pub fn owns(&self, subject: Option<&str>) -> bool {
        self.subject.is_some() && self.subject.as_deref() == subject
    }

    /// The roles that let them see other people's sessions: `user` does not (spec P1).
    pub fn reviewing(&self) -> impl Iterator<Item = &String> {
        self.roles.iter().filter(|role| !Reviewer::is_owner_name(role))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn r9_a_page_has_its_bytes_or_one_row() {
        let page = |most, rows: &[usize]| {
            let mut room = Room::new(most);
            rows.iter().take_while(|bytes| room.takes(**bytes)).count()
        };
        assert_eq!((page(10, &[5, 5, 1]), page(10, &[5, 6, 1]), page(10, &[11, 0]), page(0, &[1, 1])), (2, 1, 2, 1));
        assert_eq!(page(usize::MAX, &[usize::MAX - 1, 1, 0]), 3);
    }

    fn at(cursor: &str) -> Page {
        Page { cursor: Some(cursor.to_owned()), limit: 1 }
    }

    #[test]
    fn r9_a_cursor_that_no_page_returned_is_refused() {
        for bad in [
            "",
            "x",
            "i",
            "i.1",
            "i.1.2",
            "s.1.2.a",
            "i.+1.2.a",
            "i.01.2.a",
            "i.1.-2.a",
            "i.99999999999999999999.1.a",
            "i.1.5000000000.a",
            "i. 1.2.a",
        ] {
            assert!(matches!(start::<InterruptionRow>(&at(bad)), Err(StoreError::BadCursor)), "{bad:?}");
        }
    }

    #[test]
    fn a_cursor_reads_back_whatever_the_session_is_called() {
        for session_id in ["a", "a.b-c_1", "", "ü\u{0}.", "i.1.2.3"] {
            let key = Key { at: -5, session_id: session_id.to_owned(), n: u32::MAX };
            assert_eq!(start::<InterruptionRow>(&at(&write::<InterruptionRow>(&key))).expect("cursor"), Some(key));
        }
    }
}
