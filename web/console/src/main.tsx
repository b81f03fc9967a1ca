import { createRoot } from "react-dom/client";
import { App } from "./components/App.js";
import { Boundary } from "./components/Boundary.js";
import { Provided } from "./components/Provided.js";
import { I18nProvider, loadFirst } from "./i18n/index.js";
import { applyTheme } from "./lib/theme.js";
import { client } from "./state/connection.js";
import { startLists } from "./state/lists.js";
import "./styles/base.css";
import "./styles/controls.css";
import "./styles/layout.css";
import "./styles/composer.css";
import "./styles/dialog.css";

applyTheme();
// In this order: data read before the server has named the person could be anybody's.
client.connect();
startLists();

const root = document.getElementById("root");
if (root) {
  loadFirst().then(
    (language) =>
      createRoot(root).render(
        <I18nProvider first={language}>
          <Provided>
            <Boundary>
              <App />
            </Boundary>
          </Provided>
        </I18nProvider>,
      ),
    () => root.replaceChildren(reloadButton()),
  );
}

/** The only element that can be shown without any texts. */
function reloadButton(): HTMLElement {
  const button = document.createElement("button");
  button.type = "button";
  button.className = "button";
  button.textContent = "Reload / Tải lại / 重新加载";
  button.onclick = () => location.reload();
  return button;
}
