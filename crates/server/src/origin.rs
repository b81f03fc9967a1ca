//! Which pages and host names may reach the server: `Origin` against foreign pages, `Host` against DNS rebinding
//! (spec C, X).

use axum::{
    extract::{Request, State},
    http::{HeaderMap, HeaderValue, Method, StatusCode, header},
    middleware::Next,
    response::{IntoResponse as _, Response},
};
use countersign_core::refusal::{Code, Refusal, shortened};

use crate::{
    app::App,
    http,
    options::Options,
    problem::Problem,
    site::{self, is_this_machine, without_port},
};

/// Refuses requests from origins and for hosts that are not allowed, whatever the path; allowed origins may read the
/// answers.
pub(crate) async fn guard(State(app): State<App>, request: Request, next: Next) -> Response {
    if let Err(refusal) = check(&app.options, request.uri().host(), request.headers()) {
        return Problem::of(refusal).into_response();
    }
    let foreign = request.headers().get(header::ORIGIN).filter(|origin| {
        let origin = origin.to_str().unwrap_or_default();
        app.options.allowed_origins.iter().any(|allowed| same_origin(allowed, origin))
    });
    let Some(origin) = foreign.cloned() else { return next.run(request).await };
    let preflight =
        *request.method() == Method::OPTIONS && request.headers().contains_key(header::ACCESS_CONTROL_REQUEST_METHOD);
    let mut response = if preflight { StatusCode::NO_CONTENT.into_response() } else { next.run(request).await };
    let headers = response.headers_mut();
    headers.insert(header::ACCESS_CONTROL_ALLOW_ORIGIN, origin);
    headers.append(header::VARY, HeaderValue::from_static("origin"));
    // The client reads the server's clock in the date.
    headers.insert(header::ACCESS_CONTROL_EXPOSE_HEADERS, HeaderValue::from_static("location, date"));
    if preflight {
        if let Ok(methods) = HeaderValue::from_str(&http::methods()) {
            headers.insert(header::ACCESS_CONTROL_ALLOW_METHODS, methods);
        }
        let sent = "authorization, content-type, idempotency-key, last-event-id";
        headers.insert(header::ACCESS_CONTROL_ALLOW_HEADERS, HeaderValue::from_static(sent));
        headers.insert(header::ACCESS_CONTROL_MAX_AGE, HeaderValue::from_static("600"));
    }
    response
}

fn check(options: &Options, target: Option<&str>, headers: &HeaderMap) -> Result<(), Refusal> {
    let forbidden = |message: String| Err(Refusal::new(Code::Forbidden, message));
    let text = |name| headers.get(name).map(|value| value.to_str().unwrap_or("?"));
    let host = text(header::HOST).or(target);
    if (options.check_host || !options.allowed_hosts.is_empty())
        && !host.is_some_and(|host| host_allowed(options, host))
    {
        return forbidden(if options.check_host {
            "this server answers to localhost only; add the host's name to server.allowed_hosts, or the page's origin to \
             server.allowed_origins"
                .to_owned()
        } else {
            "this server does not answer to this host's name; add it to server.allowed_hosts".to_owned()
        });
    }
    match text(header::ORIGIN) {
        None => Ok(()),
        Some(origin) if is_own(origin, host) => Ok(()),
        Some(origin) if options.allowed_origins.iter().any(|allowed| same_origin(allowed, origin)) => Ok(()),
        Some(origin) => forbidden(match site::origin(origin) {
            Some(origin) => {
                format!("pages of {:?} may not use this server; add it to server.allowed_origins", shortened(&origin))
            }
            None => format!(
                "pages without an origin of their own may not use this server (Origin: {:?}); serve the page by HTTP, and add \
                 its origin to server.allowed_origins",
                shortened(origin)
            ),
        }),
    }
}

/// Whether the page came from this server.
fn is_own(origin: &str, host: Option<&str>) -> bool {
    let Some((scheme, authority)) = split(origin) else { return false };
    let port = default_port(scheme);
    host.is_some_and(|host| with_port(authority, port) == with_port(host, port))
}

/// Whether an origin is the allowed one. An origin that is no site's, such as an application shell's, is compared as
/// text.
fn same_origin(allowed: &str, origin: &str) -> bool {
    match (split(allowed.trim_end_matches('/')), split(origin)) {
        (None, None) => site::origin(allowed).is_some_and(|allowed| allowed == origin),
        (Some((scheme, authority)), Some((other, given))) => {
            let port = default_port(scheme);
            scheme.eq_ignore_ascii_case(other) && with_port(authority, port) == with_port(given, port)
        }
        _ => false,
    }
}

fn host_allowed(options: &Options, host: &str) -> bool {
    if options.allowed_hosts.iter().any(|allowed| same_host(allowed, host)) {
        return true;
    }
    let name = without_port(host).to_ascii_lowercase();
    options.check_host && is_own_name(options, &name)
}

/// Whether a host is the allowed one: on any port if that has none; a missing port is the scheme's default.
fn same_host(allowed: &str, host: &str) -> bool {
    if !without_port(allowed).eq_ignore_ascii_case(without_port(host)) {
        return false;
    }
    let port = |authority: &str| authority.get(without_port(authority).len() + 1..).map(str::to_owned);
    match (port(allowed), port(host)) {
        (None, _) => true,
        (Some(allowed), Some(port)) => allowed == port,
        (Some(allowed), None) => matches!(allowed.as_str(), "80" | "443"),
    }
}

/// Whether this name refers to a server on this machine.
fn is_own_name(options: &Options, name: &str) -> bool {
    is_this_machine(name)
        || options.host.as_ref().is_some_and(|own| without_port(own).eq_ignore_ascii_case(name))
        || options.allowed_origins.iter().any(|origin| {
            split(origin.trim_end_matches('/'))
                .is_some_and(|(_, authority)| without_port(authority).eq_ignore_ascii_case(name))
        })
}

/// Scheme and authority of a site's origin.
fn split(origin: &str) -> Option<(&str, &str)> {
    let (scheme, authority) = origin.split_once("://")?;
    let plain = !authority.is_empty() && !authority.contains(['/', '?', '#', '@']);
    (plain && matches!(scheme.to_ascii_lowercase().as_str(), "http" | "https")).then_some((scheme, authority))
}

fn default_port(scheme: &str) -> &'static str {
    if scheme.eq_ignore_ascii_case("https") { "443" } else { "80" }
}

fn with_port(authority: &str, default: &str) -> (String, String) {
    let name = without_port(authority);
    let port = authority.get(name.len() + 1..).filter(|port| !port.is_empty()).unwrap_or(default);
    (name.to_ascii_lowercase(), port.to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn allowed(options: &Options, host: &str, origin: Option<&str>) -> bool {
        let mut headers = HeaderMap::from_iter([(header::HOST, host.parse().expect("host"))]);
        if let Some(origin) = origin {
            headers.insert(header::ORIGIN, origin.parse().expect("origin"));
        }
        check(options, None, &headers).is_ok()
    }

    #[test]
    fn c_origins_are_the_servers_own_or_allowed() {
        let options = Options { allowed_origins: vec!["https://app.example.org/".into()], ..Options::default() };
        let from = |origin| allowed(&options, "agents.example.org:7410", Some(origin));
        assert!(from("http://agents.example.org:7410"));
        assert!(from("https://app.example.org"));
        assert!(from("https://app.example.org:443"));
        assert!(allowed(&options, "agents.example.org", Some("https://agents.example.org")), "behind a proxy");
        for foreign in [
            "null",
            "http://app.example.org",
            "https://app.example.org:8443",
            "https://app.example.org.evil.test",
            "http://agents.example.org",
            "http://agents.example.org:7410@evil.test",
            "file://",
            "",
        ] {
            assert!(!from(foreign), "{foreign}");
        }
        assert!(allowed(&options, "whatever", None), "no Origin is allowed");
    }

    #[test]
    fn c_the_shell_of_an_application_is_allowed_by_exactly_what_it_sends_and_null_never() {
        let names = ["capacitor://localhost", "chrome-extension://abc", "null", "file://localhost", "*"];
        let allowed_origins = names.iter().map(|&name| name.to_owned()).collect();
        let options = Options { allowed_origins, check_host: true, ..Options::default() };
        let from = |origin| allowed(&options, "localhost:7410", Some(origin));
        assert!(from("capacitor://localhost") && from("chrome-extension://abc"));
        for foreign in [
            "capacitor://localhost:7410",
            "capacitor://LOCALHOST",
            "capacitor://localhost/",
            "tauri://localhost",
            "http://localhost",
            "chrome-extension://abcd",
            "null",
            "file://localhost",
            "*",
            "",
        ] {
            assert!(!from(foreign), "{foreign}");
        }
        // It does not give the server a name of its own.
        assert!(!allowed(&options, "abc", None));
    }

    #[test]
    fn c_the_error_advises_only_what_can_be_configured() {
        let told = |origin: &str| {
            let headers = [(header::HOST, "localhost:7410"), (header::ORIGIN, origin)]
                .map(|(name, text)| (name, text.parse().expect("text")));
            check(&Options::default(), None, &HeaderMap::from_iter(headers)).expect_err("foreign").message
        };
        for (origin, named) in [("https://A.b", "\"https://a.b\""), ("tauri://localhost", "\"tauri://localhost\"")] {
            let told = told(origin);
            assert!(told.contains(named) && told.ends_with("add it to server.allowed_origins"), "{told}");
        }
        for origin in ["null", "file://", "https://a.b/c"] {
            let told = told(origin);
            assert!(
                told.contains("without an origin of their own") && told.contains("serve the page by HTTP"),
                "{told}"
            );
        }
    }

    #[test]
    fn x_a_loopback_server_answers_to_its_own_names_only() {
        let options = Options {
            check_host: true,
            host: Some("agents.lan".into()),
            allowed_origins: vec!["https://app.example.org".into()],
            ..Options::default()
        };
        for host in ["localhost:7410", "127.0.0.1", "[::1]:7410", "LOCALHOST", "agents.lan:1", "app.example.org"] {
            assert!(allowed(&options, host, None), "{host}");
        }
        for host in ["evil.test", "evil.test:7410", "127.0.0.1.evil.test", "[::2]", "localhost.evil.test"] {
            assert!(!allowed(&options, host, None), "{host}");
        }
        assert!(check(&options, None, &HeaderMap::new()).is_err(), "no Host at all");
        assert!(!allowed(&options, "evil.test:7410", Some("http://evil.test:7410")), "rebinding");
    }

    #[test]
    fn x_allowed_hosts_are_the_only_ones_on_any_address() {
        let only = |hosts: &[&str]| Options {
            allowed_hosts: hosts.iter().map(|&host| host.to_owned()).collect(),
            host: Some("0.0.0.0:7410".into()),
            ..Options::default()
        };
        let options = only(&["agents.example.org", "other.test:8443", "tls.test:443"]);
        for host in ["agents.example.org", "AGENTS.example.org:1", "other.test:8443", "tls.test", "tls.test:443"] {
            assert!(allowed(&options, host, None), "{host}");
        }
        for host in ["localhost", "0.0.0.0:7410", "other.test", "other.test:1", "agents.example.org.evil.test", ""] {
            assert!(!allowed(&options, host, None), "{host}");
        }
        assert!(check(&options, None, &HeaderMap::new()).is_err(), "no Host at all");
        assert!(allowed(&options, "agents.example.org", Some("https://agents.example.org")));
        assert!(!allowed(&options, "evil.test", Some("http://evil.test")), "rebinding");
        let here = Options { check_host: true, ..only(&["agents.lan"]) };
        for (host, may) in [("localhost:1", true), ("127.0.0.1", true), ("agents.lan:9", true), ("evil.test", false)] {
            assert_eq!(allowed(&here, host, None), may, "{host}");
        }
    }
}
