//! `[computer]`: a browser that agents use by its screen, and its tool (spec S14).

use std::path::PathBuf;

use countersign::tool::builtin::{COMPUTER, COMPUTER_USE_PREVIEW, Hosts};
use countersign_core::call::display::{ContentMessage, StreamRule};

use super::{
    approval::{self, ConfigApproval, RoleAt},
    reader::Section,
    tools,
};

/// Both names of the tool.
pub(super) const NAMES: [&str; 2] = [COMPUTER, COMPUTER_USE_PREVIEW];
/// Largest width and height.
const SCREEN_MOST: u32 = 4096;
/// How many browsers are open at one time, unless it is said otherwise.
const BROWSERS: u32 = 4;
/// Most browsers at one time that can be configured.
const BROWSERS_MOST: u32 = 64;
/// What is opened first, unless it is said otherwise.
const START_PAGE: &str = "about:blank";

/// The browser that agents use.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ConfigComputer {
    /// A Chromium. One with a `/` is absolute; one without is looked for in `PATH`.
    pub program: PathBuf,
    /// The page it begins with.
    pub start_page: String,
    /// The hosts that it may reach; `None` for all.
    pub hosts: Option<Hosts>,
    /// Its width in pixels.
    pub width: u32,
    /// Its height in pixels.
    pub height: u32,
    /// Whether the browser's own sandbox is used.
    pub sandbox: bool,
    /// How many sessions can have one at one time.
    pub browsers: u32,
}

/// What `[tools.computer]`, or `[tools.computer_use_preview]`, changes of the tool, under both its names. What is `None` stays as it is.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct ConfigComputerTool {
    /// Under which of its names it was declared.
    pub name: String,
    /// What the model is told about it.
    pub description: Option<String>,
    /// When a person is asked: by itself, about every call. A condition is looked at for each action.
    pub approval: Option<ConfigApproval>,
    /// Where the line that says what a call is for comes from.
    pub content_message: Option<Option<ContentMessage>>,
    /// What of its calls a client sees, and where it stands.
    pub stream: Option<StreamRule>,
}

/// Reads `[computer]`.
pub(super) fn read(root: &Section<'_>) -> Option<ConfigComputer> {
    let section = root.table("computer")?;
    if cfg!(not(feature = "computer")) {
        let what = "[computer] cannot be used in this build (it was built without the feature \"computer\"); build it \
                    with --features computer, or take it out";
        section.document.error(section.at, what);
    }
    let program = section.required("program").filter(|program| {
        let right = !program.value.is_empty() && !program.value.contains('\0');
        if !right {
            section.bad(program.at, "program", "must be the path of a Chromium, such as \"/usr/bin/chromium\"");
        }
        right
    });
    let program = program.map(|program| tools::program(&section, "program", &program));
    let hosts = hosts(&section);
    if root.has("auth").is_none() {
        warn_of_own_approval(&section, hosts.as_ref());
    }
    let start_page = section.string("start_page").map(|page| {
        let url = reqwest::Url::parse(&page.value).ok();
        let right =
            url.as_ref().is_some_and(|url| matches!(url.scheme(), "http" | "https") && url.password().is_none());
        if !right && page.value != START_PAGE {
            let what = format!("is {:?}; it must begin with http:// or https://, without a password", page.value);
            section.bad(page.at, "start_page", what);
        } else if let Some(Err(host)) = hosts.as_ref().map(|hosts| hosts.of_page(&page.value)) {
            section.bad(page.at, "start_page", format!("is of {host:?}, which is none of \"hosts\"; add it there"));
        }
        page.value
    });
    let pixels = |key, default| section.whole(key, 1..=SCREEN_MOST, " pixels").map_or(default, |pixels| pixels.value);
    let (width, height) = (pixels("width", 1024), pixels("height", 768));
    let sandbox = section.boolean("sandbox").unwrap_or(true);
    let browsers = section.whole("browsers", 1..=BROWSERS_MOST, "").map_or(BROWSERS, |most| most.value);
    section.finish();
    let start_page = start_page.unwrap_or_else(|| START_PAGE.to_owned());
    Some(ConfigComputer { program: program?.into(), start_page, hosts, width, height, sandbox, browsers })
}

fn hosts(section: &Section<'_>) -> Option<Hosts> {
    let listed = section.strings("hosts")?;
    if let (true, Some(at)) = (listed.is_empty(), section.has("hosts")) {
        section.bad(at, "hosts", "is empty; name the hosts that the browser may reach, or leave it out for all");
    }
    let mut hosts = Hosts::default();
    let mut wrong = false;
    for host in listed {
        if let Err(error) = hosts.add(&host.value) {
            section.bad(host.at, "hosts", format!("has {:?}, which is {error}", host.value));
            wrong = true;
        }
    }
    (!wrong).then_some(hosts)
}

/// Warns of a browser that can reach this server where everybody on this machine may do everything: what an agent does there
/// may be to approve its own calls (spec X).
fn warn_of_own_approval(section: &Section<'_>, hosts: Option<&Hosts>) {
    let (at, reaches) = match (hosts, section.has("hosts")) {
        (None, None) => (section.at, "has no \"hosts\"".to_owned()),
        (Some(hosts), Some(at)) => match hosts.of_this_machine() {
            Some(host) => (at, format!("has {host:?} in \"hosts\"")),
            None => return,
        },
        _ => return,
    };
    let what = format!(
        "[computer] {reaches}, so that the browser reaches this server, and without [auth] everybody on this machine may do \
         everything: an agent could approve its own calls there; set \"hosts\" without this machine, or [auth]"
    );
    section.document.warn(at, what);
}

/// Whether a tool of this name is the computer, and says nothing else.
pub(super) fn is_one(name: &str, section: &Section<'_>) -> bool {
    let other = tools::KINDS.iter().chain(&["builtin"]).any(|kind| section.has(kind).is_some());
    NAMES.contains(&name) && !other
}

/// Of these tools those names that are the browser's.
pub(super) fn names(declared: &[(String, Section<'_>)]) -> Vec<&'static str> {
    let is_free = |name: &&str| declared.iter().all(|(known, section)| known != name || is_one(known, section));
    NAMES.into_iter().filter(is_free).collect()
}

/// Reads what is changed of the tool. The second part is each role its approval needs, with its place in the file.
pub(super) fn tool(name: &str, section: &Section<'_>, declared: bool) -> (ConfigComputerTool, Vec<RoleAt>) {
    if !declared {
        let what = format!("the tool {name:?} needs a browser; set \"program\" in [computer]");
        section.document.error(section.at, what);
    }
    let (approval, roles) = match section.has("approval") {
        Some(_) => {
            let (approval, roles) = approval::read(section);
            (Some(approval), roles)
        }
        None => (None, Vec::new()),
    };
    let tool = ConfigComputerTool {
        name: name.to_owned(),
        description: section.string("description").map(|text| text.value),
        approval,
        content_message: section.has("content_message").map(|_| tools::content_message(section)),
        stream: section.has("stream").map(|_| tools::stream(section)),
    };
    section.finish();
    (tool, roles)
}
