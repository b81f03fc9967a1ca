//! The parts of a server's declaration that no text may repeat.

use reqwest::Url;

use super::{Address, Program, Reach};
use countersign_engine::redact::redacted;

/// Shortest path segment that counts as a secret, in bytes: shorter ones are words such as `mcp`.
const SEGMENT_BYTES: usize = 8;
/// Shortest secret that is redacted, in bytes: anything shorter occurs everywhere.
const SECRET_BYTES: usize = 3;

/// Shortest secret that is redacted in what a server says: results are full of short words.
const SAID_BYTES: usize = 8;

/// The secrets that are redacted in every text about a server.
#[derive(Clone, Debug, Default)]
pub(crate) struct Secrets {
    /// The address, which is shown as its host.
    address: Option<(String, String)>,
    /// All others, the longest first.
    others: Vec<String>,
    /// Those of them that are redacted in what it says, too.
    said: Vec<String>,
}

/// Whether a value that may be none is a secret: a word or a path is in many texts, whose meaning it would take away.
fn may_be_a_key(value: &str) -> bool {
    value.contains(|c: char| c.is_ascii_digit()) && !value.starts_with('/')
}

impl Secrets {
    /// The secrets of a declaration.
    pub(crate) fn of(reach: &Reach) -> Secrets {
        let mut secrets = Secrets::default();
        match reach {
            Reach::Stdio(Program { env, .. }) => {
                secrets.others.extend(env.values().map(|value| value.expose().to_owned()));
                secrets.said = secrets.others.iter().filter(|value| may_be_a_key(value)).cloned().collect();
            }
            Reach::Http(Address { url, bearer, headers }) => {
                let values = bearer.iter().chain(headers.iter().map(|(_, value)| value));
                let credentials: Vec<String> = values.map(|value| value.expose().to_owned()).collect();
                secrets.add_address(url);
                secrets.said = secrets.others.iter().filter(|value| may_be_a_key(value)).cloned().collect();
                secrets.said.extend(credentials.iter().cloned());
                secrets.others.extend(credentials);
            }
        }
        secrets.others.retain(|secret| secret.len() >= SECRET_BYTES);
        secrets.said.retain(|secret| secret.len() >= SAID_BYTES);
        for of in [&mut secrets.others, &mut secrets.said] {
            of.sort_by_key(|secret| std::cmp::Reverse(secret.len()));
        }
        secrets
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
        self.without(text.to_owned(), &self.others)
    }

    /// A text of the server without them: a result, a description, a question. What may be a word or a path is left in
    /// it, and so is what is very short.
    pub(crate) fn redact_said(&self, text: String) -> String {
        self.without(text, &self.said)
    }

    /// Whether a text of the server has none of them, but for its address.
    pub(crate) fn are_not_in(&self, text: &str) -> bool {
        self.said.iter().all(|secret| redacted(text.to_owned(), secret) == text)
    }

    fn without(&self, text: String, secrets: &[String]) -> String {
        let text = match &self.address {
            Some((address, host)) if text.contains(address) => text.replace(address, host),
            _ => text,
        };
        secrets.iter().fold(text, |text, secret| redacted(text, secret))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use countersign_engine::key::ApiKey;

    #[test]
    fn x_an_address_is_shown_as_its_host_and_none_of_its_keys_is_repeated() {
        let address = Address {
            url: " https://mcp.example.com/s/pathk3y-0123/mcp?key=qu%2Fery&team=north ".to_owned(),
            bearer: Some(ApiKey::new("b3arer")),
            headers: vec![("x-key".to_owned(), ApiKey::new("h3ader"))],
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
        let address = Address {
            url: "https://mcp.example.com/services/pathk3y-0123/mcp?team=northern".to_owned(),
            bearer: Some(ApiKey::new("bearertoken")),
            headers: vec![],
        };
        let secrets = Secrets::of(&Reach::Http(address));
        let told = secrets.redact_said(
            "services of northern: bearertoken, pathk3y-0123, \
             https://mcp.example.com/services/pathk3y-0123/mcp?team=northern"
                .to_owned(),
        );
        assert_eq!(told, "services of northern: [API key], [API key], mcp.example.com");
        let server = crate::McpServer::stdio("files", ["files"]);
        let server = server.env("ROOT", ApiKey::new("/srv/data/2026")).env("MODE", ApiKey::new("readonly"));
        let secrets = Secrets::of(&server.env("KEY", ApiKey::new("k3y-0f-f1les")).reach);
        let told = secrets.redact_said("readonly: /srv/data/2026/a k3y-0f-f1les".to_owned());
        assert_eq!(told, "readonly: /srv/data/2026/a [API key]");
    }
}
