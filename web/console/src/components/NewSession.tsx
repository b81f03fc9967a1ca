import { useEffect, useState } from "react";
import { CountersignError } from "@countersign/client";
import { keepDraft } from "@countersign/react";
import { useI18n } from "../i18n/index.js";
import type { InlineImage } from "../lib/images.js";
import { readTab, writeTab } from "../lib/storage.js";
import { keepDraftImages } from "../lib/useDraftImages.js";
import { agents, sessionList } from "../state/lists.js";
import { openSession } from "../state/route.js";
import { startSession } from "../state/sessions.js";
import { useStore } from "../state/store.js";
import { Composer } from "./Composer.js";
import { errorText } from "./errorText.js";
import { TopBar } from "./TopBar.js";

const DRAFT = "draft:new";

export function NewSession({ onMenu }: { onMenu: () => void }) {
  const { t } = useI18n();
  const list = useStore(agents);
  const known = useStore(sessionList);
  const [chosen, setChosen] = useState(() => readTab("agent") ?? "");
  const [error, setError] = useState(() => takeStartError());
  const agent = list?.find((a) => a.name === chosen) ?? list?.[0];
  const tools = agent?.tools ?? [];

  const send = (text: string, images: InlineImage[]) => {
    const { id, sent } = startSession(agent?.name, text, images);
    openSession(id);
    return sent.catch((e: unknown) => {
      // The session was never made: come back here with the message and the reason, or stay, if the refusal came before this went away.
      keepDraft(DRAFT, text);
      keepDraftImages(DRAFT, images);
      startError = CountersignError.of(e);
      setError(startError);
      location.hash = "#/";
      throw e;
    });
  };

  useEffect(() => {
    if (error === startError) startError = undefined;
  }, [error]);

  return (
    <>
      <TopBar title={t("sessions.new")} onMenu={onMenu} />
      <div className="new-session">
        <div className="new-inner">
          <h2>{t("new.heading")}</h2>
          <p className="muted lead">{t("new.intro")}</p>
          {list && list.length === 0 && known.loaded && <p className="notice">{t("new.noAgents")}</p>}
          {agent && (
            <div className="agent-picker">
              <label className="label" htmlFor="agent">
                {t("new.agent")}
              </label>
              <select
                id="agent"
                className="select"
                value={agent.name}
                onChange={(e) => {
                  setChosen(e.target.value);
                  writeTab("agent", e.target.value);
                }}
              >
                {list?.map((a) => (
                  <option key={a.name}>{a.name}</option>
                ))}
              </select>
              {(agent.description || tools.length > 0) && (
                <p className="hint">
                  {agent.description} {tools.length > 0 && t("new.tools", { list: tools.join(t("resolved.comma")) })}
                </p>
              )}
            </div>
          )}
          {error && (
            <p className="field-error" role="alert" onClick={() => setError(undefined)}>
              {errorText(error, t)}
            </p>
          )}
          <Composer draftKey={DRAFT} onSend={send} takesImages={agent?.takes_images} autoFocus />
        </div>
      </div>
    </>
  );
}

let startError: CountersignError | undefined;

function takeStartError() {
  const error = startError;
  startError = undefined;
  return error;
}
