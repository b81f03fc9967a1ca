/** Standing rules: decisions that also apply to later calls, and revoking them. */
import { useCallback, useRef, useState } from "react";
import { stringifyJson, type StandingRule } from "@countersign/client";
import { useConnection, useSettling, Visible, visibleText } from "@countersign/react";
import { isMessageKey, useI18n, type Translate, wordText } from "../i18n/index.js";
import { announce } from "../lib/announce.js";
import { personName, roleName } from "../lib/people.js";
import { agoText, momentText } from "../lib/time.js";
import { useNow } from "../lib/useNow.js";
import { usePages } from "../lib/usePages.js";
import { useRequest } from "../lib/useRequest.js";
import { http } from "../state/connection.js";
import { sessionHref } from "../state/route.js";
import { Icon } from "./Icon.js";
import { Refused } from "./Refusal.js";
import { TopBar } from "./TopBar.js";

const PAGE = 50;

export function RulesPage({ onMenu }: { onMenu: () => void }) {
  const { t } = useI18n();
  const [standing, setStanding] = useState(true);
  const online = useConnection() === "open";
  const list = useRef<HTMLDivElement>(null);
  // The button of the next rule takes the place of the one that was pressed.
  const [settling, settle] = useSettling();
  const read = useCallback(
    async (cursor: string | undefined, atLeast: number) => {
      const limit = Math.max(PAGE, atLeast);
      const { rules, next } = await http.rules({ limit, state: standing ? ["active", "suspended"] : ["ended"], ...(cursor === undefined ? {} : { cursor }) });
      return { rows: rules, next };
    },
    [standing],
  );
  const { rows, more, error, retry, keep } = usePages(read, online);

  const revoked = (rule: StandingRule) => {
    announce(t("rules.announce", { tool: visibleText(rule.tool) }));
    keep((row) => row.id !== rule.id);
    settle();
    // The pressed button is gone with its row.
    list.current?.focus();
  };

  return (
    <>
      <TopBar title={t("rules.heading")} onMenu={onMenu} />
      <div className="rules">
        <div className="rules-inner">
          <p className="muted">{t("rules.intro")}</p>
          <div className="segmented" role="group" aria-label={t("rules.filter")}>
            {[true, false].map((value) => (
              <button
                key={String(value)}
                type="button"
                aria-pressed={standing === value}
                onClick={() => setStanding(value)}
              >
                {t(value ? "rules.standing" : "rules.revoked")}
              </button>
            ))}
          </div>
          <Refused error={error} onRetry={retry} />
          <div ref={list} tabIndex={-1} className="rules-list" data-settling={settling || undefined}>
            {rows?.length === 0 ? (
              <div className="empty">
                <Icon name="repeat" />
                <p>{t(standing ? "rules.empty" : "rules.emptyRevoked")}</p>
                {standing && <p className="muted">{t("rules.emptyHint")}</p>}
              </div>
            ) : (
              <ul aria-label={t(standing ? "rules.standing" : "rules.revoked")}>
                {rows?.map((rule) => (
                  <Rule key={rule.id} rule={rule} onRevoked={revoked} />
                ))}
              </ul>
            )}
          </div>
          {more && (
            <button type="button" className="button quiet" onClick={more}>
              {t("sessions.more")}
            </button>
          )}
        </div>
      </div>
    </>
  );
}

function Rule({ rule, onRevoked }: { rule: StandingRule; onRevoked: (rule: StandingRule) => void }) {
  const { t, language } = useI18n();
  const now = useNow(30_000);
  const { busy, error, run } = useRequest();
  const revoke = async () => {
    if (await run(() => http.revokeRule(rule.id))) onRevoked(rule);
  };
  const expired = rule.state === "ended" && !rule.revoked_at;
  const facts: [string, string][] = [
    [t("rules.agent"), visibleText(rule.agent)],
    ...(rule.subject === undefined ? [] : [[t("rules.for"), visibleText(rule.subject)] as [string, string]]),
    ...(rule.role === undefined ? [] : [[t("rules.inPlaceOf"), roleName(rule.role, t)] as [string, string]]),
    [
      t("rules.made"),
      [rule.by && t("resolved.by", { name: visibleText(rule.by) }), agoText(rule.created_at, now, language)].filter(Boolean).join(t("text.comma")),
    ],
    [
      t("rules.until"),
      rule.until ? momentText(rule.until, language) : t(rule.scope === "session" ? "rules.withSession" : "rules.never"),
    ],
    ...(rule.suspension === undefined ? [] : [[t("rules.suspendedWhy"), suspendedText(rule, t)] as [string, string]]),
    ...(rule.revoked_at
      ? [
          [
            t("rules.revokedAt"),
            [rule.revoked_by && t("resolved.by", { name: visibleText(rule.revoked_by) }), agoText(rule.revoked_at, now, language)]
              .filter(Boolean)
              .join(t("text.comma")),
          ] as [string, string],
        ]
      : []),
  ];
  return (
    <li className="rule" data-approve={rule.decision === "approve" || undefined} data-over={rule.state === "ended" || undefined}>
      <div className="rule-head">
        <h2>
          <span className="rule-verb">
            <Icon name={rule.decision === "approve" ? "check" : "cross"} />
            {t(rule.decision === "approve" ? "rules.approves" : "rules.rejects")}
          </span>{" "}
          <code>
            <Visible text={rule.tool} />
          </code>{" "}
          <span className="rule-scope">{wordText(t, "rules.scope", rule.scope)}</span>
        </h2>
        {expired && <span className="hint">{t("rules.expired")}</span>}
        {rule.state === "suspended" && <span className="hint">{t("rules.suspended")}</span>}
        {rule.state !== "ended" && !rule.may_revoke && <span className="hint">{t("rules.notYours")}</span>}
        {rule.may_revoke && (
          <button
            type="button"
            className="button small danger"
            disabled={busy}
            aria-label={t("rules.revokeFor", { tool: visibleText(rule.tool) })}
            onClick={() => void revoke()}
          >
            {t("rules.revoke")}
          </button>
        )}
      </div>
      {rule.args && (
        <pre className="rule-args" tabIndex={0} aria-label={t("tool.args")} dir="ltr">
          <Visible text={stringifyJson(rule.args, 2)} />
        </pre>
      )}
      {rule.message && (
        <p className="rule-message">
          <span className="muted">
            {t("rules.message")}
            {t("text.colon")}
          </span>
          <Visible text={rule.message} />
        </p>
      )}
      <dl>
        {facts.map(([name, value]) => (
          <div key={name}>
            <dt>{name}</dt>
            <dd>{value}</dd>
          </div>
        ))}
        <div>
          <dt className="visually-hidden">{t("rules.session")}</dt>
          <dd>
            <a href={sessionHref(rule.session_id)}>{t("rules.openSession")}</a> <code>{requestOf(rule)}</code>
          </dd>
        </div>
      </dl>
      <Refused error={error} />
    </li>
  );
}

/** The key of the request that it was made with. */
function requestOf({ id }: StandingRule): string {
  return id.slice(0, id.lastIndexOf("."));
}

/** Why a rule does not apply for now; an unknown reason is shown in the server's own words. */
function suspendedText({ suspension, by, role }: StandingRule, t: Translate): string {
  const code = suspension?.code;
  const seen = code === "not_seen" || code === "not_seen_yet";
  const key = `rules.why.${code}${seen && role !== undefined ? "_as" : ""}`;
  if (!isMessageKey(key)) return visibleText(suspension?.message ?? "");
  return t(key, { name: personName(by, t), role: roleName(role, t) });
}
