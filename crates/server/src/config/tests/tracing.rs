//! `[tracing]` (spec S22).

use super::{MINIMAL, lines};
use crate::config::{ConfigTracing, LogFormat};

#[test]
fn s22_without_a_word_nothing_is_sent_and_no_content_is_in_spans() {
    let config = super::parse(MINIMAL).unwrap_or_else(|errors| panic!("{errors:?}"));
    assert_eq!(config.tracing, ConfigTracing { log_format: LogFormat::Text, otlp_endpoint: None, content: false });
}

#[test]
fn s22_an_unknown_key_is_told_with_the_nearest_right_one() {
    let text = format!("{MINIMAL}[tracing]\notlp_endpont = \"http://127.0.0.1:4318/v1/traces\"");
    let expected = r#"countersign.toml:7: unknown key "otlp_endpont" in [tracing]; did you mean "otlp_endpoint"?"#;
    assert_eq!(lines(&text), [expected]);
}

#[cfg(not(feature = "otlp"))]
#[test]
fn s22_an_endpoint_needs_a_build_with_the_feature() {
    let text = format!("{MINIMAL}[tracing]\notlp_endpoint = \"http://127.0.0.1:4318/v1/traces\"");
    let told = lines(&text);
    assert_eq!(told.len(), 1, "{told:?}");
    assert!(told[0].contains("7:") && told[0].contains("built without the feature \"otlp\""), "{told:?}");
}

#[cfg(feature = "otlp")]
#[test]
fn s22_an_endpoint_is_an_address_without_a_password() {
    let with = |endpoint: &str| format!("{MINIMAL}[tracing]\notlp_endpoint = \"{endpoint}\"\ncontent = true");
    let config = super::parse(&with("http://127.0.0.1:4318/v1/traces")).unwrap_or_else(|errors| panic!("{errors:?}"));
    let endpoint = Some("http://127.0.0.1:4318/v1/traces".to_owned());
    assert_eq!(config.tracing, ConfigTracing { log_format: LogFormat::Text, otlp_endpoint: endpoint, content: true });
    for wrong in ["grpc://127.0.0.1:4317", "127.0.0.1:4318", "http://me:secret@127.0.0.1/v1/traces"] {
        let told = lines(&with(wrong));
        assert_eq!(told.len(), 1, "{told:?}");
        assert!(told[0].contains("\"otlp_endpoint\" in [tracing]") && !told[0].contains("secret"), "{told:?}");
    }
}
