//! Combining marks: which stay on the letter before them, and which are escaped.
//!
//! The shown text is its own NFC, so two spellings that are drawn the same cannot both appear.

use unicode_normalization::UnicodeNormalization as _;
use unicode_script::UnicodeScript as _;

use super::{WarningKind, glyphs::glyph};

/// More marks than this on one letter overlap the lines around it.
const MARKS: usize = 3;

/// Decides what to escape in a text that is not all ASCII, after all other rules: a mark on an escape would be drawn on
/// its last letter.
pub(super) fn mark(chars: &[char], why: &mut [Option<WarningKind>]) {
    let mut start = 0;
    while start < chars.len() {
        let joined = chars[start + 1..].iter().take_while(|c| glyph(**c).joins()).count();
        let end = start + 1 + joined;
        if joined > 0 || glyph(chars[start]).joins() {
            letter(&chars[start..end], &mut why[start..end]);
        }
        start = end;
    }
}

/// One character with what joins it.
fn letter(chars: &[char], why: &mut [Option<WarningKind>]) {
    let (base, marks) = (chars[0], &chars[1..]);
    let composed = chars.iter().copied().nfc().eq(chars.iter().copied());
    let mut broken = !composed || glyph(base).joins() || !glyph(base).is_word() || why[0].is_some();
    if glyph(base).joins() {
        why[0].get_or_insert(WarningKind::NotNormalized);
    }
    let mut stacked = 0;
    for (i, mark) in (1..).zip(marks) {
        stacked += usize::from(glyph(*mark).is_stacked());
        broken |= why[i].is_some() || stacked > MARKS || marks[..i - 1].last() == Some(mark) || !fits(base, *mark);
        if broken {
            why[i].get_or_insert(WarningKind::NotNormalized);
        }
    }
}

/// Whether a mark on a letter looks unambiguous: a stroke through a letter makes another letter, a dot merges with that
/// of the `i`, and a mark of another script replaces its own.
fn fits(base: char, mark: char) -> bool {
    if matches!(u32::from(mark), 0x334..=0x338 | 0x20D0..=0x20F0) || base.is_ascii_digit() {
        return false;
    }
    if matches!(base, 'i' | 'j' | 'l' | 'ı' | 'ȷ') && mark == '\u{307}' {
        return false;
    }
    let own = mark.script_extension();
    own.is_inherited() || own.is_common() || own.contains_script(base.script())
}
