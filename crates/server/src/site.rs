//! The origins of pages and the hosts of servers, as browsers send them.

use reqwest::Url;

/// A written origin, as browsers send it: in lower case, an international host in its ASCII form, without the default
/// port of its scheme. That of an application's shell or of an extension stays as it is, such as
/// `capacitor://localhost`. `None` if no page has it; `null` is no page's own.
pub(crate) fn origin(text: &str) -> Option<String> {
    let (scheme, authority) = text.split_once("://")?;
    let is_part = |c: char| !c.is_whitespace() && !c.is_control() && !"/\\?#@*".contains(c);
    if authority.is_empty() || !authority.chars().all(is_part) {
        return None;
    }
    match scheme.to_ascii_lowercase().as_str() {
        "http" | "https" => Some(Url::parse(text).ok()?.origin().ascii_serialization()),
        // Pages of files have the origin `null`, and connections have their page's.
        "file" | "ws" | "wss" => None,
        shell => {
            let is_scheme = shell.starts_with(|c: char| c.is_ascii_lowercase())
                && shell.bytes().all(|b| b.is_ascii_alphanumeric() || b"+-.".contains(&b));
            (is_scheme && authority.is_ascii()).then(|| format!("{shell}://{authority}"))
        }
    }
}

/// The name without the port; `[::1]:80` is `[::1]`.
pub(crate) fn without_port(authority: &str) -> &str {
    match authority.rsplit_once(':') {
        Some((name, port)) if !port.contains(']') && !name.is_empty() => name,
        _ => authority,
    }
}

/// Whether a host, in lower case and with or without a port, is a name that every machine has for itself.
pub(crate) fn is_this_machine(host: &str) -> bool {
    matches!(without_port(host), "localhost" | "127.0.0.1" | "[::1]")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn c_an_origin_is_written_as_browsers_send_it() {
        for (written, sent) in [
            ("https://App.example.com", "https://app.example.com"),
            ("HTTPS://app.example.com:443", "https://app.example.com"),
            ("http://localhost:3000", "http://localhost:3000"),
            ("http://[::1]:3000", "http://[::1]:3000"),
            ("https://münchen.de", "https://xn--mnchen-3ya.de"),
            ("capacitor://localhost", "capacitor://localhost"),
            ("Tauri://localhost", "tauri://localhost"),
            (
                "chrome-extension://abcdefghijklmnopabcdefghijklmnop",
                "chrome-extension://abcdefghijklmnopabcdefghijklmnop",
            ),
            ("safari-web-extension://0A1B-2C", "safari-web-extension://0A1B-2C"),
        ] {
            assert_eq!(origin(written).as_deref(), Some(sent), "{written}");
        }
        for none in [
            "null",
            "*",
            "",
            "app.example.com",
            "https://",
            "https://a.b/",
            "https://a.b/c",
            "https://a.b?c",
            "https://a@b",
            "https://*.a.b",
            "https://a b",
            "https://a.b\n",
            "https://a.b:99999",
            "capacitor://",
            "capacitor://localhost/",
            "capacitor://ü",
            "1app://localhost",
            "file://",
            "file://localhost",
            "wss://a.b",
        ] {
            assert_eq!(origin(none), None, "{none}");
        }
    }
}
