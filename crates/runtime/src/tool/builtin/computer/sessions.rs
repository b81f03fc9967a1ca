//! A browser for each session, for servers: what one session does, no other one sees.

use std::{
    sync::{Arc, Mutex, PoisonError, Weak},
    time::{Duration, Instant},
};

use countersign_core::call::{permit::Permit, preview::Preview};
use futures::future::BoxFuture;
use tokio::sync::{Mutex as AsyncMutex, OnceCell};

use super::{
    super::super::{CallFacts, Previewer, Tool, ToolEntry, ToolError},
    Chromium, ChromiumComputer, Environment, actions, named, perform,
};

/// How many browsers are open at one time, unless it is said otherwise.
pub const BROWSERS: usize = 4;
/// A browser that was not used for so long ends.
const IDLE: Duration = Duration::from_secs(15 * 60);
/// How much of a page's address is shown and compared.
const PAGE_BYTES: usize = 2000;
/// What a reviewer was shown where there was no browser yet.
const NONE_YET: &str = "none yet";

/// The tool `computer`, or `computer_use_preview`, with a Chromium for each session (SPEC S14).
///
/// A session's browser is started by its first call, goes on from call to call, and ends when it was not used for a quarter
/// of an hour, when others need the room, and with this process. What a person approves is done only on the page that it was
/// asked about: where the session's browser shows another one by then, such as after a restart, nothing is done, and the
/// model is told.
#[derive(Clone)]
pub struct ChromiumSessions(Arc<Browsers>);

struct Browsers {
    chromium: Chromium,
    most: usize,
    open: Mutex<Vec<Arc<Open>>>,
}

/// A session's browser.
struct Open {
    session_id: Arc<str>,
    /// Calls of one session follow each other.
    turn: AsyncMutex<()>,
    /// The browser, and the page it has begun with.
    browser: OnceCell<(ChromiumComputer, String)>,
    used: Mutex<Instant>,
}

impl ChromiumSessions {
    /// Browsers that are started so, at most this many at one time.
    #[must_use]
    pub fn new(chromium: Chromium, most: usize) -> ChromiumSessions {
        ChromiumSessions(Arc::new(Browsers { chromium, most: most.max(1), open: Mutex::default() }))
    }

    /// The tool under this name: [`super::COMPUTER`] or [`super::COMPUTER_USE_PREVIEW`], and found under the other one, too.
    /// A person is asked about each call, and is shown its actions and the page they are for.
    #[must_use]
    pub fn entry(&self, name: &str) -> ToolEntry {
        let tool = Arc::new(SessionTool(self.0.clone()));
        named(name, Environment::Browser, self.0.chromium.dimensions(), tool)
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

    /// The session's place among the browsers; the one that was used least lately makes room.
    fn place(self: &Arc<Self>, session_id: &str) -> Result<Arc<Open>, ToolError> {
        let mut all = self.all();
        if let Some(open) = all.iter().find(|open| *open.session_id == *session_id) {
            return Ok(open.clone());
        }
        if all.len() >= self.most {
            // Whoever holds it besides the list uses it.
            let idle = all.iter().enumerate().filter(|(_, open)| Arc::strong_count(open) == 1);
            let Some((oldest, _)) = idle.min_by_key(|(_, open)| open.last_used()) else {
                let what = format!("all {} browsers of this server are in use; try again later", self.most);
                return Err(ToolError::new(what));
            };
            all.remove(oldest);
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

    /// The page that a session's browser shows; none if there is no browser, or one that does not answer.
    async fn page(&self, session_id: &str) -> Option<String> {
        let open = self.find(session_id)?;
        let (computer, _) = open.browser.get()?;
        page_of(computer).await.ok()
    }

    /// Does what a call says.
    async fn run(self: Arc<Self>, permit: Permit) -> Result<String, ToolError> {
        let actions = actions(permit.args())?;
        let mut open = self.place(permit.session_id())?;
        if let Some((computer, _)) = open.browser.get()
            && computer.page().await.is_err()
        {
            // It has ended by itself: there is another one from here on.
            self.forget(&open);
            open = self.place(permit.session_id())?;
        }
        let _turn = open.turn.lock().await;
        let begin = || async {
            let computer = self.chromium.clone().start().await?;
            let page = page_of(&computer).await?;
            Ok::<_, ToolError>((computer, page))
        };
        let is_new = open.browser.get().is_none();
        let (computer, begun_at) = match open.browser.get_or_try_init(begin).await {
            Ok(browser) => browser,
            Err(error) => {
                self.forget(&open);
                return Err(error);
            }
        };
        let shown = permit.preview().and_then(|preview| preview.base.as_deref());
        if let Some(shown) = shown.map(|shown| if shown == NONE_YET { begun_at } else { shown }) {
            let now = page_of(computer).await?;
            if now != shown {
                let how = if is_new { "was started anew, and is on" } else { "is on" };
                return Err(ToolError::new(format!(
                    "nothing was done: it was approved for {shown}, and the browser {how} {now}; look at the screen first"
                )));
            }
        }
        let done = perform(computer, &actions).await;
        open.is_used();
        done.map(|text| match is_new {
            true => format!("{text}\n(a browser was started for this; it began at {begun_at})"),
            false => text,
        })
    }
}

/// The page it shows; of a long address the beginning.
async fn page_of(computer: &ChromiumComputer) -> Result<String, ToolError> {
    let page = computer.page().await?;
    Ok(page[..page.floor_char_boundary(PAGE_BYTES)].to_owned())
}

impl Open {
    fn last_used(&self) -> Instant {
        *self.used.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn is_used(&self) {
        *self.used.lock().unwrap_or_else(PoisonError::into_inner) = Instant::now();
    }
}

/// Ends a browser that nobody uses any more.
async fn end_when_idle(browsers: Weak<Browsers>, open: Weak<Open>) {
    loop {
        let Some(last) = open.upgrade().map(|open| open.last_used()) else { return };
        let left = IDLE.saturating_sub(last.elapsed());
        if left.is_zero() {
            let (Some(browsers), Some(open)) = (browsers.upgrade(), open.upgrade()) else { return };
            // One that is in use has its turn.
            if open.turn.try_lock().is_ok() {
                browsers.forget(&open);
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
}

impl Previewer for SessionTool {
    /// The page, and what would be done there, an action a line.
    fn preview<'a>(&'a self, call: &'a CallFacts<'a>) -> BoxFuture<'a, Result<Preview, String>> {
        Box::pin(async move {
            let actions = super::in_lines(&actions(call.args)?);
            Ok(match self.0.page(call.session_id).await {
                Some(page) => Preview::text(&format!("On {page}\n{actions}")).against(&page),
                None => {
                    let page = self.0.chromium.begins_at();
                    Preview::text(&format!("On {page}, in a browser that is started for it\n{actions}"))
                        .against(NONE_YET)
                }
            })
        })
    }
}
