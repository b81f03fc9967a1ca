//! A store that was restored from a backup: its turns are held, since their effects may have been carried out after the
//! backup was made.

use std::sync::Arc;

use countersign_core::{
    journal::{draft::Draft, state::Status},
    session::Session,
};

use super::{Append, Durability, Guards, Page, SessionFilter, Store, StoreError, Summary};

/// Sessions that are listed, and bytes of entries that are read, at a time.
const AT_ONCE: (usize, usize) = (1000, 4 * 1024 * 1024);

/// The findings of [`hold`].
#[derive(Debug, Default, PartialEq, Eq)]
pub struct Holding {
    /// The sessions whose turns it holds now.
    pub sessions: Vec<Arc<str>>,
    /// Those that were put on hold before, and that nobody has resumed since.
    pub already_held: Vec<Arc<str>>,
    /// Those that cannot be read here, and why. They begin nothing, since nothing can be read of them.
    pub unreadable: Vec<(Arc<str>, String)>,
}

/// Holds every turn: it has no effects, neither model calls nor permitted or approved tool calls nor nodes of a graph,
/// not even after a deadline, until a person resumes it. A failed turn waits for its retry anyway, and what the retry
/// would have begun is asked about. The new [`Store::history_id`] shows clients that events they have seen may not be
/// there. No server may be using the store.
///
/// # Errors
/// Those of the store, except for a session that no version can read. Turns that only a newer version can read would
/// begin there, so that version has to hold them. Turns held before stay held; it can be run again.
pub async fn hold(store: &dyn Store) -> Result<Holding, StoreError> {
    let mut held = Holding::default();
    let history = store.history_id().await?;
    // All ids first: holding a session moves it in the list.
    let (mut ids, mut cursor) = (Vec::new(), None);
    loop {
        let page = store.sessions(SessionFilter::default(), Page { cursor, limit: AT_ONCE.0 }).await?;
        let may_begin = |row: &Summary| matches!(row.status, Status::Running | Status::AwaitingInput | Status::Failed);
        ids.extend(page.rows.into_iter().filter(may_begin).map(|row| row.session_id));
        // The entries of such a session may be sound, and say what may begin there.
        ids.extend(page.unread.into_iter().map(|(session_id, _)| session_id));
        cursor = page.next;
        if cursor.is_none() {
            break;
        }
    }
    for id in ids {
        // Another process has held everything meanwhile, and works there: its turns are left alone.
        if store.history_id().await? != history {
            return Err(StoreError::Conflict);
        }
        match hold_one(store, &id).await {
            Ok(Found::Held) => held.sessions.push(id),
            Ok(Found::AlreadyHeld) => held.already_held.push(id),
            Ok(Found::Nothing) => {}
            Err(why @ (StoreError::Corrupt(_) | StoreError::Sealed(_))) => {
                held.unreadable.push((id, why.to_string()));
            }
            Err(error) => return Err(error),
        }
    }
    // Last: it says that everything is held.
    store.renew_history_id().await?;
    Ok(held)
}

/// Whether a session had anything to hold.
enum Found {
    Held,
    AlreadyHeld,
    Nothing,
}

async fn hold_one(store: &dyn Store, id: &Arc<str>) -> Result<Found, StoreError> {
    let Some(head) = store.head(id).await? else { return Ok(Found::Nothing) };
    let mut session = head.snapshot.unwrap_or_else(|| Session::new(id.clone()));
    while session.pos < head.pos {
        let entries = store.read_within(id, session.pos, usize::MAX, AT_ONCE.1).await?;
        if entries.is_empty() {
            return Err(StoreError::Corrupt(format!("session {id} ends before position {}", head.pos)));
        }
        entries.iter().try_for_each(|entry| super::apply(&mut session, id, entry))?;
    }
    let Some(transition) = Draft::new(&session, store.now()).restored() else {
        return Ok(if session.is_unknown_since_a_backup() { Found::AlreadyHeld } else { Found::Nothing });
    };
    let placed = session.place(transition).map_err(|rule| StoreError::Failed(format!("session {id}: {rule}")))?;
    let append = Append {
        session_id: id.clone(),
        before: placed.before().clone(),
        entries: placed.entries().to_vec(),
        after: placed.after().clone(),
        snapshot: false,
        durability: Durability::Synced,
        guards: Guards::default(),
    };
    store.append(append).await.map(|_| Found::Held)
}
