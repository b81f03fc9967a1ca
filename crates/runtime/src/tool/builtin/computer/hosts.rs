//! The hosts that a browser may reach.

/// Names and addresses of hosts; the browser reaches no others, whatever a page asks for (SPEC S14, X).
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Hosts(Vec<String>);

impl Hosts {
    /// Each is a name (`shop.example`), all names below one (`*.shop.example`, which is not `shop.example` itself) or an IP
    /// address. A name that is not ASCII is its punycode from then on, as browsers have it.
    ///
    /// # Errors
    /// The first that is none of these, and what would be.
    pub fn new<T: AsRef<str>>(hosts: impl IntoIterator<Item = T>) -> Result<Hosts, String> {
        hosts.into_iter().map(|host| parsed(host.as_ref())).collect::<Result<_, _>>().map(Hosts)
    }

    /// Whether this host is one of them. A name is compared as browsers write it.
    #[must_use]
    pub fn has(&self, host: &str) -> bool {
        let host = host.trim_start_matches('[').trim_end_matches(']');
        self.0.iter().any(|known| match known.strip_prefix('*') {
            Some(below) => host.len() > below.len() && host.ends_with(below),
            None => known == host,
        })
    }

    /// The hosts, as they are compared.
    #[must_use]
    pub fn as_slice(&self) -> &[String] {
        &self.0
    }

    /// What Chromium takes as `--host-resolver-rules`: no other host is found, addresses neither.
    #[cfg(feature = "computer")]
    pub(super) fn rules(&self) -> String {
        self.0.iter().fold("MAP * ~NOTFOUND".to_owned(), |rules, host| rules + ", EXCLUDE " + host)
    }
}

fn parsed(host: &str) -> Result<String, String> {
    let wrong = || {
        format!(
            "{host:?} is no host; right would be a name, such as \"shop.example\", all below one, such as \
             \"*.shop.example\", or an IP address, without a port"
        )
    };
    let (wildcard, name) = match host.strip_prefix("*.") {
        Some(name) => ("*.", name),
        None => ("", host),
    };
    let address = name.parse::<std::net::Ipv6Addr>().is_ok();
    let text = if address { format!("http://[{name}]/") } else { format!("http://{name}/") };
    let url = reqwest::Url::parse(&text).map_err(|_| wrong())?;
    let found = url.host_str().unwrap_or_default();
    let is_ip = found.starts_with('[') || found.parse::<std::net::Ipv4Addr>().is_ok();
    // Nothing but a host came of it, and nothing that is more than one rule.
    let whole = url.as_str() == format!("http://{found}/")
        && !name.contains(|c: char| "/?#@:\\".contains(c) || c.is_ascii_control());
    let plain = found.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"-._:[]".contains(&byte));
    if !(whole || address) || !plain || (is_ip && !wildcard.is_empty()) {
        return Err(wrong());
    }
    Ok(format!("{wildcard}{}", found.trim_start_matches('[').trim_end_matches(']')))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn s14_hosts_are_names_all_below_one_and_addresses() {
        let hosts = Hosts::new(["Shop.Example", "*.shop.example", "127.0.0.1", "::1", "chợ.vn"]).expect("hosts");
        assert_eq!(hosts.as_slice(), ["shop.example", "*.shop.example", "127.0.0.1", "::1", "xn--ch-3bt.vn"]);
        for host in ["shop.example", "a.shop.example", "a.b.shop.example", "127.0.0.1", "[::1]", "xn--ch-3bt.vn"] {
            assert!(hosts.has(host), "{host}");
        }
        for host in ["", "example", "ashop.example", "shop.example.org", ".shop.example", "127.0.0.2", "*.vn"] {
            assert!(!hosts.has(host), "{host}");
        }
        assert!(!Hosts::default().has("shop.example"));
        let below = Hosts::new(["*.shop.example"]).expect("hosts");
        assert!(!below.has("shop.example") && below.has("a.shop.example"));
    }

    #[test]
    fn s14_what_is_no_host_is_refused_with_what_would_be_right() {
        for wrong in [
            "",
            "*",
            "*.",
            "*.1.2.3.4",
            "a.*",
            "a, EXCLUDE *",
            "a b",
            "http://a",
            "a/b",
            "a:80",
            "a@b",
            "a?b",
            "a#b",
            "a\\b",
            "[::1]",
            "256.1.1.1",
            "a\tb",
            "a\nb",
            " a",
        ] {
            let error = Hosts::new([wrong]).expect_err(wrong);
            assert!(error.contains(&format!("{wrong:?}")) && error.contains("\"shop.example\""), "{error}");
        }
    }
}
