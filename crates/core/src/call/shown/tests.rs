use proptest::prelude::*;
use unicode_normalization::UnicodeNormalization as _;
use unicode_security::confusable_detection::skeleton;

use super::*;

fn shown(args: &str) -> Shown {
    Shown::of(&Args::parse(args).expect("arguments"))
}

fn text(args: &str) -> String {
    shown(args).text
}

/// The form of one text, without the object around it.
fn value(text: &str) -> String {
    let args = Json::Object(vec![("t".to_owned(), Json::String(text.to_owned()))]).canonical();
    let shown = self::text(&args);
    let inner = shown.strip_prefix("{\"t\": ").and_then(|s| s.strip_suffix('}'));
    inner
        .or_else(|| shown.strip_prefix("{\n  \"t\": ").and_then(|s| s.strip_suffix("\n}")))
        .expect("one member")
        .to_owned()
}

fn quoted(text: &str) -> String {
    format!("\"{text}\"")
}

/// Reads the form back, by the rules of `docs/protocol.md` alone.
struct Reader<'a> {
    rest: &'a str,
    /// The indentation of the line, except for continued lines of a text.
    indentation: usize,
}

impl Reader<'_> {
    fn read(text: &str) -> Json {
        let mut reader = Reader { rest: text, indentation: 0 };
        let json = reader.value();
        assert_eq!(reader.rest, "", "all of it is read");
        json
    }

    fn skip(&mut self, token: &str) -> bool {
        self.rest.strip_prefix(token).inspect(|rest| self.rest = rest).is_some()
    }

    fn space(&mut self) {
        loop {
            if self.skip("\n") {
                self.indentation = self.rest.len() - self.rest.trim_start_matches(' ').len();
            } else if !self.skip(" ") {
                return;
            }
        }
    }

    fn value(&mut self) -> Json {
        self.space();
        if self.skip("[") {
            let mut items = Vec::new();
            self.space();
            while !self.skip("]") {
                items.push(self.value());
                self.space();
                self.skip(",");
                self.space();
            }
            return Json::Array(items);
        }
        if self.skip("{") {
            let mut members = Vec::new();
            self.space();
            while !self.skip("}") {
                let key = self.string();
                assert!(self.skip(":"));
                members.push((key, self.value()));
                self.space();
                self.skip(",");
                self.space();
            }
            return Json::Object(members);
        }
        if self.rest.starts_with('"') {
            return Json::String(self.string());
        }
        let end = self.rest.find(|c: char| !c.is_ascii_alphanumeric() && !"+-.".contains(c)).unwrap_or(self.rest.len());
        let (word, rest) = self.rest.split_at(end);
        self.rest = rest;
        match word {
            "true" => Json::Bool(true),
            "false" => Json::Bool(false),
            "null" => Json::Null,
            number => Json::Number(number.to_owned()),
        }
    }

    fn string(&mut self) -> String {
        assert!(self.skip("\""), "a text at {:?}", self.rest);
        let mut text = String::new();
        loop {
            if self.skip("\"") {
                return text;
            } else if self.skip("\n") {
                assert!(self.skip(&" ".repeat(self.indentation + 2)), "goes on in its column");
            } else if self.skip("\\n") {
                text.push('\n');
            } else if self.skip("\\t") {
                text.push('\t');
            } else if self.skip("\\\"") {
                text.push('"');
            } else if self.skip("\\\\") {
                text.push('\\');
            } else if self.skip("\\u{") {
                let (hex, rest) = self.rest.split_once('}').expect("an end");
                assert_eq!(hex, format!("{:X}", u32::from_str_radix(hex, 16).expect("hex")));
                text.push(char::from_u32(u32::from_str_radix(hex, 16).expect("hex")).expect("a character"));
                self.rest = rest;
            } else {
                let c = self.rest.chars().next().expect("an end of the text");
                text.push(c);
                self.rest = &self.rest[c.len_utf8()..];
            }
        }
    }
}

/// Everything that must hold for any form.
fn check(args: &Args) -> Shown {
    let shown = Shown::of(args);
    assert_eq!(Reader::read(&shown.text).canonical(), args.text(), "it reads back: {}", shown.text);
    for c in shown.text.chars() {
        assert!(c == '\n' || glyph(c).hidden.is_none(), "{c:?} in {}", shown.text);
    }
    assert_eq!(shown.text.nfc().collect::<String>(), shown.text, "it is its own NFC");
    // The table of UTS 39 drops characters that are drawn as nothing. It is slow.
    let vanishes = |c: char| !c.is_ascii() && !glyph(c).is_mark() && skeleton(&c.to_string()).next().is_none();
    assert!(shown.text.chars().take(10_000).all(|c| !vanishes(c)), "nothing vanishes");
    assert!(!shown.text.contains("         ") || shown.text.contains('\n'), "no long run of spaces in a line");
    assert!(shown.text.len() <= 8 * args.text().len() + 16, "{} bytes for {}", shown.text.len(), args.text().len());
    assert_eq!(shown.bytes, args.text().len() as u64);
    assert_eq!(shown.digest, Digest::of(shown.text.as_bytes()).to_string());
    assert!(shown.warnings.len() <= 100);
    shown
}

fn any_text() -> impl Strategy<Value = String> {
    // Characters that are easily confused are adjacent.
    const CLOSE: &[char] = &[
        'a',
        'а',
        'ａ',
        'o',
        'о',
        'ο',
        'с',
        'c',
        'p',
        'м',
        'и',
        'é',
        'e',
        '\u{301}',
        '\u{300}',
        '\u{323}',
        '\u{327}',
        '\u{200b}',
        '\u{200d}',
        '\u{202e}',
        '\u{2066}',
        '\u{fe0f}',
        '\u{e0100}',
        '\u{e0041}',
        ' ',
        ' ',
        ' ',
        '\u{a0}',
        '\u{3000}',
        '\n',
        '\n',
        '\t',
        '\r',
        '\0',
        '\u{1b}',
        '"',
        '\\',
        '/',
        'u',
        '{',
        '}',
        '中',
        '文',
        '，',
        ',',
        'ㅇ',
        'ا',
        'ب',
        '1',
        '١',
        '가',
        '\u{1100}',
        '\u{1161}',
        '\u{11a8}',
        'Å',
        '\u{212b}',
        '😀',
        '\u{1f3fb}',
        '\u{3164}',
        '\u{ffa0}',
        '\u{2028}',
        '\u{feff}',
        '\u{e000}',
        '\u{378}',
        'ế',
        'Đ',
        'Ð',
        '’',
        '\'',
        'ノ',
        '∕',
        'i',
        '\u{307}',
    ];
    prop_oneof![
        any::<String>(),
        proptest::collection::vec(proptest::sample::select(CLOSE), 0..24).prop_map(|chars| chars.into_iter().collect()),
        proptest::collection::vec(any::<char>(), 0..12).prop_map(|chars| chars.into_iter().collect()),
    ]
}

fn any_json() -> impl Strategy<Value = Json> {
    let leaf = prop_oneof![
        Just(Json::Null),
        any::<bool>().prop_map(Json::Bool),
        any::<i64>().prop_map(|n| Json::Number(n.to_string())),
        Just(Json::Number("1.10".to_owned())),
        any_text().prop_map(Json::String),
        any_text().prop_map(Json::String),
    ];
    leaf.prop_recursive(4, 40, 6, |inner| {
        prop_oneof![
            proptest::collection::vec(inner.clone(), 0..6).prop_map(Json::Array),
            proptest::collection::btree_map(any_text(), inner, 0..6)
                .prop_map(|members| Json::Object(members.into_iter().collect())),
        ]
    })
}

fn any_args() -> impl Strategy<Value = Args> {
    proptest::collection::btree_map(any_text(), any_json(), 0..5).prop_map(|members| {
        let json = Json::Object(members.into_iter().collect());
        Args::parse(&json.canonical()).expect("arguments")
    })
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(600))]

    #[test]
    fn x_two_different_argument_texts_never_render_the_same(args in any_args()) {
        // A form that reads back in one way only belongs to no other arguments, and the model of a screen (NFC,
        // characters that are drawn as nothing) finds nothing to change in it.
        check(&args);
    }

    #[test]
    fn x_a_line_from_elsewhere_stays_on_its_line(text in any_text()) {
        let shown = line(&text);
        prop_assert!(shown.chars().all(|c| glyph(c).hidden.is_none()), "{}", shown);
        prop_assert_eq!(shown.nfc().collect::<String>(), shown.clone());
        let back = Reader { rest: &format!("\"{}\"", shown.replace('"', "\\\"")), indentation: 0 }.string();
        prop_assert_eq!(back, text);
    }
}

/// Letters of two alphabets that are drawn the same, in the sentences where they stay readable.
const TWINS: &[(char, char)] =
    &[('a', 'а'), ('c', 'с'), ('e', 'е'), ('o', 'о'), ('p', 'р'), ('x', 'х'), ('y', 'у'), ('A', 'А'), ('ë', 'ё')];

fn sentence() -> impl Strategy<Value = Vec<(char, bool)>> {
    let letter = proptest::sample::select(TWINS).prop_map(|(latin, _)| latin);
    let plain = proptest::sample::select(vec!['м', 'и', 'т', ' ', ' ', ' ', 's', '.', ',', '\n', '1', '中', '_', 'ا']);
    proptest::collection::vec((prop_oneof![3 => letter, 2 => plain], any::<bool>()), 0..16)
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(5000))]

    #[test]
    fn x_letters_that_are_drawn_the_same_never_make_two_texts_one(sentence in sentence(), other in any::<u16>()) {
        let twin = |c: char, yes: bool| TWINS.iter().find(|(a, _)| yes && *a == c).map_or(c, |(_, b)| *b);
        let a: String = sentence.iter().map(|(c, yes)| twin(*c, *yes)).collect();
        let b: String = sentence.iter().enumerate().map(|(i, (c, yes))| twin(*c, *yes != (other >> i & 1 == 1))).collect();
        let drawn = |text: &str| -> String {
            value(text).chars().map(|c| TWINS.iter().find(|(_, b)| *b == c).map_or(c, |(a, _)| *a)).collect()
        };
        prop_assert_eq!(a == b, drawn(&a) == drawn(&b), "{:?} {:?} {:?} {:?}", a, b, value(&a), value(&b));
    }
}

#[test]
fn x_what_people_write_stays_readable() {
    let sentences = [
        "Chuyển 1.000.000 ₫ cho Nguyễn Thị Thuỳ Dương, số 5 đường Trần Hưng Đạo – “gấp” nhé!",
        "Ưu đãi: Ơ, ữ, ẫ, ặ, Ẹ, Ỵ; Đặng Văn Ước",
        "向供应商支付￥1，000（API密钥：见邮件）。“请确认”！",
        "請於十二月三日前將款項匯入《帳戶》、謝謝…",
        "東京Towerで１２月３日（月）にミーティングをします。「OK」ですか？ノート〜ラーメン・カレー",
        "API를 호출하고 결과를 Slack 채널에 보내 주세요. ㅋㅋㅋ 그래",
        "Москва и мир",
        "Хорошо, я был с ним у дома. А сахар? О его шаге – ни слова; ещё раз: её оса.",
        "Привіт, мама і тато! Ціна: 100 грн",
        "Η ζωή και ο κόσμος για σένα",
        "Բարև ձեզ",
        "مرحبا بالعالم، كيف الحال؟",
        "שלום עולם",
        "ไม่สามารถทำรายการได้ กรุณาลองใหม่อีกครั้ง น้ำ",
        "हिन्दी में लिखा हुआ एक वाक्य है।",
        "বাংলা ভাষায় লেখা বাক্য।",
        "မြန်မာဘာသာ",
        "Ça coûte 3 € – « déjà vu » ; naïve Straße, Łódź, Æsir, það, œuvre, 5 × 3 ≤ 20 °C",
        "Çiçekler şimdi açıyor, güzel",
        "Great 👍🏽 🎉 🚀 🇻🇳 job",
        "https://example.com/a?b=c&d=%20#x <b>not bold</b> `code` $1.00",
    ];
    for sentence in sentences {
        let shown = value(sentence);
        assert_eq!(shown, quoted(sentence));
        assert_eq!(line(sentence), sentence);
        let warnings = Shown::of(
            &Args::parse(&Json::Object(vec![("t".to_owned(), Json::String(sentence.to_owned()))]).canonical())
                .expect("args"),
        )
        .warnings;
        assert_eq!(warnings, [], "{sentence}");
    }
}

#[test]
fn x_what_could_deceive_is_written_as_escapes() {
    let cases = [
        // Trojan Source.
        (
            "access_level != \"user\u{202e} \u{2066}// Check if admin\u{2069} \u{2066}",
            "access_level != \\\"user\\u{202E} \\u{2066}// Check if admin\\u{2069} \\u{2066}",
        ),
        ("zero\u{200b}width\u{2060}\u{feff}", "zero\\u{200B}width\\u{2060}\\u{FEFF}"),
        ("a\u{e0100}b\u{1d173}c\u{1bca0}", "a\\u{E0100}b\\u{1D173}c\\u{1BCA0}"),
        ("\u{e0041}\u{e007f}", "\\u{E0041}\\u{E007F}"),
        ("\u{3164}\u{115f}\u{1160}\u{ffa0}\u{2800}\u{fffc}", "\\u{3164}\\u{115F}\\u{1160}\\u{FFA0}\\u{2800}\\u{FFFC}"),
        ("\u{1b}[31mred\u{9b}0m\u{8}\u{7f}\0", "\\u{1B}[31mred\\u{9B}0m\\u{8}\\u{7F}\\u{0}"),
        ("a\u{a0}b\u{3000}c\u{2028}d\u{85}e", "a\\u{A0}b\\u{3000}c\\u{2028}d\\u{85}e"),
        ("👩\u{200d}💻 ❤\u{fe0f}", "👩\\u{200D}💻 ❤\\u{FE0F}"),
        ("\u{e000}\u{378}\u{10ffff}", "\\u{E000}\\u{378}\\u{10FFFF}"),
        ("\u{12000} \u{16a0}", "\\u{12000} \\u{16A0}"),
        // Homoglyphs.
        ("https://pаypal.com", "https://p\\u{430}ypal.com"),
        ("сор", "\\u{441}\\u{43E}\\u{440}"),
        ("мир сор.com", "мир \\u{441}\\u{43E}\\u{440}.com"),
        ("Москва pay и мир", "Москва \\u{70}\\u{61}\\u{79} и мир"),
        ("ｐａｙ", "\\u{FF50}\\u{FF41}\\u{FF59}"),
        ("中с 中ρ", "中\\u{441} 中\\u{3C1}"),
        ("中payｐ", "中pay\\u{FF50}"),
        ("аррӏе.com", "\\u{430}\\u{440}\\u{440}\\u{4CF}\\u{435}.com"),
        ("gοοgle", "g\\u{3BF}\\u{3BF}gle"),
        ("мοсквα и", "м\\u{3BF}сквα и".replace("сквα", "\\u{441}кв\\u{3B1}").leak()),
        ("ｈttp：／／evil", "\\u{FF48}ttp\\u{FF1A}\\u{FF0F}\\u{FF0F}evil"),
        ("bank.com∕a․b", "bank.com\\u{2215}a\\u{2024}b"),
        ("𝐩𝐚𝐲 ﬁle ⅳ ℓ", "\\u{1D429}\\u{1D41A}\\u{1D432} \\u{FB01}le \\u{2173} \\u{2113}"),
        ("wıkipedia ɡoogle", "w\\u{131}kipedia \\u{261}oogle"),
        ("ꓐꓮꓠꓗ ᎪᎡ", "\\u{A4D0}\\u{A4EE}\\u{A4E0}\\u{A4D7} \\u{13AA}\\u{13A1}"),
        ("H〇ME", "H\\u{3007}ME"),
        ("ÐÐ Ɖ", "\\u{D0}\\u{D0} \\u{189}"),
        // Spellings.
        ("e\u{301} \u{212b} \u{1100}\u{1161}", "e\\u{301} \\u{212B} \\u{1100}\\u{1161}"),
        ("a\u{323}\u{302}b", "a\\u{323}\\u{302}b"),
        ("\u{301}a \u{301}", "\\u{301}a \\u{301}"),
        ("i\u{307} l\u{335} \u{2260}\u{338} x\u{650}", "i\\u{307} l\\u{335} ≠\\u{338} x\\u{650}"),
        ("ẹ\u{300}\u{300}\u{300}\u{300}", "ẹ\u{300}\\u{300}\\u{300}\\u{300}"),
        // Spaces.
        ("a          b", "a        \\u{20}\\u{20}b"),
        (" a  ", " a\\u{20}\\u{20}"),
        ("\\u{200B} \"", "\\\\u{200B} \\\""),
    ];
    for (given, expected) in cases {
        assert_eq!(value(given), quoted(expected), "{given}");
    }
}

#[test]
fn x_no_character_that_is_drawn_as_nothing_gets_through() {
    for c in (0..=0x10_FFFF).filter_map(char::from_u32) {
        let ignorable = skeleton(&c.to_string()).next().is_none();
        let blank = c.is_whitespace() && c != ' ';
        if ignorable || blank || c.is_control() {
            let shown = value(&format!("a{c}b"));
            assert!(shown.is_ascii() && shown.contains('\\'), "{:X}: {shown}", u32::from(c));
        }
    }
}

#[test]
fn x_the_layout_is_by_members_and_lines() {
    let args = r##"{"body":"# Title\n\nFirst line\n  indented\tby tab\n","n":1.10,"list":[1,2,3],
        "to":[{"name":"A","mail":"a@example.com"},{"name":"B","mail":"b@example.com","note":"a longer note, so that it stands apart"}],
        "empty":{"o":{},"a":[]},"key\nwith \u202e":true,"big":9007199254740993}"##;
    assert_eq!(
        text(args),
        r##"{
  "big": 9007199254740993,
  "body": "# Title\n\n
    First line\n
      indented\tby tab\n",
  "empty": {"a": [], "o": {}},
  "key\nwith \u{202E}": true,
  "list": [1, 2, 3],
  "n": 1.10,
  "to": [
    {"mail": "a@example.com", "name": "A"},
    {
      "mail": "b@example.com",
      "name": "B",
      "note": "a longer note, so that it stands apart"
    }
  ]
}"##
    );
    assert_eq!(text("{}"), "{}");
    assert_eq!(text(r#"{"a":"b"}"#), r#"{"a": "b"}"#);
    let long = format!(r#"{{"a":[{}]}}"#, vec!["12345678"; 40].join(","));
    assert_eq!(text(&long).lines().count(), 3, "numbers stay on one line");
    // Right-to-left text is alone on its line, or its neighbours would change places.
    assert_eq!(text(r#"{"a":["אבג","דהו"]}"#), "{\n  \"a\": [\n    \"אבג\",\n    \"דהו\"\n  ]\n}");
    assert_eq!(text(r#"{"אבג":5}"#), "{\n  \"אבג\":\n    5\n}");
}

#[test]
fn x_warnings_name_the_kind_the_place_and_how_many() {
    let warning = |kind, pointer: &str, count| Warning { kind, pointer: pointer.to_owned(), count };
    let args =
        shown(r#"{"a":{"b/c":["x","\u200b\u200b\u202e"]},"k\u0000":"p\u0430y ","z":"e\u0301\u00a0","ח":"אבג 123"}"#);
    assert_eq!(
        args.warnings,
        [
            warning(WarningKind::Invisible, "/a/b~1c/1", 2),
            warning(WarningKind::Bidirectional, "/a/b~1c/1", 1),
            warning(WarningKind::Control, "/k\\u{0}", 1),
            warning(WarningKind::Confusable, "/k\\u{0}", 1),
            warning(WarningKind::Whitespace, "/k\\u{0}", 1),
            warning(WarningKind::Whitespace, "/z", 1),
            warning(WarningKind::NotNormalized, "/z", 1),
            warning(WarningKind::Bidirectional, "/ח", 1),
        ]
    );
    let many = shown(&format!(r#"{{"a":[{}]}}"#, vec![r#""\u200b""#; 500].join(",")));
    assert!(many.warnings.len() <= 100);
    assert_eq!(many.warnings.iter().map(|w| w.count).sum::<u64>(), 500);
    assert_eq!(many.warnings.last().map(|w| w.pointer.as_str()), Some(""));
}

#[test]
fn x_the_form_is_a_small_multiple_of_the_arguments_and_made_in_linear_time() {
    let full = |unit: &str| unit.repeat(limits::ARGS_BYTES / unit.len() - 16);
    let string = |unit: &str| format!(r#"{{"a":"{}"}}"#, full(unit));
    let array =
        |unit: &str| format!(r#"{{"a":[{}0]}}"#, unit.repeat((limits::ARGS_BYTES / unit.len() - 16).min(60_000)));
    let deep = format!("{}{},", "[".repeat(60), "]".repeat(60));
    let texts = [
        string("a"),
        string(" "),
        string("x\\n"),
        string("\\n"),
        string("\u{7f}"),
        string("\u{301}"),
        string("е"),
        string("а м "),
        string("chuyển tiền cho Nguyễn "),
        string("中文，"),
        string("\u{e0100}"),
        string("\\u0000"),
        string("ا 1"),
        array("{},"),
        array("[1],"),
        array("{\"a\":1},"),
        array("\"\u{200b}\","),
        array(&deep),
    ];
    let timed = |args: &Args| {
        let start = std::time::Instant::now();
        check(args);
        start.elapsed()
    };
    for text in texts {
        let args = Args::parse(&text).expect("arguments");
        let took = timed(&args);
        // Anything that is not linear takes minutes here, also where nothing else runs.
        assert!(took.as_secs() < 90, "{took:?} for {}", &text[..40.min(text.floor_char_boundary(40))]);
    }
}

/// A name is written once, not for each warning within.
#[test]
fn x_long_odd_names_cost_no_more_than_short_ones() {
    let odd = |n: usize| "\u{200b}".repeat(n);
    let timed = |name: &str, unit: &str| {
        let text = format!(r#"{{"{name}":[{}0]}}"#, unit.repeat((limits::ARGS_BYTES - 2000) / unit.len()));
        let args = Args::parse(&text).expect("arguments");
        let once = || {
            let start = std::time::Instant::now();
            let shown = Shown::of(&args);
            assert!(shown.warnings.len() <= WARNINGS);
            start.elapsed()
        };
        once().min(once()).min(once())
    };
    let object = format!("{{{}}},", (0..50).map(|i| format!("\"{i}\":\"{}\"", odd(1))).collect::<Vec<_>>().join(","));
    for unit in ["\"\u{200b}\",", "{\"a\":\"\u{200b}\"},", "[[\"\u{200b}\"],1],", &object] {
        let short = timed("a", unit);
        // One that fits in pointers, and one that is too long for them.
        for name in [odd(100), odd(330)] {
            let long = timed(&name, unit);
            assert!(long < 10 * short + std::time::Duration::from_millis(20), "{long:?}, not {short:?}, for {unit}");
        }
    }
}

/// A pointer, from its beginning.
fn pointer(steps: &[Step<'_>]) -> String {
    let mut pointer = String::new();
    for step in steps {
        let part = match step {
            Step::Member(name) if name.len() > 1000 => break,
            Step::Member(name) => line(&name.replace('~', "~0").replace('/', "~1")),
            Step::Item(i) => i.to_string(),
        };
        if pointer.len() + part.len() > 1000 {
            break;
        }
        pointer.push('/');
        pointer.push_str(&part);
    }
    pointer
}

proptest! {
    #[test]
    fn x_a_pointer_is_the_same_however_often_it_was_asked_for(
        names in proptest::collection::vec(("[a~/\\\\\u{200b}é ]{0,3}", 0..400_usize), 1..6),
        moves in proptest::collection::vec((0..5_u8, 0..6_usize), 0..60),
    ) {
        let names: Vec<String> = names.into_iter().map(|(name, times)| name.repeat(times)).collect();
        let (mut place, mut steps) = (Place::default(), Vec::new());
        for (what, i) in moves {
            match what {
                0 | 1 => {
                    let step = names.get(i).map_or(Step::Item(i * 1000), |name| Step::Member(name));
                    place.enter(step);
                    steps.push(step);
                }
                2 if !steps.is_empty() => {
                    place.leave();
                    steps.pop();
                }
                _ => prop_assert_eq!(place.pointer(), pointer(&steps)),
            }
        }
        prop_assert_eq!(place.pointer(), pointer(&steps));
    }
}
