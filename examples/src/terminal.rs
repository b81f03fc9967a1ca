//! Terminal utilities for the examples: options, questions, and text that cannot deceive.

use std::{
    collections::{BTreeMap, BTreeSet, VecDeque},
    env,
    error::Error,
    io,
    process::ExitCode,
};

use countersign::{Args, shown::Shown};
use serde::Serialize;

/// The result of an example.
pub type Result<T> = std::result::Result<T, Box<dyn Error>>;

/// The end of an example: an error is printed as its text. What `main` returns is printed as a program writes it.
#[must_use]
pub fn ends(result: Result<()>) -> ExitCode {
    match result {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("Error: {error}");
            ExitCode::FAILURE
        }
    }
}

/// Runs an example that has no options, or prints its help if the command line asks for that.
///
/// # Errors
/// As the example; there are other words on the command line.
pub async fn or_help(help: &str, example: impl Future<Output = Result<()>>) -> Result<()> {
    let options = Options::read(env::args(), help, &[], &[])?;
    if options.has("--help") {
        println!("{help}");
        return Ok(());
    }
    if let Some(word) = options.words.first() {
        return Err(format!("{word:?} is not expected here\n\n{help}").into());
    }
    example.await
}

/// A parsed command line.
#[derive(Debug, Default)]
pub struct Options {
    flags: BTreeSet<String>,
    values: BTreeMap<String, VecDeque<String>>,
    /// The arguments that are not options.
    pub words: Vec<String>,
}

impl Options {
    /// Parses a command line that may have these flags, and these options with a value each.
    ///
    /// # Errors
    /// An unknown option, or one without its value; the error includes the help.
    pub fn read(args: impl Iterator<Item = String>, help: &str, flags: &[&str], values: &[&str]) -> Result<Options> {
        let mut options = Options::default();
        let mut args = args.skip(1);
        while let Some(word) = args.next() {
            if flags.contains(&word.as_str()) || word == "--help" {
                options.flags.insert(word);
            } else if values.contains(&word.as_str()) {
                let value = args.next().ok_or_else(|| format!("{word} needs a value\n\n{help}"))?;
                options.values.entry(word).or_default().push_back(value);
            } else if word.starts_with("--") {
                return Err(format!("there is no option {word}\n\n{help}").into());
            } else {
                options.words.push(word);
            }
        }
        Ok(options)
    }

    /// Whether a flag is present.
    #[must_use]
    pub fn has(&self, flag: &str) -> bool {
        self.flags.contains(flag)
    }

    /// The next value of an option; each is returned once.
    pub fn take(&mut self, option: &str) -> Option<String> {
        self.values.get_mut(option)?.pop_front()
    }

    /// The answer to a question: the next `--answer`, or else a line from the terminal. `None` with `--pause`, if there
    /// is no `--answer` left.
    ///
    /// # Errors
    /// No one is there to answer.
    pub fn answer(&mut self, question: &str) -> Result<Option<String>> {
        if let Some(answer) = self.take("--answer") {
            println!("{question} {}", shown_line(&answer));
            return Ok(Some(answer));
        }
        if self.has("--pause") {
            return Ok(None);
        }
        println!("{question}");
        let mut line = String::new();
        if io::stdin().read_line(&mut line)? == 0 {
            return Err("nobody answered, so nothing was decided".into());
        }
        Ok(Some(line.trim().to_owned()))
    }

    /// Checks at the end that every `--answer` was used.
    ///
    /// # Errors
    /// One is left: nothing is pending that it could answer.
    pub fn all_answered(&mut self) -> Result<()> {
        let left = self.take("--answer");
        left.map_or(Ok(()), |answer| {
            Err(format!("--answer {} was not used: nothing is pending", shown_line(&answer)).into())
        })
    }
}

/// A JSON object as a reviewer should see it: deceptive characters are escaped.
///
/// # Errors
/// It is not an object, or is too large or too deep to be shown.
pub fn shown(payload: &impl Serialize) -> Result<String> {
    let args = Args::parse(&serde_json::to_string(payload)?).map_err(|error| error.to_string())?;
    Ok(Shown::of(&args).text)
}

/// A text on one line, with the same escapes.
#[must_use]
pub fn shown_line(text: &str) -> String {
    countersign::shown::line(text)
}
