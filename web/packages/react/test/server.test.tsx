// @vitest-environment jsdom
/** Cards that a server draws, and a page takes over. */
import { act, StrictMode } from "react";
import { hydrateRoot } from "react-dom/client";
import { renderToString } from "react-dom/server";
import { afterEach, expect, it, vi } from "vitest";
import { CountersignClient, CountersignHttp, type ApprovalView } from "@countersign/client";
import { ApprovalCard, CountersignProvider, draftKey, keepDraft } from "../src/index.js";
import { labelled, request, Socket } from "./page.js";

afterEach(() => vi.unstubAllGlobals());

const questions = [{ question: "Which?", multiSelect: false, options: [{ label: "A" }, { label: "B" }] }];
const question = request({ kind: "question", actions: [{ name: "ask", args: { questions } }], reviewConfigs: [] });
const node = request({ kind: "interrupt", actions: [{ name: "review", args: {} }], interrupt: { node: "a", name: "review", payload: "Green?" } });

it.each<[string, ApprovalView, object, string, string | boolean]>([
  ["calls", request(), { calls: [{ choice: "reject", reason: "No", output: "" }] }, "Reject", true],
  ["questions", question, { answers: [{ chosen: ["B"], skipped: false }], at: 0, reviewed: false, declining: false, reason: "" }, "B", true],
  ["a value", node, { texts: { "": "12" } }, "Your answer, as JSON", "12"],
])("u2: what this tab keeps of an answer to %s is there once the page has taken over what the server drew", async (_, approval, draft, field, kept) => {
  const client = new CountersignClient({ url: "ws://server", webSocket: Socket });
  const app = (
    <StrictMode>
      <CountersignProvider client={client} http={new CountersignHttp()}>
        <ApprovalCard approval={approval} />
      </CountersignProvider>
    </StrictMode>
  );
  // A server has none of these.
  for (const name of ["window", "document", "sessionStorage"]) vi.stubGlobal(name, undefined);
  const html = renderToString(app);
  vi.unstubAllGlobals();
  keepDraft(draftKey(approval), draft);
  const page = document.createElement("div");
  document.body.append(page);
  page.innerHTML = html;
  const mended = vi.fn();
  const root = await act(async () => hydrateRoot(page, app, { onRecoverableError: mended }));
  const input = labelled(page, field) as HTMLInputElement;
  expect([mended.mock.calls, typeof kept === "boolean" ? input.checked : input.value]).toEqual([[], kept]);
  await act(async () => root.unmount());
  page.remove();
  sessionStorage.clear();
});
