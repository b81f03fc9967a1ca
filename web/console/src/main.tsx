import { createRoot } from "react-dom/client";
import { App } from "./components/App.js";
import { Boundary } from "./components/Boundary.js";
import { Provided } from "./components/Provided.js";
import { I18nProvider, loadLanguage, preferredLanguage } from "./i18n/index.js";
import { applyTheme } from "./lib/theme.js";
import { client } from "./state/connection.js";
import { startLists } from "./state/lists.js";
import "./styles/base.css";
import "./styles/controls.css";
import "./styles/layout.css";
import "./styles/chat.css";
import "./styles/dialog.css";

applyTheme();
startLists();
client.connect();

const root = document.getElementById("root");
if (root) {
  void loadLanguage(preferredLanguage()).then(() =>
    createRoot(root).render(
      <I18nProvider>
        <Provided>
          <Boundary>
            <App />
          </Boundary>
        </Provided>
      </I18nProvider>,
    ),
  );
}
