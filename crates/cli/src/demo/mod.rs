//! `countersign demo`: a trading assistant and an adviser, with scripted models and a real order book on disk.

pub(crate) mod tool;

use std::{
    fs,
    io::ErrorKind,
    net::SocketAddr,
    path::{Path, PathBuf},
};

use clap::{Args, ValueEnum};

use crate::{
    Outcome,
    serve::{self, Serve},
};

/// Arguments of `demo`.
#[derive(Args)]
pub(crate) struct Demo {
    /// The address, instead of 127.0.0.1:7410; port 0 picks a free one
    #[arg(long, value_name = "ADDR", value_parser = serve::address)]
    listen: Option<SocketAddr>,
    /// The folder of the demo; missing files are created
    #[arg(long, value_name = "DIR", default_value = "countersign-demo")]
    dir: PathBuf,
    /// The language of the conversation; $LANG if absent
    #[arg(long)]
    locale: Option<Language>,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug, ValueEnum)]
pub(crate) enum Language {
    En,
    Vi,
    Zh,
}

/// All of them, each at its own place.
const LANGUAGES: [Language; 3] = [Language::En, Language::Vi, Language::Zh];

const CONFIG: &str = include_str!("countersign.toml");
/// The placeholders in [`CONFIG`].
const LOCALE: &str = "locale = \"en\"";
const PROGRAM: &str = "\"countersign\", \"demo-tool\"";

/// Creates missing files, rewrites them in the language of `--locale`, and for this program if it has moved, unless
/// somebody has edited them; and serves the demo.
pub(crate) fn run(demo: &Demo) -> Outcome {
    let language = demo.locale.unwrap_or_else(|| from_lang(std::env::var("LANG").ok().as_deref()));
    let failed = |path: &Path, error: &std::io::Error| format!("{}: {error}", path.display());
    fs::create_dir_all(&demo.dir).map_err(|error| match error.kind() {
        ErrorKind::AlreadyExists => format!("{} is a file; --dir names a folder", demo.dir.display()),
        _ => failed(&demo.dir, &error),
    })?;
    let program = std::env::current_exe().map_err(|error| format!("this program's own path is not known: {error}"))?;
    let config = demo.dir.join("countersign.toml");
    let program = quoted(&program.to_string_lossy())?;
    let files = [
        ("countersign.toml", LANGUAGES.map(|language| config_text(language, &program))),
        ("demo.json", LANGUAGES.map(|language| trader(language).to_owned())),
        ("adviser.json", LANGUAGES.map(|language| adviser(language).to_owned())),
    ];
    let mut found = Vec::new();
    for (name, texts) in files {
        let path = demo.dir.join(name);
        let there = match fs::read_to_string(&path) {
            Ok(text) => Some((for_program(&text, &program), text)),
            Err(error) if error.kind() == ErrorKind::NotFound => None,
            Err(error) => return Err(failed(&path, &error).into()),
        };
        found.push((path, texts, there));
    }
    let changed =
        found.iter().find(|(_, texts, there)| there.as_ref().is_some_and(|(renewed, _)| !texts.contains(renewed)));
    if let (Some((path, ..)), Some(_)) = (changed, demo.locale) {
        eprintln!(
            "warning: {} has been changed, so the files of the demo stay as they are; --locale has no effect on them",
            path.display()
        );
    }
    // Without `--locale` the demo stays in its language, and an edited one is not changed at all.
    let stays = demo.locale.is_none() || changed.is_some();
    for (path, texts, there) in &found {
        let text = match there {
            Some((renewed, _)) if stays && texts.contains(renewed) => renewed,
            Some((_, text)) if stays => text,
            _ => &texts[language as usize],
        };
        if there.as_ref().is_none_or(|(_, there)| there != text) {
            fs::write(path, text).map_err(|error| failed(path, &error))?;
        }
    }
    serve::run(&Serve { config, listen: demo.listen })
}

fn from_lang(lang: Option<&str>) -> Language {
    match lang.unwrap_or_default().get(..2) {
        Some("vi") => Language::Vi,
        Some("zh") => Language::Zh,
        _ => Language::En,
    }
}

impl Language {
    /// Its item of English, Vietnamese and Chinese.
    pub(crate) fn pick<T>(self, [en, vi, zh]: [T; 3]) -> T {
        match self {
            Language::En => en,
            Language::Vi => vi,
            Language::Zh => zh,
        }
    }
}

fn trader(language: Language) -> &'static str {
    language.pick([include_str!("demo.en.json"), include_str!("demo.vi.json"), include_str!("demo.zh.json")])
}

fn adviser(language: Language) -> &'static str {
    language.pick([include_str!("adviser.en.json"), include_str!("adviser.vi.json"), include_str!("adviser.zh.json")])
}

/// The configuration's texts for people, by language: the first is the one in [`CONFIG`].
const TEXTS: [[&str; 3]; 13] = [
    [
        "Trades shares, and asks first.",
        "Giao dịch cổ phiếu và hỏi trước khi đặt lệnh.",
        "交易股票；下单前先征求您的批准。",
    ],
    ["Asks what you want, and makes a plan.", "Hỏi bạn muốn gì, rồi lập kế hoạch.", "询问您的需求，并制定方案。"],
    ["The current price of a share.", "Giá hiện tại của một cổ phiếu.", "查询股票的当前价格。"],
    [
        "Places an order. Orders are written to orders.jsonl.",
        "Đặt một lệnh. Các lệnh được ghi vào orders.jsonl.",
        "提交订单。订单写入 orders.jsonl。",
    ],
    ["The share, such as VNM.", "Mã cổ phiếu, chẳng hạn VNM.", "股票代码，例如 VNM。"],
    ["title = \"Share\"", "title = \"Mã cổ phiếu\"", "title = \"股票代码\""],
    ["title = \"Quantity\"", "title = \"Số lượng\"", "title = \"数量\""],
    ["title = \"Side\"", "title = \"Mua hay bán\"", "title = \"买卖方向\""],
    // The values are the same in all languages, so that an edit that is written for one fits the others.
    [
        "enum = [\"buy\", \"sell\"]",
        "oneOf = [{ const = \"buy\", title = \"Mua\" }, { const = \"sell\", title = \"Bán\" }]",
        "oneOf = [{ const = \"buy\", title = \"买入\" }, { const = \"sell\", title = \"卖出\" }]",
    ],
    [
        "\"execute-trade\", \"--orders\"",
        "\"execute-trade\", \"--locale\", \"vi\", \"--orders\"",
        "\"execute-trade\", \"--locale\", \"zh\", \"--orders\"",
    ],
    ["title = \"Price (VND)\"", "title = \"Giá (VND)\"", "title = \"价格（VND）\""],
    ["Looking up the price of {{ args.symbol }}", "Tra giá {{ args.symbol }}", "查询 {{ args.symbol }} 的价格"],
    [
        "Order: {{ args.side }} {{ args.quantity }} {{ args.symbol }}",
        "Đặt lệnh {{ args.side }} {{ args.quantity }} {{ args.symbol }}",
        "下单：{{ args.side }} {{ args.quantity }} 股 {{ args.symbol }}",
    ],
];

/// A program in TOML: JSON strings are TOML strings too.
fn quoted(program: &str) -> Result<String, String> {
    serde_json::to_string(program).map_err(|error| error.to_string())
}

/// The same configuration with this program, [quoted]: one that has since been moved or removed may have written it.
fn for_program(text: &str, program: &str) -> String {
    let line = |line: &str| match line.find(", \"demo-tool\"") {
        Some(end) if line.starts_with("command = [") => format!("command = [{program}{}", &line[end..]),
        _ => line.to_owned(),
    };
    text.split_inclusive('\n').map(line).collect()
}

/// `program` is [quoted].
fn config_text(language: Language, program: &str) -> String {
    let locale = language.pick(["en", "vi", "zh"]);
    let mut text = CONFIG
        .replace(LOCALE, &format!("locale = \"{locale}\""))
        .replace(PROGRAM, &format!("{program}, \"demo-tool\""));
    for texts in TEXTS {
        text = text.replace(texts[0], language.pick(texts));
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_placeholders_are_there() {
        let text = config_text(Language::Vi, &quoted("/a \"b\"/countersign").expect("TOML"));
        assert!(text.contains("locale = \"vi\""));
        assert!(TEXTS.iter().all(|[en, vi, _]| CONFIG.contains(en) && text.contains(vi) && !text.contains(en)));
        assert_eq!(text.matches(r#"["/a \"b\"/countersign", "demo-tool","#).count(), 2);
        toml::from_str::<toml::Table>(&text).expect("TOML");
    }

    #[test]
    fn u3_the_demo_names_buy_and_sell_in_the_language_of_its_reader_and_their_values_stay() {
        for (language, verbs) in [(Language::Vi, ["Mua", "Bán"]), (Language::Zh, ["买入", "卖出"])] {
            let config = config_text(language, "\"countersign\"");
            for english in ["The share", "Places an order", "Order:"] {
                assert!(!config.contains(english), "{english} in {config}");
            }
            for (value, verb) in ["buy", "sell"].into_iter().zip(verbs) {
                assert!(
                    config.contains(&format!("{{ const = \"{value}\", title = \"{verb}\" }}")),
                    "{verb} in {config}"
                );
                assert!(trader(language).contains(&format!("\\\"side\\\": \\\"{value}\\\"")), "{value} in the script");
            }
        }
    }

    #[test]
    fn u3_a_demo_that_a_program_elsewhere_made_is_this_programs() {
        let [old, new] = ["/old/a, b/countersign", "/new/countersign"].map(|path| quoted(path).expect("TOML"));
        assert_eq!(for_program(&config_text(Language::Vi, &old), &new), config_text(Language::Vi, &new));
        assert_eq!(for_program(trader(Language::En), &new), trader(Language::En));
    }

    #[test]
    fn the_language_comes_from_the_environment() {
        assert_eq!(from_lang(Some("vi_VN.UTF-8")), Language::Vi);
        assert_eq!(from_lang(Some("zh_CN.UTF-8")), Language::Zh);
        assert_eq!(from_lang(Some("C")), Language::En);
        assert_eq!(from_lang(None), Language::En);
    }

    #[test]
    fn the_example_in_the_repository_is_the_demo() {
        let folder = concat!(env!("CARGO_MANIFEST_DIR"), "/../../examples/demo");
        let read = |name: &str| fs::read_to_string(format!("{folder}/{name}")).unwrap_or_default();
        assert_eq!(read("countersign.toml"), CONFIG);
        assert_eq!(read("demo.json"), trader(Language::En));
        assert_eq!(read("adviser.json"), adviser(Language::En));
    }
}
