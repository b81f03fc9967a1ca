//! E-mail: messages for people, by way of a mail server (SMTP).
//!
//! The mail server is the operator's, like a database: the file names it, so it may be anywhere, and [`super::guard`] has
//! nothing to do with it. The connection is encrypted unless the file says otherwise, and a password is never sent
//! without encryption.
//!
//! Foreign names are in the subject and in the text, as they are in chats: hidden characters and ends of
//! lines are made visible, and long ones are cut ([`super::format`]). So none of them begins a header. Addresses come
//! from the file alone. A message goes to all of its people in one transaction: the server takes it for each of them, or it
//! is attempted again for all, under the same `Message-ID`.

mod stream;
#[cfg(test)]
mod tests;

use std::{fmt, time::Duration};

use base64::{Engine as _, engine::general_purpose::STANDARD_NO_PAD};
use countersign_core::{
    call::shown::line,
    locale::{Locale, Text},
};
use countersign_engine::{key::ApiKey, redact::redacted};
use lettre::{
    Message,
    address::Envelope,
    message::{
        Mailbox, MessageBuilder,
        header::{ContentType, Header, HeaderName, HeaderValue},
    },
    transport::smtp::{
        authentication::{Credentials, Mechanism},
        client::{AsyncSmtpConnection, TlsParameters},
        extension::ClientId,
    },
};
use reqwest::Url;
use tokio::time::timeout;

use self::stream::Bounded;
use super::{
    format::lines,
    notice::Notice,
    send::{Outcome, TIME_LIMIT},
};

/// Most people that a message goes to.
pub(crate) const PEOPLE: usize = 100;
/// The longest subject, in characters; the whole line is in the text.
const SUBJECT_CHARS: usize = 200;
/// How long the mail server has for its goodbye, once it has the message.
const GOODBYE: Duration = Duration::from_secs(1);
/// How much of an error is reported; it includes the mail server's answer.
const WHY_CHARS: usize = 500;

/// The sender and recipients of e-mails.
#[derive(Clone, PartialEq)]
pub struct Mail {
    from: Mailbox,
    to: Vec<Mailbox>,
    /// The name and the password at the mail server.
    login: Option<(String, ApiKey)>,
    is_encrypted: bool,
}

impl fmt::Debug for Mail {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Mail").field("from", &self.from).field("to", &self.to).finish_non_exhaustive()
    }
}

impl Mail {
    /// From one address to others, each `name@example.com` or `Name <name@example.com>`. With TLS, which the mail server
    /// must offer.
    ///
    /// # Errors
    /// What is no address; nobody to send to, or more than 100.
    pub fn new(from: &str, to: &[String]) -> Result<Mail, String> {
        let to = to.iter().map(|one| address(one)).collect::<Result<Vec<_>, _>>()?;
        if to.is_empty() || to.len() > PEOPLE {
            return Err(format!("names {} addresses; there must be 1 to {PEOPLE}", to.len()));
        }
        Ok(Mail { from: address(from)?, to, login: None, is_encrypted: true })
    }

    /// Signs in at the mail server.
    #[must_use]
    pub fn login(self, user: &str, password: ApiKey) -> Mail {
        Mail { login: Some((user.to_owned(), password)), ..self }
    }

    /// Without TLS. Nobody signs in then: the password could be read on the way.
    #[must_use]
    pub fn plain(self) -> Mail {
        Mail { is_encrypted: false, login: None, ..self }
    }
}

/// Reads an address, with or without a name.
pub(crate) fn address(text: &str) -> Result<Mailbox, String> {
    let right = "an address is name@example.com or Name <name@example.com>";
    if text.chars().any(char::is_control) {
        return Err(format!("has a control character in an address; {right}"));
    }
    text.parse().map_err(|error| format!("has {text:?}, which is no e-mail address ({error}); {right}"))
}

/// Parses the address of a mail server.
///
/// # Errors
/// Why it is none, as a text that can follow `"url"`. It does not repeat the address, which may hold a secret.
pub(crate) fn server(text: &str) -> Result<Url, String> {
    let right = "such as smtps://mail.example.com (TLS from the beginning) or smtp://mail.example.com:587 (STARTTLS)";
    let url: Url = text.trim().parse().map_err(|error| format!("is no address ({error}); one is {right}"))?;
    if !matches!(url.scheme(), "smtp" | "smtps") || url.host_str().is_none_or(str::is_empty) {
        return Err(format!("is no mail server; one is {right}"));
    }
    if !url.username().is_empty() || url.password().is_some() {
        return Err("must have no user and no password in it; they are \"user\" and \"password_env\"".to_owned());
    }
    if !matches!(url.path(), "" | "/") || url.query().is_some() || url.fragment().is_some() {
        return Err(format!("must end after the host or the port; one is {right}"));
    }
    Ok(url)
}

/// How TLS begins.
enum Encryption {
    None,
    /// From the start of the connection.
    Whole(TlsParameters),
    /// On the open connection, after the greetings. A server without STARTTLS gets no message.
    Starttls(TlsParameters),
}

/// The sender of an endpoint's e-mails.
pub(super) struct Sender {
    mail: Mail,
    host: String,
    port: u16,
    encryption: Encryption,
}

impl Sender {
    /// # Errors
    /// A mail server that cannot be used.
    pub(super) fn new(mail: Mail, url: &str) -> Result<Sender, String> {
        let url = server(url)?;
        let host = url.host_str().unwrap_or_default().trim_matches(['[', ']']).to_owned();
        let is_whole = url.scheme() == "smtps";
        let parameters = || TlsParameters::new(host.clone()).map_err(|error| format!("cannot be reached: {error}"));
        let encryption = match (mail.is_encrypted, is_whole) {
            (true, true) => Encryption::Whole(parameters()?),
            (true, false) => Encryption::Starttls(parameters()?),
            (false, true) => return Err("is smtps://, which is TLS; without TLS it is smtp://".to_owned()),
            (false, false) => Encryption::None,
        };
        // Mail servers accept submissions at 587, and mail from other servers at 25.
        let port = url.port().unwrap_or(match encryption {
            Encryption::Whole(_) => 465,
            Encryption::Starttls(_) => 587,
            Encryption::None => 25,
        });
        Ok(Sender { mail, host, port, encryption })
    }

    /// Attempts once.
    pub(super) async fn once(&self, notice: &Notice, locale: Locale) -> Outcome {
        let attempt = async {
            let message = message(&self.mail, notice, locale)?;
            let mut connection = self.connect().await.map_err(|error| self.told(&error))?;
            let sent = connection.send(message.envelope(), &message.formatted()).await;
            let sent = sent.map_err(|error| self.told(&error));
            // The outcome is known by now, however the connection ends.
            let _ = timeout(GOODBYE, connection.abort()).await;
            sent.map(|_| ())
        };
        match timeout(TIME_LIMIT, attempt).await {
            Ok(Ok(())) => Outcome::Delivered,
            Ok(Err(why)) => Outcome::Failed { why, pause: None },
            Err(_) => {
                let why = format!("the mail server took longer than {} seconds", TIME_LIMIT.as_secs());
                Outcome::Failed { why, pause: None }
            }
        }
    }

    async fn connect(&self) -> Result<AsyncSmtpConnection, lettre::transport::smtp::Error> {
        // Mail servers expect a domain name; this one is known to exist.
        let hello = ClientId::Domain(self.mail.from.email.domain().to_owned());
        let whole = match &self.encryption {
            Encryption::Whole(parameters) => Some(parameters.clone()),
            _ => None,
        };
        let stream = Bounded::connect(&self.host, self.port, whole).await?;
        let mut connection = AsyncSmtpConnection::connect_with_transport(Box::new(stream), &hello).await?;
        if let Encryption::Starttls(parameters) = &self.encryption {
            connection.starttls(parameters.clone(), &hello).await?;
        }
        if let Some((user, password)) = &self.mail.login {
            let credentials = Credentials::new(user.clone(), password.expose().to_owned());
            connection.auth(&[Mechanism::Plain, Mechanism::Login], &credentials).await?;
        }
        Ok(connection)
    }

    /// Why it failed, on one line: a mail server's answer is a text of others, which may repeat the credentials.
    fn told(&self, error: &lettre::transport::smtp::Error) -> String {
        let text = self.mail.login.iter().fold(error.to_string(), |text, (user, password)| {
            let password = password.expose();
            // As the mechanisms send them (RFC 4616, and LOGIN). The padding is left out, so that both forms match.
            let sent = [format!("\0{user}\0{password}"), password.to_owned()].map(|sent| STANDARD_NO_PAD.encode(sent));
            sent.iter().map(String::as_str).chain([password]).fold(text, redacted)
        });
        line(&text).chars().take(WHY_CHARS).collect()
    }
}

/// The header that silences automatic replies (RFC 3834).
#[derive(Clone)]
struct AutoSubmitted;

impl Header for AutoSubmitted {
    fn name() -> HeaderName {
        HeaderName::new_from_ascii_str("Auto-Submitted")
    }

    fn parse(_: &str) -> Result<AutoSubmitted, Box<dyn std::error::Error + Send + Sync>> {
        Ok(AutoSubmitted)
    }

    fn display(&self) -> HeaderValue {
        HeaderValue::new(AutoSubmitted::name(), "auto-generated".to_owned())
    }
}

/// The e-mail of a message.
pub(super) fn message(mail: &Mail, notice: &Notice, locale: Locale) -> Result<Message, String> {
    let (headline, facts) = lines(notice, locale);
    let mut chars = headline.chars();
    let mut subject: String = chars.by_ref().take(SUBJECT_CHARS).collect();
    if chars.next().is_some() {
        subject.push('…');
    }
    let parts = [headline.as_str(), &facts, &format!("{}: {}", locale.text(Text::NotifyOpen), notice.data.url)];
    let mut text: Vec<&str> = parts.into_iter().filter(|part| !part.is_empty()).collect();
    text.extend(["", locale.text(Text::NotifyNoReply), ""]);
    let to = |message: MessageBuilder, one: &Mailbox| message.to(one.clone());
    let addresses = mail.to.iter().map(|one| one.email.clone()).collect();
    let envelope = Envelope::new(Some(mail.from.email.clone()), addresses);
    mail.to
        .iter()
        .fold(Message::builder().from(mail.from.clone()), to)
        .envelope(envelope.map_err(|error| format!("the e-mail cannot be addressed: {error}"))?)
        .message_id(Some(format!("<{}@{}>", notice.id, mail.from.email.domain())))
        .date_now()
        .header(AutoSubmitted)
        .header(ContentType::TEXT_PLAIN)
        .subject(subject)
        .body(text.join("\n"))
        .map_err(|error| format!("the e-mail cannot be written: {error}"))
}
