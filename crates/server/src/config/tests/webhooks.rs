//! `[webhooks.*]` (spec U4).

use super::{MINIMAL, lines};
use crate::webhooks::{ATTEMPTS, Format, NoticeKind};

fn with(section: &str) -> String {
    format!("{MINIMAL}[webhooks.desk]\n{section}")
}

#[test]
fn u4_a_webhook_gets_all_signed_messages_unless_it_says_otherwise() {
    let text = with("url = \"https://desk.example.com/hook\"\nsecret_env = [\"HOOK_SECRET\"]");
    let config = super::parse(&text).unwrap_or_else(|errors| panic!("{errors:?}"));
    let [webhook] = &config.webhooks[..] else { panic!("{:?}", config.webhooks) };
    assert_eq!((webhook.name.as_str(), webhook.format, webhook.private), ("desk", Format::Standard, false));
    assert_eq!((webhook.events.as_slice(), webhook.attempts), (&NoticeKind::ALL[..], ATTEMPTS));
    assert_eq!(webhook.host().as_deref(), Some("desk.example.com"));
}

#[test]
fn u4_x_the_address_of_a_chat_is_a_secret_that_nothing_prints() {
    let config = super::parse(&with("url_env = \"HOOK_URL\"\nformat = \"slack\"\nevents = [\"approval.requested\"]"));
    let config = config.unwrap_or_else(|errors| panic!("{errors:?}"));
    assert_eq!(config.webhooks[0].events, [NoticeKind::Requested]);
    assert!(!format!("{config:?}").contains("verysecret"), "{config:?}");
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
        ("url = \"http://a.example.com/\"\nsecret_env = [\"HOOK_SECRET\"]", "must begin with https://"),
        ("url = \"https://10.1.2.3/\"\nsecret_env = [\"HOOK_SECRET\"]", "say private = true"),
        ("url = \"https://localhost/\"\nsecret_env = [\"HOOK_SECRET\"]", "say private = true"),
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
        ("url_env = \"HOOK_URL\"\nformat = \"slack\"\nattempts = 11", "1 to 10 attempts"),
    ] {
        let told = lines(&with(section));
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
    assert!(lines(&named)[0].contains("is no name of a webhook"), "{:?}", lines(&named));
}
