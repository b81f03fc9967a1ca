//! Listing and revoking standing rules (spec S7).

use std::sync::Arc;

pub use countersign_core::approval::rule::{RuleDecision, RuleScope};
use countersign_core::{
    approval::{principal::Principal, rule::RuleId},
    call::args::Args,
    journal::draft::Draft,
    limits,
    refusal::{Code, Refusal},
    time::rfc3339,
};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::{
    authority::Suspension,
    command::to_the_end,
    inner::{Inner, Runtime},
    live::uses::LiveRef,
    nodes::contested,
    of_stored::of_stored,
    refusals::store_refusal,
    told::json_bytes,
    view::{ListPage, PAGE, visible_to},
};
use crate::store::{
    Durability, Page, RuleFilter, RuleRow,
    page::{self, Room},
};

/// A standing rule, as lists show it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, JsonSchema)]
pub struct RuleView {
    /// `{approval_key}.{action}`: the approval request and the action in which it was made.
    pub id: String,
    /// The scope: `session`, `arguments` or `tool`.
    pub scope: RuleScope,
    /// Whether it approves or rejects.
    pub decision: RuleDecision,
    /// The agent it applies to.
    pub agent: Arc<str>,
    /// The tool it applies to.
    pub tool: Arc<str>,
    /// The arguments it applies to, if it is limited to them.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub args: Option<Args>,
    /// The message to the model, if it rejects.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub message: Option<String>,
    /// The role its maker acted in; absent: the session's owner.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub role: Option<String>,
    /// Whose sessions it applies to.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub subject: Option<Arc<str>>,
    /// The session it was made in.
    pub session_id: Arc<str>,
    /// Who made it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub by: Option<Arc<str>>,
    /// When it was made (RFC 3339).
    pub created_at: String,
    /// When it expires (RFC 3339); absent if it never expires.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub until: Option<String>,
    /// Whether it applies now.
    pub state: RuleState,
    /// Why it is suspended, if it is.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub suspension: Option<Suspension>,
    /// Whether the caller may revoke it: one that rejects takes the role it acts in.
    pub may_revoke: bool,
    /// When it was revoked or replaced (RFC 3339).
    #[serde(skip_serializing_if = "Option::is_none")]
    pub revoked_at: Option<String>,
    /// Who revoked it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub revoked_by: Option<Arc<str>>,
}

/// Whether a standing rule applies.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum RuleState {
    /// It applies.
    Active,
    /// It does not apply for now, since its maker may not decide any more.
    Suspended,
    /// It was revoked, or has expired.
    Ended,
}

impl RuleState {
    /// The state of this name, as it is written in JSON.
    #[must_use]
    pub fn of_name(name: &str) -> Option<RuleState> {
        serde_json::from_value(name.into()).ok()
    }
}

impl RuleView {
    fn of(row: &RuleRow, inner: &Inner, by: &Principal) -> RuleView {
        let rule = &row.rule;
        let standing = row.is_in_force(inner.now());
        let suspension = inner.settings.authorities.check(rule, row.tenant.as_deref()).err().filter(|_| standing);
        RuleView {
            id: row.rule.id.name(&row.session_id),
            scope: rule.scope,
            decision: rule.decision,
            agent: rule.agent.clone(),
            tool: rule.tool.clone(),
            args: rule.args.clone(),
            message: rule.message.clone(),
            role: rule.role.role().map(str::to_owned),
            subject: row.subject.clone(),
            session_id: row.session_id.clone(),
            by: rule.by.clone(),
            created_at: rfc3339(row.made_at),
            until: rule.until.map(rfc3339),
            state: match (standing, &suspension) {
                (false, _) => RuleState::Ended,
                (true, Some(_)) => RuleState::Suspended,
                (true, None) => RuleState::Active,
            },
            suspension,
            may_revoke: standing && may_end(by, row).is_ok(),
            revoked_at: row.revoked_at.map(rfc3339),
            revoked_by: row.revoked_by.clone(),
        }
    }
}

/// Which rules to list; all that match, newest first.
#[derive(Clone, Debug, Default)]
pub struct RuleQuery {
    /// In one of these states; empty: in any.
    pub states: Vec<RuleState>,
    /// Made in this session.
    pub session_id: Option<String>,
    /// The end of the previous page.
    pub cursor: Option<String>,
    /// Rows per page; 50 by default.
    pub limit: Option<usize>,
}

/// How many rules are read at a time.
const RULES_AT_ONCE: usize = 16;

impl Runtime {
    /// The standing rules that `by` may see: those of its own sessions, those it made, and those of its roles. A page
    /// may have fewer rows than requested: the store does not know which rules are suspended, and the arguments that a
    /// rule covers may be long.
    ///
    /// # Errors
    /// `invalid_message` (bad cursor), `store_unavailable`.
    pub async fn rules(&self, by: &Principal, query: RuleQuery) -> Result<ListPage<RuleView>, Refusal> {
        let RuleQuery { states, session_id, mut cursor, limit } = query;
        let filter = RuleFilter {
            standing: match states.iter().filter(|state| **state == RuleState::Ended).count() {
                0 => (!states.is_empty()).then_some(true),
                ended => (ended == states.len()).then_some(false),
            },
            now: self.inner.now(),
            session_id,
            visible_to: visible_to(by),
            ..RuleFilter::default()
        };
        let (mut rows, mut left, mut room) = (Vec::new(), limit.unwrap_or(PAGE).max(1), Room::new(limits::PAGE_BYTES));
        'page: loop {
            // Few at a time, so that not many more than fit are in memory.
            let page = Page { cursor: cursor.take(), limit: left.min(RULES_AT_ONCE) };
            left -= page.limit;
            let paged = self.inner.store.rules(filter.clone(), page.clone()).await.map_err(store_refusal)?;
            let is_full = paged.rows.len() + paged.unread.len() == page.limit;
            self.inner.log_unread("a standing rule", paged.unread);
            let mut last = page.cursor;
            for row in &paged.rows {
                let view = RuleView::of(row, &self.inner, by);
                if !states.is_empty() && !states.contains(&view.state) {
                    continue;
                }
                if !room.takes(json_bytes(&view)) {
                    cursor = last;
                    break 'page;
                }
                rows.push(view);
                last = Some(page::after(row));
            }
            cursor = paged.next;
            // A page that is not full has examined as many rows as one request may.
            if cursor.is_none() || left == 0 || !is_full {
                break;
            }
        }
        self.inner.released().await?;
        Ok(ListPage { rows, next_cursor: cursor })
    }

    /// Revokes a rule: from the next call on a person must decide again. Any person who may see the rule may revoke it, if
    /// it approves; one that rejects only who may decide in the same reviewer's place. Revoking it again changes nothing.
    ///
    /// # Errors
    /// `rule_not_found`, `forbidden`, `store_unavailable`; `internal` or `newer_version_required` for a rule that this build
    /// cannot read.
    pub async fn revoke_rule(&self, by: &Principal, id: &str) -> Result<RuleView, Refusal> {
        let not_found = || rule_not_found(id);
        let (session_id, rule) = RuleId::parse(id).ok_or_else(not_found)?;
        let live = self.inner.named(session_id).map_err(|_| not_found())?;
        let (runtime, by, id) = (self.clone(), by.clone(), id.to_owned());
        to_the_end(async move { contested!(runtime.revoke_rule_in(&live, &by, &id, rule).await) }).await
    }

    async fn revoke_rule_in(
        &self,
        live: &LiveRef,
        by: &Principal,
        id: &str,
        rule: RuleId,
    ) -> Result<RuleView, Refusal> {
        let session_id = &live.session_id;
        let mut guard = live.lock().await;
        let Some(row) = self.rule_row(by, session_id, rule).await? else {
            // If a session cannot be read here, nobody knows which rules it has.
            let session = self.inner.load(live, &mut guard).await;
            return Err(session.err().filter(Refusal::is_unreadable).unwrap_or_else(|| rule_not_found(id)));
        };
        may_end(by, &row)?;
        if row.revoked_at.is_some() {
            self.inner.confirmed().await?;
            return Ok(RuleView::of(&row, &self.inner, by));
        }
        let state = self.inner.load(live, &mut guard).await?;
        let transition = Draft::new(&state, self.inner.now()).revoke(&[rule], by.subject.as_ref());
        self.inner.transact(live, &mut guard, Durability::Synced, |_| Ok(transition)).await?;
        drop(guard);
        let row = of_stored(|| self.rule_row(by, session_id, rule)).await?.ok_or_else(|| rule_not_found(id))?;
        Ok(RuleView::of(&row, &self.inner, by))
    }

    async fn rule_row(&self, by: &Principal, session_id: &str, id: RuleId) -> Result<Option<RuleRow>, Refusal> {
        let filter = RuleFilter {
            session_id: Some(session_id.to_owned()),
            id: Some(id),
            visible_to: visible_to(by),
            ..RuleFilter::default()
        };
        let page = self.inner.store.rules(filter, Page { cursor: None, limit: 1 }).await.map_err(store_refusal)?;
        match page.unread.into_iter().next() {
            // The rule exists, but cannot be read.
            Some((_, error)) => Err(store_refusal(error)),
            None => Ok(page.rows.into_iter().next()),
        }
    }
}

/// Whether `by`, who sees a rule, may end it: by revoking it, or with its session.
pub(super) fn may_end(by: &Principal, row: &RuleRow) -> Result<(), Refusal> {
    by.check_may_end(&row.rule, row.subject.as_ref(), row.tenant.as_ref())
}

fn rule_not_found(id: &str) -> Refusal {
    Refusal::new(Code::RuleNotFound, format!("there is no rule {id:?}"))
}
