//! The number of values of a JSON text, without reading it: parsed, each takes many times the memory of its text.

use crate::limits::JSON_VALUES;

/// Counts the values of a text that comes byte by byte.
#[derive(Debug, Default)]
pub struct Values {
    count: usize,
    depth: usize,
    in_string: bool,
    escaped: bool,
}

impl Values {
    /// Whether a text has more than [`JSON_VALUES`]: it must not be parsed.
    #[must_use]
    pub fn are_too_many_in(text: &str) -> bool {
        let mut values = Values::default();
        text.bytes().any(|byte| {
            values.take(byte);
            values.are_too_many()
        })
    }

    /// Takes the next byte. True inside a string, and for its end.
    pub fn take(&mut self, byte: u8) -> bool {
        if self.in_string {
            self.in_string = self.escaped || byte != b'"';
            self.escaped = byte == b'\\' && !self.escaped;
            return true;
        }
        match byte {
            b'{' | b'[' => {
                self.depth += 1;
                self.count += 1;
            }
            b'}' | b']' => self.depth = self.depth.saturating_sub(1),
            b',' => self.count += 1,
            b'"' => self.in_string = true,
            _ => {}
        }
        false
    }

    /// At least their number less one: each comes after a comma or begins a list or an object.
    #[must_use]
    pub fn count(&self) -> usize {
        self.count
    }

    /// Whether there are more than [`JSON_VALUES`] so far.
    #[must_use]
    pub fn are_too_many(&self) -> bool {
        self.count > JSON_VALUES
    }

    /// How many objects and lists are open.
    #[must_use]
    pub fn depth(&self) -> usize {
        self.depth
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn r9_values_are_counted_outside_of_strings() {
        let count = |text: &str| {
            let mut values = Values::default();
            for byte in text.bytes() {
                values.take(byte);
            }
            (values.count(), values.depth())
        };
        assert_eq!(count(r#"{"a": [1, 2, {}], "b": "[,{\"],\\"}"#), (6, 0));
        assert_eq!(count(r#"[["\\",["#), (4, 3));
        assert_eq!(count("}]1"), (0, 0));
        for (text, are_too_many) in [
            ("[".to_owned() + &"1,".repeat(JSON_VALUES - 1), false),
            ("[".to_owned() + &"1,".repeat(JSON_VALUES), true),
            ("[".repeat(JSON_VALUES + 1), true),
            (format!("\"{}\"", "[,{".repeat(JSON_VALUES)), false),
        ] {
            assert_eq!(Values::are_too_many_in(&text), are_too_many, "{text:.20}");
        }
    }
}
