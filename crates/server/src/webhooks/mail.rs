//! E-mail: messages for people, by way of a mail server (SMTP).
//!
//! The mail server is the operator's, like a database: the file names it, so it may be anywhere, and [`super::guard`] has
//! nothing to do with it. The connection is encrypted unless the file says otherwise, and a password is never sent
//! without encryption.
//!
//! Foreign names are in the subject and in the text, as they are in chats: hidden characters and ends of
//! lines are made visible, and long ones are cut ([`super::format`]). So none of them begins a header. Addresses come
//! from the file alone. A message goes to all its recipients in one transaction, and reaches those that the server
//! accepts. If it accepts none, the message is attempted again for all, under the same `Message-ID`.

mod stream;
#[cfg(test)]
mod tests;

use std::{fmt, net::SocketAddr, time::Duration};

use base64::{Engine as _, engine::general_purpose::STANDARD_NO_PAD};
use countersign_core::{
    call::shown::line,
    locale::{Locale, Text},
    setting::SettingError,
};
use countersign_engine::{key::ApiKey, redact::redacted};
use lettre::{
    Address, Message,
    address::Envelope,
    message::{
        Mailbox, MessageBuilder,
        header::{ContentType, Header, HeaderName, HeaderValue, MIME_VERSION_1_0},
    },
    transport::smtp::{
        authentication::{Credentials, Mechanism},
        client::{AsyncSmtpConnection, TlsParameters},
        commands::{Data, Mail as From, Rcpt},
        extension::{ClientId, Extension, MailParameter},
    },
};
use reqwest::Url;
use tokio::time::timeout;

use self::stream::{Bounded, Heard};
use super::{
    format::lines,
    guard::Lookups,
    notice::Notice,
    send::{Outcome, TIME_LIMIT},
};

/// Most recipients of a message.
pub(crate) const PEOPLE: usize = 100;
/// The longest subject, in characters; the whole line is in the text.
const SUBJECT_CHARS: usize = 200;
/// How long the mail server may take to answer once it has the whole message: it may deliver it, or look for malware in
/// it, first (RFC 5321, 4.5.3.2.6). A message that is given up too early is sent twice.
pub(super) const TAKING: Duration = Duration::from_secs(105);
/// How long the mail server has for its goodbye, once the outcome is known.
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
    /// A text is not an address; or there are no recipients, or more than 100.
    pub fn new(from: &str, to: &[String]) -> Result<Mail, SettingError> {
        let to = to.iter().map(|one| address(one)).collect::<Result<Vec<_>, _>>()?;
        if to.is_empty() || to.len() > PEOPLE {
            return Err(format!("names {} addresses; there must be 1 to {PEOPLE}", to.len()).into());
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
    let mut mailbox: Mailbox =
        text.parse().map_err(|error| format!("has {text:?}, which is not an e-mail address ({error}); {right}"))?;
    if !mailbox.email.domain().is_ascii() {
        // As mail servers know it.
        let url = Url::parse(&format!("http://{}/", mailbox.email.domain())).ok();
        let domain = url.as_ref().and_then(Url::host_str).unwrap_or_default();
        let email = Address::new(mailbox.email.user(), domain);
        mailbox.email = email.map_err(|error| format!("has {text:?}, whose domain is none ({error}); {right}"))?;
    }
    Ok(mailbox)
}

/// Parses the address of a mail server.
///
/// # Errors
/// Why it is none, as a text that can follow `"url"`. It does not repeat the address, which may hold a secret.
pub(crate) fn server(text: &str) -> Result<Url, String> {
    let right = "such as smtps://mail.example.com (TLS from the beginning) or smtp://mail.example.com:587 (STARTTLS)";
    let url: Url = text.trim().parse().map_err(|error| format!("is not an address ({error}); one is {right}"))?;
    if !matches!(url.scheme(), "smtp" | "smtps") || url.host_str().is_none_or(str::is_empty) {
        return Err(format!("is not a mail server; one is {right}"));
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
    lookups: Lookups,
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
        Ok(Sender { mail, host, port, encryption, lookups: Lookups::default() })
    }

    /// Attempts once.
    pub(super) async fn once(&self, notice: &Notice, locale: Locale) -> Outcome {
        let failed = |why| Outcome::Failed { why, pause: None };
        let message = match message(&self.mail, notice, locale) {
            Ok(message) => message,
            Err(why) => return failed(why),
        };
        let heard = Heard::default();
        let mut connection = match timeout(TIME_LIMIT, self.connect(&heard)).await {
            Ok(Ok(connection)) => connection,
            Ok(Err(why)) => return failed(why),
            Err(_) => return failed(self.late(TIME_LIMIT, &heard)),
        };
        let outcome = self.send(&mut connection, &message, &heard).await;
        // It is known by now, however the connection ends.
        let _ = timeout(GOODBYE, connection.abort()).await;
        match outcome {
            Ok(refused) if refused.is_empty() => Outcome::Delivered,
            Ok(refused) => {
                let (all, list) = (self.mail.to.len(), refused.join("; "));
                let why = format!("it went to {} of {all}, and was refused for {list}", all - refused.len());
                Outcome::Partly { why: cut(&why) }
            }
            Err(why) => failed(cut(&why)),
        }
    }

    /// Sends a message to the recipients that the server accepts, and returns those that it refused, and why.
    async fn send(
        &self,
        connection: &mut AsyncSmtpConnection,
        message: &Message,
        heard: &Heard,
    ) -> Result<Vec<String>, String> {
        let offered = timeout(TIME_LIMIT, self.offer(connection, message.envelope())).await;
        let refused = offered.unwrap_or_else(|_| Err(self.late(TIME_LIMIT, heard)))?;
        let taken = timeout(TAKING, connection.message(&message.formatted())).await;
        let taken = taken.map_err(|_| self.late(TAKING, heard))?;
        taken.map(|_| refused).map_err(|error| self.told(&error.to_string()))
    }

    /// Begins a message, and offers each of its recipients; returns the refused ones, and why.
    async fn offer(&self, connection: &mut AsyncSmtpConnection, to: &Envelope) -> Result<Vec<String>, String> {
        let told = |error: lettre::transport::smtp::Error| self.told(&error.to_string());
        let mut how = Vec::new();
        let is_ascii = |one: &Address| AsRef::<str>::as_ref(one).is_ascii();
        if !to.from().into_iter().chain(to.to()).all(is_ascii) {
            if !connection.server_info().supports_feature(Extension::SmtpUtfEight) {
                return Err("the mail server takes no addresses but in ASCII (it has no SMTPUTF8)".to_owned());
            }
            how.push(MailParameter::SmtpUtfEight);
        }
        connection.command(From::new(to.from().cloned(), how)).await.map_err(told)?;
        let mut refused = Vec::new();
        for one in to.to() {
            match connection.command(Rcpt::new(one.clone(), Vec::new())).await {
                Ok(_) => {}
                Err(error) if error.is_permanent() || error.is_transient() => {
                    refused.push(format!("{one}: {}", told(error)));
                }
                Err(error) => return Err(told(error)),
            }
        }
        if refused.len() == to.to().len() {
            return Err(refused.join("; "));
        }
        connection.command(Data).await.map_err(told)?;
        Ok(refused)
    }

    /// Connects, and signs in.
    async fn connect(&self, heard: &Heard) -> Result<AsyncSmtpConnection, String> {
        let at = self.lookups.of(&self.host, self.port).await?;
        self.connect_to(&at, heard).await.map_err(|error| self.told(&error.to_string()))
    }

    /// The error if it did not answer in time: what it said last may be the reason.
    fn late(&self, most: Duration, heard: &Heard) -> String {
        let late = format!("the mail server took longer than {} seconds", most.as_secs());
        match heard.last() {
            Some(last) => format!("{late}; the last that it said: {}", self.told(&last)),
            None => late,
        }
    }

    async fn connect_to(
        &self,
        at: &[SocketAddr],
        heard: &Heard,
    ) -> Result<AsyncSmtpConnection, lettre::transport::smtp::Error> {
        // Mail servers expect a domain name; this one is known to exist.
        let hello = ClientId::Domain(self.mail.from.email.domain().to_owned());
        let whole = match &self.encryption {
            Encryption::Whole(parameters) => Some(parameters.clone()),
            _ => None,
        };
        let stream = Bounded::connect(at, whole, heard.clone()).await?;
        let mut connection = AsyncSmtpConnection::connect_with_transport(Box::new(stream), &hello).await?;
        if let Encryption::Starttls(parameters) = &self.encryption {
            connection.starttls(parameters.clone(), &hello).await?;
            heard.forget();
        }
        if let Some((user, password)) = &self.mail.login {
            let credentials = Credentials::new(user.clone(), password.expose().to_owned());
            connection.auth(&[Mechanism::Plain, Mechanism::Login], &credentials).await?;
        }
        Ok(connection)
    }

    /// Why it failed, on one line: a mail server's answer is a foreign text, which may repeat the credentials.
    fn told(&self, said: &str) -> String {
        let text = self.mail.login.iter().fold(said.to_owned(), |text, (user, password)| {
            let password = password.expose();
            // As the mechanisms send them (RFC 4616, and LOGIN). The padding is left out, so that both forms match.
            let sent = [format!("\0{user}\0{password}"), password.to_owned()].map(|sent| STANDARD_NO_PAD.encode(sent));
            sent.iter().map(String::as_str).chain([password]).fold(text, redacted)
        });
        cut(&line(&text))
    }
}

/// As much of an error as is reported.
fn cut(why: &str) -> String {
    why.chars().take(WHY_CHARS).collect()
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
    let link = format!("{}{}{}", locale.text(Text::NotifyOpen), locale.text(Text::Colon), notice.data.url);
    let parts = [headline.as_str(), &facts, &link];
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
        .header(MIME_VERSION_1_0)
        .header(ContentType::TEXT_PLAIN)
        .subject(subject)
        .body(text.join("\n"))
        .map_err(|error| format!("the e-mail cannot be written: {error}"))
}
