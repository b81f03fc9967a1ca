//! The parts of a server's declaration that no text may repeat.

use std::mem::take;

use reqwest::Url;
use serde_json::Value;

use super::{Address, Given, Program, Reach};
use countersign_engine::redact::redacted;

/// Shortest path segment that counts as a secret, in bytes: shorter ones are words such as `mcp`.
const SEGMENT_BYTES: usize = 8;
/// Shortest secret that is redacted, in bytes: anything shorter occurs everywhere.
const SECRET_BYTES: usize = 3;

/// Shortest secret that is redacted in a server's texts: results are full of short words.
const SAID_BYTES: usize = 8;

/// The secrets that are redacted in every text about a server.
#[derive(Clone, Debug, Default)]
pub(crate) struct Secrets {
    /// The address, which is shown as its host.
    address: Option<(String, String)>,
    /// All others, the longest first.
    others: Vec<String>,
    /// Those of them that the declaration names as secrets: they are redacted in the server's texts, too.
    said: Vec<String>,
}

/// Whether this part of an address with a key may be that key: nobody says which part it is.
fn may_be_a_key(part: &str) -> bool {
    part.contains(|c: char| c.is_ascii_digit()) && !is_path(part)
}

/// Whether this is an absolute path: that of a folder begins all paths in it, which would lose their meaning.
fn is_path(value: &str) -> bool {
    value.starts_with('/')
}

/// The keywords of a schema whose values map names to schemas.
const NAMED: [&str; 5] = ["properties", "patternProperties", "dependentSchemas", "$defs", "definitions"];
/// Those whose values are data.
const DATA: [&str; 5] = ["enum", "const", "default", "required", "examples"];
/// Those whose values are texts for people and models.
const TEXTS: [&str; 3] = ["title", "description", "$comment"];

impl Secrets {
    /// The secrets of a declaration. Values that it does not declare as secret are left in the server's texts.
    pub(crate) fn of(reach: &Reach) -> Secrets {
        let mut secrets = Secrets::default();
        match reach {
            Reach::Stdio(Program { env, pass_env, .. }) => {
                secrets.add(env.values());
                // A token is often passed by its name. The server's texts may have it: it is not declared as a secret.
                let passed = pass_env.iter().filter_map(std::env::var_os);
                secrets.others.extend(passed.map(|value| value.to_string_lossy().into_owned()));
                secrets.said.retain(|value| !is_path(value));
            }
            Reach::Http(Address { url, has_key, bearer, headers }) => {
                secrets.add_address(url);
                if *has_key {
                    secrets.said = secrets.others.iter().filter(|part| may_be_a_key(part)).cloned().collect();
                }
                secrets.add(headers.iter().map(|(_, value)| value));
                for of in [&mut secrets.others, &mut secrets.said] {
                    of.extend(bearer.iter().map(|token| token.expose().to_owned()));
                }
            }
        }
        let lines: Vec<String> = secrets.others.iter().flat_map(|secret| lines(secret)).collect();
        secrets.others.extend(lines);
        secrets.others.retain(|secret| secret.len() >= SECRET_BYTES);
        secrets.said.retain(|secret| secret.len() >= SAID_BYTES);
        for of in [&mut secrets.others, &mut secrets.said] {
            of.sort_by_key(|secret| std::cmp::Reverse(secret.len()));
        }
        secrets
    }

    fn add<'g>(&mut self, values: impl Iterator<Item = &'g Given>) {
        for Given { value, is_secret } in values {
            self.others.push(value.expose().to_owned());
            self.said.extend(is_secret.then(|| value.expose().to_owned()));
        }
    }

    /// An address is a secret as a whole, and so are its parts: keys are in paths and queries.
    fn add_address(&mut self, text: &str) {
        let Ok(url) = Url::parse(text.trim()) else { return };
        self.address = Some((url.to_string(), url.host_str().unwrap_or_default().to_owned()));
        self.others.extend(url.query().map(str::to_owned));
        self.others.extend(url.query_pairs().map(|(_, value)| value.into_owned()));
        let segments = url.path_segments().into_iter().flatten().filter(|segment| segment.len() >= SEGMENT_BYTES);
        self.others.extend(
            segments.map(|segment| percent_encoding::percent_decode_str(segment).decode_utf8_lossy().into_owned()),
        );
    }

    /// A text about the server without them.
    pub(crate) fn redact(&self, text: &str) -> String {
        let text = match &self.address {
            Some((address, host)) => text.replace(address, host),
            None => text.to_owned(),
        };
        without(text, &self.others)
    }

    /// A text of the server without those that are declared as secret: a result, a description, a question. Addresses
    /// stay as they are, but for keys in them: the rest of one that begins like the server's would be another text.
    pub(crate) fn redact_said(&self, text: String) -> String {
        without(text, &self.said)
    }

    /// A JSON schema of the server with those redacted in its descriptions and titles, its keys in the same order.
    ///
    /// # Errors
    /// It has one elsewhere, where another text would mean another schema: why it is not used.
    pub(crate) fn redact_schema(&self, schema: String) -> Result<String, String> {
        let redacted = self.redact_said(schema.clone());
        if redacted == schema {
            return Ok(schema);
        }
        let mut expected = serde_json::from_str(&schema).unwrap_or_default();
        self.redact_texts(&mut expected);
        match serde_json::from_str::<Value>(&redacted) {
            Ok(got) if got == expected => Ok(redacted),
            _ => Err("its schema repeats a secret of the server's declaration outside of descriptions".to_owned()),
        }
    }

    fn redact_texts(&self, schema: &mut Value) {
        match schema {
            Value::Array(schemas) => schemas.iter_mut().for_each(|schema| self.redact_texts(schema)),
            Value::Object(keywords) => {
                for (keyword, value) in keywords {
                    match value {
                        _ if DATA.contains(&&**keyword) => {}
                        Value::String(text) if TEXTS.contains(&&**keyword) => *text = self.redact_said(take(text)),
                        Value::Object(named) if NAMED.contains(&&**keyword) => {
                            named.values_mut().for_each(|schema| self.redact_texts(schema));
                        }
                        schema => self.redact_texts(schema),
                    }
                }
            }
            _ => {}
        }
    }

    /// Whether a text of the server has none of those that are declared as secret.
    pub(crate) fn are_not_in(&self, text: &str) -> bool {
        self.said.iter().all(|secret| redacted(text.to_owned(), secret) == text)
    }
}

/// The lines of a secret as a log may have them, one by one, with and without control characters: a key may have several.
fn lines(secret: &str) -> impl Iterator<Item = String> {
    let plain = |line: &str| -> String { line.chars().filter(|c| !c.is_control()).collect() };
    let spelled = secret.lines().map(str::trim).flat_map(move |line| [line.to_owned(), plain(line)]);
    spelled.filter(move |line| line.len() >= SAID_BYTES && *line != secret)
}

fn without(text: String, secrets: &[String]) -> String {
    secrets.iter().fold(text, |text, secret| redacted(text, secret))
}

#[cfg(test)]
mod tests {
    use super::*;
    use countersign_engine::key::ApiKey;

    #[test]
    fn x_an_address_is_shown_as_its_host_and_none_of_its_keys_is_repeated() {
        let address = Address {
            url: " https://mcp.example.com/s/pathk3y-0123/mcp?key=qu%2Fery&team=north ".to_owned(),
            has_key: true,
            bearer: Some(ApiKey::new("b3arer")),
            headers: vec![("x-key".to_owned(), Given::secret(ApiKey::new("h3ader")))],
        };
        let secrets = Secrets::of(&Reach::Http(address));
        let told = secrets.redact(
            "at https://mcp.example.com/s/pathk3y-0123/mcp?key=qu%2Fery&team=north: /s/pathk3y-0123/mcp, \
             {\"key\":\"qu\\/ery\"} qu/ery, b3arer and h3ader, in mcp",
        );
        assert_eq!(
            told,
            "at mcp.example.com: /s/[API key]/mcp, {\"key\":\"[API key]\"} [API key], [API key] and [API key], in mcp"
        );
    }

    #[test]
    fn x_what_a_server_says_has_none_of_its_secrets_and_all_of_its_words() {
        let server = crate::McpServer::http("keys", "https://mcp.example.com/services/pathk3y-0123/mcp?team=northern");
        let server =
            server.key_in_address().bearer(ApiKey::new("bearertoken")).header("x-key", ApiKey::new("headerkey"));
        let secrets = Secrets::of(&server.header_text("x-zone", "eu-central-1").reach);
        let told = secrets.redact_said(
            "services of northern in eu-central-1: bearertoken, headerkey, pathk3y-0123, \
             https://mcp.example.com/services/pathk3y-0123/mcp?team=northern"
                .to_owned(),
        );
        assert_eq!(
            told,
            "services of northern in eu-central-1: [API key], [API key], [API key], \
             https://mcp.example.com/services/[API key]/mcp?team=northern"
        );
        let server = crate::McpServer::stdio("files", ["files"]);
        let server = server.env("ROOT", ApiKey::new("/srv/data/2026")).env("PASSWORD", ApiKey::new("opensesame"));
        let secrets = Secrets::of(&server.env("KEY", ApiKey::new("k3y-0f-f1les")).reach);
        let told = secrets.redact_said("opensesame: /srv/data/2026/a k3y-0f-f1les".to_owned());
        assert_eq!(told, "[API key]: /srv/data/2026/a [API key]");
    }

    #[test]
    fn x_the_values_of_passed_variables_and_each_line_of_a_secret_are_in_no_log() {
        let path = std::env::var("PATH").expect("a variable that is always set");
        let server = crate::McpServer::stdio("git", ["git"]).pass_env(["PATH", "NOT_SET_ANYWHERE"]);
        let server = server.env("KEY", ApiKey::new("-- begin\nMIIEvQIBADAN\r\n  Bgkqhki\tG9w0B \nend\n"));
        let secrets = Secrets::of(&server.reach);
        assert_eq!(secrets.redact(&format!("with {path}")), "with [API key]");
        for (line, told) in
            [("got MIIEvQIBADAN", "got [API key]"), ("BgkqhkiG9w0B?", "[API key]?"), ("the end", "the end")]
        {
            assert_eq!(secrets.redact(line), told);
        }
        assert_eq!(secrets.redact("Bgkqhki\tG9w0B"), "[API key]");
        assert_eq!(secrets.redact_said(path.clone()), path, "it is not declared as a secret");
    }

    #[test]
    fn x_texts_that_are_declared_openly_are_left_in_what_a_server_says() {
        let server = crate::McpServer::stdio("cloud", ["cloud"]);
        let server = server.env_text("REGION", "us-east-1").env_text("LANG", "en_US.UTF-8");
        let secrets = Secrets::of(&server.env_text("DB", "10.0.0.12:5432").reach);
        let said = "us-east-1, en_US.UTF-8 and 10.0.0.12:5432";
        assert_eq!(secrets.redact_said(said.to_owned()), said);
        let server = crate::McpServer::http("docs", "https://mcp.example.com/mcp?version=2025-06-18");
        let said = "as of 2025-06-18";
        assert_eq!(Secrets::of(&server.reach).redact_said(said.to_owned()), said);
    }

    #[test]
    fn x_the_address_of_a_server_is_left_in_what_it_says() {
        let said = "see http://127.0.0.1:24799/reports/42";
        for server in [
            crate::McpServer::http("reports", "http://127.0.0.1:24799/"),
            crate::McpServer::http("reports", "http://127.0.0.1:24799/").key_in_address(),
        ] {
            assert_eq!(Secrets::of(&server.reach).redact_said(said.to_owned()), said);
        }
    }

    #[test]
    fn x_a_schema_with_a_secret_has_it_redacted_in_its_descriptions_or_is_refused() {
        let server = crate::McpServer::stdio("shop", ["shop"]).env("TOKEN", ApiKey::new("t0ken-of-shop"));
        let secrets = Secrets::of(&server.reach);
        let described = |key: &str| {
            format!(
                r#"{{"title":"{key}","properties":{{"z":{{"description":"not {key}"}},"default":{{"$comment":"{key}"}}}}}}"#
            )
        };
        assert_eq!(secrets.redact_schema(described("t0ken-of-shop")), Ok(described("[API key]")));
        for schema in [
            r#"{"properties":{"a":{"enum":["t0ken-of-shop"]}}}"#,
            r#"{"properties":{"a":{"const":"t0ken-of-shop"}}}"#,
            r#"{"properties":{"a":{"default":{"description":"t0ken\u002dof-shop"}}}}"#,
            r#"{"properties":{"t0ken-of-shop":{}}}"#,
            r#"{"required":["t0ken-of-shop"],"description":"t0ken-of-shop"}"#,
            r#"{"properties":{"a":{"pattern":"t0ken-of-shop"}}}"#,
        ] {
            assert!(secrets.redact_schema(schema.to_owned()).unwrap_err().contains("repeats a secret"), "{schema}");
        }
    }
}
