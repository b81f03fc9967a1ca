//! Controlling a computer by its screen: `computer` (spec S14).
//!
//! Actions come in batches, and approval is for the batch: the rule checks each action, and one that asks holds them
//! all. The tool has two names (`ToolEntry.aliases`), and its calls, rules and saved sessions are found under either. A
//! dozen methods of the DevTools protocol are enough, so no crate drives the browser, and a feature keeps even those
//! out of programs that do not use them.

mod action;
#[cfg(feature = "computer")]
mod chromium;
#[cfg(feature = "computer")]
mod devtools;
mod hosts;
#[cfg(feature = "computer")]
mod keys;
#[cfg(feature = "computer")]
mod process;
#[cfg(feature = "computer")]
mod sessions;

use std::{future::Future, sync::Arc, time::Duration};

use base64::{Engine as _, engine::general_purpose::STANDARD};
use countersign_core::{
    call::{args::Args, preview::Preview, schema::schema_of},
    content::screen::DATA_URL,
    journal::permit::Permit,
    limits,
};
use futures::future::BoxFuture;
use serde_json::json;

pub use self::{
    action::{Button, ComputerAction, Point},
    hosts::Hosts,
};
#[cfg(feature = "computer")]
pub use self::{
    chromium::{Chromium, ChromiumComputer},
    sessions::ChromiumSessions,
};
use countersign_engine::tool::{
    Approval, CallFacts, Condition, Previewer, Tool, ToolEntry, ToolError, ToolSpec,
    function::read_args,
    order::Order,
    reserved::{COMPUTER, COMPUTER_USE_PREVIEW},
};

/// Most actions of one call.
const ACTIONS: usize = 100;
/// Room for notes after a picture.
const NOTES: usize = 3000;

/// A computer with a screen, a pointer and a keyboard.
///
/// Coordinates are pixels from the top left corner, within [`Computer::dimensions`]. The model gets the error of an
/// action, and later actions are skipped.
pub trait Computer: Send + Sync {
    /// What kind of computer it is.
    fn environment(&self) -> Environment;
    /// Its width and height in pixels.
    fn dimensions(&self) -> (u32, u32);
    /// A picture of the screen as PNG with at most this many bytes; scaled down if the full one would have more.
    fn screenshot(&self, most_bytes: usize) -> BoxFuture<'_, Result<Screenshot, ToolError>>;
    /// Presses and releases a button there.
    fn click(&self, at: Point, button: Button) -> BoxFuture<'_, Result<(), ToolError>>;
    /// Presses and releases the left button twice.
    fn double_click(&self, at: Point) -> BoxFuture<'_, Result<(), ToolError>>;
    /// Moves the pointer.
    fn move_to(&self, at: Point) -> BoxFuture<'_, Result<(), ToolError>>;
    /// Moves the pointer along a path of at least two points with the left button held.
    fn drag<'a>(&'a self, path: &'a [Point]) -> BoxFuture<'a, Result<(), ToolError>>;
    /// Scrolls at a point, by this many pixels to the right and down.
    fn scroll(&self, at: Point, right: i32, down: i32) -> BoxFuture<'_, Result<(), ToolError>>;
    /// Types a text.
    fn type_text<'a>(&'a self, text: &'a str) -> BoxFuture<'a, Result<(), ToolError>>;
    /// Presses keys together and releases them, such as `CTRL` and `A`.
    fn keypress<'a>(&'a self, keys: &'a [String]) -> BoxFuture<'a, Result<(), ToolError>>;
    /// Whether it has a key of this name: nothing of a batch with any other is done.
    fn has_key(&self, name: &str) -> bool {
        let _ = name;
        true
    }
    /// Waits.
    fn wait(&self, time: Duration) -> BoxFuture<'_, Result<(), ToolError>> {
        Box::pin(async move {
            tokio::time::sleep(time).await;
            Ok(())
        })
    }
}

/// What kind of computer it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Environment {
    /// A browser.
    Browser,
    /// macOS
    Mac,
    /// Windows
    Windows,
    /// Linux
    Linux,
}

/// A picture of a screen.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct Screenshot {
    /// The picture as PNG.
    pub png: Vec<u8>,
    /// Its scale: 0.5 is half as wide and half as high as the screen.
    pub scale: f64,
}

impl Screenshot {
    /// A picture as PNG, in this scale.
    #[must_use]
    pub fn new(png: Vec<u8>, scale: f64) -> Screenshot {
        Screenshot { png, scale }
    }
}

/// The tool `computer` on this computer. A person is asked about each call, and is shown its actions.
///
/// One call carries a batch of `actions`, or a single `action` as older models send it. They are done in order, the batches
/// of one answer one after the other, and the result is one picture of the screen after the last of them, as a `data:` URL
/// of a PNG. If the full picture would be too large for a result it is scaled down, and a line after it says so.
#[must_use]
pub fn computer(computer: Arc<dyn Computer>) -> ToolEntry {
    of_one(COMPUTER, computer)
}

/// The same tool under its older name, `computer_use_preview`.
#[must_use]
pub fn computer_use_preview(computer: Arc<dyn Computer>) -> ToolEntry {
    of_one(COMPUTER_USE_PREVIEW, computer)
}

fn of_one(name: &str, computer: Arc<dyn Computer>) -> ToolEntry {
    let (environment, screen) = (computer.environment(), computer.dimensions());
    named(name, environment, screen, Arc::new(ComputerTool { computer })).in_order(Order::default())
}

/// The tool under one of its two names; the other is its alias.
fn named<T: Tool + Previewer + 'static>(
    name: &str,
    environment: Environment,
    (width, height): (u32, u32),
    tool: Arc<T>,
) -> ToolEntry {
    let aliases: &'static [&'static str] = if name == COMPUTER { &[COMPUTER_USE_PREVIEW] } else { &[COMPUTER] };
    let what = match environment {
        Environment::Browser => "a browser",
        Environment::Mac => "a Mac",
        Environment::Windows => "a Windows computer",
        Environment::Linux => "a Linux computer",
    };
    let mut action = schema_of::<ComputerAction>();
    // The action schema is used twice, so its definitions are moved to the root.
    let definitions = action.as_object_mut().and_then(|action| action.remove("$defs")).unwrap_or_default();
    let mut parameters = json!({
        "type": "object",
        "additionalProperties": false,
        "properties": {
            "actions": {
                "type": "array", "minItems": 1, "maxItems": ACTIONS, "items": action,
                "description": "What to do, in order.",
            },
            "action": action,
        },
    });
    if !definitions.is_null() {
        parameters["$defs"] = definitions;
    }
    let spec = ToolSpec::new(
        name,
        format!(
            "Use {what} by its screen of {width} x {height} pixels. Send actions, or one action; the result is a screenshot \
             taken after the last one."
        ),
        Arc::new(parameters),
    );
    ToolEntry { aliases, ..ToolEntry::new(spec, tool.clone()).needs_approval(Approval::always()).preview(tool) }
}

/// A rule over single actions: a person is asked about the whole batch if it is true of any (spec S14).
///
/// All actions are checked before any is done. An error asks.
///
/// ```
/// # use std::sync::Arc;
/// # use countersign_engine::tool::Approval;
/// # use countersign_tools::builtin::{ComputerAction, each_action};
/// let clicks = each_action(|action| async move { Ok(matches!(action, ComputerAction::Click { .. })) });
/// let approval = Approval::when(Arc::new(clicks));
/// # let _ = approval;
/// ```
pub fn each_action<F, Fut>(rule: F) -> impl Condition + 'static
where
    F: Fn(ComputerAction) -> Fut + Send + Sync + 'static,
    Fut: Future<Output = Result<bool, String>> + Send + 'static,
{
    EachAction(rule)
}

/// A condition that is checked for each action of a call: its `args` are `{"action": …}`, a person is asked about the
/// whole batch if it is true of any, and an error asks (spec S14).
///
/// ```
/// # use std::sync::Arc;
/// # use countersign_engine::tool::{Approval, condition::CelCondition};
/// # use countersign_tools::builtin::of_each_action;
/// # fn main() -> Result<(), String> {
/// let typing = CelCondition::compile("args.action.type == 'type'")?;
/// let approval = Approval::when(Arc::new(of_each_action(typing)));
/// # let _ = approval;
/// # Ok(())
/// # }
/// ```
pub fn of_each_action(condition: impl Condition + 'static) -> impl Condition + 'static {
    OfEach(condition)
}

struct OfEach<C>(C);

impl<C: Condition> Condition for OfEach<C> {
    fn check<'a>(&'a self, call: &'a CallFacts<'a>) -> BoxFuture<'a, Result<bool, String>> {
        Box::pin(async move {
            let mut any = false;
            for action in actions(call.args)? {
                let args = json!({ "action": action }).to_string();
                let args = Args::parse(&args).map_err(|error| error.to_string())?;
                any |= self.0.check(&CallFacts { args: &args, ..*call }).await?;
            }
            Ok(any)
        })
    }

    fn describe(&self) -> Option<&str> {
        self.0.describe()
    }
}

struct EachAction<F>(F);

impl<F, Fut> Condition for EachAction<F>
where
    F: Fn(ComputerAction) -> Fut + Send + Sync,
    Fut: Future<Output = Result<bool, String>> + Send,
{
    fn check<'a>(&'a self, call: &'a CallFacts<'a>) -> BoxFuture<'a, Result<bool, String>> {
        Box::pin(async move {
            let mut any = Ok(false);
            for action in actions(call.args)? {
                // Actions after the first that asks are checked too: a rule may keep count.
                any = match (any, (self.0)(action).await) {
                    (Err(first), _) => Err(first),
                    (Ok(_), Err(error)) => Err(error),
                    (Ok(before), Ok(asks)) => Ok(before || asks),
                };
            }
            any
        })
    }

    fn describe(&self) -> Option<&str> {
        None
    }
}

/// The actions of a call, in order.
fn actions(args: &Args) -> Result<Vec<ComputerAction>, String> {
    #[derive(serde::Deserialize)]
    #[serde(deny_unknown_fields)]
    struct Batch {
        actions: Option<Vec<ComputerAction>>,
        action: Option<ComputerAction>,
    }
    // As for functions: in JSON Schema 3.0 is an integer.
    let batch: Batch = read_args(args.text()).map_err(|error| error.to_string())?;
    let actions = match batch {
        Batch { actions: Some(actions), action: None } => actions,
        Batch { actions: None, action: Some(action) } => vec![action],
        Batch { .. } => return Err("send \"actions\", or one \"action\"".to_owned()),
    };
    if actions.is_empty() || actions.len() > ACTIONS {
        return Err(format!("a call has 1 to {ACTIONS} actions; this one has {}", actions.len()));
    }
    Ok(actions)
}

struct ComputerTool {
    computer: Arc<dyn Computer>,
}

impl Tool for ComputerTool {
    fn run(&self, permit: Permit) -> BoxFuture<'static, Result<String, ToolError>> {
        let computer = self.computer.clone();
        Box::pin(async move { perform(&*computer, &actions(permit.args())?).await })
    }
    fn fits(&self, args: &Args) -> Result<(), String> {
        possible(&actions(args)?, self.computer.dimensions(), |name| self.computer.has_key(name))
    }
}

/// Whether all of these actions are possible with this screen and these keys. It is checked before one is done, and before
/// a person is asked.
fn possible(actions: &[ComputerAction], screen: (u32, u32), has_key: impl Fn(&str) -> bool) -> Result<(), String> {
    for (i, action) in actions.iter().enumerate() {
        action.check(screen, &has_key).map_err(|why| failed(actions, i, &why))?;
    }
    Ok(())
}

/// Does the actions in order; the result is a picture of the screen after the last of them.
async fn perform(computer: &dyn Computer, actions: &[ComputerAction]) -> Result<String, ToolError> {
    possible(actions, computer.dimensions(), |name| computer.has_key(name))?;
    for (i, action) in actions.iter().enumerate() {
        action.act(computer).await.map_err(|error| failed(actions, i, &error.message))?;
    }
    let room = limits::RESULT_BYTES - DATA_URL.len() - NOTES;
    let picture = computer.screenshot(room / 4 * 3).await;
    let picture = picture
        .map_err(|error| format!("all actions were done, but there is no picture of the screen: {}", error.message))?;
    let encoded = STANDARD.encode(&picture.png);
    if encoded.len() > room {
        return Err(ToolError::new("all actions were done, but the picture of the screen is too large"));
    }
    let mut text = format!("{DATA_URL}{encoded}");
    if picture.scale < 1.0 {
        let (width, height) = computer.dimensions();
        let percent = (picture.scale * 100.0).round();
        text.push_str(&format!(
            "\n(the picture is drawn at {percent} %; coordinates are those of the screen, {width} x {height})"
        ));
    }
    Ok(text)
}

fn failed(actions: &[ComputerAction], i: usize, why: &str) -> String {
    let (n, of, action) = (i + 1, actions.len(), &actions[i]);
    format!("action {n} of {of}, {action}: {why}")
}

impl Previewer for ComputerTool {
    /// Lists the actions, one a line.
    fn preview<'a>(&'a self, call: &'a CallFacts<'a>) -> BoxFuture<'a, Result<Preview, String>> {
        Box::pin(async move { Ok(Preview::text(&in_lines(&actions(call.args)?))) })
    }
}

fn in_lines(actions: &[ComputerAction]) -> String {
    let lines = actions.iter().enumerate().map(|(i, action)| format!("{}. {action}", i + 1));
    lines.collect::<Vec<_>>().join("\n")
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A computer on which nothing is done.
    struct Still;

    impl Computer for Still {
        fn environment(&self) -> Environment {
            Environment::Linux
        }
        fn dimensions(&self) -> (u32, u32) {
            (100, 50)
        }
        fn screenshot(&self, _: usize) -> BoxFuture<'_, Result<Screenshot, ToolError>> {
            Box::pin(async { Err("no picture".into()) })
        }
        fn click(&self, _: Point, _: Button) -> BoxFuture<'_, Result<(), ToolError>> {
            Box::pin(async { Ok(()) })
        }
        fn double_click(&self, _: Point) -> BoxFuture<'_, Result<(), ToolError>> {
            Box::pin(async { Ok(()) })
        }
        fn move_to(&self, _: Point) -> BoxFuture<'_, Result<(), ToolError>> {
            Box::pin(async { Ok(()) })
        }
        fn drag<'a>(&'a self, _: &'a [Point]) -> BoxFuture<'a, Result<(), ToolError>> {
            Box::pin(async { Ok(()) })
        }
        fn scroll(&self, _: Point, _: i32, _: i32) -> BoxFuture<'_, Result<(), ToolError>> {
            Box::pin(async { Ok(()) })
        }
        fn type_text<'a>(&'a self, _: &'a str) -> BoxFuture<'a, Result<(), ToolError>> {
            Box::pin(async { Ok(()) })
        }
        fn keypress<'a>(&'a self, _: &'a [String]) -> BoxFuture<'a, Result<(), ToolError>> {
            Box::pin(async { Ok(()) })
        }
        fn has_key(&self, name: &str) -> bool {
            name != "ANY"
        }
    }

    fn entries() -> Vec<ToolEntry> {
        vec![
            computer(Arc::new(Still)),
            #[cfg(feature = "computer")]
            ChromiumSessions::new(Chromium::new("chromium").screen(100, 50), 1).entry(COMPUTER),
        ]
    }

    /// Its actions would be done again.
    #[tokio::test]
    async fn s14_a_batch_without_a_picture_says_that_it_was_done() {
        let told = perform(&Still, &[ComputerAction::Screenshot {}]).await.expect_err("no picture").message;
        assert_eq!(told, "all actions were done, but there is no picture of the screen: no picture");
    }

    #[test]
    fn m3_s26_nobody_is_asked_about_a_batch_that_would_be_refused_as_a_whole() {
        let click = json!({ "type": "click", "x": 3, "y": 4 });
        for (args, says) in [
            (json!({}), "send \"actions\", or one \"action\""),
            (json!({ "action": click, "actions": [click] }), "send \"actions\", or one \"action\""),
            (
                json!({ "actions": [click, { "type": "click", "x": 100, "y": 4 }] }),
                "action 2 of 2, click at (100, 4): the screen has 100 x 50 pixels",
            ),
            (json!({ "action": { "type": "keypress", "keys": [] } }), "1 to 8 keys are pressed together"),
            (
                json!({ "actions": [click, { "type": "keypress", "keys": ["a", "ANY"] }] }),
                r#"action 2 of 2, press ["a","ANY"]: there is no key "ANY""#,
            ),
        ] {
            let args = Args::parse(&args.to_string()).expect("args");
            for entry in entries() {
                let refused = entry.tool.fits(&args).expect_err(says);
                assert!(refused.contains(says), "{refused}");
            }
        }
    }

    /// In JSON Schema 3.0 is an integer, so it must not fail after a person has approved it.
    #[test]
    fn s14_s26_a_whole_number_with_a_point_is_a_coordinate() {
        let args = Args::parse(r#"{"actions":[{"type":"click","x":3.0,"y":4e0}]}"#).expect("args");
        let click = ComputerAction::Click { x: 3, y: 4, button: Button::Left };
        assert_eq!(actions(&args), Ok(vec![click]));
        assert!(entries().iter().all(|entry| entry.tool.fits(&args).is_ok()));
        let between = Args::parse(r#"{"action":{"type":"click","x":3.5,"y":4}}"#).expect("args");
        assert!(actions(&between).is_err());
    }
}
