//! The hosts that a browser may reach.

use countersign_core::setting::SettingError;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

/// Names and addresses of hosts; the browser reaches no others, whatever a page requests (spec S14, X).
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Hosts(Vec<String>);

impl Hosts {
    /// Each is a name (`shop.example`), all names below one (`*.shop.example`, which does not include `shop.example`
    /// itself) or an IP address. A name that is not ASCII is converted to punycode, as in browsers. A name is trusted
    /// whatever it resolves to.
    ///
    /// # Errors
    /// The first that is not one of these, and what is allowed.
    pub fn new<T: AsRef<str>>(hosts: impl IntoIterator<Item = T>) -> Result<Hosts, SettingError> {
        let mut all = Hosts::default();
        for host in hosts {
            let host = host.as_ref();
            all.add(host).map_err(|error| SettingError::new(format!("{host:?} is {error}")))?;
        }
        Ok(all)
    }

    /// Adds a host.
    ///
    /// # Errors
    /// What is wrong ("not a host"), and what is allowed.
    #[doc(hidden)]
    pub fn add(&mut self, host: &str) -> Result<(), String> {
        self.0.push(parsed(host)?);
        Ok(())
    }

    /// Whether this host is one of them. A name is compared as browsers normalise it.
    #[must_use]
    pub fn has(&self, host: &str) -> bool {
        let host = host.trim_start_matches('[').trim_end_matches(']');
        self.0.iter().any(|known| match known.strip_prefix('*') {
            Some(below) => host.len() > below.len() && host.ends_with(below),
            None => known == host,
        })
    }

    /// Whether the page at this address is on one of them; an address without a host, such as `about:blank`, is allowed
    /// too.
    ///
    /// # Errors
    /// The host of the page, which is none of them.
    #[doc(hidden)]
    pub fn of_page(&self, url: &str) -> Result<(), String> {
        let url = reqwest::Url::parse(url).ok();
        match url.as_ref().and_then(|url| url.host_str()) {
            Some(host) if !self.has(host) => Err(host.to_owned()),
            _ => Ok(()),
        }
    }

    /// The first of them that is this machine whatever a name server says.
    #[must_use]
    pub fn of_this_machine(&self) -> Option<&str> {
        let is_local = |host: &&String| match host.parse::<IpAddr>() {
            // Connecting to the unspecified address reaches this machine.
            Ok(address) => address.to_canonical().is_loopback() || address.to_canonical().is_unspecified(),
            Err(_) => host.as_str() == "localhost" || host.ends_with(".localhost"),
        };
        self.0.iter().find(is_local).map(String::as_str)
    }

    /// The hosts, in the form in which they are compared.
    #[must_use]
    pub fn as_slice(&self) -> &[String] {
        &self.0
    }

    /// The value of Chromium's `--host-resolver-rules`: other hosts do not resolve, nor do addresses.
    #[cfg(feature = "computer")]
    pub(super) fn rules(&self) -> String {
        self.0.iter().fold("MAP * ~NOTFOUND".to_owned(), |rules, host| rules + ", EXCLUDE " + host)
    }
}

fn parsed(host: &str) -> Result<String, String> {
    let wrong = || {
        "not a host; it must be a name, such as \"shop.example\", all below one, such as \"*.shop.example\", or an IP \
         address, without a port"
            .to_owned()
    };
    let (wildcard, name) = match host.strip_prefix("*.") {
        Some(name) => ("*.", name),
        None => ("", host),
    };
    let address = name.parse::<Ipv6Addr>().is_ok();
    let text = if address { format!("http://[{name}]/") } else { format!("http://{name}/") };
    let url = reqwest::Url::parse(&text).map_err(|_| wrong())?;
    let found = url.host_str().unwrap_or_default();
    let is_ip = found.starts_with('[') || found.parse::<Ipv4Addr>().is_ok();
    // It is exactly a host, and cannot be more than one rule.
    let whole = url.as_str() == format!("http://{found}/")
        && !name.contains(|c: char| "/?#@:\\".contains(c) || c.is_ascii_control());
    // A page writes the name without the trailing dot that names may have.
    let whole = whole && !found.ends_with('.');
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
    fn s14_a_page_is_of_its_host_and_some_hosts_are_this_machine() {
        let hosts = Hosts::new(["shop.example", "::1"]).expect("hosts");
        for page in ["https://Shop.Example:8443/a", "http://[::1]/", "about:blank", "no address"] {
            assert_eq!(hosts.of_page(page), Ok(()), "{page}");
        }
        assert_eq!(hosts.of_page("https://a.shop.example/?shop.example"), Err("a.shop.example".to_owned()));
        assert_eq!(hosts.of_this_machine(), Some("::1"));
        for local in
            ["localhost", "*.localhost", "a.localhost", "127.0.0.1", "127.1.2.3", "0.0.0.0", "::", "::ffff:127.0.0.1"]
        {
            assert!(Hosts::new(["shop.example", local]).expect("hosts").of_this_machine().is_some(), "{local}");
        }
        assert_eq!(
            Hosts::new(["shop.example", "localhost.example", "10.0.0.1"]).expect("hosts").of_this_machine(),
            None
        );
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
            "shop.example.",
            "*.shop.example.",
            ".",
        ] {
            let error = Hosts::new([wrong]).expect_err(wrong).to_string();
            assert!(
                error.starts_with(&format!("{wrong:?} is not a host; ")) && error.contains("\"shop.example\""),
                "{error}"
            );
        }
    }
}
