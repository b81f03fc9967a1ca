//! Texts with placeholders: `{{ args.path.to.it }}`, and where allowed `{{ env.NAME }}`.
//!
//! One language for all templates of the configuration: the one-line message of a call (spec H5), and the requests of
//! `http` tools (spec M2).

use std::fmt;

use super::{args::Args, json::Json};
use crate::{limits, setting::SettingError};

/// A text with placeholders.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Template {
    parts: Vec<Part>,
}

/// A part of a template, in the order of the text.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Part {
    /// Literal text.
    Text(String),
    /// A placeholder.
    Place(Place),
}

/// What a placeholder refers to.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Place {
    /// An argument: names of members and numbers of items, from the arguments down; at least one.
    Args(Vec<String>),
    /// An environment variable.
    Env(String),
}

impl fmt::Display for Place {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Place::Args(path) => write!(f, "args.{}", path.join(".")),
            Place::Env(name) => write!(f, "env.{name}"),
        }
    }
}

/// The value at a path below the arguments.
#[must_use]
pub fn argument<'a>(args: &'a Json, path: &[String]) -> Option<&'a Json> {
    path.iter().try_fold(args, |at, name| at.at(name))
}

/// A value as text: strings as they are, everything else as JSON, with numbers as they were written.
#[must_use]
pub fn as_text(value: &Json) -> String {
    match value {
        Json::String(text) => text.clone(),
        value => value.canonical(),
    }
}

impl Template {
    /// Reads a template over the arguments.
    ///
    /// # Errors
    /// What is wrong in which placeholder: one that does not end, or that is not `args.…`.
    pub fn parse(text: &str) -> Result<Template, SettingError> {
        Template::read(text, false).map_err(SettingError::new)
    }

    /// Reads a template over the arguments and the environment.
    ///
    /// # Errors
    /// What is wrong in which placeholder: one that does not end, or that is neither `args.…` nor `env.NAME`.
    pub fn parse_with_env(text: &str) -> Result<Template, SettingError> {
        Template::read(text, true).map_err(SettingError::new)
    }

    fn read(text: &str, env: bool) -> Result<Template, String> {
        let right = if env { "{{ args.NAME }} or {{ env.NAME }}" } else { "{{ args.NAME }}" };
        let mut parts = Vec::new();
        let mut rest = text;
        while let Some(open) = rest.find("{{") {
            let Some(len) = rest[open + 2..].find("}}") else {
                return Err(format!("\"{}\" does not end; write {right}", &rest[open..]));
            };
            let written = rest[open + 2..open + 2 + len].trim();
            let path: Vec<String> = written.split('.').map(str::to_owned).collect();
            let place = match path.as_slice() {
                [root, names @ ..] if root == "args" && !names.is_empty() && !names.iter().any(String::is_empty) => {
                    Place::Args(names.to_vec())
                }
                [root, name] if env && root == "env" && is_variable(name) => Place::Env(name.clone()),
                _ => return Err(format!("\"{{{{ {written} }}}}\" is not known; write {right}")),
            };
            parts.push(Part::Text(rest[..open].to_owned()));
            parts.push(Part::Place(place));
            rest = &rest[open + len + 4..];
        }
        parts.push(Part::Text(rest.to_owned()));
        parts.retain(|part| *part != Part::Text(String::new()));
        Ok(Template { parts })
    }

    /// Its parts, in order; texts are not empty.
    #[must_use]
    pub fn parts(&self) -> &[Part] {
        &self.parts
    }

    /// Its placeholders, in order.
    pub fn places(&self) -> impl Iterator<Item = &Place> {
        self.parts.iter().filter_map(|part| match part {
            Part::Place(place) => Some(place),
            Part::Text(_) => None,
        })
    }

    /// The placeholder, if the template is one and nothing else.
    #[must_use]
    pub fn only(&self) -> Option<&Place> {
        match self.parts.as_slice() {
            [Part::Place(place)] => Some(place),
            _ => None,
        }
    }

    /// The text for these arguments. Strings are inserted as they are, everything else as JSON, with numbers as they
    /// were written; missing values are empty, and so are placeholders other than arguments. The text is truncated
    /// after [`limits::ARGS_BYTES`].
    #[must_use]
    pub fn render(&self, args: &Args) -> String {
        let json = Json::parse(args.text(), limits::JSON_DEPTH).unwrap_or(Json::Null);
        let mut out = String::new();
        for part in &self.parts {
            if out.len() > limits::ARGS_BYTES {
                break;
            }
            match part {
                Part::Text(text) => out.push_str(text),
                Part::Place(Place::Args(path)) => match argument(&json, path) {
                    Some(Json::Null) | None => {}
                    Some(value) => out.push_str(&as_text(value)),
                },
                Part::Place(Place::Env(_)) => {}
            }
        }
        out
    }
}

/// Whether it can be the name of an environment variable.
fn is_variable(name: &str) -> bool {
    let part = |c: char| c.is_ascii_alphanumeric() || c == '_';
    name.chars().all(part) && name.starts_with(|c: char| part(c) && !c.is_ascii_digit())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn m2_a_template_knows_its_places() {
        let template = Template::parse_with_env("a/{{ args.x.0 }}?{{env.KEY_1}}").expect("template");
        let places: Vec<String> = template.places().map(ToString::to_string).collect();
        assert_eq!((places, template.only()), (vec!["args.x.0".to_owned(), "env.KEY_1".to_owned()], None));
        let only = Template::parse("{{ args.x }}").expect("template");
        assert_eq!(only.only(), Some(&Place::Args(vec!["x".to_owned()])));
        assert_eq!(Template::parse(" {{ args.x }}").expect("template").only(), None);
        assert!(Template::parse("").expect("template").parts().is_empty());
    }

    #[test]
    fn r9_a_line_of_many_long_arguments_is_bounded_while_it_is_made() {
        let template = Template::parse(&"{{ args.x }}".repeat(1000)).expect("template");
        let args = Args::parse(&format!(r#"{{"x":"{}"}}"#, "x".repeat(200_000))).expect("args");
        assert!(template.render(&args).len() <= 2 * limits::ARGS_BYTES);
    }

    #[test]
    fn m2_the_environment_is_a_place_only_where_it_is_said_so() {
        assert!(Template::parse("{{ env.KEY }}").is_err());
        for bad in ["{{ env }}", "{{ env. }}", "{{ env.A.B }}", "{{ env.1A }}", "{{ env.A-B }}", "{{ evn.A }}"] {
            let error = Template::parse_with_env(bad).expect_err(bad);
            assert!(error.to_string().ends_with("write {{ args.NAME }} or {{ env.NAME }}"), "{error}");
        }
    }
}
