//! How much of a block's text other nodes were sent while it is written: see `feed.rs`.

use std::time::{Duration, Instant};

use countersign_core::session::Session;

use crate::store::nodes::{Nodes, Said, TEXT_BYTES, TextId, TextPlace};

/// How long a request lasts.
const ASKED: Duration = Duration::from_secs(3);
/// Parts of a text that are sent at once.
const PARTS: usize = 4;

/// How far the text of a session's open block was sent to other nodes, and when one last requested it.
pub(in crate::run) struct SentText {
    /// When a node last requested it.
    asked: Instant,
    /// The end of the text that was sent.
    told: TextPlace,
}

impl SentText {
    /// A node that knows the text up to a place requests it. `true`: it is the first request.
    pub(in crate::run) fn ask(sent: &mut Option<SentText>, known: TextPlace) -> bool {
        let asked = Instant::now();
        let Some(sent) = sent else {
            *sent = Some(SentText { asked, told: known });
            return true;
        };
        sent.asked = asked;
        // Its knowledge of another text is void.
        let known = if known.text == sent.told.text { known.offset } else { 0 };
        sent.told.offset = sent.told.offset.min(known);
        false
    }

    pub(in crate::run) fn is_wanted(&self) -> bool {
        self.asked.elapsed() < ASKED
    }

    /// Sends the text added since the last update.
    pub(in crate::run) fn tell(&mut self, session: &Session, id: TextId, text: &str, nodes: &dyn Nodes) {
        if self.told.text != id {
            self.told = TextPlace { text: id, offset: 0 };
        }
        for _ in 0..PARTS {
            let from = text.floor_char_boundary(self.told.offset);
            let to = text.floor_char_boundary(from + TEXT_BYTES);
            let said = Said::Written {
                session_id: session.session_id.clone(),
                birth: session.birth.clone(),
                at: TextPlace { text: id, offset: from },
                part: text.get(from..to).unwrap_or_default().to_owned(),
            };
            if from == to || !nodes.say(said) {
                return;
            }
            self.told.offset = to;
        }
    }
}
