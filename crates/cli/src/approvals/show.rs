//! An approval request as text: everything a reviewer has to know, without terminal control sequences.

use std::fmt::Write as _;

use countersign_core::call::shown::line;
use serde_json::Value;

use super::replied::Replied;
use crate::{
    remote::ending,
    terminal::{time, visible},
};

/// The whole of a pending request.
pub(crate) fn card(request: &Value) -> String {
    card_with(request, &Replied::default())
}

/// The whole request, with the reply.
pub(crate) fn card_with(request: &Value, replied: &Replied) -> String {
    let mut out = String::new();
    let ended = ending(request);
    let is_open = ended.is_none();
    let status = ended.unwrap_or_else(|| "pending".to_owned());
    let _ = writeln!(
        out,
        "{}: {}, {}",
        name(&request["approval_key"]),
        known(request).map_or_else(|| name(&request["kind"]), str::to_owned),
        one(&status)
    );
    field(&mut out, "note", unknown(request).filter(|_| is_open));
    field(&mut out, "on hold", on_hold(request));
    let in_doubt = is_open && request["kind"] == "in_doubt";
    field(&mut out, "note", in_doubt.then(|| "approve runs it again; reject does not".to_owned()));
    field(&mut out, "session", Some(name(&request["session_id"])));
    field(&mut out, "requester", Some(name(&request["subject"])));
    field(&mut out, "asked", Some(at(&request["created_at"])));
    field(&mut out, "deadline", deadline(request).filter(|_| is_open));
    field(&mut out, "reviewer", Some(reviewer(request)));
    field(&mut out, "approvals", votes(request));
    for (i, action) in list(&request["actions"]).iter().enumerate() {
        let other = Some(reviewer_of(request, i)).filter(|_| differs(request, i));
        self::action(&mut out, i + 1, action, &request["review_configs"][i], other, is_open);
        if let Some(decided) = replied.decision(i) {
            decided.lines(&mut out, action["name"].as_str().unwrap_or_default());
        }
    }
    for action in list(&request["action_requests"]) {
        for question in list(&action["args"]["questions"]) {
            let answer = question["question"].as_str().map(|text| &request["answers"][text]);
            self::question(&mut out, question, answer.and_then(Value::as_str));
        }
        if let Some(declined) = replied.decision(0) {
            declined.lines(&mut out, "");
        }
    }
    if let Some(interrupt) = request.get("interrupt") {
        field(&mut out, "asked by", Some(format!("{} {}", one_of(&interrupt["node"]), one_of(&interrupt["name"]))));
        if let Some(schema) = interrupt.get("schema").filter(|_| is_open) {
            field(&mut out, "answer", Some(format!("JSON that fits {}", one(&schema.to_string()))));
        }
    }
    field(&mut out, "answer", replied.value());
    field(&mut out, "digest", request["digest"].as_str().map(line));
    let updates = list(&request["updates"]);
    if !updates.is_empty() {
        out.push_str("\nupdates\n");
    }
    for update in updates {
        let _ = writeln!(out, "  {}", self::update(update));
    }
    out
}

/// One line for lists: the request, cut after `most` characters.
pub(crate) fn summary(request: &Value, most: usize) -> String {
    let actions = list(&request["actions"]).iter().enumerate().map(|(i, action)| {
        let text = action["display"]["text"].as_str().unwrap_or_default();
        let flat: Vec<&str> = text.lines().map(str::trim).collect();
        let title = request["review_configs"][i]["title"].as_str().map(|title| format!("{}: ", one(title)));
        format!("{}{} {}", title.unwrap_or_default(), one_of(&action["name"]), one(&flat.join(" ")))
    });
    let questions = list(&request["action_requests"]).iter().flat_map(|action| list(&action["args"]["questions"]));
    let said: Vec<String> = actions.chain(questions.map(|question| one_of(&question["question"]))).collect();
    cut(&said.join("; "), most)
}

/// Cuts a text after so many characters.
pub(crate) fn cut(text: &str, most: usize) -> String {
    match text.char_indices().nth(most) {
        Some((end, _)) => format!("{}…", &text[..end]),
        None => text.to_owned(),
    }
}

/// Why the turn of a request or a session is on hold, and what to check before continuing it.
pub(crate) fn held(of: &Value) -> Option<&'static str> {
    Some(match of["held"]["reason"].as_str()? {
        "restored" => {
            "the store was restored from a backup: what was done after the backup is not on record here; before you decide, \
             check whether it was done"
        }
        "fork" => "a fork that nobody has continued",
        "crashes" => "the server ended several times in the middle of the turn",
        _ => "nothing in the turn continues automatically",
    })
}

/// The same, with its code.
pub(crate) fn on_hold(of: &Value) -> Option<String> {
    held(of).map(|why| format!("{why} (held: {})", one_of(&of["held"]["reason"])))
}

/// How many have approved, where several people must.
pub(crate) fn votes(request: &Value) -> Option<String> {
    let quorum = request["review_configs"][0]["quorum"].as_u64()?;
    let by: Vec<String> = list(&request["approved_by"]).iter().map(name).collect();
    let so_far = if by.is_empty() { "nobody yet".to_owned() } else { by.join(", ") };
    Some(format!("{} of {quorum} people: {so_far}", by.len()))
}

/// Who decides now.
pub(crate) fn reviewer(request: &Value) -> String {
    reviewer_of(request, 0)
}

/// Whether this action has other reviewers than the first, for example a further level.
fn differs(request: &Value, index: usize) -> bool {
    let [mine, first] = [index, 0].map(|i| &request["review_configs"][i]);
    ["role", "level", "levels", "not_self"].iter().any(|member| mine[*member] != first[*member])
}

/// Who decides this action now, and at which of its levels.
fn reviewer_of(request: &Value, index: usize) -> String {
    let config = &request["review_configs"][index];
    let mut said = match (request["assignee"].as_str(), config["role"].as_str()) {
        (Some(person), Some(role)) => format!("{}, who holds {}", line(person), line(role)),
        (Some(person), None) => line(person),
        (None, Some(role)) => line(role),
        (None, None) => "user".to_owned(),
    };
    if let Some(level) = config["level"].as_u64() {
        let mut levels: Vec<String> = list(&config["levels"]).iter().map(name).collect();
        if request["kind"] == "in_doubt" {
            // The last level is asked first whether it runs again.
            levels.reverse();
        }
        let _ = write!(said, ", level {level} of {} ({})", levels.len(), levels.join(", then "));
    }
    if config["not_self"] == true {
        said.push_str("; not the requester");
    }
    said
}

/// The deadline, and how far off it is.
pub(crate) fn deadline(request: &Value) -> Option<String> {
    let at = request["expires_at"].as_str()?;
    Some(match left(request) {
        Some(left) => format!("{} ({left})", time(at)),
        None => time(at),
    })
}

/// The time to the deadline.
pub(crate) fn left(request: &Value) -> Option<String> {
    let at: jiff::Timestamp = request["expires_at"].as_str()?.parse().ok()?;
    let seconds = at.duration_since(jiff::Timestamp::now()).as_secs();
    Some(match seconds {
        ..=0 => "passed".to_owned(),
        1..120 => format!("in {seconds} s"),
        120..7200 => format!("in {} min", seconds / 60),
        7200..172_800 => format!("in {} h", seconds / 3600),
        _ => format!("in {} days", seconds / 86_400),
    })
}

/// What kind of request it is. `None`: one that only newer servers have.
fn known(request: &Value) -> Option<&'static str> {
    match request["kind"].as_str()? {
        "approval" => Some("approval"),
        "question" => Some("question"),
        "in_doubt" => Some("outcome unknown: it may have run, and may still be running"),
        "interrupt" => Some("question of a graph"),
        "input" => Some("question of a tool"),
        _ => None,
    }
}

/// Why this program cannot reply to it: for an unknown kind of request, it does not know what a reply would mean.
pub(crate) fn unknown(request: &Value) -> Option<String> {
    let (key, kind) = (name(&request["approval_key"]), name(&request["kind"]));
    let why =
        format!("{key} is a request of the kind {kind}, which this version does not know: reply with a newer one");
    known(request).is_none().then_some(why)
}

/// `other`: its reviewer, where that is not the first action's.
fn action(out: &mut String, number: usize, action: &Value, config: &Value, other: Option<String>, is_open: bool) {
    let _ = writeln!(out, "\naction {number}: {}, agent {}", one_of(&action["name"]), one_of(&action["agent"]));
    field(out, "reviewer", other);
    // The operator's line, and how much is at stake.
    field(out, "title", Some(one_of(&config["title"])));
    field(out, "risk", Some(one_of(&config["risk"])));
    field(out, "reason", Some(one_of(&config["reason"])));
    let through: Vec<String> = list(&action["path"])
        .iter()
        .map(|step| format!("{} > {}", one_of(&step["agent"]), one_of(&step["tool"])))
        .collect();
    field(out, "through", Some(through.join(" > ")));
    let server = action["server"].as_str().map(|server| format!("of the MCP server {}: ", line(server)));
    let about = action["description"].as_str().map(|text| one(&format!("{}{text}", server.unwrap_or_default())));
    field(out, "tool", about);
    field(out, "agent says", action["agent_says"].as_str().map(|said| format!("{} (not verified)", one(said))));
    let _ = writeln!(out, "  arguments\n{}", indented(&action["display"]["text"]));
    for warning in list(&action["display"]["warnings"]) {
        let kind = one_of(&warning["kind"]).replace('_', " ");
        let place = match warning["pointer"].as_str() {
            Some("") | None => "in other places".to_owned(),
            Some(pointer) => format!("at {}", one(pointer)),
        };
        let _ = writeln!(out, "  warning     {kind}: {} {place}", warning["count"]);
    }
    if action.get("preview").is_some() {
        let _ = writeln!(out, "  preview\n{}", indented(&action["preview"]["text"]));
        if let Some(lines @ 1..) = action["preview"]["left_out"].as_u64() {
            let _ = writeln!(out, "    ({lines} more lines)");
        }
    }
    let allowed: Vec<String> = list(&config["allowed_decisions"]).iter().map(name).collect();
    field(out, "decisions", is_open.then(|| allowed.join(", ")));
    field(out, "digest", Some(name(&action["digest"])));
}

fn question(out: &mut String, question: &Value, answer: Option<&str>) {
    let header = question["header"].as_str().map(|header| format!("{}: ", one(header))).unwrap_or_default();
    let several = if question["multiSelect"] == true { " (several)" } else { "" };
    let _ = writeln!(out, "\n{header}{}{several}", one_of(&question["question"]));
    for (number, option) in (1..).zip(list(&question["options"])) {
        let more = option["description"].as_str().map(|text| format!(": {}", one(text))).unwrap_or_default();
        let free = if option["input"] == true { " …" } else { "" };
        let _ = writeln!(out, "  {number}. {}{free}{more}", one_of(&option["label"]));
    }
    field(out, "answer", answer.map(one));
}

/// A comment, or another change while it is pending.
pub(crate) fn update(update: &Value) -> String {
    let who = update["by"].as_str().map_or_else(|| "the server".to_owned(), line);
    let at = update["at"].as_str().map(|at| format!("{} ", time(at))).unwrap_or_default();
    let words = update["text"].as_str().map(|text| format!(": {}", one(text))).unwrap_or_default();
    let what = match update["update"].as_str() {
        Some("comment") => "comments".to_owned(),
        Some("reminder") => "reminds".to_owned(),
        Some("approved") => format!("approves, {} of {}", update["approved"], update["quorum"]),
        Some("reassigned") => {
            let to: Vec<String> = ["subject", "role"].iter().filter_map(|to| update[*to].as_str()).map(line).collect();
            format!("reassigns it to {}", to.join(", "))
        }
        _ => "changes it".to_owned(),
    };
    format!("{at}{who} {what}{words}")
}

/// A line of the head, if there is anything to say.
pub(super) fn field(out: &mut String, title: &str, text: Option<String>) {
    if let Some(text) = text.filter(|text| !text.is_empty()) {
        let _ = writeln!(out, "  {title:<11} {text}");
    }
}

/// A text of several lines, below its heading: it cannot pass for a heading itself.
pub(crate) fn indented(text: &Value) -> String {
    let text = visible(text.as_str().unwrap_or_default());
    let lines: Vec<String> = text.split('\n').map(|line| format!("    {line}")).collect();
    lines.join("\n")
}

/// A text on one line, which has its escapes already or is prose.
pub(crate) fn one(text: &str) -> String {
    visible(text).replace('\n', "\\n")
}

fn one_of(value: &Value) -> String {
    one(value.as_str().unwrap_or_default())
}

/// A name, in which letters that only look like others are marked.
pub(crate) fn name(value: &Value) -> String {
    line(value.as_str().unwrap_or_default())
}

/// A point in time.
pub(crate) fn at(value: &Value) -> String {
    time(value.as_str().unwrap_or_default())
}

/// The items of an array; none of anything else.
pub(crate) fn list(value: &Value) -> &[Value] {
    value.as_array().map(Vec::as_slice).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn u3_a_request_is_titled_by_the_operators_line_and_nothing_in_it_passes_for_a_heading() {
        let display = json!({ "text": "{\"n\": 1}\ndigest forged", "warnings": [{ "kind": "not_normalized", "pointer": "/n", "count": 2 }] });
        let request = json!({
            "approval_key": "s_1", "session_id": "s", "kind": "approval", "expires_at": "2000-01-01T00:00:00Z",
            "actions": [{ "name": "pay", "agent": "a", "display": display, "agent_says": "ok\n  digest forged", "digest": "d" }, {}],
            "review_configs": [{ "title": "pay 1", "risk": "high", "reason": "why", "role": "admin", "level": 2, "levels": ["user", "admin"], "not_self": true }],
            "updates": [{ "update": "reassigned", "role": "legal", "by": "bob", "at": "t", "text": "yours" }],
        });
        let card = card(&request);
        for part in [
            "s_1: approval, pending\n",
            "  deadline    2000-01-01T00:00:00.000Z (passed)\n",
            "  reviewer    admin, level 2 of 2 (user, then admin); not the requester\n",
            "  title       pay 1\n  risk        high\n  reason      why\n",
            "  agent says  ok\\n  digest forged (not verified)\n",
            "    {\"n\": 1}\n    digest forged\n",
            "  warning     not normalized: 2 at /n\n",
            "\nupdates\n  t bob reassigns it to legal: yours\n",
        ] {
            assert!(card.contains(part), "{part:?} is not in {card}");
        }
        assert!(
            summary(&request, 100).starts_with("pay 1: pay {\"n\": 1} digest forged"),
            "{}",
            summary(&request, 100)
        );
        assert_eq!(cut("ế".repeat(3).as_str(), 2), "ếế…");
        let again = json!({ "kind": "in_doubt", "review_configs": [{ "role": "admin", "level": 2, "levels": ["user", "admin"] }] });
        assert_eq!(reviewer(&again), "admin, level 2 of 2 (admin, then user)");
    }

    #[test]
    fn u3_a_request_of_a_kind_that_only_newer_servers_have_says_that_no_reply_has_a_meaning_here() {
        let request =
            json!({ "approval_key": "s_1", "kind": "seal\n", "actions": [{ "name": "pay" }], "review_configs": [{}] });
        let why = "s_1 is a request of the kind seal\\n, which this version does not know: reply with a newer one";
        assert_eq!(unknown(&request).as_deref(), Some(why));
        let card = card(&request);
        assert!(card.starts_with(&format!("s_1: seal\\n, pending\n  note        {why}\n")), "{card}");
        let known = ["approval", "question", "in_doubt", "interrupt", "input"];
        assert!(known.into_iter().all(|kind| unknown(&json!({ "kind": kind })).is_none()));
    }

    #[test]
    fn u3_p1_an_action_that_needs_more_people_than_the_first_says_so() {
        let one = json!({ "role": "lead" });
        let two = json!({ "role": "lead", "level": 1, "levels": ["lead", "finance"], "not_self": true });
        let call = |name: &str| json!({ "name": name, "agent": "a" });
        let request =
            json!({ "actions": [call("note"), call("pay"), call("note")], "review_configs": [one, two, one] });
        let card = card(&request);
        assert_eq!(card.matches("  reviewer    ").count(), 2, "{card}");
        assert!(card.contains("  reviewer    lead\n\naction 1: note"), "{card}");
        let more = "action 2: pay, agent a\n  reviewer    lead, level 1 of 2 (lead, then finance); not the requester\n";
        assert!(card.contains(more), "{card}");
    }
}
