//! The text of a block while it is written, for followers on other nodes (spec R5, R7).
//!
//! A node whose followers see a block begin that another node's model writes requests its text, and again from time to
//! time, each time with the end of the text it knows. The writing node sends all of them the additions, a few times a
//! second, and repeats text for a node that is behind. Any message can be lost: nothing waits for one, and the finished
//! block has the whole text. Without requests nothing is sent.

use std::{sync::Arc, time::Duration};

use tokio::{
    sync::broadcast::error::RecvError,
    time::{MissedTickBehavior, interval, sleep},
};

use super::{
    inner::Inner,
    live::{Live, LiveState, uses::LiveRef},
};
use crate::store::nodes::Said;

/// How often a node repeats its request.
const ASK: Duration = Duration::from_secs(1);
/// How often additions are sent.
const TELL: Duration = Duration::from_millis(75);

impl Inner {
    /// Requests the text of the open block if it has a follower here while another node's model writes it.
    pub(super) fn ask_for_text(&self, live: &Live, guard: &LiveState) {
        if let Some((nodes, known)) = self.store.nodes().zip(guard.wants()) {
            nodes.say(Said::Wanted { session_id: live.session_id.clone(), known });
        }
    }

    /// Takes other nodes' messages about texts, and sends them texts, until the runtime closes.
    pub(super) async fn attend_texts(self: Arc<Self>) {
        let Some(nodes) = self.store.nodes() else { return };
        let (mut said, mut closing) = (nodes.said(), self.closing.subscribe());
        let mut ask = interval(ASK);
        ask.set_missed_tick_behavior(MissedTickBehavior::Delay);
        while !*closing.borrow() {
            tokio::select! { biased;
                _ = closing.changed() => {}
                _ = ask.tick() => {
                    for (session_id, known) in self.wanted() {
                        nodes.say(Said::Wanted { session_id, known });
                    }
                    for live in self.unread() {
                        tokio::spawn(self.clone().read_again(live));
                    }
                }
                said = said.recv() => match said {
                    Ok(said) => self.hear_said(said).await,
                    // The text will be requested again.
                    Err(RecvError::Lagged(_)) => {}
                    Err(RecvError::Closed) => return,
                },
            }
        }
    }

    /// Reads a session that has followers here, and requests the text of its open block.
    async fn read_again(self: Arc<Self>, live: LiveRef) {
        let mut guard = live.lock().await;
        // The next use of it reports why it cannot be read.
        if self.known(&live, &mut guard).await.is_ok() {
            self.ask_for_text(&live, &guard);
        }
    }

    async fn hear_said(self: &Arc<Self>, said: Said) {
        match said {
            Said::Wanted { session_id, known } => {
                let Some(live) = self.if_live(&session_id) else { return };
                // A session in use is skipped until the next request, so that it delays no other.
                if live.try_lock().is_some_and(|mut guard| guard.is_wanted(known)) {
                    tokio::spawn(self.clone().feed(live));
                }
            }
            Said::Written { session_id, birth, at, part } => {
                let Some(live) = self.if_live(&session_id) else { return };
                let Some(mut guard) = live.try_lock() else { return };
                if !guard.has_followers() {
                    return;
                }
                let known = self.known(&live, &mut guard).await;
                // The block may have begun just now.
                let heard = match known {
                    Ok(known) if known.cursor.seq < at.text.block => self.load(&live, &mut guard).await,
                    known => known,
                };
                if heard.is_ok() {
                    guard.hear(&birth, at, &part);
                }
            }
        }
    }

    /// Sends other nodes the text written in a session, as long as they request it.
    async fn feed(self: Arc<Self>, live: LiveRef) {
        let Some(nodes) = self.store.nodes() else { return };
        while !*self.closing.borrow() && live.lock().await.feed(nodes) {
            sleep(TELL).await;
        }
    }
}
