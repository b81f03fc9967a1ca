import type { ReactNode } from "react";
import { useI18n } from "../i18n/index.js";
import { inboxHref } from "../lib/inbox.js";
import { useWaits } from "../state/me.js";
import { ConnectionBadge } from "./ConnectionBadge.js";
import { Icon } from "./Icon.js";

interface Props {
  title: string;
  detail?: ReactNode;
  actions?: ReactNode;
  onMenu: () => void;
}

export function TopBar({ title, detail, actions, onMenu }: Props) {
  const { t } = useI18n();
  const count = useWaits();
  return (
    <header className="topbar">
      <button type="button" className="icon-button phone-only" onClick={onMenu} aria-label={t("app.menu")}>
        <Icon name="menu" />
      </button>
      <div className="topbar-title">
        <h1>{title}</h1>
        {detail && <div className="topbar-detail">{detail}</div>}
      </div>
      <ConnectionBadge />
      {actions}
      <a
        className="icon-button phone-only with-count"
        href={inboxHref()}
        aria-label={`${t("inbox.open")}. ${t("inbox.count", { n: count ?? 0 })}`}
      >
        <Icon name="inbox" />
        {count !== undefined && <span className="count">{count}</span>}
      </a>
    </header>
  );
}
