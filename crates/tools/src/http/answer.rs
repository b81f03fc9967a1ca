//! Turns a server's answer into a result for the model.

use countersign_core::locale::{Locale, Text};
use reqwest::{
    Method, Response, Url,
    header::{CONTENT_TYPE, LOCATION},
};

use super::{declared::Compiled, say};
use countersign_engine::outgoing::{self, chain};

/// How much of an answer an error shows, in bytes.
const SHOWN_BYTES: usize = 1024;
/// How much of an answer is read to be shown, in bytes: a cut must not split a secret.
const READ_BYTES: usize = 64 * 1024;
/// How much of a header an error shows, in characters.
const HEADER_CHARS: usize = 200;

/// Reads an answer to its end, or to the limit.
pub(super) async fn read(
    mut response: Response,
    output_limit: usize,
    request: &Compiled,
    locale: Locale,
) -> Result<String, String> {
    let status = response.status();
    let named = outgoing::status(status);
    if let Some(to) = redirected(&response).filter(|_| status.is_redirection()) {
        return Err(say(locale, Text::HttpRedirect, &[("status", named), ("to", cut(&request.redact(to)))]));
    }
    let kind = response.headers().get(CONTENT_TYPE).and_then(|kind| kind.to_str().ok());
    let kind = kind.and_then(|kind| kind.split(';').next()).map(|kind| cut(&request.redact(kind.trim().to_owned())));
    let kind = kind.filter(|kind| !kind.is_empty()).unwrap_or_else(|| "application/octet-stream".to_owned());
    let most = if status.is_success() { output_limit.max(READ_BYTES) } else { READ_BYTES };
    // One byte beyond the limit shows that there is more.
    let (body, broken) = outgoing::body(&mut response, most + 1).await;
    let size = body.len();
    let is_cut = size > most || broken.is_some();
    if !status.is_success() {
        // It is an error in any case; as much of its body as can be read is shown.
        let output = text(body, is_cut).map(|body| beginning(&request.redact(body), SHOWN_BYTES)).unwrap_or_default();
        return Err(match output.is_empty() {
            true => say(locale, Text::HttpStatus, &[("status", named)]),
            false => say(locale, Text::HttpStatusBody, &[("status", named), ("output", output)]),
        });
    }
    if let Some(error) = broken {
        let error = request.redact(chain(error));
        return Err(say(locale, Text::HttpLost, &[("server", request.server()), ("error", error)]));
    }
    let Some(body) = text(body, is_cut) else {
        return Err(say(locale, Text::HttpNotText, &[("status", named), ("type", kind)]));
    };
    let body = request.redact(body);
    if size > output_limit {
        let (bytes, output) = (output_limit.to_string(), beginning(&body, SHOWN_BYTES.min(output_limit)));
        return Err(say(locale, Text::HttpTooMuch, &[("status", named), ("bytes", bytes), ("output", output)]));
    }
    if body.is_empty() || request.method == Method::HEAD {
        return Ok(say(locale, Text::HttpNothing, &[("status", named)]));
    }
    Ok(body)
}

/// The server that a redirect points to; the rest of its address may be confidential.
fn redirected(response: &Response) -> Option<String> {
    let to = response.headers().get(LOCATION).and_then(|to| to.to_str().ok())?;
    let to: Url = response.url().join(to).ok()?;
    Some(to.origin()).filter(|origin| origin.is_tuple()).map(|origin| origin.ascii_serialization())
}

/// The text, if it is one. If it was cut, a cut last character is left out.
fn text(body: Vec<u8>, is_cut: bool) -> Option<String> {
    let text = match String::from_utf8(body) {
        Ok(text) => text,
        Err(error) => {
            let (valid, ends) = (error.utf8_error().valid_up_to(), error.utf8_error().error_len().is_none());
            let mut body = error.into_bytes();
            body.truncate(valid);
            String::from_utf8(body).ok().filter(|_| ends && is_cut)?
        }
    };
    (!text.contains('\0')).then_some(text)
}

fn beginning(text: &str, bytes: usize) -> String {
    text[..text.floor_char_boundary(bytes)].trim().to_owned()
}

fn cut(header: &str) -> String {
    header.chars().take(HEADER_CHARS).collect()
}
