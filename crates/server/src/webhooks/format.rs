//! The bodies of messages: the standard one, and those that Slack, Teams and Feishu (Lark) show in a chat; [`super::mail`]
//! makes e-mails of the same lines.
//!
//! Names in them can be chosen by operators of MCP servers and issuers of tokens. So hidden characters are made
//! visible, long names are cut, and every such text is in a place where the chat accepts no markup: Slack's
//! `plain_text`, the runs of Teams' rich text, Feishu's `plain_text`. The only markup is our own link, which shows the
//! request and decides nothing.

use countersign_core::{
    call::{reviewer::Reviewer, shown::line},
    locale::{Locale, Text},
};
use serde_json::{Value, json};

use super::{
    notice::{Notice, NoticeKind},
    sign::SigningKey,
};

/// The longest name that is shown in a chat, in characters.
const NAME_CHARS: usize = 120;
/// Most names that are shown of a list.
const NAMES: usize = 8;
/// The kinds of requests that are answered, and not approved.
const QUESTIONS: [&str; 3] = ["question", "interrupt", "input"];

/// The form of a message.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub enum Format {
    /// Standard Webhooks, signed.
    #[default]
    Standard,
    /// An incoming webhook of Slack.
    Slack,
    /// A workflow of Microsoft Teams that posts what it gets.
    Teams,
    /// A custom robot of Feishu or Lark.
    Feishu,
    /// E-mail, by way of a mail server.
    Email,
}

impl Format {
    /// Each with its name in the file.
    pub const NAMED: &'static [(&'static str, Format)] = &[
        ("standard", Format::Standard),
        ("slack", Format::Slack),
        ("teams", Format::Teams),
        ("feishu", Format::Feishu),
        ("email", Format::Email),
    ];

    /// Its name in the file.
    #[must_use]
    pub fn name(self) -> &'static str {
        Format::NAMED.iter().find(|(_, format)| *format == self).map_or("", |(name, _)| name)
    }
}

/// The body of a message. `key` makes a signature inside the body, at this time.
pub(super) fn body(format: Format, notice: &Notice, locale: Locale, key: Option<&SigningKey>, seconds: i64) -> Value {
    match format {
        // An e-mail has no such body.
        Format::Standard | Format::Email => json!(notice),
        Format::Slack => slack(notice, locale),
        Format::Teams => teams(notice, locale),
        Format::Feishu => feishu(notice, locale, key, seconds),
    }
}

/// A foreign name, on one line.
fn name(text: &str) -> String {
    let line = line(text);
    let mut chars = line.chars();
    let mut shown: String = chars.by_ref().take(NAME_CHARS).collect();
    if chars.next().is_some() {
        shown.push('…');
    }
    shown
}

fn names(of: &[String], locale: Locale) -> String {
    let mut shown: Vec<String> = of.iter().take(NAMES).map(|one| name(one)).collect();
    if of.len() > NAMES {
        shown.push("…".to_owned());
    }
    shown.join(locale.text(Text::List))
}

/// What happened, in one line.
fn headline(notice: &Notice, locale: Locale) -> String {
    let data = &notice.data;
    let is_question = data.kind.as_deref().is_some_and(|kind| QUESTIONS.contains(&kind));
    let text = match notice.kind {
        NoticeKind::Requested if is_question => Text::NotifyQuestion,
        NoticeKind::Reminded if is_question => Text::NotifyQuestionReminded,
        NoticeKind::Reassigned if is_question => Text::NotifyQuestionReassigned,
        NoticeKind::Requested => Text::NotifyRequested,
        NoticeKind::Reminded => Text::NotifyReminded,
        NoticeKind::Reassigned => Text::NotifyReassigned,
        NoticeKind::Escalated => Text::NotifyEscalated,
        NoticeKind::Resolved => Text::NotifyResolved,
        NoticeKind::TimedOut => Text::NotifyTimedOut,
        NoticeKind::InDoubt => Text::NotifyInDoubt,
        NoticeKind::Test => Text::NotifyTest,
    };
    // A request without tools, or of a session that was deleted since, is named by its key.
    let what = match data.tools.as_slice() {
        [] => name(data.approval_key.as_deref().unwrap_or_default()),
        tools => names(tools, locale),
    };
    locale.fill(text, &[("what", &what), ("how", &how(notice, locale))])
}

/// How it ended.
fn how(notice: &Notice, locale: Locale) -> String {
    let word = |decision: &str| match decision {
        "approve" => locale.text(Text::NotifyApprove).to_owned(),
        "reject" => locale.text(Text::NotifyReject).to_owned(),
        "edit" => locale.text(Text::NotifyEdit).to_owned(),
        "respond" => locale.text(Text::NotifyRespond).to_owned(),
        "answer" => locale.text(Text::NotifyAnswered).to_owned(),
        "defer" => locale.text(Text::NotifyDefer).to_owned(),
        other => name(other),
    };
    if notice.data.resolution == Some("cancelled") {
        return locale.text(Text::NotifyCancelled).to_owned();
    }
    let mut words: Vec<String> = Vec::new();
    for decision in &notice.data.decisions {
        let word = word(decision);
        if !words.contains(&word) && words.len() < NAMES {
            words.push(word);
        }
    }
    words.join(locale.text(Text::List))
}

/// The lines below it.
fn facts(notice: &Notice, locale: Locale) -> Vec<String> {
    let data = &notice.data;
    let roles = if data.escalated_to.is_empty() { data.role.as_slice() } else { &data.escalated_to };
    let pending = data.resolution.is_none() || !data.escalated_to.is_empty();
    // It is no role: the session's owner decides.
    let (user, roles): (Vec<_>, Vec<_>) = roles.iter().cloned().partition(|role| Reviewer::is_owner_name(role));
    let roles = Some(names(&roles, locale)).filter(|names| !names.is_empty());
    [
        data.agent.as_ref().map(|agent| locale.fill(Text::NotifyAgent, &[("agent", &name(agent))])),
        Some(locale.text(Text::NotifyUser).to_owned()).filter(|_| !user.is_empty() && pending),
        roles.filter(|_| pending).map(|role| locale.fill(Text::NotifyRole, &[("role", &role)])),
        data.by.as_ref().map(|by| locale.fill(Text::NotifyBy, &[("by", &name(by))])),
        data.expires_at.as_ref().map(|at| locale.fill(Text::NotifyDeadline, &[("at", at)])),
    ]
    .into_iter()
    .flatten()
    .collect()
}

/// The lines in one text, the first of them the headline.
pub(super) fn lines(notice: &Notice, locale: Locale) -> (String, String) {
    (headline(notice, locale), facts(notice, locale).join("\n"))
}

/// A text for Slack's `mrkdwn`, in which these three begin everything that is not plain.
fn slack_escaped(text: &str) -> String {
    text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;")
}

fn slack(notice: &Notice, locale: Locale) -> Value {
    let (headline, facts) = lines(notice, locale);
    let plain = |text: &str| json!({ "type": "plain_text", "text": text, "emoji": false });
    let mut blocks = vec![json!({ "type": "section", "text": plain(&headline) })];
    if !facts.is_empty() {
        blocks.push(json!({ "type": "context", "elements": [plain(&facts)] }));
    }
    let link = format!("<{}|{}>", slack_escaped(&notice.data.url), slack_escaped(locale.text(Text::NotifyOpen)));
    blocks.push(json!({ "type": "section", "text": { "type": "mrkdwn", "text": link, "verbatim": true } }));
    // For notifications, in place of the blocks.
    let text = slack_escaped(&headline);
    json!({ "text": text, "mrkdwn": false, "unfurl_links": false, "unfurl_media": false, "blocks": blocks })
}

fn teams(notice: &Notice, locale: Locale) -> Value {
    let (headline, facts) = lines(notice, locale);
    let run = |text: &str, weight: &str| json!({ "type": "RichTextBlock", "inlines": [{ "type": "TextRun", "text": text, "weight": weight }] });
    let mut body = vec![run(&headline, "Bolder")];
    body.extend(facts.lines().map(|fact| run(fact, "Default")));
    let open = json!({ "type": "Action.OpenUrl", "title": locale.text(Text::NotifyOpen), "url": notice.data.url });
    let card = json!({
        "$schema": "http://adaptivecards.io/schemas/adaptive-card.json",
        "type": "AdaptiveCard",
        "version": "1.4",
        "body": body,
        "actions": [open],
    });
    json!({
        "type": "message",
        "attachments": [{
            "contentType": "application/vnd.microsoft.card.adaptive",
            "contentUrl": null,
            "content": card,
        }],
    })
}

fn feishu(notice: &Notice, locale: Locale, key: Option<&SigningKey>, seconds: i64) -> Value {
    let (headline, facts) = lines(notice, locale);
    let plain = |text: &str| json!({ "tag": "plain_text", "content": text });
    let mut elements = Vec::new();
    if !facts.is_empty() {
        elements.push(json!({ "tag": "div", "text": plain(&facts) }));
    }
    let link = format!("[{}]({})", locale.text(Text::NotifyOpen), notice.data.url);
    elements.push(json!({ "tag": "div", "text": { "tag": "lark_md", "content": link } }));
    let card = json!({ "header": { "title": plain(&headline) }, "elements": elements });
    let mut message = json!({ "msg_type": "interactive", "card": card });
    if let Some(key) = key {
        message["timestamp"] = json!(seconds.to_string());
        message["sign"] = json!(key.sign_for_feishu(seconds));
    }
    message
}
