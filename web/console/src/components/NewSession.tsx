import { useEffect, useState } from "react";
import { CountersignError } from "@countersign/client";
import { useI18n } from "../i18n/index.js";
import type { InlineImage } from "../lib/images.js";
import { readTab, writeTab } from "../lib/storage.js";
import { agents, sessionList } from "../state/lists.js";
import { newHref, openSession, sessionHref } from "../state/route.js";
import { forgetRefusal, startSession } from "../state/sessions.js";
import { Store, useStore } from "../state/store.js";
import { Composer } from "./Composer.js";
import { Refused } from "./Refusal.js";
import { TopBar } from "./TopBar.js";

const DRAFT = "draft:new";

/** Why the last session could not be created. */
const refused = new Store<CountersignError | undefined>(undefined);

export function NewSession({ onMenu }: { onMenu: () => void }) {
  const { t } = useI18n();
  const list = useStore(agents);
  const known = useStore(sessionList);
  const [chosen, setChosen] = useState(() => readTab("agent") ?? "");
  const error = useStore(refused);
  const agent = list?.find((a) => a.name === chosen) ?? list?.[0];
  const tools = agent?.tools ?? [];

  const send = (text: string, images: InlineImage[]) => {
    refused.set(undefined);
    const { id, sent } = startSession(agent?.name, text, images);
    openSession(id);
    return sent.catch((e: unknown) => {
      // The session was never created: a person who is looking at it is brought back here, where the message is;
      // otherwise it is here when they return.
      refused.set(CountersignError.of(e));
      forgetRefusal(id);
      if (location.hash === sessionHref(id)) location.hash = newHref;
      throw e;
    });
  };
  // It is shown once.
  useEffect(() => () => refused.set(undefined), []);

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
                  {agent.description} {tools.length > 0 && t("new.tools", { list: tools.join(t("text.list")) })}
                </p>
              )}
            </div>
          )}
          <Refused error={error} />
          <Composer draftKey={DRAFT} onSend={send} takesImages={agent?.takes_images} autoFocus />
        </div>
      </div>
    </>
  );
}
