//! `[webhooks.*]` (spec U4).

use super::{MINIMAL, lines};
use countersign_engine::key::ApiKey;

use crate::webhooks::{ATTEMPTS, Format, Mail, NoticeKind};

fn with(section: &str) -> String {
    format!("{MINIMAL}[webhooks.desk]\n{section}")
}

#[test]
fn u4_a_webhook_gets_all_signed_messages_unless_it_says_otherwise() {
    let text = with("url = \"https://desk.example.com/hook\"\nsecret_env = [\"HOOK_SECRET\"]");
    let config = super::parse(&text).unwrap_or_else(|errors| panic!("{errors:?}"));
    let [webhook] = &config.webhooks[..] else { panic!("{:?}", config.webhooks) };
    assert_eq!((webhook.name.as_str(), webhook.format), ("desk", Format::Standard));
    assert!(!webhook.allow_private_networks && !webhook.allow_http);
    assert_eq!((webhook.kinds.as_slice(), webhook.max_attempts), (NoticeKind::ALL, ATTEMPTS));
    assert_eq!(webhook.host().as_deref(), Some("desk.example.com"));
}

#[test]
fn u4_x_the_address_of_a_chat_is_a_secret_that_nothing_prints() {
    let config = super::parse(&with("url_env = \"HOOK_URL\"\nformat = \"slack\"\nevents = [\"approval.requested\"]"));
    let config = config.unwrap_or_else(|errors| panic!("{errors:?}"));
    assert_eq!(config.webhooks[0].kinds, [NoticeKind::Requested]);
    assert!(!format!("{config:?}").contains("verysecret"), "{config:?}");
}

#[test]
fn u4_e_mail_goes_to_a_list_of_people_by_a_mail_server_with_tls() {
    let text = with(
        "format = \"email\"\nurl = \"smtps://mail.example.com\"\nfrom = \"Desk <desk@example.com>\"\n\
         to = [\"ann@example.com\", \"Bob <bob@example.com>\"]\nuser = \"desk\"\npassword_env = \"HOOK_URL\"",
    );
    let config = super::parse(&text).unwrap_or_else(|errors| panic!("{errors:?}"));
    let [webhook] = &config.webhooks[..] else { panic!("{:?}", config.webhooks) };
    let to = ["ann@example.com".to_owned(), "Bob <bob@example.com>".to_owned()];
    let mail = Mail::new("Desk <desk@example.com>", &to)
        .map(|mail| mail.login("desk", ApiKey::new("https://hooks.slack.example/services/T0/B0/verysecret")));
    assert_eq!((webhook.format, webhook.host().as_deref()), (Format::Email, Some("mail.example.com")));
    assert_eq!(webhook.mail, mail.ok());
    assert!(!format!("{config:?} {:?}", webhook.mail).contains("verysecret"), "{config:?}");
}

#[test]
fn u4_a_mail_server_with_tls_contradicts_none_at_its_line_whichever_key_names_the_server() {
    for url in ["url = \"smtps://mail.example.com\"", "url = \"SMTPS://mail.example.com\"", "url_env = \"MAIL_URL\""] {
        let text = with(&format!(
            "format = \"email\"\n{url}\nfrom = \"desk@example.com\"\nto = [\"ann@example.com\"]\ntls = \"none\""
        ));
        let told = lines(&text);
        assert_eq!(told.len(), 1, "{url}: {told:?}");
        assert!(told[0].contains("an smtps address is TLS"), "{url}: {told:?}");
        assert!(told[0].starts_with(&format!("countersign.toml:{}:", text.lines().count())), "{url}: {told:?}");
    }
}

#[test]
fn u4_links_to_an_address_that_leads_nowhere_are_warned_of() {
    let warnings = |server: &str| {
        let token = "[[auth.tokens]]\nsubject = \"a\"\ntoken_env = \"ALICE_TOKEN\"\n";
        let text = format!("{}\n{token}[server]\n{server}", with("url_env = \"HOOK_URL\"\nformat = \"slack\""));
        super::parse(&text).unwrap_or_else(|errors| panic!("{errors:?}")).warnings
    };
    for listen in ["0.0.0.0:7410", "[::]:7410"] {
        let told = warnings(&format!("listen = \"{listen}\""));
        let link = format!("link to http://{listen}, which is no address of the console");
        assert!(told.len() == 1 && told[0].message.contains(&link), "{told:?}");
        let known = format!("listen = \"{listen}\"\npublic_url = \"https://a.example.com\"");
        assert_eq!(warnings(&known), []);
    }
    assert_eq!(warnings("listen = \"10.0.0.7:7410\""), []);
}

#[test]
fn u4_mistakes_in_a_webhook_are_named() {
    for (section, expected) in [
        ("secret_env = [\"HOOK_SECRET\"]", "\"url\" or \"url_env\""),
        ("url = \"https://a.example.com/\"", "\"secret_env\""),
        ("url = \"https://a.example.com/\"\nsecret_env = []", "must name one to four variables"),
        ("url = \"https://a.example.com/\"\nsecret_env = [\"ALICE_TOKEN\"]", "which has no secret; one is \"whsec_\""),
        ("url = \"https://a.example.com/\"\nsecret_env = [\"UNSET\"]", "UNSET, which is not set"),
        ("url = \"ftp://a.example.com/\"\nsecret_env = [\"HOOK_SECRET\"]", "must begin with http:// or https://"),
        ("url = \"http://a.example.com/\"\nsecret_env = [\"HOOK_SECRET\"]", "say allow_http = true"),
        (
            "url = \"http://a.example.com/\"\nallow_private_networks = true\nsecret_env = [\"HOOK_SECRET\"]",
            "say allow_http = true",
        ),
        (
            "url = \"http://10.1.2.3/\"\nallow_http = true\nsecret_env = [\"HOOK_SECRET\"]",
            "say allow_private_networks = true",
        ),
        ("url = \"https://10.1.2.3/\"\nsecret_env = [\"HOOK_SECRET\"]", "say allow_private_networks = true"),
        ("url = \"https://localhost/\"\nsecret_env = [\"HOOK_SECRET\"]", "say allow_private_networks = true"),
        (
            "url = \"https://a.example.com/\"\nurl_env = \"HOOK_URL\"\nsecret_env = [\"HOOK_SECRET\"]",
            "an address is one or the other",
        ),
        (
            "url = \"https://a.example.com/\"\nsecret_env = [\"HOOK_SECRET\"]\nevents = [\"approval.request\"]",
            "did you mean \"approval.requested\"?",
        ),
        ("url = \"https://a.example.com/\"\nsecret_env = [\"HOOK_SECRET\"]\nevents = []", "nothing would ever be sent"),
        ("url_env = \"HOOK_URL\"\nformat = \"slack\"\nsecret_env = [\"HOOK_SECRET\"]", "means nothing to this format"),
        ("url_env = \"HOOK_URL\"\nformat = \"discord\"", "\"discord\""),
        ("url_env = \"HOOK_URL\"\nformat = \"slack\"\nmax_attempts = 11", "1 to 10 attempts"),
        // No session is of such a tenant, so nothing would ever be sent.
        (
            "url_env = \"HOOK_URL\"\nformat = \"slack\"\ntenant = \"\"",
            "\"tenant\" in [webhooks.desk] must have 1 to 128",
        ),
    ] {
        let told = lines(&with(section));
        assert_eq!(told.len(), 1, "{section}: {told:?}");
        assert!(told[0].contains(expected) && !told[0].contains("verysecret"), "{section}: {told:?}");
    }
    let mail =
        |rest: &str| format!("format = \"email\"\nfrom = \"desk@example.com\"\nto = [\"ann@example.com\"]\n{rest}");
    let at = "url = \"smtp://mail.example.com\"\n";
    for (section, expected) in [
        (mail(""), "\"url\" or \"url_env\""),
        (mail("url = \"https://mail.example.com\""), "is not a mail server"),
        (format!("format = \"email\"\nto = [\"ann@example.com\"]\n{at}"), "missing \"from\""),
        (format!("format = \"email\"\nfrom = \"desk@example.com\"\n{at}"), "missing \"to\""),
        (format!("format = \"email\"\nfrom = \"desk@example.com\"\nto = []\n{at}"), "must name 1 to 100 addresses"),
        (format!("format = \"email\"\nfrom = \"desk\"\nto = [\"ann@example.com\"]\n{at}"), "is not an e-mail address"),
        (format!("format = \"email\"\nfrom = \"desk@example.com\"\nto = [\"a\\nb@c.d\"]\n{at}"), "control character"),
        (mail(&format!("{at}user = \"desk\"")), "missing \"password_env\""),
        (mail(&format!("{at}password_env = \"HOOK_SECRET\"")), "missing \"user\""),
        (
            mail(&format!("{at}user = \"desk\"\npassword_env = \"HOOK_SECRET\"\ntls = \"none\"")),
            "could be read on the way",
        ),
        (mail("url = \"smtps://mail.example.com\"\ntls = \"none\""), "an smtps address is TLS"),
        (mail(&format!("{at}tls = \"opportunistic\"")), "it must be \"required\" or \"none\""),
        (mail(&format!("{at}allow_private_networks = true")), "the mail server may be anywhere"),
        (mail(&format!("{at}allow_http = true")), "see \"tls\""),
        (mail(&format!("{at}secret_env = [\"HOOK_SECRET\"]")), "its secret is the password"),
        ("url_env = \"HOOK_URL\"\nformat = \"slack\"\nto = [\"ann@example.com\"]".to_owned(), "is for e-mail"),
    ] {
        let told = lines(&with(&section));
        assert_eq!(told.len(), 1, "{section}: {told:?}");
        assert!(told[0].contains(expected) && !told[0].contains("verysecret"), "{section}: {told:?}");
    }
    let public = |url: &str| lines(&format!("{MINIMAL}[server]\npublic_url = \"{url}\""));
    assert!(
        public("https://a.example.com/?x=1")[0].contains("must not have a query"),
        "{:?}",
        public("https://a.example.com/?x=1")
    );
    assert_eq!(public("https://a.example.com/console/"), Vec::<String>::new());
    let named = format!("{MINIMAL}[webhooks.\"a b\"]\nurl_env = \"HOOK_URL\"\nformat = \"teams\"");
    assert!(lines(&named)[0].contains("is not a valid name of a webhook"), "{:?}", lines(&named));
}
