//! `countersign policy test` (spec P3).

use std::{collections::BTreeMap, fmt::Write as _, path::PathBuf, sync::Arc};

use clap::{Args, Subcommand};
use countersign_core::{
    approval::rule::{Rule, RuleId},
    call::{
        args,
        gate::{Ask, DecidedBy, Gate, Verdict},
        reviewer::Reviewer,
    },
    journal::{
        record::{Millis, Record},
        standing::RuleFacts,
        state::{Call, Phase, State},
    },
    number::CallNo,
};
use countersign_engine::{policy::Judge, tool::CallFacts};
use countersign_server::config::{Config, mcp_servers, sources, tool_entries};
use countersign_store::StoreError;
use serde::Serialize;
use serde_json::{Value, json};

use crate::{
    Outcome,
    failure::{Exit, Failure},
    loaded,
    past::Past,
    say,
    terminal::{tell, visible, visible_json},
    traces,
};

/// Sessions, and entries of one, read from the store at a time.
const AT_ONCE: usize = 512;
/// Characters of a call's arguments in a line of text; `--json` has all of them.
const ARGS_SHOWN: usize = 100;

/// Arguments of `policy`.
#[derive(Args)]
pub(crate) struct Policy {
    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand)]
enum Command {
    /// Tests a changed policy on the recorded past: what it would ask about, allow and deny
    Test(Test),
}

#[derive(Args)]
struct Test {
    /// The changed policy: a file with `[policy]` alone, or a whole configuration
    #[arg(long, value_name = "FILE")]
    policy: PathBuf,
    /// The configuration file that names the store, the agents and the tools
    #[arg(long, value_name = "FILE", default_value = "countersign.toml")]
    config: PathBuf,
    /// Only this session; may be repeated
    #[arg(long, value_name = "ID")]
    session: Vec<String>,
    /// Print JSON
    #[arg(long)]
    json: bool,
}

/// Runs the command.
pub(crate) fn run(policy: &Policy) -> Outcome {
    let Command::Test(test) = &policy.command;
    traces::warnings()?;
    let config = loaded::load(&test.config)?;
    let (store, keys, place) = (config.store.clone(), config.store_keys.clone(), loaded::store(&config));
    let changed = config.with_policy(&test.policy).map_err(|errors| loaded::lines(&errors))?;
    changed.warnings.iter().for_each(|warning| tell(&visible(&format!("warning: {warning}"))));
    let judge = judge(&changed)?;
    let executor =
        tokio::runtime::Builder::new_current_thread().enable_all().build().map_err(|error| error.to_string())?;
    let report = executor.block_on(async {
        let mut past = Past::open(&store, &keys).await?;
        report(&mut past, &place, &judge, &test.session).await
    })?;
    if test.json { say(&visible_json(&report.json(&judge)?)) } else { say(&visible(&report.text(&judge))) }
}

/// The judge of a configuration.
pub(crate) fn judge(config: &Config) -> Result<Judge, String> {
    let entries = tool_entries(config)?;
    let servers = mcp_servers(config)?;
    let (mut tools, mut others) = (Vec::new(), Vec::new());
    for agent in &config.agents {
        others.extend(sources(config, agent, &servers)?.into_iter().map(|source| (agent.name.clone(), source)));
        for name in agent.tools.iter().filter(|name| !config.is_of_server(name)) {
            let entry = entries.get(name).ok_or_else(|| format!("there is no tool {name:?}"))?;
            tools.push((agent.name.clone(), entry.clone()));
        }
    }
    Ok(Judge::with_sources(config.policy()?, tools, others))
}

/// The verdict on a call, recorded or new.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Said {
    Ask,
    Allow,
    Deny,
}

impl Said {
    const ALL: [Said; 3] = [Said::Ask, Said::Allow, Said::Deny];

    /// `None` for calls that no policy decides: questions, and invalid calls.
    fn of(verdict: &Verdict) -> Option<Said> {
        match verdict {
            Verdict::Ask(_) => Some(Said::Ask),
            Verdict::Allow => Some(Said::Allow),
            Verdict::Deny(_) => Some(Said::Deny),
            Verdict::Question(_) | Verdict::Invalid(_) => None,
        }
    }

    fn name(self) -> &'static str {
        match self {
            Said::Ask => "ask",
            Said::Allow => "allow",
            Said::Deny => "deny",
        }
    }
}

/// How many calls of a tool were asked about, allowed and denied: before, and under the changed policy.
#[derive(Default)]
struct Tally {
    calls: u64,
    before: [u64; 3],
    after: [u64; 3],
}

/// A call whose verdict changes.
struct Change {
    session: Arc<str>,
    call: Call,
    before: Verdict,
    /// Who or what had decided it in a person's place.
    decided_by: Option<DecidedBy>,
    after: Verdict,
}

#[derive(Default)]
struct Report {
    sessions: u64,
    calls: u64,
    /// Calls that were not judged: their agent or tool is not in the file, or is an MCP server's.
    unknown: u64,
    tools: BTreeMap<Arc<str>, Tally>,
    changes: Vec<Change>,
}

async fn report(past: &mut Past, store: &str, judge: &Judge, only: &[String]) -> Result<Report, Failure> {
    let mut report = Report::default();
    let failed = |error: StoreError| error.to_string();
    let mut wanted: Vec<Arc<str>> = only.iter().map(|id| Arc::from(id.as_str())).collect();
    wanted.sort();
    wanted.dedup();
    let mut after: Arc<str> = Arc::from("");
    loop {
        let page = if only.is_empty() {
            past.sessions(&after, AT_ONCE).await.map_err(failed)?
        } else {
            std::mem::take(&mut wanted)
        };
        let Some(last) = page.last() else { return Ok(report) };
        after = last.clone();
        for session in page {
            let mut state = State::new(session.clone());
            loop {
                let entries = past.entries(&session, state.pos, AT_ONCE).await.map_err(failed)?;
                if entries.is_empty() {
                    break;
                }
                for entry in entries {
                    state.begin(entry.pos, entry.at);
                    for record in &entry.records {
                        if let Record::CallsGated(gates) = record {
                            report.gated(past, &state, gates, entry.at, judge).await.map_err(failed)?;
                        }
                        state.take(record);
                    }
                }
            }
            if state.pos == 0 && !only.is_empty() {
                return Err(Failure::new(Exit::NotFound, format!("{store} has no session {session:?}")));
            }
            report.sessions += 1;
        }
    }
}

impl Report {
    /// Judges the calls of one answer again. `state` is the one before their verdicts, `at` the time of those.
    async fn gated(
        &mut self,
        past: &mut Past,
        state: &State,
        gates: &[Gate],
        at: Millis,
        judge: &Judge,
    ) -> Result<(), StoreError> {
        let proposed = state.calls.iter().filter(|call| call.phase == Phase::Proposed);
        for (call, gate) in proposed.zip(gates) {
            let (Some(before), Some(args)) = (Said::of(&gate.verdict), &call.args) else { continue };
            self.calls += 1;
            let facts = CallFacts {
                context: &countersign_engine::tool::AppContext::default(),
                session_id: &state.session_id,
                subject: state.subject.as_deref(),
                tenant: state.tenant.as_deref(),
                roles: &state.roles,
                agent: &call.agent,
                tool: &call.name,
                call_id: &call.id,
                args,
            };
            let Some(verdict) = judge.verdict(&facts, state.locale).await else {
                self.unknown += 1;
                continue;
            };
            let rule = match gate.decided_by.as_ref().and_then(DecidedBy::rule) {
                Some(id) => rule(past, id).await?,
                None => None,
            };
            let verdict = match rule {
                Some(rule) => ruled(&rule, &facts, at, &gate.verdict, verdict),
                None => verdict,
            };
            let Some(after) = Said::of(&verdict) else { continue };
            let tally = self.tools.entry(call.name.clone()).or_default();
            tally.calls += 1;
            tally.before[before as usize] += 1;
            tally.after[after as usize] += 1;
            if differs(&gate.verdict, &verdict) {
                self.changes.push(Change {
                    session: state.session_id.clone(),
                    call: call.clone(),
                    before: gate.verdict.clone(),
                    decided_by: gate.decided_by.clone(),
                    after: verdict,
                });
            }
        }
        Ok(())
    }

    fn text(&self, judge: &Judge) -> String {
        let (calls, sessions) = (count(self.calls, "call"), count(self.sessions, "session"));
        let mut text = format!("{calls} in {sessions}, under the policy {}\n", judge.version());
        if self.unknown > 0 {
            // Writing to a string cannot fail, here and below.
            let what = "to an agent or a tool that the file does not have, or to a tool of an MCP server";
            let _ = writeln!(text, "of these, {} not judged: {what}", count(self.unknown, "call"));
        }
        let width = self.tools.keys().map(|name| name.chars().count()).max().unwrap_or(0).max(4);
        if !self.tools.is_empty() {
            let _ =
                writeln!(text, "\n{:width$}  {:>7}  {:>15}  {:>15}  {:>15}", "tool", "calls", "ask", "allow", "deny");
        }
        for (name, tally) in &self.tools {
            let _ = write!(text, "{name:width$}  {:>7}", tally.calls);
            for said in Said::ALL {
                let (before, after) = (tally.before[said as usize], tally.after[said as usize]);
                let change = if before == after { after.to_string() } else { format!("{before} → {after}") };
                let _ = write!(text, "  {change:>15}");
            }
            text.push('\n');
        }
        if self.changes.is_empty() {
            text.push_str("\nno call changes");
            text.push_str(if self.unknown > 0 { ", of those that were judged" } else { "" });
            return text;
        }
        let changes = u64::try_from(self.changes.len()).unwrap_or(u64::MAX);
        let _ = write!(text, "\n{} would change:", count(changes, "call"));
        for Change { session, call, before, decided_by, after } in &self.changes {
            let args =
                call.args.as_ref().map(|args| countersign_core::call::shown::line(args.text())).unwrap_or_default();
            let args = match args.char_indices().nth(ARGS_SHOWN) {
                Some((end, _)) => format!("{}… ({} characters)", &args[..end], args.chars().count()),
                None => args,
            };
            let by = match decided_by {
                Some(DecidedBy::Rule { id }) => format!(" by the rule {id}"),
                Some(DecidedBy::Program) => " by the program".to_owned(),
                None => String::new(),
            };
            let (before, after) = (told(before), told(after));
            let _ = write!(text, "\n  {session}  call {}  {} {args}\n    {before}{by} → {after}", call.call, call.name);
        }
        text
    }

    fn json(&self, judge: &Judge) -> Result<String, String> {
        let tools = self.tools.iter().map(|(name, tally)| {
            let mut tool = json!({ "tool": name, "calls": tally.calls });
            for said in Said::ALL {
                let (before, after) = (tally.before[said as usize], tally.after[said as usize]);
                tool[said.name()] = json!({ "before": before, "after": after });
            }
            tool
        });
        let changes = self.changes.iter().map(|change| ChangeJson {
            session_id: &change.session,
            call: change.call.call,
            tool_use_id: &change.call.id,
            agent: &change.call.agent,
            tool: &change.call.name,
            args: change.call.args.as_ref(),
            before: verdict_json(&change.before),
            decided_by: change.decided_by.as_ref(),
            after: verdict_json(&change.after),
        });
        let report = ReportJson {
            policy: judge.version(),
            sessions: self.sessions,
            calls: self.calls,
            unknown: self.unknown,
            tools: tools.collect(),
            changes: changes.collect(),
        };
        serde_json::to_string(&report).map_err(|error| error.to_string())
    }
}

/// The report for programs.
#[derive(Serialize)]
struct ReportJson<'a> {
    policy: &'a str,
    sessions: u64,
    calls: u64,
    unknown: u64,
    tools: Vec<Value>,
    changes: Vec<ChangeJson<'a>>,
}

/// A change in it. The arguments are written as they are recorded: a `Value` would lose digits.
#[derive(Serialize)]
struct ChangeJson<'a> {
    session_id: &'a str,
    call: CallNo,
    tool_use_id: &'a str,
    agent: &'a str,
    tool: &'a str,
    args: Option<&'a args::Args>,
    before: Value,
    decided_by: Option<&'a DecidedBy>,
    after: Value,
}

/// The standing rule with an id; `None` if it no longer exists.
async fn rule(past: &mut Past, id: &str) -> Result<Option<Rule>, StoreError> {
    let Some((session, id)) = RuleId::parse(id) else { return Ok(None) };
    Ok(past.rule(session, id).await?.map(|row| row.rule))
}

/// What a standing rule that decided a call at that time would turn a new verdict into: it was in force then, even if
/// it is not today.
fn ruled(rule: &Rule, call: &CallFacts<'_>, at: Millis, before: &Verdict, verdict: Verdict) -> Verdict {
    let looked_at = RuleFacts {
        agent: call.agent,
        tool: call.tool,
        digest: call.args.digest(),
        subject: call.subject,
        speakers: None,
        shown: None,
        now: at,
    };
    let ask = match &verdict {
        Verdict::Allow => None,
        Verdict::Ask(ask) => Some(ask),
        Verdict::Question(_) | Verdict::Invalid(_) | Verdict::Deny(_) => return verdict,
    };
    if rule.applies(&looked_at, ask) { before.clone() } else { verdict }
}

/// A number of things.
fn count(n: u64, what: &str) -> String {
    if n == 1 { format!("1 {what}") } else { format!("{n} {what}s") }
}

/// Whether the verdict changes, or the people who are asked.
fn differs(before: &Verdict, after: &Verdict) -> bool {
    match (before, after) {
        (Verdict::Ask(before), Verdict::Ask(after)) => people(before) != people(after),
        _ => Said::of(before) != Said::of(after),
    }
}

/// Who is asked.
fn people(ask: &Ask) -> (&[Reviewer], u32, bool, &[Reviewer]) {
    let levels = if ask.levels.is_empty() { std::slice::from_ref(Reviewer::OWNER) } else { &*ask.levels };
    (levels, ask.quorum.max(1), ask.not_self, &ask.escalate)
}

/// Describes a verdict.
fn told(verdict: &Verdict) -> String {
    let Some(said) = Said::of(verdict) else { return String::new() };
    let Verdict::Ask(ask) = verdict else { return said.name().to_owned() };
    let (levels, quorum, not_self, escalate) = people(ask);
    let mut text = format!("ask {}", Reviewer::join(levels, ", then "));
    if quorum > 1 {
        let _ = write!(text, ", {quorum} people each");
    }
    if not_self {
        text.push_str(", not the requester");
    }
    if !escalate.is_empty() {
        let _ = write!(text, ", then at the deadline {}", Reviewer::join(escalate, ", then "));
    }
    if let Some(reason) = &ask.reason {
        let _ = write!(text, " ({reason})");
    }
    text
}

fn verdict_json(verdict: &Verdict) -> Value {
    let said = Said::of(verdict).map(Said::name);
    match verdict {
        Verdict::Ask(ask) => {
            let (levels, quorum, not_self, escalate) = people(ask);
            json!({
                "verdict": said,
                "levels": levels,
                "quorum": quorum,
                "not_self": not_self,
                "escalate": escalate,
                "reason": ask.reason,
            })
        }
        _ => json!({ "verdict": said }),
    }
}

#[cfg(test)]
mod tests {
    use countersign_engine::policy::Policy;

    use super::*;

    #[test]
    fn p3_calls_that_only_a_running_server_could_judge_are_not_said_to_be_gone_or_unchanged() {
        let judge = Judge::new(Policy::default(), []);
        let text = Report { calls: 3, unknown: 2, ..Report::default() }.text(&judge);
        assert!(text.contains("of these, 2 calls not judged") && text.contains("of an MCP server"), "{text}");
        assert!(text.ends_with("no call changes, of those that were judged"), "{text}");
        let text = Report { calls: 3, ..Report::default() }.text(&judge);
        assert!(!text.contains("not judged") && text.ends_with("no call changes"), "{text}");
    }
}
