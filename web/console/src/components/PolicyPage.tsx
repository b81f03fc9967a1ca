/** The operator's policy, for auditors: which calls need whose approval, and each tool's own approval. Read-only. */
import { useCallback, useEffect, useState, type ReactNode } from "react";
import { CountersignError, type DecisionType, type Policy, type PolicyRule, type ToolApproval } from "@countersign/client";
import { useConnection, Visible, visibleText } from "@countersign/react";
import { useI18n, wordText } from "../i18n/index.js";
import { roleName } from "../lib/people.js";
import { secondsText } from "../lib/time.js";
import { http } from "../state/connection.js";
import { rulesHref } from "../state/route.js";
import { Icon, type IconName } from "./Icon.js";
import { Refused } from "./Refusal.js";
import { TopBar } from "./TopBar.js";

type Then = Pick<PolicyRule, "effect" | "condition" | "message" | "ask">;
type Ask = Policy["defaults"];
type I18n = ReturnType<typeof useI18n>;
type Fact = [name: string, value: ReactNode];

const ICONS: Record<Then["effect"], IconName> = { allow: "check", ask: "people", deny: "cross" };

export function PolicyPage({ onMenu }: { onMenu: () => void }) {
  const i18n = useI18n();
  const { t } = i18n;
  const [policy, setPolicy] = useState<Policy>();
  const [error, setError] = useState<CountersignError>();
  const online = useConnection() === "open";
  const load = useCallback(
    () =>
      http.policy().then(
        (read) => {
          setPolicy(read);
          setError(undefined);
        },
        (e: unknown) => setError(CountersignError.of(e)),
      ),
    [],
  );
  useEffect(() => {
    if (online) void load();
  }, [online, load]);
  const agents = Object.entries(Object.groupBy(policy?.tools ?? [], (tool) => tool.agent));
  return (
    <>
      <TopBar title={t("policy.heading")} onMenu={onMenu} />
      <div className="rules">
        <div className="rules-inner">
          <p className="muted">
            {t("policy.intro")}<a href={rulesHref}>{t("rules.heading")}</a>
          </p>
          <Refused error={error} onRetry={() => void load()} />
          {policy && (
            <>
              <section className="policy-part" aria-labelledby="policy-rules">
                <h2 id="policy-rules">{t("policy.rules")}</h2>
                <p className="muted">{t(policy.rules.length > 0 ? "policy.rulesIntro" : "policy.noRules")}</p>
                <ol className="policy-list">
                  {policy.rules.map((rule, i) => (
                    <Rule key={i} rule={rule} n={i + 1} />
                  ))}
                </ol>
              </section>
              <section className="policy-part" aria-labelledby="policy-tools">
                <h2 id="policy-tools">{t("policy.tools")}</h2>
                <p className="muted">{t("policy.toolsIntro")}</p>
                {agents.map(([agent, tools = []]) => (
                  <Tools key={agent} agent={agent} tools={tools} />
                ))}
              </section>
              <section className="policy-part" aria-labelledby="policy-defaults">
                <h2 id="policy-defaults">{t("policy.defaults")}</h2>
                <div className="rule">
                  <Facts facts={askFacts(policy.defaults, i18n)} />
                </div>
              </section>
              <p className="hint">
                {t("policy.version")}<code>{policy.version}</code>
              </p>
            </>
          )}
        </div>
      </div>
    </>
  );
}

function Rule({ rule, n }: { rule: PolicyRule; n: number }) {
  const i18n = useI18n();
  const { t } = i18n;
  const names = (all: readonly string[], any: string) => (all.length === 0 ? any : <Codes names={all} />);
  const facts: Fact[] = [
    [t("policy.calls"), names(rule.tools, t("policy.anyTool"))],
    ...(rule.agents.length > 0 ? [[t("rules.agent"), <Codes names={rule.agents} />] as Fact] : []),
    ...(rule.hints ?? []).map(({ name, value }): Fact => [t("policy.declared"), <code>{`${name} = ${String(value)}`}</code>]),
    ...(rule.roles.length > 0 ? [[t("policy.requestedBy"), visibleText(rule.roles.join(t("text.list")))] as Fact] : []),
    ...(rule.when === undefined ? [] : [[t("policy.when"), <Code text={rule.when} />] as Fact]),
    ...thenFacts(rule, i18n),
  ];
  return (
    <li className="rule" data-effect={rule.effect}>
      <h3>
        <span className="muted">{n}.</span> <Verb effect={rule.effect} isRule />
        {rule.name !== undefined && (
          <span className="rule-scope">
            {" "}
            <Visible text={rule.name} />
          </span>
        )}
      </h3>
      <Facts facts={facts} />
    </li>
  );
}

function Tools({ agent, tools }: { agent: string; tools: readonly ToolApproval[] }) {
  const i18n = useI18n();
  const { t } = i18n;
  return (
    <div className="rule">
      <h3>
        {t("rules.agent")}{" "}
        <code>
          <Visible text={agent} />
        </code>
      </h3>
      <ul className="policy-tools">
        {tools.map((tool) => (
          <li key={tool.tool} data-effect={tool.effect}>
            <p>
              <code>
                <Visible text={tool.tool} />
              </code>{" "}
              <Verb effect={tool.effect} />
            </p>
            {tool.effect !== "allow" && <Facts facts={thenFacts(tool, i18n)} />}
          </li>
        ))}
      </ul>
    </div>
  );
}

/** A rule that asks for nothing leaves it to the tool. */
function Verb({ effect, isRule = false }: { effect: Then["effect"]; isRule?: boolean }) {
  const { t } = useI18n();
  return (
    <span className="rule-verb">
      <Icon name={ICONS[effect] ?? "hand"} />
      {isRule && effect === "allow" ? t("policy.ruleAllows") : wordText(t, "policy.effect", effect)}
    </span>
  );
}

function Facts({ facts }: { facts: readonly Fact[] }) {
  return (
    <dl>
      {facts.map(([name, value], i) => (
        <div key={i}>
          <dt>{name}</dt>
          <dd>{value}</dd>
        </div>
      ))}
    </dl>
  );
}

/** What happens to a call, and who is asked in which way. */
function thenFacts({ condition, message, ask }: Then, i18n: I18n): Fact[] {
  const { t } = i18n;
  const facts: Fact[] = [];
  if (condition !== undefined) facts.push([t("policy.onlyIf"), condition === "" ? t("policy.byProgram") : <Code text={condition} />]);
  if (message !== undefined) facts.push([t("rules.message"), <Visible text={message} />]);
  return ask ? [...facts, ...askFacts(ask, i18n)] : facts;
}

function askFacts(ask: Ask, { t, language, labels }: I18n): Fact[] {
  const facts: Fact[] = [];
  const roles = (names: readonly string[], between: string) => names.map((name) => roleName(name, t)).join(between);
  if (ask.levels) facts.push([t("policy.who"), roles(ask.levels, ` ${t("policy.then")} `)]);
  if (ask.quorum > 1) facts.push([t("policy.quorum"), t("policy.people", { n: ask.quorum })]);
  if (ask.not_self) facts.push([t("policy.notSelf"), t("policy.notSelfMeans")]);
  const { timeout, allowed_decisions: allowed, reminders } = ask;
  if (timeout !== undefined) facts.push([t("policy.deadline"), timeout === 0 ? t("policy.noDeadline") : secondsText(timeout, language)]);
  if (reminders.length > 0) {
    facts.push([t("policy.reminders"), reminders.map((after) => secondsText(after, language)).join(t("text.list"))]);
  }
  if (ask.escalate.length > 0) facts.push([t("policy.escalate"), roles(ask.escalate, ` ${t("policy.then")} `)]);
  if (ask.reassign.length > 0) facts.push([t("policy.reassign"), roles(ask.reassign, t("text.list"))]);
  if (allowed) facts.push([t("policy.allowed"), allowed.map((choice) => labels.choices[choice as DecisionType] ?? choice).join(t("text.list"))]);
  if (ask.risk !== undefined) facts.push([t("inbox.filter.risk"), wordText(t, "risk", ask.risk)]);
  return facts;
}

function Code({ text }: { text: string }) {
  return (
    <code dir="ltr">
      <Visible text={text} />
    </code>
  );
}

function Codes({ names }: { names: readonly string[] }) {
  const { t } = useI18n();
  return names.map((name, i) => (
    <span key={name}>
      {i > 0 && t("text.list")}
      <Code text={name} />
    </span>
  ));
}
