//! Questions to the user: what may be asked, and what an answer must be (spec Q1–Q3).
//!
//! A question is an ordinary call that is never permitted: its verdict makes it an interruption of its own kind, and
//! the answers are its result. The same rules for deadlines, cancels and races serve both.

use std::fmt;

use schemars::JsonSchema;
use serde::{
    Deserialize, Deserializer, Serialize, Serializer,
    de::{MapAccess, Visitor},
    ser::SerializeMap as _,
};
use serde_json::{Value, json};

use crate::{
    call::args::Args,
    limits,
    locale::{Locale, Text},
    refusal::{Code, Refusal},
};

/// The name of the built-in tool that asks.
pub const TOOL: &str = "ask_user_question";
/// The answer to a question that was left out or skipped.
pub const NO_PREFERENCE: &str = "[No preference]";
/// The maximum number of errors reported at once.
const ERRORS: usize = 8;
/// How many characters of a text are shown in an error.
const SHOWN_CHARS: usize = 200;

/// The arguments of `ask_user_question`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Questions {
    /// 1 to 8 questions with different texts.
    pub questions: Vec<Question>,
}

/// One question.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Question {
    /// The question itself; answers name it by this text.
    pub question: String,
    /// A title above it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub header: Option<String>,
    /// Whether several options may be chosen.
    #[serde(default, deserialize_with = "or_default")]
    pub multi_select: bool,
    /// 1 to 20 options with different labels, plus the free-text option that the server adds.
    pub options: Vec<Choice>,
}

/// An option of a question.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Choice {
    /// Its text; the answer if it is chosen.
    pub label: String,
    /// More about it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub description: Option<String>,
    /// Whether the user writes the answer.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub input: Option<bool>,
}

/// Models write `null` for members that they leave out.
fn or_default<'de, D: Deserializer<'de>, T: Deserialize<'de> + Default>(deserializer: D) -> Result<T, D::Error> {
    Ok(Option::deserialize(deserializer)?.unwrap_or_default())
}

impl Questions {
    /// Reads the arguments that a model wrote, and adds a free-text option where there is none.
    ///
    /// # Errors
    /// Every broken rule, in words for the model.
    pub fn read(args: &Args, locale: Locale) -> Result<Questions, Vec<String>> {
        let mut read: Questions = serde_json::from_str(args.text()).map_err(|error| vec![error.to_string()])?;
        let errors = read.errors(locale);
        if !errors.is_empty() {
            return Err(errors);
        }
        for question in &mut read.questions {
            question.add_free_text(locale);
        }
        Ok(read)
    }

    /// Reads questions that were checked when they were asked: with the added option there may be one more than a model
    /// may write.
    #[must_use]
    pub fn recorded(args: &Args) -> Option<Questions> {
        serde_json::from_str(args.text()).ok()
    }

    /// The questions as arguments: what is recorded, shown and answered.
    #[must_use]
    pub fn args(&self) -> Option<Args> {
        Args::parse(&serde_json::to_string(self).ok()?).ok()
    }

    fn errors(&self, locale: Locale) -> Vec<String> {
        let mut errors = Vec::new();
        let mut say = |text, values: &[(&str, usize)]| {
            let values: Vec<(&str, String)> = values.iter().map(|(name, n)| (*name, n.to_string())).collect();
            let values: Vec<(&str, &str)> = values.iter().map(|(name, n)| (*name, n.as_str())).collect();
            errors.push(locale.fill(text, &values));
        };
        let count = self.questions.len();
        if count == 0 || count > limits::QUESTIONS {
            // However many there are, no more than this are checked.
            say(Text::QuestionCount, &[("count", count), ("most", limits::QUESTIONS)]);
            return errors;
        }
        for (i, question) in self.questions.iter().enumerate() {
            let n = i + 1;
            let text = question.question.trim();
            if text.is_empty() {
                say(Text::QuestionEmpty, &[("n", n)]);
            } else if let Some(first) = self.questions[..i].iter().position(|q| q.question.trim() == text) {
                say(Text::QuestionTwice, &[("n", n), ("first", first + 1)]);
            }
            let count = question.options.len();
            if count == 0 || count > limits::OPTIONS {
                say(Text::OptionCount, &[("n", n), ("count", count), ("most", limits::OPTIONS)]);
                continue;
            }
            for (j, option) in question.options.iter().enumerate() {
                let label = option.label.trim();
                if label.is_empty() {
                    say(Text::OptionEmpty, &[("n", n), ("option", j + 1)]);
                } else if let Some(first) = question.options[..j].iter().position(|o| o.label.trim() == label) {
                    say(Text::OptionTwice, &[("n", n), ("option", j + 1), ("first", first + 1)]);
                }
            }
        }
        errors.truncate(ERRORS);
        errors
    }

    /// Checks the answers to these questions and fills in what was left out.
    ///
    /// `answers` is a JSON object, question text → answer: a string, or an array of strings for a multiple choice. Any
    /// text is an answer, since each question has a free-text option.
    ///
    /// # Errors
    /// `invalid_answers` with `details.errors[] {question, message}`, the first few at once, and `details.questions`,
    /// the texts of all questions.
    pub fn check(&self, answers: &Value) -> Result<Answers, Refusal> {
        let Value::Object(given) = answers else {
            return Err(self.invalid(&[(None, "must be an object: question text → answer text".to_owned())]));
        };
        let mut errors = Vec::new();
        let unknown = given.keys().filter(|name| !self.questions.iter().any(|q| q.question == **name));
        for name in unknown.take(ERRORS) {
            errors.push((Some(name.as_str()), "is not one of the questions that wait".to_owned()));
        }
        let mut filled = Vec::with_capacity(self.questions.len());
        for question in &self.questions {
            match given.get(&question.question).map_or(Ok(String::new()), |answer| question.answer(answer)) {
                Ok(answer) if answer.is_empty() => filled.push((question.question.clone(), NO_PREFERENCE.to_owned())),
                Ok(answer) => filled.push((question.question.clone(), answer)),
                Err(message) => errors.push((Some(question.question.as_str()), message)),
            }
        }
        if !errors.is_empty() {
            return Err(self.invalid(&errors));
        }
        let answers = Answers(filled);
        // They are the call's result, which must not be truncated.
        if serde_json::to_string(&answers).is_ok_and(|text| text.len() > limits::RESULT_BYTES) {
            let what = format!("have more than {} bytes together", limits::RESULT_BYTES);
            return Err(self.invalid(&[(None, what)]));
        }
        Ok(answers)
    }

    fn invalid(&self, errors: &[(Option<&str>, String)]) -> Refusal {
        let first = match errors.first() {
            Some((Some(question), message)) => format!("answers: {:?} {message}", beginning(question)),
            Some((None, message)) => format!("answers: {message}"),
            None => "answers".to_owned(),
        };
        let errors: Vec<Value> = errors
            .iter()
            .take(ERRORS)
            .map(|(question, message)| json!({ "question": question.map(beginning), "message": message }))
            .collect();
        let questions: Vec<String> = self.questions.iter().map(|q| beginning(&q.question)).collect();
        Refusal::new(Code::InvalidAnswers, first).with_details(json!({ "errors": errors, "questions": questions }))
    }
}

impl Question {
    fn add_free_text(&mut self, locale: Locale) {
        if self.options.iter().any(|option| option.input == Some(true)) {
            return;
        }
        let label = locale.text(Text::OtherOption);
        match self.options.iter_mut().find(|option| option.label.trim() == label) {
            // The model offers it itself: a second one of that label would be indistinguishable.
            Some(option) => option.input = Some(true),
            None => {
                self.options.push(Choice { label: label.to_owned(), description: None, input: Some(true) });
            }
        }
    }

    /// The answer as one text; empty if there is none.
    fn answer(&self, answer: &Value) -> Result<String, String> {
        let text = match answer {
            Value::String(text) => text.trim().to_owned(),
            Value::Array(several) => {
                let texts: Option<Vec<&str>> = several.iter().map(|one| one.as_str().map(str::trim)).collect();
                let Some(mut texts) = texts else { return Err("must hold strings only".to_owned()) };
                texts.retain(|text| !text.is_empty());
                texts.join(", ")
            }
            _ => return Err("must be a string, or an array of strings".to_owned()),
        };
        if text.len() > limits::DECISION_TEXT_BYTES {
            return Err(format!("has more than {} bytes", limits::DECISION_TEXT_BYTES));
        }
        Ok(text)
    }
}

/// The beginning of a text, for an error that must stay small whatever the input.
fn beginning(text: &str) -> String {
    match text.char_indices().nth(SHOWN_CHARS) {
        Some((end, _)) => format!("{}…", &text[..end]),
        None => text.to_owned(),
    }
}

/// Answers, each beside its question's text, in the order of the questions. As JSON an object.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Answers(pub Vec<(String, String)>);

impl Serialize for Answers {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut map = serializer.serialize_map(Some(self.0.len()))?;
        for (question, answer) in &self.0 {
            map.serialize_entry(question, answer)?;
        }
        map.end()
    }
}

impl<'de> Deserialize<'de> for Answers {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Pairs;
        impl<'de> Visitor<'de> for Pairs {
            type Value = Answers;
            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("an object of answers")
            }
            fn visit_map<M: MapAccess<'de>>(self, mut map: M) -> Result<Answers, M::Error> {
                let mut pairs = Vec::new();
                while let Some(pair) = map.next_entry()? {
                    pairs.push(pair);
                }
                Ok(Answers(pairs))
            }
        }
        deserializer.deserialize_map(Pairs)
    }
}

impl JsonSchema for Answers {
    fn schema_name() -> std::borrow::Cow<'static, str> {
        "Answers".into()
    }
    fn json_schema(_: &mut schemars::SchemaGenerator) -> schemars::Schema {
        schemars::json_schema!({
            "type": "object",
            "description": "Question text → answer text.",
            "additionalProperties": { "type": "string" }
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(text: &str) -> Result<Questions, Vec<String>> {
        Questions::read(&Args::parse(text).expect("args"), Locale::Vi)
    }

    fn two() -> Questions {
        read(
            r#"{"questions":[
            {"question":"Q1","options":[{"label":"A"},{"label":"B"}]},
            {"question":"Q2","multiSelect":true,"options":[{"label":"C"},{"label":"D"}]}]}"#,
        )
        .expect("questions")
    }

    #[test]
    fn q1_a_free_text_option_is_added_where_none_is() {
        let questions = read(
            r#"{"questions":[{"question":"Q1","options":[{"label":"A"}]},
                {"question":"Q2","options":[{"label":"Mine","input":true}]},
                {"question":"Q3","options":[{"label":"Khác"},{"label":"B"}]}]}"#,
        )
        .expect("questions");
        let json = serde_json::to_value(&questions).expect("json");
        assert_eq!(json["questions"][0]["options"][1], json!({ "label": "Khác", "input": true }));
        assert_eq!(json["questions"][1]["options"], json!([{ "label": "Mine", "input": true }]));
        assert_eq!(json["questions"][2]["options"], json!([{ "label": "Khác", "input": true }, { "label": "B" }]));
        // What is recorded reads back unchanged.
        let again = Questions::read(&questions.args().expect("args"), Locale::En).expect("again");
        assert_eq!(again, questions);
    }

    #[test]
    fn q1_null_is_nothing_where_something_may_be_left_out() {
        let nulls = r#"{"questions":[{"question":"Q","header":null,"multiSelect":null,
            "options":[{"label":"A","description":null,"input":null}]}]}"#;
        let questions = read(nulls).expect("questions");
        assert_eq!(questions, read(r#"{"questions":[{"question":"Q","options":[{"label":"A"}]}]}"#).expect("the same"));
        let text = r#"{"questions":[{"multiSelect":false,"options":[{"label":"A"},{"input":true,"label":"Khác"}],"question":"Q"}]}"#;
        assert_eq!(questions.args().expect("args").text(), text);
        for needed in [r#"{"questions":null}"#, r#"{"questions":[{"question":"Q","options":null}]}"#] {
            assert!(read(needed).is_err(), "{needed}");
        }
    }

    #[test]
    fn q1_every_broken_rule_is_named() {
        let long = |n: usize| (0..n).map(|i| format!(r#"{{"label":"{i}"}}"#)).collect::<Vec<_>>().join(",");
        let cases = [
            (r#"{"questions":[]}"#.to_owned(), "từ 1 đến 8 câu hỏi, không phải 0"),
            (r#"{"questions":[{"question":" ","options":[{"label":"A"}]}]}"#.to_owned(), "câu hỏi 1 không có nội dung"),
            (r#"{"questions":[{"question":"Q","options":[]}]}"#.to_owned(), "từ 1 đến 20 lựa chọn, không phải 0"),
            (format!(r#"{{"questions":[{{"question":"Q","options":[{}]}}]}}"#, long(21)), "không phải 21"),
            (r#"{"questions":[{"question":"Q","options":[{"label":""}]}]}"#.to_owned(), "lựa chọn 1 của câu hỏi 1 không có nhãn"),
            (
                r#"{"questions":[{"question":"Q","options":[{"label":"A"},{"label":"A "}]}]}"#.to_owned(),
                "lựa chọn 2 của câu hỏi 1 trùng nhãn với lựa chọn 1",
            ),
            (
                r#"{"questions":[{"question":"Q","options":[{"label":"A"}]},{"question":"Q","options":[{"label":"A"}]}]}"#.to_owned(),
                "câu hỏi 2 trùng nội dung với câu hỏi 1",
            ),
            (r#"{"questions":[{"question":"Q"}]}"#.to_owned(), "options"),
            (r#"{"questions":"Q"}"#.to_owned(), "sequence"),
        ];
        for (args, part) in cases {
            let errors = read(&args).expect_err(&args).join("; ");
            assert!(errors.contains(part), "{args}: {errors}");
        }
        let full = format!(r#"{{"questions":[{{"question":"Q","options":[{}]}}]}}"#, long(20));
        let most = read(&full).expect("20 options");
        assert_eq!(most.questions[0].options.len(), 21);
        assert_eq!(Questions::recorded(&most.args().expect("args")), Some(most), "they can be answered");
    }

    #[test]
    fn q3_what_is_left_out_or_empty_is_no_preference_and_several_are_joined() {
        let check = |answers: Value| two().check(&answers).expect("answers").0;
        let pair = |a: &str, b: &str| vec![("Q1".to_owned(), a.to_owned()), ("Q2".to_owned(), b.to_owned())];
        assert_eq!(check(json!({ "Q2": ["C", "D"], "Q1": "A" })), pair("A", "C, D"));
        assert_eq!(check(json!({ "Q2": "C, D" })), pair(NO_PREFERENCE, "C, D"));
        assert_eq!(check(json!({ "Q1": " ", "Q2": [] })), pair(NO_PREFERENCE, NO_PREFERENCE));
        assert_eq!(check(json!({ "Q1": NO_PREFERENCE, "Q2": "my own words" })), pair(NO_PREFERENCE, "my own words"));
        assert_eq!(check(json!({ "Q1": ["B"] })), pair("B", NO_PREFERENCE));
        // A single text could say the same.
        assert_eq!(check(json!({ "Q1": ["B", "and more"] })), pair("B, and more", NO_PREFERENCE));
    }

    #[test]
    fn q3_answers_that_do_not_fit_are_refused_and_named() {
        let refuse = |answers: Value| two().check(&answers).expect_err("refused");
        let cases = [
            (json!({ "Q3": "A" }), "\"Q3\""),
            (json!({ "Q1": 7 }), "must be a string"),
            (json!({ "Q1": null }), "must be a string"),
            (json!({ "Q2": ["C", 7] }), "strings only"),
            (json!(["A"]), "answers: must be an object"),
            (json!("A"), "must be an object"),
            (json!({ "Q1": "x".repeat(limits::DECISION_TEXT_BYTES + 1) }), "more than"),
        ];
        for (answers, part) in cases {
            let refusal = refuse(answers.clone());
            assert_eq!(refusal.code, Code::InvalidAnswers, "{answers}");
            assert!(refusal.message.contains(part), "{answers}: {refusal}");
        }
        let many: serde_json::Map<String, Value> = (0..20_000).map(|i| (format!("{i}"), json!("x"))).collect();
        let large = refuse(Value::Object(many));
        let size = large.message.len() + large.details.map_or(0, |details| details.get().len());
        assert!(size < 2_000, "however much is sent, little is answered: {size}");
        let long = json!({ "Q1": "\"".repeat(60 * 1024), "Q2": "\"".repeat(60 * 1024) });
        assert!(two().check(&long).is_ok());
        let all = refuse(json!({ "Q1": 7, "X": "?" })).details.expect("details").value();
        assert_eq!(all["questions"], json!(["Q1", "Q2"]));
        assert_eq!(all["errors"].as_array().map(Vec::len), Some(2));
        assert_eq!(all["errors"][0]["question"], "X");
    }

    #[test]
    fn answers_keep_the_order_of_the_questions() {
        let answers = Answers(vec![("z".into(), "1".into()), ("a".into(), "2".into())]);
        let text = serde_json::to_string(&answers).expect("write");
        assert_eq!(text, r#"{"z":"1","a":"2"}"#);
        assert_eq!(serde_json::from_str::<Answers>(&text).expect("read"), answers);
    }
}
