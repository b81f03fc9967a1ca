//! Which characters are shown unchanged, each judged by itself (UAX 44 categories, UTS 39 data).
//!
//! This is an allowlist: a character that no rule here names is escaped.

use unicode_general_category::{GeneralCategory as Category, get_general_category};
use unicode_normalization::{IsNormalized, is_nfc_quick};
use unicode_script::{Script, UnicodeScript as _};
use unicode_security::confusable_detection::skeleton;

use std::sync::OnceLock;

use super::WarningKind;

/// The properties of one character.
#[derive(Clone, Copy)]
pub(super) struct Glyph {
    /// Why it is always escaped; `None` if it may be shown. Line feeds and tabs are the caller's.
    pub(super) hidden: Option<WarningKind>,
    /// Its script.
    pub(super) script: Script,
    facts: u8,
}

const WORD: u8 = 1;
const SIGN: u8 = 2;
const MARK: u8 = 4;
const STACKED: u8 = 8;
const JOINS: u8 = 16;
const ASCII: u8 = 32;
const LATIN: u8 = 64;

impl Glyph {
    /// Letters, digits and their marks: what words are made of.
    pub(super) fn is_word(self) -> bool {
        self.facts & WORD != 0
    }
    /// Punctuation and symbols, which are neither words nor white space.
    pub(super) fn is_sign(self) -> bool {
        self.facts & SIGN != 0
    }
    /// A mark that is drawn on the character before it.
    pub(super) fn is_mark(self) -> bool {
        self.facts & MARK != 0
    }
    /// A mark that takes no space.
    pub(super) fn is_stacked(self) -> bool {
        self.facts & STACKED != 0
    }
    /// Whether it may be drawn on, or composed with, the character before it.
    pub(super) fn joins(self) -> bool {
        self.facts & JOINS != 0
    }
    /// Whether it is drawn like ASCII, according to UTS 39.
    pub(super) fn looks_ascii(self) -> bool {
        self.facts & ASCII != 0
    }
    /// Whether it is a letter that is drawn like one Latin letter or digit, with or without marks.
    pub(super) fn looks_latin(self) -> bool {
        self.facts & LATIN != 0
    }

    fn look_up(c: char) -> Glyph {
        let category = get_general_category(c);
        let mut facts = 0;
        let mut add = |fact, yes: bool| facts |= if yes { fact } else { 0 };
        add(WORD, is_word(category));
        add(SIGN, is_sign(category));
        add(MARK, is_mark(category));
        add(STACKED, is_mark(category) && category != Category::SpacingMark);
        add(JOINS, is_mark(category) || is_nfc_quick([c].into_iter()) == IsNormalized::Maybe);
        add(ASCII, looks_ascii(c));
        add(LATIN, looks_latin(c));
        Glyph { hidden: hidden(c), script: c.script(), facts }
    }
}

/// The properties of a character. Looking them up in all the tables takes a microsecond, so they are cached, a block of
/// 256 at a time.
pub(super) fn glyph(c: char) -> Glyph {
    const BLOCKS: usize = 0x200;
    static KNOWN: [OnceLock<Box<[Glyph]>>; BLOCKS] = [const { OnceLock::new() }; BLOCKS];
    if c.is_ascii() {
        return ascii(c);
    }
    if is_plain_cjk(c) {
        return Glyph { hidden: None, script: cjk_script(c), facts: WORD };
    }
    let (block, at) = (u32::from(c) / 256, u32::from(c) % 256);
    let known = KNOWN.get(block as usize).map(|known| {
        let look_up = |c| char::from_u32(c).map_or_else(|| ascii('\0'), Glyph::look_up);
        known.get_or_init(|| (block * 256..(block + 1) * 256).map(look_up).collect())
    });
    known.and_then(|known| known.get(at as usize)).copied().unwrap_or_else(|| Glyph::look_up(c))
}

fn ascii(c: char) -> Glyph {
    let hidden = c.is_ascii_control().then_some(WarningKind::Control);
    let (script, facts) = match c {
        'a'..='z' | 'A'..='Z' => (Script::Latin, WORD | ASCII | LATIN),
        '0'..='9' => (Script::Common, WORD | ASCII | LATIN),
        _ => (Script::Common, ASCII),
    };
    Glyph { hidden, script, facts }
}

/// Whether a character changes the direction of the text around it.
pub(crate) fn is_bidirectional(c: char) -> bool {
    matches!(u32::from(c), 0x61C | 0x200E | 0x200F | 0x202A..=0x202E | 0x2066..=0x2069)
}

/// See [`Glyph::hidden`].
fn hidden(c: char) -> Option<WarningKind> {
    match u32::from(c) {
        _ if is_bidirectional(c) => return Some(WarningKind::Bidirectional),
        // Default-ignorable characters that are not format characters, and letters that are drawn as nothing.
        0x34F
        | 0x115F
        | 0x1160
        | 0x17B4
        | 0x17B5
        | 0x180B..=0x180F
        | 0x2065
        | 0x2800
        | 0x3164
        | 0xFE00..=0xFE0F
        | 0xFFA0
        | 0xFFF0..=0xFFFC
        | 0x1D159
        | 0xE0000..=0xE0FFF => return Some(WarningKind::Invisible),
        // Other encodings of ordinary letters, drawn like those: radicals, ligatures, presentation forms, jamo that are
        // obsolete in Hangul, mathematical letters; the capital eth and the African D, which are drawn like the
        // Vietnamese Đ; the micro sign; numbers with their full stop.
        0xB5
        | 0xD0
        | 0x189
        | 0x1100..=0x11FF
        | 0x2488..=0x249B
        | 0x2E80..=0x2FDF
        | 0xA960..=0xA97F
        | 0xD7B0..=0xD7FF
        | 0xFB00..=0xFDFF
        | 0xFE10..=0xFEFF
        | 0xFFA1..=0xFFDC
        | 0x1CC00..=0x1CCFF
        | 0x1D400..=0x1D7FF
        | 0x1EE00..=0x1EEFF
        | 0x1F100..=0x1F10A => return Some(WarningKind::Confusable),
        _ => {}
    }
    match get_general_category(c) {
        Category::Control | Category::LineSeparator | Category::ParagraphSeparator => Some(WarningKind::Control),
        Category::SpaceSeparator => Some(WarningKind::Whitespace),
        Category::Format | Category::PrivateUse | Category::Surrogate | Category::Unassigned => {
            Some(WarningKind::Invisible)
        }
        // A screen without a font for them draws them all as the same box.
        _ if !is_in_use(c.script()) => Some(WarningKind::Invisible),
        Category::UppercaseLetter | Category::LowercaseLetter | Category::TitlecaseLetter | Category::LetterNumber
            if is_compatibility(c) =>
        {
            Some(WarningKind::Confusable)
        }
        _ if is_nfc_quick([c].into_iter()) == IsNormalized::No => Some(WarningKind::NotNormalized),
        _ => None,
    }
}

/// The letters of Chinese, Japanese and Korean that look like those of no other script; only a fast path for ordinary
/// text.
pub(super) fn is_plain_cjk(c: char) -> bool {
    match u32::from(c) {
        // They look like T, Y, \ and /.
        0x4E05 | 0x4E2B | 0x4E36 | 0x4E3F => false,
        0x3041..=0x3096 | 0x30A1..=0x30CD | 0x30CF..=0x30FA | 0x3400..=0x4DB5 | 0x4E00..=0x9FA5 | 0xAC00..=0xD7A3 => {
            true
        }
        _ => false,
    }
}

fn cjk_script(c: char) -> Script {
    match c {
        '\u{3041}'..='\u{3096}' => Script::Hiragana,
        '\u{30A1}'..='\u{30FA}' => Script::Katakana,
        '\u{AC00}'..='\u{D7A3}' => Script::Hangul,
        _ => Script::Han,
    }
}

/// Compatibility forms of other letters (`ſ`, `ǆ`, `ℓ`, `Ⅳ`), except those in full width, which are judged by their
/// word, and the Armenian `և`, which is in every Armenian text.
fn is_compatibility(c: char) -> bool {
    let ordinary = matches!(u32::from(c), 0x587 | 0xFF10..=0xFF5A);
    !ordinary && unicode_normalization::is_nfkc_quick([c].into_iter()) == IsNormalized::No
}

/// The scripts in modern use (UAX 31, tables 5 and 7), and characters common to all of them.
fn is_in_use(script: Script) -> bool {
    use Script as S;
    script.is_recommended()
        || matches!(
            script,
            S::Common
                | S::Inherited
                | S::Adlam
                | S::Balinese
                | S::Bamum
                | S::Batak
                | S::Braille
                | S::Canadian_Aboriginal
                | S::Chakma
                | S::Cham
                | S::Cherokee
                | S::Hanifi_Rohingya
                | S::Javanese
                | S::Kayah_Li
                | S::Lepcha
                | S::Limbu
                | S::Lisu
                | S::Mandaic
                | S::Meetei_Mayek
                | S::Mongolian
                | S::New_Tai_Lue
                | S::Newa
                | S::Nko
                | S::Ol_Chiki
                | S::Osage
                | S::Saurashtra
                | S::Sundanese
                | S::Syloti_Nagri
                | S::Syriac
                | S::Tai_Le
                | S::Tai_Tham
                | S::Tai_Viet
                | S::Tifinagh
                | S::Vai
                | S::Yi
        )
}

fn is_word(category: Category) -> bool {
    use Category as C;
    is_mark(category)
        || matches!(
            category,
            C::UppercaseLetter
                | C::LowercaseLetter
                | C::TitlecaseLetter
                | C::ModifierLetter
                | C::OtherLetter
                | C::DecimalNumber
                | C::LetterNumber
                | C::OtherNumber
        )
}

fn is_sign(category: Category) -> bool {
    use Category as C;
    matches!(
        category,
        C::ConnectorPunctuation
            | C::DashPunctuation
            | C::OpenPunctuation
            | C::ClosePunctuation
            | C::InitialPunctuation
            | C::FinalPunctuation
            | C::OtherPunctuation
            | C::MathSymbol
            | C::CurrencySymbol
            | C::ModifierSymbol
            | C::OtherSymbol
    )
}

fn is_mark(category: Category) -> bool {
    matches!(category, Category::NonspacingMark | Category::SpacingMark | Category::EnclosingMark)
}

fn looks_ascii(c: char) -> bool {
    let mut buffer = [0; 4];
    let mut drawn = skeleton(c.encode_utf8(&mut buffer)).peekable();
    drawn.peek().is_some() && drawn.all(|c| c.is_ascii())
}

fn looks_latin(c: char) -> bool {
    let mut buffer = [0; 4];
    let mut drawn = skeleton(c.encode_utf8(&mut buffer)).filter(|c| !is_mark(get_general_category(*c)));
    match drawn.next() {
        // The table writes `m` as `rn`.
        Some('r') => drawn.next().is_none_or(|c| c == 'n') && drawn.next().is_none(),
        Some(first) if first.is_ascii() => drawn.next().is_none(),
        _ => false,
    }
}

/// Right-to-left letters (the ranges that UAX 9 assigns to them).
pub(super) fn is_right_to_left(c: char) -> bool {
    matches!(u32::from(c),
        0x590..=0x8FF | 0xFB1D..=0xFDFF | 0xFE70..=0xFEFF | 0x10800..=0x10FFF | 0x1E800..=0x1EFFF)
        && glyph(c).is_word()
        && !glyph(c).is_mark()
}
