//! Elicitation: a server's questions to people in the middle of a call, forms and addresses, in both revisions of the
//! protocol (spec S13).

use std::sync::Arc;

use crate::settings::secrets::Secrets;
use countersign_core::{
    call::schema::ArgsSchema,
    journal::{
        record::{InputQuestion, Schema},
        run::Raw,
    },
    plain::as_plain,
};
use rmcp::model::{ElicitRequestParams, ElicitResult, ElicitationAction};
use serde_json::{
    Value, json,
    value::{RawValue, to_raw_value},
};

/// Longest message of a question, in characters.
const MESSAGE_CHARS: usize = 8000;
/// Longest address, in characters.
const URL_CHARS: usize = 4000;
/// Longest name, in characters: it is recorded, and shown with the question.
const NAME_CHARS: usize = 200;

/// The question as people see it: its server, its text, and the schema of the answer. An error says why it is not
/// asked: it could not be shown in full, no answer to it could be checked, or its name, its address or its form repeats a
/// secret, which is redacted in its text and in the form's descriptions.
///
/// An answer is `{"action": "accept", "content": …}`, where the content fits the server's schema, or `{"action":
/// "decline"}`, or `{"action": "cancel"}`, which is also the answer on a timeout.
pub(super) fn question(
    server: &str,
    name: &str,
    params: &ElicitRequestParams,
    secrets: &Secrets,
) -> Result<InputQuestion, String> {
    bounded("name", name, NAME_CHARS)?;
    if !secrets.are_not_in(name) {
        return Err("its name repeats a secret of the server's declaration".to_owned());
    }
    let said = |message: &String| secrets.redact_said(message.clone());
    let (payload, content) = match params {
        ElicitRequestParams::FormElicitationParams { message, requested_schema, .. } => {
            bounded("message", message, MESSAGE_CHARS)?;
            // As text: its fields stay in the server's order.
            let schema = serde_json::to_string(requested_schema).map_err(|error| error.to_string())?;
            let schema = secrets.redact_schema(schema)?;
            (json!({ "from": server, "mode": "form", "message": said(message) }), Some(schema))
        }
        ElicitRequestParams::UrlElicitationParams { message, url, .. } => {
            bounded("message", message, MESSAGE_CHARS)?;
            bounded("address", url, URL_CHARS)?;
            if !secrets.are_not_in(url) {
                return Err("its address repeats a secret of the server's declaration".to_owned());
            }
            // It is shown in full and with its host, and opened only by a person.
            let page = reqwest::Url::parse(url).ok().filter(|url| matches!(url.scheme(), "http" | "https"));
            let host = page.as_ref().and_then(reqwest::Url::host_str).ok_or("its address is not that of a page")?;
            (json!({ "from": server, "mode": "url", "message": said(message), "url": url, "host": host }), None)
        }
        _ => return Err("it is neither a form nor an address".to_owned()),
    };
    let schema = answer_schema(content.as_deref());
    // Each answer is checked by it, even one that declines.
    let checked: Value = serde_json::from_str(&schema).map_err(|error| error.to_string())?;
    ArgsSchema::of_any(&checked).map_err(|error| format!("its form is not a schema to check answers by: {error}"))?;
    let schema = RawValue::from_string(schema).map_err(|error| error.to_string())?;
    Ok(InputQuestion {
        name: name.into(),
        from: server.into(),
        payload: raw(&payload)?,
        schema: Some(Arc::new(Schema::new(schema))),
        default: Some(raw(&json!({ "action": "cancel" }))?),
    })
}

fn bounded(what: &str, text: &str, most: usize) -> Result<(), String> {
    match text.chars().count() {
        long if long > most => Err(format!("its {what} has {long} characters, and at most {most} are shown")),
        _ => Ok(()),
    }
}

fn raw(value: &Value) -> Result<Raw, String> {
    to_raw_value(&*as_plain(value)).map(Raw::from).map_err(|error| error.to_string())
}

/// The answer's schema, as JSON.
fn answer_schema(content: Option<&str>) -> String {
    let accept = match content {
        Some(content) => format!(
            r#"{{"additionalProperties":false,"properties":{{"action":{{"const":"accept"}},"content":{content}}},"required":["action","content"],"type":"object"}}"#
        ),
        None => r#"{"additionalProperties":false,"properties":{"action":{"const":"accept"}},"required":["action"],"type":"object"}"#.to_owned(),
    };
    let other = r#"{"additionalProperties":false,"properties":{"action":{"enum":["decline","cancel"]}},"required":["action"],"type":"object"}"#;
    format!(r#"{{"oneOf":[{accept},{other}],"required":["action"],"type":"object"}}"#)
}

/// An answer in the protocol's form. A misfit (it was checked) cancels.
pub(super) fn result(answer: &Raw) -> ElicitResult {
    let value: Value = serde_json::from_str(answer.get()).unwrap_or_default();
    match value["action"].as_str() {
        Some("accept") => {
            let accepted = ElicitResult::new(ElicitationAction::Accept);
            match value.get("content") {
                Some(content) => accepted.with_content(content.clone()),
                None => accepted,
            }
        }
        Some("decline") => ElicitResult::new(ElicitationAction::Decline),
        _ => cancelled(),
    }
}

pub(super) fn cancelled() -> ElicitResult {
    ElicitResult::new(ElicitationAction::Cancel)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(params: Value) -> Result<InputQuestion, String> {
        question("shop", "q", &serde_json::from_value(params).unwrap(), &Secrets::default())
    }

    #[test]
    fn s13_a_form_is_answered_with_fitting_content_or_declined() {
        let schema = json!({ "type": "object", "required": ["size"], "properties": { "size": { "type": "integer" } } });
        let asked = of(json!({ "mode": "form", "message": "Which?", "requestedSchema": schema })).unwrap();
        assert!(asked.payload.get().contains("\"from\":\"shop\""));
        let schema = serde_json::from_str(asked.schema.unwrap().0.get()).unwrap();
        let schema = ArgsSchema::of_any(&schema).unwrap();
        for (answer, right) in [
            (json!({ "action": "accept", "content": { "size": 4 } }), true),
            (json!({ "action": "decline" }), true),
            (json!({ "action": "cancel" }), true),
            (json!({ "action": "accept", "content": { "size": "large" } }), false),
            (json!({ "action": "accept" }), false),
            (json!({ "size": 4 }), false),
            (json!("yes"), false),
        ] {
            assert_eq!(schema.check_value(&answer).is_empty(), right, "{answer}");
        }
        let wrong = schema.check_value(&json!({ "action": "accept", "content": { "size": "large" } }));
        assert_eq!(wrong[0].pointer, "/content/size");
    }

    #[test]
    fn s13_the_fields_of_a_form_stay_in_the_order_of_the_server() {
        // Parsed from text: a `Value` sorts them by name.
        let params = r#"{"mode":"form","message":"Who?","requestedSchema":{"type":"object","required":["zip"],"properties":{
            "zip":{"type":"string","title":"Zip"},"name":{"type":"string"},"age":{"type":"integer","minimum":1}}}}"#;
        let asked =
            question("shop", "q", &serde_json::from_str(params).unwrap(), &Secrets::default()).unwrap().schema.unwrap();
        let at = |name: &str| asked.0.get().find(&format!("\"{name}\":{{")).unwrap();
        assert!(at("zip") < at("name") && at("name") < at("age"), "{}", asked.0.get());
    }

    #[test]
    fn s13_an_address_is_shown_in_full_with_its_host() {
        let asked =
            of(json!({ "mode": "url", "message": "Log in", "url": "https://a.example/x?y=1", "elicitationId": "1" }));
        let payload: Value = serde_json::from_str(asked.unwrap().payload.get()).unwrap();
        assert_eq!(
            (payload["host"].as_str(), payload["url"].as_str()),
            (Some("a.example"), Some("https://a.example/x?y=1"))
        );
        for url in [
            "not a url",
            "javascript:alert(1)",
            "data:text/html,x",
            "javascript://a.example/%0aalert(1)",
            "file://a.example/x",
        ] {
            assert!(of(json!({ "mode": "url", "message": "x", "url": url, "elicitationId": "1" })).is_err(), "{url}");
        }
    }

    #[test]
    fn x_a_question_repeats_no_secret_of_its_server() {
        let server = crate::McpServer::stdio("shop", ["shop"])
            .env("TOKEN", countersign_engine::key::ApiKey::new("t0ken-of-shop"));
        let secrets = Secrets::of(&server.reach);
        let ask = |params: Value| question("shop", "q", &serde_json::from_value(params).unwrap(), &secrets);
        let field = json!({ "type": "string", "title": "t0ken-of-shop" });
        let schema = json!({ "type": "object", "properties": { "a": field } });
        let form =
            ask(json!({ "mode": "form", "message": "Is it t0ken-of-shop?", "requestedSchema": schema })).unwrap();
        let shown = format!("{} {}", form.payload.get(), form.schema.unwrap().0.get());
        assert!(!shown.contains("t0ken") && shown.matches("[API key]").count() == 2, "{shown}");
        let schema =
            json!({ "type": "object", "properties": { "a": { "type": "string", "default": "t0ken-of-shop" } } });
        let asked = ask(json!({ "mode": "form", "message": "Which?", "requestedSchema": schema }));
        assert!(asked.unwrap_err().contains("secret"), "no other default is shown");
        let at = |url: &str| ask(json!({ "mode": "url", "message": "Log in", "url": url, "elicitationId": "1" }));
        assert!(at("https://a.example/?key=t0ken-of-shop").unwrap_err().contains("secret"));
        assert!(at("https://a.example/?key=other").is_ok());
        let params = json!({ "mode": "url", "message": "Log in", "url": "https://a.example/", "elicitationId": "1" });
        let named = question("shop", "t0ken-of-shop", &serde_json::from_value(params).unwrap(), &secrets);
        assert!(named.unwrap_err().contains("its name repeats a secret"));
    }

    #[test]
    fn s13_a_form_whose_answers_could_not_be_checked_is_not_asked() {
        let many: Vec<String> = (0..3000).map(|n| format!("organisation/repository-{n:05}")).collect();
        for (field, required, why) in [
            (json!({ "type": "string", "enum": many }), json!(["a"]), "65536"),
            (json!({ "type": "string", "oneOf": [] }), json!(["a"]), "oneOf"),
            (json!({ "type": "string" }), json!(["a", "a"]), "required"),
        ] {
            let schema = json!({ "type": "object", "properties": { "a": field }, "required": required });
            let refused = of(json!({ "mode": "form", "message": "Which?", "requestedSchema": schema })).unwrap_err();
            assert!(refused.contains(why), "{refused}");
        }
    }

    #[test]
    fn s13_a_message_that_cannot_be_shown_whole_is_not_asked() {
        let schema = json!({ "type": "object", "properties": {} });
        let ask = |chars| of(json!({ "mode": "form", "message": "ơ".repeat(chars), "requestedSchema": schema }));
        assert!(ask(MESSAGE_CHARS).is_ok());
        assert!(ask(MESSAGE_CHARS + 1).unwrap_err().contains("8001 characters"));
    }

    /// It is the server's own, recorded with each of its requests and shown with it.
    #[test]
    fn s13_r9_a_question_with_a_long_name_is_not_asked() {
        let params =
            json!({ "mode": "form", "message": "x", "requestedSchema": { "type": "object", "properties": {} } });
        let params = serde_json::from_value(params).unwrap();
        let named = |chars| question("shop", &"ơ".repeat(chars), &params, &Secrets::default());
        assert!(named(NAME_CHARS).is_ok());
        assert!(named(NAME_CHARS + 1).unwrap_err().contains("its name has 201 characters"));
    }
}
