import { lazy, Suspense, useEffect, useState, type ComponentType } from "react";
import { useConnection, useSessionState } from "@countersign/react";
import { useI18n } from "../i18n/index.js";
import { announcement } from "../lib/announce.js";
import { late, loadAhead } from "../lib/late.js";
import { usePhone } from "../lib/usePhone.js";
import { gone, personUnknown } from "../state/connection.js";
import { useWaits } from "../state/me.js";
import { startNotifying } from "../state/notify.js";
import { newHref, route } from "../state/route.js";
import { useStore } from "../state/store.js";
import { Boundary } from "./Boundary.js";
import { ConnectionBadge } from "./ConnectionBadge.js";
import { Icon } from "./Icon.js";
import { NewSession } from "./NewSession.js";
import { shortId, Sidebar } from "./Sidebar.js";
import { TokenForm } from "./TokenForm.js";
import { TopBar } from "./TopBar.js";

/** A page that is loaded when it is opened, together with its styles. */
const page = <P,>(load: () => Promise<ComponentType<P>>) =>
  lazy(late(async () => ({ default: (await Promise.all([load(), import("../styles/later.js")]))[0] })));

const ChatPage = page(async () => (await import("./ChatPage.js")).ChatPage);
const InboxPage = page(async () => (await import("./inbox/InboxPage.js")).InboxPage);
const RulesPage = page(async () => (await import("./RulesPage.js")).RulesPage);
const PolicyPage = page(async () => (await import("./PolicyPage.js")).PolicyPage);
const WebhooksPage = page(async () => (await import("./webhooks/WebhooksPage.js")).WebhooksPage);
const AuditPage = page(async () => (await import("./audit/AuditPage.js")).AuditPage);

export function App() {
  const connection = useConnection();
  const unknown = useStore(personUnknown);
  if (useStore(gone)) return null;
  if (!unknown || connection === "unauthorized") return <Page />;
  return (
    <main className="token-page">
      <ConnectionBadge />
    </main>
  );
}

function Page() {
  const { t } = useI18n();
  const { sessionId, rules, audit, policy, webhooks, inbox } = useStore(route);
  const connection = useConnection();
  const waits = useWaits();
  const said = useStore(announcement);
  const [menuOpen, setMenuOpen] = useState(false);
  const phone = usePhone();

  // On a phone the menu covers the page, so going somewhere closes it.
  useEffect(() => setMenuOpen(false), [sessionId, rules, audit, policy, webhooks, inbox !== undefined]);
  useEffect(() => void (document.title = waits !== undefined ? `(${waits}) Countersign` : "Countersign"), [waits]);

  useEffect(() => startNotifying(t), [t]);
  useFocusAcrossPages();

  if (connection === "unauthorized") return <TokenForm />;

  const openMenu = () => setMenuOpen(true);
  // Each part has its own boundary: one that fails leaves the others.
  return (
    <div className="app">
      <a
        className="skip-link"
        href="#main"
        onClick={(e) => {
          e.preventDefault(); // The hash belongs to the route.
          document.getElementById("main")?.focus();
        }}
      >
        {t("app.skip")}
      </a>
      <Boundary>
        <Sidebar open={menuOpen} onClose={() => setMenuOpen(false)} />
      </Boundary>
      <main id="main" className="main" tabIndex={-1} inert={menuOpen && phone}>
        <Boundary key={rules ? "rules" : audit ? "audit" : policy ? "policy" : webhooks ? "webhooks" : inbox ? "inbox" : `session ${sessionId ?? ""}`}>
          <Suspense fallback={<Loading />}>
            {rules ? (
              <RulesPage onMenu={openMenu} />
            ) : audit ? (
              <AuditPage onMenu={openMenu} />
            ) : policy ? (
              <PolicyPage onMenu={openMenu} />
            ) : webhooks ? (
              <WebhooksPage onMenu={openMenu} />
            ) : inbox ? (
              <InboxPage query={inbox} onMenu={openMenu} />
            ) : sessionId === undefined ? (
              <NewSession onMenu={openMenu} />
            ) : (
              <SessionPage key={sessionId} sessionId={sessionId} onMenu={openMenu} />
            )}
            <Begun />
          </Suspense>
        </Boundary>
      </main>
      <div className="visually-hidden" aria-live="polite" role="status">
        {said}
      </div>
    </div>
  );
}

/** If the focused element disappears with its page, the next page takes the focus. */
function useFocusAcrossPages(): void {
  // Read while the old page is still there.
  const before = document.activeElement;
  useEffect(() => {
    if (document.activeElement === document.body && before?.isConnected === false) document.getElementById("main")?.focus();
  });
}

/** A session, or the notice that it is gone, which its viewer gets at once. */
function SessionPage({ sessionId, onMenu }: { sessionId: string; onMenu: () => void }) {
  const { t } = useI18n();
  const { deleted } = useSessionState(sessionId);
  if (!deleted) return <ChatPage sessionId={sessionId} onMenu={onMenu} />;
  return (
    <>
      <TopBar title={t("sessions.untitled", { id: shortId(sessionId) })} onMenu={onMenu} />
      <div className="empty">
        <Icon name="bin" />
        <p>{t("sessions.gone")}</p>
        <p className="muted">{t("sessions.goneHint")}</p>
        <a className="button" href={newHref}>
          {t("sessions.new")}
        </a>
      </div>
    </>
  );
}

function Loading() {
  const { t } = useI18n();
  return <p className="muted center">{t("chat.loading")}</p>;
}

/** The page is there, so the rest of it can be loaded. */
function Begun() {
  useEffect(() => {
    // Not every browser says when it is idle.
    if (typeof requestIdleCallback === "undefined") return void setTimeout(() => void loadAhead(), 500);
    requestIdleCallback(() => void loadAhead(), { timeout: 5_000 });
  }, []);
  return null;
}
