//! Secrets that would leave the machine without TLS (spec X, C).

use super::{MINIMAL, parse};

/// The warnings of a file without errors, without the line at which each begins.
fn warnings(text: &str) -> Vec<String> {
    let config = parse(text).unwrap_or_else(|errors| panic!("{errors:?}"));
    let told = config.warnings.iter().map(ToString::to_string);
    told.map(|told| told.splitn(3, ':').nth(2).unwrap_or_default().trim().to_owned()).collect()
}

const WHY: &str = "without TLS, and whoever is on the way can read it; use https";

#[test]
fn x_a_secret_that_is_sent_without_tls_is_warned_of_by_key_and_host() {
    let model = |at: &str, more: &str| {
        format!("[models.m]\nprovider = \"openai\"\nmodel = \"x\"\nbase_url = \"{at}/v1\"\n{more}")
    };
    let mcp = |at: &str, more: &str| format!("[mcp.m]\nurl = \"{at}/mcp\"\n{more}");
    let tool = |at: &str, more: &str| format!("[tools.m]\n[tools.m.http]\nmethod = \"POST\"\nurl = \"{at}/\"\n{more}");
    let variable = "X-Team = { env = \"BOB_TOKEN\" }";
    let hosted =
        |at: &str| format!("[models.m.hosted_mcp.shop]\nserver_url = \"{at}\"\nauthorization_env = \"BOB_TOKEN\"\n");
    type Place<'p> = &'p dyn Fn(&str, &str) -> String;
    let cases: [(Place<'_>, String, &str); 8] = [
        (&model, "api_key_env = \"BOB_TOKEN\"\n".to_owned(), "\"api_key_env\" in [models.m]"),
        (&model, format!("headers = {{ {variable} }}\n"), "\"headers\" in [models.m]"),
        (&model, hosted("https://shop.example"), "\"hosted_mcp\" in [models.m]"),
        (&mcp, "bearer_env = \"BOB_TOKEN\"\n".to_owned(), "\"bearer_env\" in [mcp.m]"),
        (&mcp, format!("headers = {{ {variable} }}\n"), "\"headers\" in [mcp.m]"),
        (
            &tool,
            "headers = { A = \"{{ env.BOB_TOKEN }} {{ env.ALICE_TOKEN }}\" }\n".to_owned(),
            "\"headers\" in [tools.m.http]",
        ),
        (&tool, "query = { a = \"{{ env.BOB_TOKEN }}\" }\n".to_owned(), "\"query\" in [tools.m.http]"),
        (&tool, "json = { a = \"{{ env.BOB_TOKEN }}\" }\n".to_owned(), "\"json\" in [tools.m.http]"),
    ];
    for (place, secret, told) in cases {
        let of = |at: &str, secret: &str| warnings(&format!("{MINIMAL}{}", place(at, secret)));
        assert_eq!(of("http://in.example", &secret), [format!("{told} is sent to in.example {WHY}")], "{secret}");
        for fine in ["https://in.example", "http://127.0.0.1:1", "http://localhost:1", "http://[::1]:1"] {
            assert_eq!(of(fine, &secret), Vec::<String>::new(), "{fine} {secret}");
        }
        assert_eq!(of("http://in.example", ""), Vec::<String>::new(), "no secret: {told}");
    }
    let no_secret = mcp("http://in.example", "headers = { X-Team = \"north\" }\n");
    assert_eq!(warnings(&format!("{MINIMAL}{no_secret}")), Vec::<String>::new());
    // The provider would send this one.
    let by_provider = model("https://in.example", &hosted("http://shop.example"));
    let told = format!("\"authorization_env\" in [models.m.hosted_mcp.shop] is sent to shop.example {WHY}");
    assert_eq!(warnings(&format!("{MINIMAL}{by_provider}")), [told]);
}

#[test]
fn x_an_address_that_is_a_secret_is_warned_of_without_tls() {
    for (added, place) in [
        ("[mcp.m]\nurl_env = \"PLAIN_URL\"\n", "[mcp.m]"),
        ("[webhooks.m]\nformat = \"slack\"\nallow_http = true\nurl_env = \"PLAIN_URL\"\n", "[webhooks.m]"),
    ] {
        let told = format!("\"url_env\" in {place} is sent to hooks.example {WHY}");
        assert_eq!(warnings(&format!("{MINIMAL}{added}")), [told]);
    }
}

#[cfg(feature = "postgres")]
#[test]
fn x_a_password_of_a_database_that_is_in_the_file_or_may_be_sent_without_tls_is_warned_of() {
    let of = |store: &str| warnings(&format!("{MINIMAL}[store]\n{store}\n"));
    let told = |key: &str, host: &str| {
        format!(
            "\"{key}\" in [store] lets the password be sent to {host} without TLS, and whoever is on the way can read it; \
             add sslmode=require"
        )
    };
    // Whatever the file's permissions are, programs of tools run as the user that reads it.
    let written = |key: &str| {
        format!(
            "\"{key}\" in [store] has its password in this file; put it into a variable, and name that with \"password_env\""
        )
    };
    let password = "password_env = \"BOB_TOKEN\"";
    for mode in ["", "?sslmode=prefer", "?sslmode=disable"] {
        assert_eq!(of(&format!("url = \"postgres://a@db/x{mode}\"\n{password}")), [told("url", "db")]);
        assert_eq!(of(&format!("url = \"postgres://a:b@db/x{mode}\"")), [written("url"), told("url", "db")]);
    }
    assert_eq!(of(&format!("url = \"postgres://a@localhost,db/x\"\n{password}")), [told("url", "db")]);
    let pooled = |url: &str, past: &str| {
        of(&format!("url = \"postgres://{url}\"\npooled = true\ndirect_url = \"postgres://{past}\""))
    };
    assert_eq!(pooled("a@pooler/x", "a:b@db/x"), [written("direct_url"), told("direct_url", "db")]);
    assert_eq!(pooled("a:b@pooler/x", "a@db/x"), [written("url"), told("url", "pooler")]);
    assert_eq!(of("url = \"postgres://a:b@db/x?sslmode=require\""), [written("url")]);
    for fine in
        ["postgres://a@db/x?sslmode=require", "postgres://a@db/x?sslmode=verify-full", "postgres://a@127.0.0.1/x"]
    {
        assert_eq!(of(&format!("url = \"{fine}\"\n{password}")), Vec::<String>::new(), "{fine}");
    }
    for fine in
        ["postgres://a@[::1],localhost/x", "postgres://a@%2Frun%2Fpostgresql/x", "postgres://a@db/x?hostaddr=127.0.0.1"]
    {
        assert_eq!(of(&format!("url = \"{fine}\"\n{password}")), Vec::<String>::new(), "{fine}");
    }
    assert_eq!(of("url = \"postgres://a@db/x\""), Vec::<String>::new(), "no password");
}
