//! Redacts secrets in texts, verbatim and as they are encoded in addresses and JSON.

/// The replacement of a secret.
const MARK: &str = "[API key]";

/// The text without the secret: verbatim, percent-encoded, or escaped as in a JSON string, character by character.
pub fn redacted(text: String, secret: &str) -> String {
    let Some(first) = secret.chars().next() else { return text };
    // The first characters of its spellings, by which most of a text is skipped.
    let begins = |c: char| c == first || matches!(c, '%' | '\\' | '+');
    let (mut out, mut rest) = (String::new(), &*text);
    let mut found = false;
    while let Some(at) = rest.find(begins) {
        out.push_str(&rest[..at]);
        rest = &rest[at..];
        let (part, len) = match spelled(rest, secret) {
            Some(len) => (MARK, len),
            None => (&rest[..rest.ceil_char_boundary(1)], rest.ceil_char_boundary(1)),
        };
        found |= part == MARK;
        out.push_str(part);
        rest = &rest[len..];
    }
    if !found {
        return text;
    }
    out.push_str(rest);
    out
}

/// The length in bytes of the longest spelling of the secret at the beginning of the text.
fn spelled(text: &str, secret: &str) -> Option<usize> {
    secret.chars().next().filter(|first| spellings(text, *first).iter().any(Option::is_some))?;
    // Where the next character may begin: a `\\` may be two, or one that is escaped.
    let (mut from, mut to) = (vec![0], Vec::new());
    for c in secret.chars() {
        for at in from.drain(..) {
            for len in spellings(&text[at..], c).into_iter().flatten() {
                if !to.contains(&(at + len)) {
                    to.push(at + len);
                }
            }
        }
        if to.is_empty() {
            return None;
        }
        std::mem::swap(&mut from, &mut to);
    }
    from.into_iter().max()
}

/// The lengths of the spellings of this character at the beginning of the text.
fn spellings(text: &str, c: char) -> [Option<usize>; 3] {
    let plain = text.starts_with(c).then_some(c.len_utf8());
    let other = match text.as_bytes().first() {
        Some(b'%') => percent(text, c),
        Some(b'+') if c == ' ' => Some(1),
        Some(b'\\') => short(text, c),
        _ => None,
    };
    [plain, other, hex(text, c)]
}

/// As its bytes in UTF-8 (RFC 3986, 2.1).
fn percent(text: &str, c: char) -> Option<usize> {
    let mut bytes = [0; 4];
    let bytes = c.encode_utf8(&mut bytes).as_bytes();
    let is = |(i, byte): (usize, &u8)| {
        let digits = text.get(i * 3..i * 3 + 3).and_then(|part| part.strip_prefix('%'));
        digits.and_then(|digits| u8::from_str_radix(digits, 16).ok()) == Some(*byte)
    };
    bytes.iter().enumerate().all(is).then_some(bytes.len() * 3)
}

/// As an escape of two characters (RFC 8259, 7).
fn short(text: &str, c: char) -> Option<usize> {
    let meant = match text.as_bytes().get(1)? {
        b'"' => '"',
        b'\\' => '\\',
        b'/' => '/',
        b'b' => '\u{8}',
        b'f' => '\u{c}',
        b'n' => '\n',
        b'r' => '\r',
        b't' => '\t',
        _ => return None,
    };
    (meant == c).then_some(2)
}

/// As `\uXXXX`, or two of them.
fn hex(text: &str, c: char) -> Option<usize> {
    if !text.starts_with("\\u") {
        return None;
    }
    let mut units = [0; 2];
    let units = c.encode_utf16(&mut units);
    let is = |(i, unit): (usize, &u16)| {
        let digits = text.get(i * 6..i * 6 + 6).and_then(|part| part.strip_prefix("\\u"));
        digits.and_then(|digits| u16::from_str_radix(digits, 16).ok()) == Some(*unit)
    };
    units.iter().enumerate().all(is).then_some(units.len() * 6)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn x_a_secret_is_redacted_in_every_spelling() {
        let secret = "a/b<c>&\"d\\+é😀 e";
        for spelling in [
            secret,
            r#"a\/b\u003cc\u003E\u0026\"d\\+\u00e9\uD83D\ude00 e"#,
            r#"a/b\u003Cc>&\u0022d\u005C\u002bé😀\u0020e"#,
            "a%2fb%3cc%3E%26%22d%5c%2b%c3%A9%f0%9f%98%80%20e",
            "%61%2Fb%3Cc%3E%26%22d%5C%2B%C3%A9%F0%9F%98%80+e",
        ] {
            assert_eq!(redacted(format!("<{spelling}>{spelling}"), secret), format!("<{MARK}>{MARK}"), "{spelling}");
        }
        for other in ["", "a/b", "a%2", "a\\", "a\\u00", "%", "é%c3", "a%2fb<c>&d"] {
            assert_eq!(redacted(other.to_owned(), secret), other);
        }
        // Many parses are tried in parallel.
        assert_eq!(redacted("\\".repeat(4000), &format!("{}x", "\\".repeat(60))), "\\".repeat(4000));
    }
}
