import { createRoot } from "react-dom/client";
import { App } from "./components/App.js";
import { Boundary } from "./components/Boundary.js";
import { I18nProvider } from "./i18n/index.js";
import { applyTheme } from "./lib/theme.js";
import { client } from "./state/connection.js";
import { startLists } from "./state/lists.js";
import "./styles/base.css";
import "./styles/controls.css";
import "./styles/layout.css";
import "./styles/chat.css";
import "./styles/steps.css";
import "./styles/card.css";
import "./styles/editor.css";
import "./styles/args.css";
import "./styles/resolved.css";
import "./styles/question.css";
import "./styles/interrupt.css";
import "./styles/dialog.css";
import "./styles/inbox.css";
import "./styles/people.css";
import "./styles/rules.css";
import "./styles/graph.css";
import "./styles/past.css";

applyTheme();
startLists();
client.connect();

const root = document.getElementById("root");
if (root) {
  createRoot(root).render(
    <I18nProvider>
      <Boundary>
        <App />
      </Boundary>
    </I18nProvider>,
  );
}
