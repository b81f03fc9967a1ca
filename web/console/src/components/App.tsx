import { useEffect, useState } from "react";
import { useI18n } from "../i18n/index.js";
import { announcement } from "../lib/announce.js";
import { connectionState } from "../state/connection.js";
import { useWaits } from "../state/me.js";
import { route } from "../state/route.js";
import { useStore } from "../state/store.js";
import { Boundary } from "./Boundary.js";
import { ChatPage } from "./ChatPage.js";
import { InboxPage } from "./inbox/InboxPage.js";
import { NewSession } from "./NewSession.js";
import { RulesPage } from "./RulesPage.js";
import { Sidebar } from "./Sidebar.js";
import { TokenForm } from "./TokenForm.js";

export function App() {
  const { t } = useI18n();
  const { sessionId, rules, inbox } = useStore(route);
  const connection = useStore(connectionState);
  const waits = useWaits();
  const said = useStore(announcement);
  const [menuOpen, setMenuOpen] = useState(false);

  // On a phone the menu covers the page, so going somewhere closes it.
  useEffect(() => setMenuOpen(false), [sessionId, rules, inbox !== undefined]);
  useEffect(() => void (document.title = waits !== undefined ? `(${waits}) Countersign` : "Countersign"), [waits]);

  if (connection === "unauthorized") return <TokenForm />;

  const openMenu = () => setMenuOpen(true);
  // Each part by itself: one that fails leaves the others.
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
      <main id="main" className="main" tabIndex={-1}>
        <Boundary key={rules ? "rules" : inbox ? "inbox" : `session ${sessionId ?? ""}`}>
          {rules ? (
            <RulesPage onMenu={openMenu} />
          ) : inbox ? (
            <InboxPage query={inbox} onMenu={openMenu} />
          ) : sessionId === undefined ? (
            <NewSession onMenu={openMenu} />
          ) : (
            <ChatPage key={sessionId} sessionId={sessionId} onMenu={openMenu} />
          )}
        </Boundary>
      </main>
      <div className="visually-hidden" aria-live="polite" role="status">
        {said}
      </div>
    </div>
  );
}
