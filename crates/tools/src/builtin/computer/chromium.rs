//! A headless Chromium as a computer.

use std::{path::PathBuf, process::Stdio, time::Duration};

use base64::{Engine as _, engine::general_purpose::STANDARD};
use futures::future::BoxFuture;
use serde_json::{Value, json};
use tokio::{
    process::{Child, Command},
    sync::{Mutex, MutexGuard},
    time::timeout,
};

use super::{
    Button, Computer, Environment, Hosts, Point, Screenshot,
    devtools::DevTools,
    keys,
    process::{Browser, Profile, WITH_US, last_lines},
};
use countersign_engine::{process::PASSED_ENV, tool::ToolError};

/// How long the browser may take to start.
const START: Duration = Duration::from_secs(60);
/// Default width and height of the page.
const SCREEN: (u32, u32) = (1024, 768);
/// The default start page.
const BLANK: &str = "about:blank";
/// Largest width and height.
const SCREEN_MOST: u32 = 4096;
/// Scales of pictures, tried until one is small enough.
const SCALES: [f64; 5] = [1.0, 0.75, 0.5, 0.35, 0.25];

/// How a Chromium is started; see [`ChromiumComputer`].
#[derive(Clone, Debug)]
pub struct Chromium {
    program: PathBuf,
    screen: (u32, u32),
    sandbox: bool,
    start_page: String,
    hosts: Option<Hosts>,
}

impl Chromium {
    /// The browser at this path, such as `/usr/bin/chromium`. A name without a `/` is searched for in `PATH`.
    pub fn new(program: impl Into<PathBuf>) -> Chromium {
        let start_page = BLANK.to_owned();
        Chromium { program: program.into(), screen: SCREEN, sandbox: true, start_page, hosts: None }
    }

    /// Width and height of the page in pixels, at most 4096 each; 1024 x 768 by default.
    #[must_use]
    pub fn screen(mut self, width: u32, height: u32) -> Chromium {
        self.screen = (width.clamp(1, SCREEN_MOST), height.clamp(1, SCREEN_MOST));
        self
    }

    /// The start page.
    #[must_use]
    pub fn start_page(mut self, url: impl Into<String>) -> Chromium {
        self.start_page = url.into();
        self
    }

    /// Restricts it to these hosts, on any port, for pages and their resources, by name or by address. By default all
    /// hosts are allowed. It is not a firewall: a name is trusted whatever it resolves to, and a page that breaks out
    /// of the browser reaches whatever the machine reaches.
    #[must_use]
    pub fn hosts(mut self, hosts: Hosts) -> Chromium {
        self.hosts = Some(hosts);
        self
    }

    /// Disables the browser's own sandbox, which does not work for `root` and in some containers. A page that breaks
    /// out of the browser then has the rights of this program's user: use it only where something else confines it.
    #[must_use]
    pub fn without_sandbox(mut self) -> Chromium {
        self.sandbox = false;
        self
    }

    /// Its width and height in pixels.
    pub(super) fn dimensions(&self) -> (u32, u32) {
        self.screen
    }

    /// The address of the start page, as a browser normalises it.
    pub(super) fn begins_at(&self) -> String {
        reqwest::Url::parse(&self.start_page).map_or_else(|_| self.start_page.clone(), Into::into)
    }

    /// Starts it, with a new profile that is removed at the end.
    ///
    /// # Errors
    /// It cannot be started, or does not answer, with the end of its standard error; or the start page is not on an
    /// allowed host.
    pub async fn start(self) -> Result<ChromiumComputer, ToolError> {
        let only = self.hosts.as_ref().map(|hosts| format!("only these hosts: {}", hosts.as_slice().join(", ")));
        if let (Some(hosts), Some(only)) = (&self.hosts, &only)
            && hosts.of_page(&self.start_page).is_err()
        {
            let page = &self.start_page;
            return Err(ToolError::new(format!("the browser begins at {page}, and may reach {only}")));
        }
        let profile = Profile::new().map_err(|error| ToolError::new(format!("the browser's profile: {error}")))?;
        let (width, height) = self.screen;
        let mut command = Command::new("/bin/sh");
        command.args(["-c", WITH_US, "sh"]).arg(&profile.path).arg(&self.program);
        command.env_clear().process_group(0).kill_on_drop(true);
        for name in PASSED_ENV {
            if let Some(value) = std::env::var_os(name) {
                command.env(name, value);
            }
        }
        command
            .env("HOME", &profile.path)
            .args(["--headless=new", "--remote-debugging-pipe", "--no-first-run", "--no-default-browser-check"])
            .args(["--disable-gpu", "--disable-dev-shm-usage", "--disable-extensions", "--disable-sync"])
            .args(["--disable-background-networking", "--disable-component-update", "--mute-audio"])
            .args(["--hide-scrollbars", "--password-store=basic"])
            .arg(format!("--user-data-dir={}", profile.path.display()))
            .arg(format!("--window-size={width},{height}"))
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped());
        if !self.sandbox {
            command.arg("--no-sandbox");
        }
        if let Some(hosts) = &self.hosts {
            command.arg(format!("--host-resolver-rules={}", hosts.rules()));
            // WebRTC peers are not resolved by name. Older versions know the switch only by its second name.
            for switch in ["webrtc-ip-handling-policy", "force-webrtc-ip-handling-policy"] {
                command.arg(format!("--{switch}=disable_non_proxied_udp"));
            }
        }
        command.arg(BLANK);
        let program = self.program.display();
        let failed = |error: String| ToolError::new(format!("{program}: {error}"));
        let child = command.spawn().map_err(|error| failed(error.to_string()))?;
        let mut browser = Browser::new(child, profile);
        let Child { stdin, stdout, stderr, .. } = &mut browser.child;
        let (Some(to), Some(from), Some(stderr)) = (stdin.take(), stdout.take(), stderr.take()) else {
            return Err(failed("it has no standard streams".to_owned()));
        };
        // It is read to its end: a full pipe would block the browser.
        let told = tokio::spawn(last_lines(stderr));
        let mut tools = DevTools::new(to, from);
        if let Err(error) = opened(&mut tools, self.screen).await {
            drop(browser);
            let told = timeout(Duration::from_secs(1), told).await.ok().and_then(Result::ok).unwrap_or_default();
            return Err(failed(format!("it does not start: {error}: {told}")));
        }
        let computer = ChromiumComputer { tools: Mutex::new(tools), screen: self.screen, _browser: browser };
        if self.start_page != BLANK {
            // A host that is not listed fails like one that does not exist, and a redirect may have led there.
            computer.go_to(&self.start_page).await.map_err(|error| match only {
                Some(only) => {
                    ToolError::new(format!("{}; the browser may reach {only}, also by redirects", error.message))
                }
                None => error,
            })?;
        }
        Ok(computer)
    }
}

/// Opens a page of this size and attaches to it.
async fn opened(tools: &mut DevTools, (width, height): (u32, u32)) -> Result<(), String> {
    let target = tools.ask_within(START, "Target.createTarget", json!({ "url": BLANK })).await?;
    // For all its pages, even those that a page opens: a download would fill the disk, and nobody could do anything
    // with it.
    tools.ask("Browser.setDownloadBehavior", json!({ "behavior": "deny" })).await?;
    let attach = json!({ "targetId": target["targetId"], "flatten": true });
    let attached = tools.ask("Target.attachToTarget", attach).await?;
    tools.attached(attached["sessionId"].as_str().ok_or("no page")?.to_owned());
    tools.ask("Page.enable", json!({})).await?;
    let metrics = json!({ "width": width, "height": height, "deviceScaleFactor": 1, "mobile": false });
    tools.ask("Emulation.setDeviceMetricsOverride", metrics).await.map(drop)
}

/// A headless Chromium controlled over the DevTools protocol (spec S14). It ends with this value.
///
/// It reaches whatever the machine reaches, unless [hosts](Chromium::hosts) restrict it: ask a person about its
/// actions. No program of another user can control it: it listens on no port.
pub struct ChromiumComputer {
    tools: Mutex<DevTools>,
    screen: (u32, u32),
    _browser: Browser,
}

impl ChromiumComputer {
    /// Navigates to a page, and waits until it is loaded.
    ///
    /// # Errors
    /// It cannot be reached, or takes too long.
    pub async fn go_to(&self, url: &str) -> Result<(), ToolError> {
        self.tools.lock().await.go_to(url).await.map_err(ToolError::new)
    }

    /// The address of the page that is shown.
    ///
    /// # Errors
    /// The browser does not answer, or has ended.
    pub async fn page(&self) -> Result<String, ToolError> {
        let told = self.tools.lock().await.ask("Page.getNavigationHistory", json!({})).await.map_err(ToolError::new)?;
        let current = told["currentIndex"].as_u64().and_then(|at| usize::try_from(at).ok());
        let url = current.and_then(|at| told["entries"][at]["url"].as_str());
        Ok(url.unwrap_or_default().to_owned())
    }

    /// How many answers have been late so far. If a call raises this, the page may never answer again.
    pub(super) async fn late(&self) -> u32 {
        self.tools().await.late()
    }

    async fn tools(&self) -> MutexGuard<'_, DevTools> {
        self.tools.lock().await
    }
}

async fn mouse(tools: &mut DevTools, kind: &str, at: Point, more: Value) -> Result<(), ToolError> {
    let mut params = json!({ "type": kind, "x": at.x, "y": at.y });
    if let (Some(params), Value::Object(more)) = (params.as_object_mut(), more) {
        params.extend(more);
    }
    tools.ask("Input.dispatchMouseEvent", params).await.map(drop).map_err(ToolError::new)
}

async fn press(tools: &mut DevTools, at: Point, button: &str, count: u32) -> Result<(), ToolError> {
    for kind in ["mousePressed", "mouseReleased"] {
        mouse(tools, kind, at, json!({ "button": button, "clickCount": count })).await?;
    }
    Ok(())
}

async fn dispatch(tools: &mut DevTools, down: bool, key: &keys::Key, modifiers: u32) -> Result<(), ToolError> {
    let mut params = json!({
        "type": if down { "keyDown" } else { "keyUp" },
        "key": key.key,
        "code": key.code,
        "windowsVirtualKeyCode": key.number,
        "modifiers": modifiers,
    });
    // A key pressed with Control or Alt types nothing.
    if let Some(text) = key.text.as_ref().filter(|_| down && modifiers & 7 == 0) {
        params["text"] = json!(text);
    }
    tools.ask("Input.dispatchKeyEvent", params).await.map(drop).map_err(ToolError::new)
}

impl Computer for ChromiumComputer {
    fn environment(&self) -> Environment {
        Environment::Browser
    }

    fn dimensions(&self) -> (u32, u32) {
        self.screen
    }

    fn screenshot(&self, most_bytes: usize) -> BoxFuture<'_, Result<Screenshot, ToolError>> {
        Box::pin(async move {
            let mut tools = self.tools().await;
            let (width, height) = self.screen;
            for scale in SCALES {
                let clip = json!({ "x": 0, "y": 0, "width": width, "height": height, "scale": scale });
                let asked = json!({ "format": "png", "clip": clip });
                let taken = tools.ask("Page.captureScreenshot", asked).await.map_err(ToolError::new)?;
                let png = STANDARD.decode(taken["data"].as_str().unwrap_or_default());
                let png = png.map_err(|error| ToolError::new(format!("the picture cannot be read: {error}")))?;
                if png.len() <= most_bytes {
                    return Ok(Screenshot { png, scale });
                }
            }
            Err(ToolError::new(format!("the picture of the screen has more than {most_bytes} bytes, however small")))
        })
    }

    fn click(&self, at: Point, button: Button) -> BoxFuture<'_, Result<(), ToolError>> {
        Box::pin(async move {
            let mut tools = self.tools().await;
            let button = match button {
                Button::Left => "left",
                Button::Right => "right",
                Button::Wheel => "middle",
                Button::Back => "back",
                Button::Forward => "forward",
            };
            mouse(&mut tools, "mouseMoved", at, Value::Null).await?;
            press(&mut tools, at, button, 1).await
        })
    }

    fn double_click(&self, at: Point) -> BoxFuture<'_, Result<(), ToolError>> {
        Box::pin(async move {
            let mut tools = self.tools().await;
            mouse(&mut tools, "mouseMoved", at, Value::Null).await?;
            press(&mut tools, at, "left", 1).await?;
            press(&mut tools, at, "left", 2).await
        })
    }

    fn move_to(&self, at: Point) -> BoxFuture<'_, Result<(), ToolError>> {
        Box::pin(async move { mouse(&mut *self.tools().await, "mouseMoved", at, Value::Null).await })
    }

    fn drag<'a>(&'a self, path: &'a [Point]) -> BoxFuture<'a, Result<(), ToolError>> {
        Box::pin(async move {
            let (Some(first), Some(last)) = (path.first(), path.last()) else { return Ok(()) };
            let mut tools = self.tools().await;
            mouse(&mut tools, "mouseMoved", *first, Value::Null).await?;
            mouse(&mut tools, "mousePressed", *first, json!({ "button": "left", "clickCount": 1 })).await?;
            for point in path {
                mouse(&mut tools, "mouseMoved", *point, json!({ "button": "left", "buttons": 1 })).await?;
            }
            mouse(&mut tools, "mouseReleased", *last, json!({ "button": "left", "clickCount": 1 })).await
        })
    }

    fn scroll(&self, at: Point, right: i32, down: i32) -> BoxFuture<'_, Result<(), ToolError>> {
        Box::pin(async move {
            let by = json!({ "deltaX": right, "deltaY": down });
            mouse(&mut *self.tools().await, "mouseWheel", at, by).await
        })
    }

    fn type_text<'a>(&'a self, text: &'a str) -> BoxFuture<'a, Result<(), ToolError>> {
        Box::pin(async move {
            let mut tools = self.tools().await;
            for (i, line) in text.split('\n').enumerate() {
                if let Some(enter) = keys::key("ENTER").filter(|_| i > 0) {
                    dispatch(&mut tools, true, &enter, 0).await?;
                    dispatch(&mut tools, false, &enter, 0).await?;
                }
                let line = line.strip_suffix('\r').unwrap_or(line);
                if !line.is_empty() {
                    tools.ask("Input.insertText", json!({ "text": line })).await.map_err(ToolError::new)?;
                }
            }
            Ok(())
        })
    }

    fn keypress<'a>(&'a self, names: &'a [String]) -> BoxFuture<'a, Result<(), ToolError>> {
        Box::pin(async move {
            let mut pressed = Vec::new();
            for name in names {
                let key = keys::key(name).ok_or_else(|| ToolError::new(format!("there is no key {name:?}")))?;
                pressed.push(key);
            }
            let mut tools = self.tools().await;
            let mut modifiers = 0;
            for key in &pressed {
                modifiers |= key.modifier;
                dispatch(&mut tools, true, key, modifiers).await?;
            }
            for key in pressed.iter().rev() {
                modifiers &= !key.modifier;
                dispatch(&mut tools, false, key, modifiers).await?;
            }
            Ok(())
        })
    }

    fn has_key(&self, name: &str) -> bool {
        keys::key(name).is_some()
    }
}
