import { lazy, Suspense, useEffect, useId, useRef, useState } from "react";
import type { ApprovalView, SessionSummary } from "@countersign/client";
import { visibleText } from "@countersign/react";
import { useI18n } from "../i18n/index.js";
import { composes } from "../lib/composes.js";
import { inboxHref } from "../lib/inbox.js";
import { late } from "../lib/late.js";
import { deciderName } from "../lib/people.js";
import { searchSessions } from "../lib/sessions.js";
import { statusText } from "../lib/status.js";
import { agoText } from "../lib/time.js";
import { useNow } from "../lib/useNow.js";
import { useRequest } from "../lib/useRequest.js";
import { hasToken, signOut } from "../state/connection.js";
import { loadMoreSessions, sessionList } from "../state/lists.js";
import { useMayAudit, useMe, useWaiting, useWaits } from "../state/me.js";
import { auditHref, newHref, policyHref, route, rulesHref, sessionHref, webhooksHref } from "../state/route.js";
import { useStore } from "../state/store.js";
import { Icon } from "./Icon.js";
import { Preferences } from "./Preferences.js";
import { Refused } from "./Refusal.js";

const RenameSession = lazy(late(async () => ({ default: (await import("./RenameSession.js")).RenameSession })));
const DeleteSession = lazy(late(async () => ({ default: (await import("./DeleteSession.js")).DeleteSession })));

interface Props {
  /** On phone width: is the drawer open? */
  open: boolean;
  onClose: () => void;
}

export function Sidebar({ open, onClose }: Props) {
  const { t } = useI18n();
  const list = useStore(sessionList);
  const count = useWaits();
  const { sessionId, rules, audit, policy, webhooks, inbox } = useStore(route);
  const mayAudit = useMayAudit();
  const signedIn = useStore(hasToken);
  const [search, setSearch] = useState("");
  const [renaming, setRenaming] = useState<SessionSummary>();
  const [deleting, setDeleting] = useState<SessionSummary>();
  const found = searchSessions(list.rows, search);
  const searching = search.trim() !== "";
  const reading = useRequest();
  const panel = useRef<HTMLElement>(null);

  useEffect(() => {
    if (!open) return;
    const before = document.activeElement as HTMLElement | null;
    panel.current?.querySelector<HTMLElement>("a, button")?.focus();
    return () => before?.focus?.();
  }, [open]);

  return (
    <>
      {open && <div className="scrim phone-only" onClick={onClose} />}
      <aside
        ref={panel}
        className="sidebar"
        data-open={open || undefined}
        onKeyDown={(e) => e.key === "Escape" && !composes(e) && onClose()}
      >
        <div className="sidebar-head">
          <span className="brand">
            <img src="./favicon.svg" alt="" width="24" height="24" />
            Countersign
          </span>
          <button type="button" className="icon-button phone-only" onClick={onClose} aria-label={t("app.menuClose")}>
            <Icon name="close" />
          </button>
        </div>
        <div className="sidebar-actions">
          <a className="button wide" href={newHref} onClick={onClose}>
            <Icon name="plus" />
            {t("sessions.new")}
          </a>
          <a className="button wide quiet spread" href={inboxHref()} aria-current={inbox ? "page" : undefined} onClick={onClose}>
            <Icon name="inbox" />
            <span className="grow">{t("inbox.open")}</span>
            {count !== undefined && (
              <span className="count">
                <span className="visually-hidden">{t("inbox.count", { n: count })}</span>
                <span aria-hidden="true">{count}</span>
              </span>
            )}
          </a>
          <a
            className="button wide quiet spread"
            href={rulesHref}
            aria-current={rules ? "page" : undefined}
            onClick={onClose}
          >
            <Icon name="repeat" />
            <span className="grow">{t("rules.heading")}</span>
          </a>
          {mayAudit && (
            <a className="button wide quiet spread" href={policyHref} aria-current={policy ? "page" : undefined} onClick={onClose}>
              <Icon name="people" />
              <span className="grow">{t("policy.heading")}</span>
            </a>
          )}
          {mayAudit && (
            <a className="button wide quiet spread" href={auditHref} aria-current={audit ? "page" : undefined} onClick={onClose}>
              <Icon name="shield" />
              <span className="grow">{t("audit.heading")}</span>
            </a>
          )}
          {mayAudit && (
            <a className="button wide quiet spread" href={webhooksHref} aria-current={webhooks ? "page" : undefined} onClick={onClose}>
              <Icon name="outside" />
              <span className="grow">{t("webhooks.heading")}</span>
            </a>
          )}
        </div>
        <nav className="session-nav" aria-labelledby="sessions-heading">
          <h2 id="sessions-heading" className="eyebrow">
            {t("sessions.heading")}
          </h2>
          {list.loaded && list.rows.length === 0 && <p className="muted pad">{t("sessions.empty")}</p>}
          {list.rows.length > 0 && <SessionSearch text={search} onText={setSearch} />}
          {searching && (
            <p className="muted pad session-found" role="status">
              {t(list.next ? "sessions.foundLoaded" : "sessions.found", { n: found.length, all: list.rows.length })}
            </p>
          )}
          <ul>
            {found.map((row) => (
              <SessionRow
                key={row.session_id}
                row={row}
                current={row.session_id === sessionId}
                onOpen={onClose}
                onRename={() => setRenaming(row)}
                onDelete={() => setDeleting(row)}
              />
            ))}
          </ul>
          <Refused error={reading.error} />
          {list.next && (
            <button type="button" className="button quiet wide" onClick={() => void reading.run(loadMoreSessions)}>
              {t("sessions.more")}
            </button>
          )}
        </nav>
        <div className="sidebar-foot">
          <WhoAmI />
          <Preferences />
          {signedIn && (
            <button type="button" className="button quiet small" onClick={signOut}>
              {t("token.signOut")}
            </button>
          )}
        </div>
      </aside>
      <Suspense>
        {renaming && <RenameSession sessionId={renaming.session_id} title={renaming.title} onClose={() => setRenaming(undefined)} />}
        {deleting && <DeleteSession session={deleting} onClose={() => setDeleting(undefined)} />}
      </Suspense>
    </>
  );
}

/** The person in whose name this tab decides. */
function WhoAmI() {
  const { t } = useI18n();
  const { name, roles } = useMe();
  if (name === undefined) return null;
  return (
    <p className="who">
      <Icon name="people" />
      <span>
        <strong>{t("me.signedIn", { name: visibleText(name) })}</strong>
        <span className="muted">{roles.length > 0 ? t("me.roles", { roles: visibleText(roles.join(t("text.list"))) }) : t("me.noRoles")}</span>
      </span>
    </p>
  );
}

function SessionSearch({ text, onText }: { text: string; onText: (text: string) => void }) {
  const { t } = useI18n();
  const id = useId();
  return (
    <div className="session-search">
      <Icon name="search" />
      <input
        id={id}
        type="search"
        className="input"
        aria-label={t("sessions.search")}
        placeholder={t("sessions.searchShort")}
        value={text}
        autoComplete="off"
        onChange={(e) => onText(e.target.value)}
        onKeyDown={(e) => {
          // The first Escape empties the field; only the next one closes the drawer.
          if (e.key === "Escape" && text !== "" && !composes(e)) {
            e.stopPropagation();
            onText("");
          }
        }}
      />
    </div>
  );
}

interface RowProps {
  row: SessionSummary;
  current: boolean;
  onOpen: () => void;
  onRename: () => void;
  onDelete: () => void;
}

function SessionRow({ row, current, onOpen, onRename, onDelete }: RowProps) {
  const { t, language } = useI18n();
  const now = useNow(30_000);
  const { mine, others } = useWaiting();
  const inRow = (approval: ApprovalView) => approval.sessionId === row.session_id;
  const waits = (row.pending?.length ?? 0) > 0;
  // Nobody is named for a request that was not read because too many are nearer their deadline.
  const other = mine.some(inRow) ? undefined : others.find(inRow);
  const status = row.status ?? "none";
  const { name } = useMe();
  const title = visibleText(row.title ?? "") || t("sessions.untitled", { id: shortId(row.session_id) });
  const owns = name === undefined || name === row.subject;
  return (
    <li className="session-item">
      <a
        className="session-row"
        href={sessionHref(row.session_id)}
        aria-current={current ? "page" : undefined}
        onClick={onOpen}
      >
        <span className="dot" data-status={status} aria-hidden="true" />
        <span className="session-text">
          <span className="session-title">{title}</span>
          <span className="session-meta">
            {waits ? (
              <strong className="session-waiting" data-others={other ? true : undefined}>
                {other ? t("status.waitingFor", { who: deciderName(other, t) }) : t("sessions.waiting")}
              </strong>
            ) : (
              <span className="visually-hidden">{statusText(status, t)}</span>
            )}
            {[agoText(row.updated_at, now, language), visibleText(row.agent ?? "")].filter(Boolean).join(" · ")}
          </span>
        </span>
      </a>
      {owns && (
        <span className="session-tools">
          <button type="button" className="icon-button session-rename" aria-label={t("sessions.rename", { title })} onClick={onRename}>
            <Icon name="pencil" />
          </button>
          <button type="button" className="icon-button session-delete" aria-label={t("sessions.delete", { title })} onClick={onDelete}>
            <Icon name="bin" />
          </button>
        </span>
      )}
    </li>
  );
}

export function shortId(id: string): string {
  return id.length > 12 ? id.slice(0, 8) : id;
}
