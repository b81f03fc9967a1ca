//! A browser for each session, for servers: sessions are isolated from each other.

use std::{
    sync::{Arc, Mutex, PoisonError, Weak},
    time::{Duration, Instant},
};

use countersign_core::{
    call::{
        args::{Args, Digest},
        preview::Preview,
    },
    journal::permit::Permit,
};
use futures::future::BoxFuture;
use tokio::sync::{Mutex as AsyncMutex, OnceCell};

use super::{Chromium, ChromiumComputer, Environment, actions, keys, named, perform, possible};
use countersign_engine::tool::{CallFacts, Previewer, Tool, ToolEntry, ToolError, order::Order};

/// How long a browser may be unused before it ends.
const IDLE: Duration = Duration::from_secs(15 * 60);
/// How much of a page's address is shown.
const PAGE_BYTES: usize = 2000;
/// The prefix of a preview's base.
const BASE: &str = "browser";
/// A placeholder for the browser if there was none yet.
const NONE_YET: &str = "none-yet";

/// The tool `computer`, or `computer_use_preview`, with a Chromium for each session (spec S14).
///
/// A session's browser is started by its first call, is kept between calls, and ends when it has been unused for a
/// quarter of an hour, when others need its slot, when its session ends, and with this process. An approved batch is
/// done only on the page that was shown, in the browser that showed it: if there is another browser by then, such as
/// after a restart, or it shows another page, nothing is done, and the result tells the model so. An edited batch
/// applies to the page its reviewer was shown. If there was no browser yet that is the start page: if it redirects on
/// its own, a screenshot of it must be taken before anything is done there.
#[derive(Clone)]
pub struct ChromiumSessions(Arc<Browsers>);

struct Browsers {
    chromium: Chromium,
    most: usize,
    open: Mutex<Vec<Arc<Open>>>,
    /// The order of a session's calls, under both names of the tool.
    order: Order,
}

/// A session's browser.
struct Open {
    session_id: Arc<str>,
    /// Calls of one session run one after another.
    turn: AsyncMutex<()>,
    browser: OnceCell<Begun>,
    used: Mutex<Instant>,
}

/// A running browser.
struct Begun {
    computer: ChromiumComputer,
    /// Unique to this browser.
    id: String,
    /// The page it started with, as it is shown.
    at: String,
}

/// A page in a browser, as stored with the preview.
struct Seen {
    /// The browser's id, or [`NONE_YET`].
    browser: String,
    /// Of the full address.
    digest: String,
    /// The address as it is shown.
    page: String,
}

impl Seen {
    fn new(browser: &str, page: &str) -> Seen {
        let digest = Digest::of(page.as_bytes()).to_string();
        Seen { browser: browser.to_owned(), digest, page: shortened(page) }
    }

    fn base(&self) -> String {
        let Seen { browser, digest, page } = self;
        format!("{BASE} {browser} {digest} {page}")
    }

    /// `None` for a preview of another tool.
    fn of(preview: Option<&Preview>) -> Option<Seen> {
        let mut parts = preview?.base.as_deref()?.splitn(4, ' ');
        let (BASE, browser, digest, page) = (parts.next()?, parts.next()?, parts.next()?, parts.next()?) else {
            return None;
        };
        Some(Seen { browser: browser.to_owned(), digest: digest.to_owned(), page: page.to_owned() })
    }

    /// Whether it is this page in this browser. If there was none yet, any browser of the session matches.
    fn is(&self, now: &Seen) -> bool {
        self.digest == now.digest && (self.browser == now.browser || self.browser == NONE_YET)
    }

    fn preview(&self, actions: &str) -> Preview {
        let page = &self.page;
        let text = match &*self.browser {
            NONE_YET => format!("On {page}, in a browser that is started for it\n{actions}"),
            _ => format!("On {page}\n{actions}"),
        };
        Preview::text(&text).against(&self.base())
    }
}

/// The beginning of a long address.
fn shortened(page: &str) -> String {
    if page.len() <= PAGE_BYTES {
        return page.to_owned();
    }
    format!("{}…", &page[..page.floor_char_boundary(PAGE_BYTES)])
}

impl ChromiumSessions {
    /// Starts such browsers, at most this many at a time.
    #[must_use]
    pub fn new(chromium: Chromium, most: usize) -> ChromiumSessions {
        ChromiumSessions(Arc::new(Browsers {
            chromium,
            most: most.max(1),
            open: Mutex::default(),
            order: Order::default(),
        }))
    }

    /// The tool under this name, [`super::COMPUTER`] or [`super::COMPUTER_USE_PREVIEW`]; the other one is its alias. A
    /// person is asked about each call, and is shown its actions and the page they are for.
    #[must_use]
    pub fn entry(&self, name: &str) -> ToolEntry {
        let tool = Arc::new(SessionTool(self.0.clone()));
        named(name, Environment::Browser, self.0.chromium.dimensions(), tool).in_order(self.0.order.clone())
    }
}

impl Browsers {
    fn all(&self) -> std::sync::MutexGuard<'_, Vec<Arc<Open>>> {
        self.open.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn find(&self, session_id: &str) -> Option<Arc<Open>> {
        self.all().iter().find(|open| *open.session_id == *session_id).cloned()
    }

    fn forget(&self, gone: &Arc<Open>) {
        self.all().retain(|open| !Arc::ptr_eq(open, gone));
    }

    /// The same, unless it is in use: each user holds a reference, taken under the lock.
    fn forget_unused(&self, idle: &Arc<Open>) -> bool {
        let mut all = self.all();
        let unused = Arc::strong_count(idle) <= 2;
        if unused {
            all.retain(|open| !Arc::ptr_eq(open, idle));
        }
        unused
    }

    /// The session has ended: a later session with its id gets another browser.
    fn forget_session(&self, session_id: &str) {
        let mut all = self.all();
        let gone = all.iter().position(|open| *open.session_id == *session_id).map(|at| all.remove(at));
        drop(all);
        drop(gone);
    }

    /// The session's slot among the browsers; the least recently used one makes room.
    fn place(self: &Arc<Self>, session_id: &str) -> Result<Arc<Open>, ToolError> {
        // Dropped after the lock is released.
        let _gone;
        let mut all = self.all();
        if let Some(open) = all.iter().find(|open| *open.session_id == *session_id) {
            return Ok(open.clone());
        }
        if all.len() >= self.most {
            // A second reference means that it is in use.
            let idle = all.iter().enumerate().filter(|(_, open)| Arc::strong_count(open) == 1);
            let Some((oldest, _)) = idle.min_by_key(|(_, open)| open.last_used()) else {
                let what = format!("all {} browsers of this server are in use; try again later", self.most);
                return Err(ToolError::new(what).unbegun());
            };
            _gone = all.remove(oldest);
        }
        let open = Arc::new(Open {
            session_id: session_id.into(),
            turn: AsyncMutex::default(),
            browser: OnceCell::new(),
            used: Mutex::new(Instant::now()),
        });
        all.push(open.clone());
        tokio::spawn(end_when_idle(Arc::downgrade(self), Arc::downgrade(&open)));
        Ok(open)
    }

    /// The page that a session's browser shows; `None` if there is no browser, or one that does not answer.
    async fn seen(&self, session_id: &str) -> Option<Seen> {
        let open = self.find(session_id)?;
        open.browser.get()?.seen().await.ok()
    }

    /// Runs a call.
    async fn run(self: Arc<Self>, permit: Permit) -> Result<String, ToolError> {
        let actions = actions(permit.args())?;
        let mut open = self.place(permit.session_id())?;
        if let Some(begun) = open.browser.get()
            && begun.computer.page().await.is_err()
        {
            // It has ended on its own; another one is started.
            self.forget(&open);
            open = self.place(permit.session_id())?;
        }
        let _turn = open.turn.lock().await;
        let begin = || async {
            let computer = self.chromium.clone().start().await?;
            let at = shortened(&computer.page().await?);
            Ok::<_, ToolError>(Begun { computer, id: uuid::Uuid::now_v7().to_string(), at })
        };
        let is_new = open.browser.get().is_none();
        let begun = match open.browser.get_or_try_init(begin).await {
            Ok(begun) => begun,
            Err(error) => {
                self.forget(&open);
                return Err(error.unbegun());
            }
        };
        if let Some(shown) = Seen::of(permit.preview()) {
            let now = match begun.seen().await {
                Ok(now) => now,
                Err(error) => return Err(self.ended(&open, &error).unbegun()),
            };
            if !shown.is(&now) {
                let how = match (is_new, shown.browser == now.browser || shown.browser == NONE_YET) {
                    (true, _) => "was started anew, and is on",
                    (false, true) => "is on",
                    (false, false) => "is another one by now, on",
                };
                let (shown, now) = (shown.page, now.page);
                let what = format!(
                    "nothing was done: it was approved for {shown}, and the browser {how} {now}; look at the screen first"
                );
                return Err(ToolError::new(what).unbegun());
            }
        }
        let late = begun.computer.late().await;
        let done = perform(&begun.computer, &actions).await;
        open.is_used();
        let is_stuck = begun.computer.late().await > late;
        match done {
            Ok(text) if is_new => Ok(format!("{text}\n(a browser was started for this; it began at {})", begun.at)),
            Err(error) if is_stuck => Err(self.ended(&open, &error)),
            done => done,
        }
    }

    /// Ends a browser that does not answer, such as on a page whose script never returns: another one would be shown
    /// nothing but the same errors.
    fn ended(&self, open: &Arc<Open>, error: &ToolError) -> ToolError {
        self.forget(open);
        let ended = "the browser does not answer and was ended; the next call starts another one";
        ToolError::new(format!("{}; {ended}", error.message))
    }
}

impl Begun {
    async fn seen(&self) -> Result<Seen, ToolError> {
        Ok(Seen::new(&self.id, &self.computer.page().await?))
    }
}

impl Drop for Open {
    /// Removing its folder may take a moment, and nothing waits for that.
    fn drop(&mut self) {
        let Some(begun) = self.browser.take() else { return };
        match tokio::runtime::Handle::try_current() {
            Ok(runtime) => drop(runtime.spawn_blocking(move || drop(begun))),
            Err(_) => drop(begun),
        }
    }
}

impl Open {
    fn last_used(&self) -> Instant {
        *self.used.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn is_used(&self) {
        *self.used.lock().unwrap_or_else(PoisonError::into_inner) = Instant::now();
    }
}

/// Ends a browser that is no longer used.
async fn end_when_idle(browsers: Weak<Browsers>, open: Weak<Open>) {
    loop {
        let Some(last) = open.upgrade().map(|open| open.last_used()) else { return };
        let left = IDLE.saturating_sub(last.elapsed());
        if left.is_zero() {
            let (Some(browsers), Some(open)) = (browsers.upgrade(), open.upgrade()) else { return };
            if browsers.forget_unused(&open) {
                return;
            }
        }
        tokio::time::sleep(left.max(Duration::from_secs(1))).await;
    }
}

struct SessionTool(Arc<Browsers>);

impl Tool for SessionTool {
    fn run(&self, permit: Permit) -> BoxFuture<'static, Result<String, ToolError>> {
        Box::pin(self.0.clone().run(permit))
    }

    fn fits(&self, args: &Args) -> Result<(), String> {
        possible(&actions(args)?, self.0.chromium.dimensions(), |name| keys::key(name).is_some())
    }

    fn session_ended(&self, session_id: &str) {
        self.0.forget_session(session_id);
    }
}

impl Previewer for SessionTool {
    /// The page, and the actions, one a line.
    fn preview<'a>(&'a self, call: &'a CallFacts<'a>) -> BoxFuture<'a, Result<Preview, String>> {
        self.edited(call, None)
    }

    /// An edited batch is done on the page that was shown.
    fn edited<'a>(
        &'a self,
        call: &'a CallFacts<'a>,
        shown: Option<&'a Preview>,
    ) -> BoxFuture<'a, Result<Preview, String>> {
        Box::pin(async move {
            let actions = super::in_lines(&actions(call.args)?);
            let seen = match Seen::of(shown) {
                Some(seen) => Some(seen),
                None => self.0.seen(call.session_id).await,
            };
            Ok(seen.unwrap_or_else(|| Seen::new(NONE_YET, &self.0.chromium.begins_at())).preview(&actions))
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Such as between a look at its page and its turn.
    #[tokio::test]
    async fn s14_a_browser_that_just_comes_into_use_is_not_ended_as_idle() {
        let browsers = ChromiumSessions::new(Chromium::new("none"), 1).0;
        let used = browsers.place("s").expect("a slot");
        let idle = used.clone();
        assert!(!browsers.forget_unused(&idle) && browsers.find("s").is_some());
        drop(used);
        assert!(browsers.forget_unused(&idle) && browsers.find("s").is_none());
    }

    #[test]
    fn s14_the_whole_address_of_a_page_is_compared_and_what_is_cut_is_seen_to_be() {
        let long = format!("https://shop.example/{}", "a".repeat(PAGE_BYTES));
        let (one, other) = (Seen::new("b1", &format!("{long}1")), Seen::new("b1", &format!("{long}2")));
        assert!(one.is(&one) && !one.is(&other));
        assert!(one.page.ends_with("a…") && one.page == other.page);
        assert!(!one.is(&Seen::new("b2", &format!("{long}1"))), "another browser");
        let kept = Seen::of(Some(&one.preview("1. click"))).expect("it is its own");
        assert!(kept.is(&one) && !kept.is(&other) && kept.page == one.page);
        assert!(Seen::of(Some(&Preview::text("x").against("a digest of a file"))).is_none());
        assert!(Seen::new(NONE_YET, "about:blank").is(&Seen::new("b2", "about:blank")));
    }
}
