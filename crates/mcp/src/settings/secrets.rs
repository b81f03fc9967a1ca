//! The parts of a server's declaration that no text may repeat.

use reqwest::Url;

use super::{Address, Program, Reach};
use countersign_engine::redact::redacted;

/// Shortest path segment that counts as a secret, in bytes: shorter ones are words such as `mcp`.
const SEGMENT_BYTES: usize = 8;
/// Shortest secret that is redacted, in bytes: anything shorter occurs everywhere.
const SECRET_BYTES: usize = 3;

/// The secrets that are redacted in every text about a server.
#[derive(Clone, Debug, Default)]
pub(crate) struct Secrets {
    /// The address, which is shown as its host.
    address: Option<(String, String)>,
    /// All others, the longest first.
    others: Vec<String>,
}

impl Secrets {
    /// The secrets of a declaration.
    pub(crate) fn of(reach: &Reach) -> Secrets {
        let mut secrets = Secrets::default();
        match reach {
            Reach::Stdio(Program { env, .. }) => {
                secrets.others.extend(env.values().map(|value| value.expose().to_owned()));
            }
            Reach::Http(Address { url, bearer, headers }) => {
                let values = bearer.iter().chain(headers.iter().map(|(_, value)| value));
                secrets.others.extend(values.map(|value| value.expose().to_owned()));
                secrets.add_address(url);
            }
        }
        secrets.others.retain(|secret| secret.len() >= SECRET_BYTES);
        secrets.others.sort_by_key(|secret| std::cmp::Reverse(secret.len()));
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

    /// A text without them.
    pub(crate) fn redact(&self, text: &str) -> String {
        let text = match &self.address {
            Some((address, host)) => text.replace(address, host),
            None => text.to_owned(),
        };
        self.others.iter().fold(text, |text, secret| redacted(text, secret))
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
}
