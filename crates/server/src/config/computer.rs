//! `[computer]`: a browser that agents see and control by its screen (spec S14).

use std::path::PathBuf;

use countersign_tools::builtin::{COMPUTER, COMPUTER_USE_PREVIEW, Hosts};

use super::{
    command::program,
    reader::{Entry, Section},
    table::{boolean, list, text, whole},
};

/// Both names of the tool.
pub(super) const NAMES: [&str; 2] = [COMPUTER, COMPUTER_USE_PREVIEW];
/// Largest width and height.
const SCREEN_MOST: u32 = 4096;
/// How many browsers are open at a time by default.
const BROWSERS: u32 = 4;
/// Most browsers at one time that can be configured.
const BROWSERS_MOST: u32 = 64;
/// The default start page.
const START_PAGE: &str = "about:blank";

table! {
    /// The browser that agents use.
    #[derive(Clone, Debug, PartialEq, Eq)]
    pub struct ConfigComputer(section) {
        /// A Chromium. With a `/` it is a path, otherwise it is looked up in `PATH`.
        program: PathBuf = text().and(chromium).map(PathBuf::from).called("program").required();
        /// The only hosts it may reach, whatever a page requests: names, `*.NAME` for all subdomains, IP addresses.
        /// Pages, subresources, redirects and WebRTC of other hosts fail as if there were no such host. See below.
        hosts: Option<Hosts> = list(text().located()).and(read_hosts).optional("all");
        /// The page it starts with: an `http` or `https` address, or `about:blank`.
        start_page: String = text()
            .and(|entry, page| read_start_page(entry, page, hosts.iter().flatten().next()))
            .or(START_PAGE.to_owned());
        /// Width of the page.
        width: u32 = whole(1..=SCREEN_MOST, "pixels").or(1024);
        /// Height of the page.
        height: u32 = whole(1..=SCREEN_MOST, "pixels").or(768);
        /// Whether the browser's own sandbox is used. Without it, a page that breaks out of the browser has all
        /// rights of the server's user; it does not work for `root`, nor in some containers.
        sandbox: bool = boolean().or(true);
        /// How many sessions can have a browser at the same time.
        max_browsers: u32 = whole(1..=BROWSERS_MOST, "").or(BROWSERS);
    }
    then |section: &Section<'_>, computer: ConfigComputer| {
        if cfg!(not(feature = "computer")) {
            let what = "[computer] cannot be used in this build (it was built without the feature \"computer\"); build it \
                        with --features computer, or take it out";
            section.document.error(section.at, what);
        }
        if section.document.open.get() {
            warn_of_own_approval(section, computer.hosts.as_ref());
        }
        Some(computer)
    };
}

fn chromium(entry: &Entry<'_>, path: String) -> Option<String> {
    if path.is_empty() || path.contains('\0') {
        entry.bad("must be the path of a Chromium, such as \"/usr/bin/chromium\"");
        return None;
    }
    Some(program(entry, path))
}

fn read_hosts(entry: &Entry<'_>, listed: Vec<(String, usize)>) -> Option<Hosts> {
    if listed.is_empty() {
        entry.bad("is empty; name the hosts that the browser may reach, or leave it out for all");
    }
    let (mut hosts, mut is_right) = (Hosts::default(), true);
    for (host, at) in listed {
        if let Err(error) = hosts.add(&host) {
            Entry { at, ..*entry }.bad(format!("has {host:?}, which is {error}"));
            is_right = false;
        }
    }
    is_right.then_some(hosts)
}

fn read_start_page(entry: &Entry<'_>, page: String, hosts: Option<&Hosts>) -> Option<String> {
    let url = reqwest::Url::parse(&page).ok();
    let is_right = |url: &reqwest::Url| matches!(url.scheme(), "http" | "https") && url.password().is_none();
    if !url.as_ref().is_some_and(is_right) && page != START_PAGE {
        // The value may hold the password.
        entry.bad("must begin with http:// or https://, without a password");
    } else if let Some(Err(host)) = hosts.map(|hosts| hosts.of_page(&page)) {
        entry.bad(format!("is on {host:?}, which is not in \"hosts\"; add it there"));
    }
    Some(page)
}

/// Warns of a browser that can reach this server where everyone on this machine may do anything: an agent could
/// approve its own calls with it (spec X).
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
