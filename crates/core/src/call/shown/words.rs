//! Letters and signs that are drawn like others (UTS 39), judged by their word and text.
//!
//! A whole text in Cyrillic or Greek is full of letters that are drawn like Latin ones; what could deceive is a word
//! that mixes them, or one that reads as Latin from end to end.

use std::ops::Range;

use unicode_script::{Script, ScriptExtension, UnicodeScript as _};

use super::{
    WarningKind,
    glyphs::{glyph, is_plain_cjk},
};

/// Decides what to escape in a text that is not all ASCII.
pub(super) fn mark(chars: &[char], why: &mut [Option<WarningKind>]) {
    if chars.iter().all(|c| is_harmless(*c)) {
        return;
    }
    let words = words(chars);
    let text = Text::of(chars, &words);
    for at in 0..words.len() {
        text.judge(at, &words, why);
    }
    for (i, c) in chars.iter().enumerate() {
        if !c.is_ascii() && why[i].is_none() && glyph(*c).is_sign() && glyph(*c).looks_ascii() && !text.is_at_home(*c) {
            why[i] = Some(WarningKind::Confusable);
        }
    }
}

/// Whether no rule here concerns it: a fast path for most text in Latin letters.
fn is_harmless(c: char) -> bool {
    let glyph = glyph(c);
    c.is_ascii()
        || glyph.is_mark()
        || !glyph.looks_ascii() && (glyph.script == Script::Latin || !glyph.is_word() || is_plain_cjk(c))
}

fn words(chars: &[char]) -> Vec<Range<usize>> {
    let mut words: Vec<Range<usize>> = Vec::new();
    let mut start = None;
    for (i, c) in chars.iter().enumerate() {
        match (glyph(*c).is_word(), start) {
            (true, None) => start = Some(i),
            (false, Some(from)) => {
                words.push(from..i);
                start = None;
            }
            _ => {}
        }
    }
    words.extend(start.map(|from| from..chars.len()));
    words
}

/// The properties of a text as a whole.
struct Text<'a> {
    chars: &'a [char],
    /// Scripts with a word that cannot be taken for Latin.
    scripts: Vec<Script>,
    /// For each word: its script, if unambiguous.
    certain: Vec<Option<Script>>,
    /// For each word: the script of its sentence, if that is Cyrillic or Greek; empty if there is none.
    sentences: Vec<Option<Script>>,
}

impl<'a> Text<'a> {
    fn of(chars: &'a [char], words: &[Range<usize>]) -> Text<'a> {
        let mut text =
            Text { chars, scripts: Vec::new(), certain: Vec::with_capacity(words.len()), sentences: Vec::new() };
        for word in words {
            let script = certain_script(&chars[word.clone()]);
            if let Some(script) = script
                && !text.scripts.contains(&script)
            {
                text.scripts.push(script);
            }
            text.certain.push(script);
        }
        if text.scripts.iter().any(|script| has_sentences(*script)) {
            text.sentences = text.sentences(words);
        }
        if chars.iter().any(|c| is_plain_cjk(*c)) {
            text.scripts.push(Script::Han);
        }
        text
    }

    fn judge(&self, at: usize, words: &[Range<usize>], why: &mut [Option<WarningKind>]) {
        let word = &self.chars[words[at].clone()];
        // Latin letters that could be a sentence's Cyrillic or Greek ones: there the latter are kept, so the former are
        // not.
        if self.native(at, words).is_some_and(|script| could_be(word, script)) {
            return self.escape(words[at].clone(), why, |_| true);
        }
        let letters = || word.iter().copied().filter(|c| !glyph(*c).is_mark());
        if letters().all(|c| c.is_ascii()) {
            return;
        }
        if letters().all(|c| c.is_ascii() || reads_as_latin(c)) {
            let at_home = match letters().find(|c| !c.is_ascii()).map(|c| glyph(c).script) {
                Some(script @ (Script::Cyrillic | Script::Greek)) => {
                    self.native(at, words) == Some(script) && is_ordinary(word, script)
                }
                // Nobody takes these for Latin in the middle of a text in their own script.
                Some(script) if !is_european(script) => {
                    letters().all(|c| !c.is_ascii())
                        && self.scripts.iter().any(|own| letters().all(|c| belongs(c, *own)))
                }
                _ => false,
            };
            if !at_home {
                self.escape(words[at].clone(), why, |c| !c.is_ascii() && !glyph(c).is_mark());
            }
        } else if mixes(letters()) {
            // Beside European letters, a Latin one could pass for another of them.
            let european = letters().any(|c| is_european(glyph(c).script) && !is_latin(c) && !belongs_to_all(c));
            // Chinese and Japanese have no spaces around Latin or full-width text.
            let mut start = words[at].start;
            for run in word.split_inclusive(|c| is_plain_cjk(*c)) {
                let ascii = run.iter().any(char::is_ascii_alphanumeric);
                let deceives = |c: char| {
                    european && is_latin(c)
                        || !c.is_ascii() && reads_as_latin(c) && !is_latin_of_its_own(c) && (ascii || !is_full_width(c))
                };
                self.escape(start..start + run.len(), why, deceives);
                start += run.len();
            }
        }
    }

    fn escape(&self, word: Range<usize>, why: &mut [Option<WarningKind>], which: impl Fn(char) -> bool) {
        for i in word {
            if why[i].is_none() && which(self.chars[i]) {
                why[i] = Some(WarningKind::Confusable);
            }
        }
    }

    /// A word belongs to the sentence of an adjacent word with an unambiguous script, with one space between them;
    /// further words that could be in either script may come between.
    fn sentences(&self, words: &[Range<usize>]) -> Vec<Option<Script>> {
        let told = |word: usize, before: Option<Script>| match self.certain[word] {
            Some(script) => Some(script).filter(|script| has_sentences(*script)),
            None => before.filter(|script| {
                let word = &self.chars[words[word].clone()];
                could_be(word, *script) || is_ordinary(word, *script)
            }),
        };
        let mut found: Vec<Option<Script>> = vec![None; words.len()];
        let mut right = None;
        for at in (0..words.len().saturating_sub(1)).rev() {
            right = if self.are_near(&words[at], &words[at + 1]) { told(at + 1, right) } else { None };
            found[at] = right;
        }
        let mut left = None;
        for at in 1..words.len() {
            left = if self.are_near(&words[at - 1], &words[at]) { told(at - 1, left) } else { None };
            found[at] = left.or(found[at]);
        }
        found
    }

    fn are_near(&self, a: &Range<usize>, b: &Range<usize>) -> bool {
        match &self.chars[a.end..b.start] {
            [' '] => true,
            [c, ' '] => CLOSES.contains(c),
            [' ', '–' | '—' | '-', ' '] => true,
            _ => false,
        }
    }

    /// The script of a word's sentence, if the word is set off as words are.
    fn native(&self, at: usize, words: &[Range<usize>]) -> Option<Script> {
        let script = (*self.sentences.get(at)?)?;
        let word = &words[at];
        let before = word.start.checked_sub(1).map(|i| self.chars[i]);
        let mut after = self.chars[word.end..].iter().copied();
        let ends = |c: Option<char>| matches!(c, None | Some(' ' | '\n'));
        let set_off = ends(before)
            && match after.next() {
                Some(c) if CLOSES.contains(&c) => ends(after.next()),
                c => ends(c),
            };
        set_off.then_some(script)
    }

    /// Whether a sign that is drawn like ASCII is ordinary here: everywhere, or in the scripts of this text.
    fn is_at_home(&self, c: char) -> bool {
        let everywhere = matches!(
            c,
            '‘' | '’'
                | '“'
                | '”'
                | '–'
                | '…'
                | '‹'
                | '›'
                | '×'
                | '¡'
                | '№'
                | '™'
                | '∞'
                | '≪'
                | '≫'
                | '‼'
                | '⁉'
                | '➕'
                | '➖'
                | '│'
                | '┃'
                | '╳'
                | '℅'
                | '₨'
        );
        if everywhere || matches!(u32::from(c), 0x24EA..=0x24FF | 0x3200..=0x33FF) {
            return true;
        }
        if is_full_width(c) || matches!(u32::from(c), 0x3000..=0x303F | 0x30A0 | 0xFF61..=0xFF65) {
            return self.scripts.iter().any(|script| EAST_ASIAN.contains(script));
        }
        let own = c.script_extension();
        !own.is_common() && self.scripts.iter().any(|script| own.contains_script(*script))
    }
}

/// Whether a letter that is not ASCII is drawn like a Latin letter or digit: like an ASCII one, if it is Latin itself.
fn reads_as_latin(c: char) -> bool {
    glyph(c).looks_latin() && (!is_latin(c) || glyph(c).looks_ascii())
}

/// Whether Latin letters or digits are mixed with others, or letters of two scripts that are never written together.
fn mixes(letters: impl Iterator<Item = char>) -> bool {
    let mut scripts: Option<ScriptExtension> = None;
    let mut last = Script::Common;
    let mut east_asian = false;
    for c in letters {
        if c.is_ascii_digit() || is_latin(c) && !is_full_width(c) {
            return true;
        }
        east_asian |= is_east_asian(c);
        if std::mem::replace(&mut last, glyph(c).script) == glyph(c).script || belongs_to_all(c) || is_east_asian(c) {
            continue;
        }
        let own = c.script_extension();
        // Such as the Japanese long vowel mark.
        if EAST_ASIAN.iter().any(|script| own.contains_script(*script)) {
            continue;
        }
        let both = scripts.map_or(own, |so_far| so_far.intersection(own));
        if both.is_empty() {
            return true;
        }
        scripts = Some(both);
    }
    east_asian && scripts.is_some()
}

/// The unambiguous script of a word: it has a letter that is not drawn like a Latin one, and no letter of another
/// script.
fn certain_script(word: &[char]) -> Option<Script> {
    let own =
        |c: &char| !c.is_ascii() && !matches!(glyph(*c).script, Script::Common | Script::Inherited | Script::Latin);
    let script = word.iter().copied().find(|c| own(c) && !glyph(*c).is_mark() && !glyph(*c).looks_latin())?.script();
    let own = |c: &char| belongs(*c, script) || EAST_ASIAN.contains(&script) && is_east_asian(*c);
    (!word.iter().any(|c| c.is_ascii_alphabetic() || !own(c))).then_some(script)
}

const CLOSES: [char; 6] = ['.', ',', '!', '?', ';', ':'];

/// Scripts with so many letters of Latin shape that whole words have no others.
fn has_sentences(script: Script) -> bool {
    matches!(script, Script::Cyrillic | Script::Greek)
}

/// Whether it is written in that script, or in any.
fn belongs(c: char, script: Script) -> bool {
    glyph(c).script == script || belongs_to_all(c) || c.script_extension().contains_script(script)
}

fn belongs_to_all(c: char) -> bool {
    let own = c.script_extension();
    own.is_common() || own.is_inherited()
}

fn is_latin(c: char) -> bool {
    glyph(c).script == Script::Latin
}

const EAST_ASIAN: [Script; 5] = [Script::Han, Script::Hiragana, Script::Katakana, Script::Hangul, Script::Bopomofo];

fn is_east_asian(c: char) -> bool {
    is_plain_cjk(c) || EAST_ASIAN.contains(&glyph(c).script)
}

fn is_full_width(c: char) -> bool {
    matches!(u32::from(c), 0xFF01..=0xFF5E)
}

/// Scripts that share their shapes with Latin, so that a word in them can be meant to be read as Latin.
fn is_european(script: Script) -> bool {
    matches!(
        script,
        Script::Latin
            | Script::Common
            | Script::Inherited
            | Script::Cyrillic
            | Script::Greek
            | Script::Armenian
            | Script::Georgian
            | Script::Cherokee
            | Script::Lisu
            | Script::Osage
            | Script::Canadian_Aboriginal
            | Script::Tifinagh
            | Script::Vai
            | Script::Bamum
    )
}

/// Latin letters that the table lists as drawn like ASCII, and that are ordinary beside letters with marks.
fn is_latin_of_its_own(c: char) -> bool {
    matches!(c, 'ı' | 'þ' | 'ƒ' | 'ɣ' | 'ʋ' | 'ɩ')
}

/// Letters, each with the Latin one that is drawn like it.
type Pairs = &'static [(char, char)];

/// Letters of a script's everyday words with the Latin ones that are drawn like them: small ones, then the capitals
/// that may begin a word.
fn pairs(script: Script) -> (Pairs, Pairs) {
    match script {
        Script::Cyrillic => (
            &[
                ('а', 'a'),
                ('б', '6'),
                ('г', 'r'),
                ('е', 'e'),
                ('ё', 'ë'),
                ('о', 'o'),
                ('р', 'p'),
                ('с', 'c'),
                ('у', 'y'),
                ('х', 'x'),
                ('ш', 'w'),
            ],
            &[('А', 'A'), ('В', 'B'), ('Е', 'E'), ('О', 'O'), ('Р', 'P'), ('С', 'C'), ('У', 'Y'), ('Х', 'X')],
        ),
        Script::Greek => (
            &[
                ('α', 'a'),
                ('γ', 'y'),
                ('ι', 'i'),
                ('ν', 'v'),
                ('ο', 'o'),
                ('ό', 'ó'),
                ('ρ', 'p'),
                ('σ', 'o'),
                ('υ', 'u'),
            ],
            &[('Α', 'A'), ('Ο', 'O'), ('Η', 'H'), ('Τ', 'T')],
        ),
        _ => (&[], &[]),
    }
}

/// Whether a word is written with those letters alone. `і` by itself is the Ukrainian "and".
fn is_ordinary(word: &[char], script: Script) -> bool {
    let (small, capital) = pairs(script);
    let has = |pairs: Pairs, c: char| pairs.iter().any(|(own, _)| *own == c);
    spelled(word, |first, c| has(small, c) || first && has(capital, c), 'і', 'б')
}

/// Whether a Latin word is drawn like such a word.
fn could_be(word: &[char], script: Script) -> bool {
    let (small, capital) = pairs(script);
    let has = |pairs: Pairs, c: char| pairs.iter().any(|(_, latin)| *latin == c);
    spelled(word, |first, c| has(small, c) || first && has(capital, c), 'i', '6')
}

/// A lone `б` is not a word, just as a lone `6` is a number.
fn spelled(word: &[char], is_letter: impl Fn(bool, char) -> bool, alone: char, digit: char) -> bool {
    word == [alone] || word.iter().enumerate().all(|(i, c)| is_letter(i == 0, *c)) && word.iter().any(|c| *c != digit)
}
