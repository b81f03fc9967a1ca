//! Names of keys, as models write them, and in the DevTools protocol.

/// A key in the protocol.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Key {
    /// Its value, as pages see it.
    pub(super) key: String,
    /// Its position on the keyboard.
    pub(super) code: String,
    /// Its Windows key code, which shortcuts use.
    pub(super) number: u32,
    /// The text it types, if any.
    pub(super) text: Option<String>,
    /// Its modifier bit: 1 Alt, 2 Control, 4 Meta, 8 Shift.
    pub(super) modifier: u32,
}

/// The key of this name: `CTRL`, `ENTER`, `F5`, `a`. Case and `_` do not matter where a name has several letters.
pub(super) fn key(name: &str) -> Option<Key> {
    let named = |key: &str, code: &str, number, text: Option<&str>, modifier| {
        let text = text.map(str::to_owned);
        Some(Key { key: key.to_owned(), code: code.to_owned(), number, text, modifier })
    };
    let mut chars = name.chars();
    if let (Some(char), None) = (chars.next(), chars.next()) {
        let upper = char.to_ascii_uppercase();
        let (code, number) = match upper {
            'A'..='Z' => (format!("Key{upper}"), u32::from(upper)),
            '0'..='9' => (format!("Digit{upper}"), u32::from(upper)),
            ' ' => ("Space".to_owned(), 32),
            _ => (String::new(), 0),
        };
        return named(name, &code, number, Some(name), 0);
    }
    let plain: String = name.chars().filter(|c| !matches!(c, '_' | '-' | ' ')).collect::<String>().to_uppercase();
    if let Some(n) = plain.strip_prefix('F').and_then(|n| n.parse::<u32>().ok()).filter(|n| (1..=12).contains(n)) {
        return named(&format!("F{n}"), &format!("F{n}"), 111 + n, None, 0);
    }
    match &*plain {
        "ALT" | "OPTION" => named("Alt", "AltLeft", 18, None, 1),
        "CTRL" | "CONTROL" => named("Control", "ControlLeft", 17, None, 2),
        "META" | "CMD" | "COMMAND" | "SUPER" | "WIN" => named("Meta", "MetaLeft", 91, None, 4),
        "SHIFT" => named("Shift", "ShiftLeft", 16, None, 8),
        "ENTER" | "RETURN" => named("Enter", "Enter", 13, Some("\r"), 0),
        "TAB" => named("Tab", "Tab", 9, None, 0),
        "ESC" | "ESCAPE" => named("Escape", "Escape", 27, None, 0),
        "SPACE" => named(" ", "Space", 32, Some(" "), 0),
        "BACKSPACE" => named("Backspace", "Backspace", 8, None, 0),
        "DELETE" | "DEL" => named("Delete", "Delete", 46, None, 0),
        "INSERT" => named("Insert", "Insert", 45, None, 0),
        "HOME" => named("Home", "Home", 36, None, 0),
        "END" => named("End", "End", 35, None, 0),
        "PAGEUP" => named("PageUp", "PageUp", 33, None, 0),
        "PAGEDOWN" => named("PageDown", "PageDown", 34, None, 0),
        "UP" | "ARROWUP" => named("ArrowUp", "ArrowUp", 38, None, 0),
        "DOWN" | "ARROWDOWN" => named("ArrowDown", "ArrowDown", 40, None, 0),
        "LEFT" | "ARROWLEFT" => named("ArrowLeft", "ArrowLeft", 37, None, 0),
        "RIGHT" | "ARROWRIGHT" => named("ArrowRight", "ArrowRight", 39, None, 0),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn s14_keys_have_the_names_that_models_give_them() {
        for (name, code, modifier) in [
            ("CTRL", "ControlLeft", 2),
            ("shift", "ShiftLeft", 8),
            ("Page_Down", "PageDown", 0),
            ("ArrowLeft", "ArrowLeft", 0),
            ("a", "KeyA", 0),
            ("F12", "F12", 0),
            (" ", "Space", 0),
        ] {
            let key = key(name).expect(name);
            assert_eq!((&*key.code, key.modifier), (code, modifier), "{name}");
        }
        assert_eq!(key("é").expect("é").text.as_deref(), Some("é"));
        assert!(key("ANY").is_none() && key("").is_none() && key("F13").is_none());
    }
}
