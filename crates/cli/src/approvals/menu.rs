//! Questions as menus: the prompt, and the meaning of the typed line.

use serde_json::{Value, json};

use super::show::list;

/// The meaning of a line.
#[derive(Debug, PartialEq)]
pub(crate) enum Typed {
    /// The answer.
    Answer(Value),
    /// Options with free text are among them, beside these labels: the text itself is asked for next.
    FreeText(Vec<Value>),
}

/// The answer of labels and the free text beside them.
pub(crate) fn with_text(mut labels: Vec<Value>, text: &str) -> Value {
    if labels.is_empty() {
        return json!(text);
    }
    if !text.trim().is_empty() {
        labels.push(json!(text));
    }
    Value::Array(labels)
}

/// The questions of a request.
pub(crate) fn questions(request: &Value) -> Vec<&Value> {
    list(&request["action_requests"]).iter().flat_map(|action| list(&action["args"]["questions"])).collect()
}

/// How to answer.
pub(crate) fn prompt(question: &Value) -> &'static str {
    if question["multiSelect"] == true {
        "numbers with commas, or a text; empty for no preference> "
    } else {
        "a number, or a text; empty for no preference> "
    }
}

/// What separates numbers, also where people write Chinese.
const COMMAS: [char; 3] = [',', '，', '、'];

/// The meaning of a typed line: numbers are options, and any other text is a free answer.
pub(crate) fn typed(question: &Value, line: &str) -> Result<Typed, String> {
    let options = list(&question["options"]);
    let parts: Vec<&str> = line.split(COMMAS).map(str::trim).filter(|part| !part.is_empty()).collect();
    if parts.is_empty() || !parts.iter().all(|part| part.bytes().all(|byte| byte.is_ascii_digit())) {
        return Ok(Typed::Answer(json!(line.trim())));
    }
    let several = question["multiSelect"] == true;
    if parts.len() > 1 && !several {
        return Err("one number only".to_owned());
    }
    let (mut labels, mut free) = (Vec::new(), false);
    for part in parts {
        let number: Option<usize> = part.parse().ok();
        let option = number.and_then(|number| options.get(number.checked_sub(1)?));
        let option = option.ok_or_else(|| format!("there is no option {part}: 1 to {}", options.len()))?;
        if option["input"] == true {
            free = true;
        } else {
            labels.push(option["label"].clone());
        }
    }
    if free {
        return Ok(Typed::FreeText(labels));
    }
    Ok(Typed::Answer(if several { Value::Array(labels) } else { labels.pop().unwrap_or_default() }))
}

/// The meaning of an answer that is not typed at a prompt: as [`typed`], but the text of an option is taken literally,
/// and so is text in double quotes, such as a number that is an answer of its own.
pub(crate) fn given(question: &Value, text: &str) -> Result<Value, String> {
    if let Ok(text) = serde_json::from_str::<String>(text) {
        return Ok(json!(text));
    }
    let options = list(&question["options"]);
    let is_label = |part: &str| options.iter().any(|option| option["label"] == part);
    if is_label(text) || text.split(COMMAS).map(str::trim).any(is_label) {
        return Ok(json!(text));
    }
    let quoted = |error: String| format!("{error}; a number that is a text goes in double quotes: \"{}\"", text.trim());
    match typed(question, text).map_err(quoted)? {
        // As it is, not trimmed.
        Typed::Answer(answer) if answer == text.trim() => Ok(json!(text)),
        // Only a person knows whether a number is an option's text or its position.
        Typed::Answer(_) if options.iter().any(is_number) => Err(quoted(format!(
            "options of this question are numbers, and {} is the text of none: give the option's text",
            text.trim()
        ))),
        Typed::Answer(answer) => Ok(answer),
        Typed::FreeText(_) => {
            Err(quoted(format!("option {} takes a text of your own: give the text itself", text.trim())))
        }
    }
}

fn is_number(option: &Value) -> bool {
    option["label"].as_str().is_some_and(|label| label.trim().bytes().all(|byte| byte.is_ascii_digit()))
}

/// The answers as they are sent: question text → answer.
pub(crate) fn answers(questions: &[&Value], given: Vec<Value>) -> Value {
    let named = questions.iter().filter_map(|question| question["question"].as_str());
    Value::Object(named.map(str::to_owned).zip(given).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn u3_an_answer_that_is_given_is_an_option_by_its_number_unless_its_text_says_otherwise() {
        let mut question = json!({ "question": "Q", "multiSelect": false,
            "options": [{ "label": "A" }, { "label": "B" }, { "label": "C 1" }] });
        for (text, answer) in
            [("2", "B"), ("1", "A"), ("3", "C 1"), ("B", "B"), (" x ", " x "), ("", ""), ("1.5", "1.5")]
        {
            assert_eq!(given(&question, text), Ok(json!(answer)), "{text:?}");
        }
        let error = given(&question, "9").expect_err("there are three");
        assert_eq!(error, "there is no option 9: 1 to 3; a number that is a text goes in double quotes: \"9\"");
        assert_eq!(given(&question, "\"9\""), Ok(json!("9")));
        assert!(given(&question, "1,2").is_err(), "one only");
        question["options"].as_array_mut().expect("options").push(json!({ "label": "Other", "input": true }));
        assert!(given(&question, "4").expect_err("its text is missing").contains("the text itself"));
        question["multiSelect"] = json!(true);
        assert_eq!(given(&question, "2, 3"), Ok(json!(["B", "C 1"])));
        // A number is an answer only if it is an option's text.
        question["options"][2] = json!({ "label": "10" });
        assert_eq!(given(&question, "10"), Ok(json!("10")));
        assert!(given(&question, "2").expect_err("B, or two?").contains("options of this question are numbers"));
    }

    #[test]
    fn u3_a_typed_line_is_an_option_by_its_number_or_an_answer_of_its_own() {
        let mut question = json!({ "question": "Q", "multiSelect": false,
            "options": [{ "label": "A" }, { "label": "B" }, { "label": "Other", "input": true }] });
        let answer = |text: Value| Ok(Typed::Answer(text));
        assert_eq!(typed(&question, "2"), answer(json!("B")));
        assert_eq!(typed(&question, " none of these "), answer(json!("none of these")));
        assert_eq!(typed(&question, ""), answer(json!("")));
        assert_eq!(typed(&question, "3"), Ok(Typed::FreeText(vec![])));
        assert_eq!(with_text(vec![], "olives"), json!("olives"));
        for wrong in ["4", "0", "1,2", "99999999999999999999999"] {
            assert!(typed(&question, wrong).is_err(), "{wrong}");
        }
        question["multiSelect"] = json!(true);
        for several in ["1, 2", "1，2", "1、2"] {
            assert_eq!(typed(&question, several), answer(json!(["A", "B"])), "{several}");
        }
        // Options chosen beside the free text are kept.
        assert_eq!(typed(&question, "3,1"), Ok(Typed::FreeText(vec![json!("A")])));
        assert_eq!(with_text(vec![json!("A")], "olives"), json!(["A", "olives"]));
        assert_eq!(with_text(vec![json!("A")], " "), json!(["A"]));
        assert_eq!(answers(&[&question], vec![json!("x")]), json!({ "Q": "x" }));
    }
}
