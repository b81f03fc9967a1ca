//! Terminal output and input: foreign text without control sequences, and questions to the person at the terminal.

use std::{
    fmt::Write as _,
    io::{IsTerminal as _, Write as _},
};

use rustix::termios::{QueueSelector, tcflush};

use crate::failure::{Exit, Failure};

/// A foreign text, line ends and tabs kept; characters that a terminal would obey or hide are `\u{HEX}`.
pub(crate) fn visible(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    for c in text.chars() {
        if is_hidden(c) && !matches!(c, '\n' | '\t') {
            let _ = write!(out, "\\u{{{:X}}}", u32::from(c));
        } else {
            out.push(c);
        }
    }
    out
}

/// An equivalent JSON text without anything that a terminal would obey. Raw line ends and tabs can only be white space.
pub(crate) fn visible_json(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    let mut units = [0; 2];
    for c in text.chars() {
        if is_hidden(c) && !matches!(c, '\n' | '\t' | '\r') {
            for unit in c.encode_utf16(&mut units) {
                let _ = write!(out, "\\u{unit:04x}");
            }
        } else {
            out.push(c);
        }
    }
    out
}

/// Control characters, those that change the direction of text, and invisible ones; not the joiners and selectors that
/// emoji and some scripts need.
fn is_hidden(c: char) -> bool {
    c.is_control()
        || matches!(u32::from(c),
            0xAD | 0x61C | 0x180E | 0x200B | 0x200E..=0x200F | 0x2028..=0x202E | 0x2060..=0x206F | 0xFEFF
            | 0xFFF9..=0xFFFB | 0xE0000..=0xE007F)
}

/// A point in time (RFC 3339) with milliseconds, so that columns align; as it is, if it is none.
pub(crate) fn time(text: &str) -> String {
    text.parse::<jiff::Timestamp>().map_or_else(|_| visible(text), |at| format!("{at:.3}"))
}

/// A text as one word of a command line.
pub(crate) fn quoted(text: &str) -> String {
    let is_plain = |c: char| c.is_ascii_alphanumeric() || "_-./:=@%+,".contains(c);
    if !text.is_empty() && text.chars().all(is_plain) {
        return text.to_owned();
    }
    format!("'{}'", text.replace('\'', "'\\''"))
}

/// Whether a person can be asked.
pub(crate) fn is_interactive() -> bool {
    std::io::stdin().is_terminal() && std::io::stderr().is_terminal()
}

/// Writes to standard error, where questions go, so that standard output has results only.
pub(crate) fn tell(text: &str) {
    let mut err = std::io::stderr().lock();
    let _ = writeln!(err, "{text}").and_then(|()| err.flush());
}

/// The most that a terminal on Linux gives of a line, its end included: it drops the rest, and says nothing.
const LINE_BYTES: usize = 4096;

/// Refuses a line of a terminal that has lost its end: nobody has said what is left of it.
pub(crate) fn check_whole(line: &[u8]) -> Result<(), Failure> {
    if line.len() < LINE_BYTES {
        return Ok(());
    }
    let most = LINE_BYTES - 2;
    let text = format!(
        "that line was not sent: a terminal gives {most} bytes of a line, and its end may be lost; give a longer text as \
         an argument, or through a pipe"
    );
    Err(Failure::new(Exit::Usage, text))
}

/// Drops what was typed so far: it was not meant for what is shown now.
pub(crate) fn drop_early() {
    let _ = tcflush(std::io::stdin(), QueueSelector::IFlush);
}

/// Asks for a line. `None` at the end of the input.
pub(crate) fn ask(prompt: &str) -> Result<Option<String>, Failure> {
    // Not locked while the person thinks: other threads may have something to log.
    let mut err = std::io::stderr();
    let _ = write!(err, "{prompt}").and_then(|()| err.flush());
    let mut line = String::new();
    match std::io::stdin().read_line(&mut line) {
        Ok(0) => Ok(None),
        Ok(_) => check_whole(line.as_bytes()).map(|()| Some(line.trim().to_owned())),
        Err(error) => Err(format!("cannot read what you type: {error}").into()),
    }
}

/// Whether [`confirm`] can ask, or need not.
pub(crate) fn can_confirm(yes: bool, instead: &str) -> Result<(), Failure> {
    if yes || is_interactive() {
        return Ok(());
    }
    Err(Failure::new(Exit::Usage, format!("nobody can be asked here: {instead}")))
}

/// Continues only if the person says yes, or has said so with `--yes`; where nobody can be asked, `instead` names the
/// option to give.
pub(crate) fn confirm(question: &str, yes: bool, instead: &str) -> Result<(), Failure> {
    can_confirm(yes, instead)?;
    if yes {
        return Ok(());
    }
    // Nobody has agreed to what was not on the screen yet.
    drop_early();
    match ask(&format!("{question} [y/N] "))?.as_deref() {
        Some("y" | "Y" | "yes") => Ok(()),
        _ => Err("nothing was sent".into()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn x_what_a_terminal_would_obey_or_hide_is_visible() {
        assert_eq!(visible("a\u{1b}[2J\r\u{9b}\u{202e}b\n\tc\u{7f}"), "a\\u{1B}[2J\\u{D}\\u{9B}\\u{202E}b\n\tc\\u{7F}");
        assert_eq!(visible("Mua 100 cổ phiếu 越南 👩‍👩‍👧 ✔️"), "Mua 100 cổ phiếu 越南 👩‍👩‍👧 ✔️");
    }

    #[test]
    fn u3_a_text_that_a_shell_would_split_or_obey_is_one_word_of_a_command() {
        let quoted: Vec<String> = ["a/b-1.toml", "", "my files/c.toml", "it's", "$(x)", "~/c"].map(quoted).into();
        assert_eq!(quoted, ["a/b-1.toml", "''", "'my files/c.toml'", "'it'\\''s'", "'$(x)'", "'~/c'"]);
    }

    #[test]
    fn x_json_stays_the_same_json_when_its_hidden_characters_are_visible() {
        let text = serde_json::to_string("a\u{1b}\u{9b}\u{e0041}\u{202e}é").unwrap_or_default();
        let shown = visible_json(&text);
        assert_eq!(shown, "\"a\\u001b\\u009b\\udb40\\udc41\\u202eé\"");
        let (one, other): (Option<String>, Option<String>) =
            (serde_json::from_str(&text).ok(), serde_json::from_str(&shown).ok());
        assert!(one.is_some() && one == other);
    }
}
