//! The actions of a computer.

use std::{fmt, time::Duration};

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::Computer;
use countersign_engine::tool::ToolError;

/// Longest wait, in milliseconds.
const WAIT_MS: u64 = 30_000;
/// The default wait.
const WAIT_DEFAULT_MS: u64 = 1_000;
/// Most points of a path.
const POINTS: usize = 1_000;
/// Most keys that are pressed together.
const KEYS: usize = 8;

/// One thing to do to a computer (spec S14).
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(tag = "type", rename_all = "snake_case", deny_unknown_fields)]
#[non_exhaustive]
pub enum ComputerAction {
    /// Press and release a mouse button.
    Click {
        /// Pixels from the left edge of the screen.
        x: u32,
        /// Pixels from the top edge of the screen.
        y: u32,
        /// Which mouse button; left by default.
        #[serde(default)]
        button: Button,
    },
    /// Press and release the left button twice.
    DoubleClick {
        /// Pixels from the left edge of the screen.
        x: u32,
        /// Pixels from the top edge of the screen.
        y: u32,
    },
    /// Move the pointer.
    Move {
        /// Pixels from the left edge of the screen.
        x: u32,
        /// Pixels from the top edge of the screen.
        y: u32,
    },
    /// Move the pointer along a path with the left button held down.
    Drag {
        /// The points of the path, from its start to its end: 2 to 1000.
        path: Vec<Point>,
    },
    /// Scroll with the pointer at a point.
    Scroll {
        /// Pixels from the left edge of the screen.
        x: u32,
        /// Pixels from the top edge of the screen.
        y: u32,
        /// How many pixels to scroll to the right; negative: to the left.
        scroll_x: i32,
        /// How many pixels to scroll down; negative: up.
        scroll_y: i32,
    },
    /// Type a text.
    Type {
        /// The text to type.
        text: String,
    },
    /// Press keys together, and release them.
    Keypress {
        /// The names of 1 to 8 keys, such as CTRL and A, or ENTER.
        keys: Vec<String>,
    },
    /// Wait.
    Wait {
        /// How many milliseconds to wait: at most 30000; 1000 by default.
        ms: Option<u64>,
    },
    /// Take a screenshot. One is always taken after the last action.
    Screenshot {},
}

/// A point on the screen, in pixels from its top left corner.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Point {
    /// Pixels from the left edge of the screen.
    pub x: u32,
    /// Pixels from the top edge of the screen.
    pub y: u32,
}

/// A mouse button.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum Button {
    /// The left one.
    #[default]
    Left,
    /// The right one.
    Right,
    /// The middle one, the wheel.
    Wheel,
    /// Back.
    Back,
    /// Forward.
    Forward,
}

impl ComputerAction {
    /// Whether it is possible on a screen of this width and height, and with these keys.
    pub(super) fn check(&self, screen: (u32, u32), has_key: impl Fn(&str) -> bool) -> Result<(), String> {
        let (width, height) = screen;
        let on = |x: u32, y: u32| {
            if x < width && y < height { Ok(()) } else { Err(format!("the screen has {width} x {height} pixels")) }
        };
        match self {
            ComputerAction::Click { x, y, .. }
            | ComputerAction::DoubleClick { x, y }
            | ComputerAction::Move { x, y }
            | ComputerAction::Scroll { x, y, .. } => on(*x, *y),
            ComputerAction::Drag { path } if !(2..=POINTS).contains(&path.len()) => {
                Err(format!("a path has 2 to {POINTS} points; this one has {}", path.len()))
            }
            ComputerAction::Drag { path } => path.iter().try_for_each(|point| on(point.x, point.y)),
            ComputerAction::Keypress { keys } if !(1..=KEYS).contains(&keys.len()) => {
                Err(format!("1 to {KEYS} keys are pressed together; these are {}", keys.len()))
            }
            ComputerAction::Keypress { keys } => match keys.iter().find(|name| !has_key(name)) {
                Some(name) => Err(format!("there is no key {name:?}")),
                None => Ok(()),
            },
            ComputerAction::Wait { ms: Some(ms) } if *ms > WAIT_MS => Err(format!("at most {WAIT_MS} ms are waited")),
            _ => Ok(()),
        }
    }

    /// Does it.
    pub(super) async fn act(&self, computer: &dyn Computer) -> Result<(), ToolError> {
        let at = |x: &u32, y: &u32| Point { x: *x, y: *y };
        match self {
            ComputerAction::Click { x, y, button } => computer.click(at(x, y), *button).await,
            ComputerAction::DoubleClick { x, y } => computer.double_click(at(x, y)).await,
            ComputerAction::Move { x, y } => computer.move_to(at(x, y)).await,
            ComputerAction::Drag { path } => computer.drag(path).await,
            ComputerAction::Scroll { x, y, scroll_x, scroll_y } => {
                computer.scroll(at(x, y), *scroll_x, *scroll_y).await
            }
            ComputerAction::Type { text } => computer.type_text(text).await,
            ComputerAction::Keypress { keys } => computer.keypress(keys).await,
            ComputerAction::Wait { ms } => computer.wait(Duration::from_millis(ms.unwrap_or(WAIT_DEFAULT_MS))).await,
            ComputerAction::Screenshot {} => Ok(()),
        }
    }
}

impl fmt::Display for ComputerAction {
    /// Described for a reviewer.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            ComputerAction::Click { x, y, button: Button::Left } => write!(f, "click at ({x}, {y})"),
            ComputerAction::Click { x, y, button } => {
                let button = format!("{button:?}").to_lowercase();
                write!(f, "click with the {button} button at ({x}, {y})")
            }
            ComputerAction::DoubleClick { x, y } => write!(f, "double click at ({x}, {y})"),
            ComputerAction::Move { x, y } => write!(f, "move to ({x}, {y})"),
            ComputerAction::Drag { path } => {
                let points: Vec<String> = path.iter().map(|point| format!("({}, {})", point.x, point.y)).collect();
                write!(f, "drag along {}", points.join(", "))
            }
            ComputerAction::Scroll { x, y, scroll_x, scroll_y } => {
                write!(f, "scroll by ({scroll_x}, {scroll_y}) at ({x}, {y})")
            }
            ComputerAction::Type { text } => {
                // A line is an action: a text cannot imitate another.
                write!(f, "type {}", serde_json::to_string(text).map_err(|_| fmt::Error)?)
            }
            ComputerAction::Keypress { keys } => {
                write!(f, "press {}", serde_json::to_string(keys).map_err(|_| fmt::Error)?)
            }
            ComputerAction::Wait { ms } => write!(f, "wait {} ms", ms.unwrap_or(WAIT_DEFAULT_MS)),
            ComputerAction::Screenshot {} => f.write_str("take a screenshot"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn s14_an_action_that_cannot_be_done_here_is_refused() {
        let read = |text: &str| countersign_core::plain::read::<ComputerAction>(text);
        for action in [
            r#"{"type":"click","x":100,"y":0}"#,
            r#"{"type":"scroll","x":0,"y":50,"scroll_x":0,"scroll_y":9}"#,
            r#"{"type":"drag","path":[{"x":1,"y":1}]}"#,
            r#"{"type":"drag","path":[{"x":1,"y":1},{"x":1,"y":50}]}"#,
            r#"{"type":"keypress","keys":[]}"#,
            r#"{"type":"wait","ms":30001}"#,
        ] {
            assert!(read(action).expect(action).check((100, 50), |_| true).is_err(), "{action}");
        }
        for action in
            [r#"{"type":"fly"}"#, r#"{"type":"click","x":-1,"y":0}"#, r#"{"type":"type"}"#, r#"{"x":1,"y":1}"#]
        {
            assert!(read(action).is_err(), "{action}");
        }
        let click = read(r#"{"type":"click","x":99,"y":49,"button":"right"}"#).expect("click");
        assert_eq!(
            (click.check((100, 50), |_| true), &*click.to_string()),
            (Ok(()), "click with the right button at (99, 49)")
        );
        let typed = read(r#"{"type":"type","text":"a\n2. click"}"#).expect("type");
        assert_eq!(typed.to_string(), r#"type "a\n2. click""#);
    }
}
