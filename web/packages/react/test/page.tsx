/** A page of the test's own, with a connection whose server is the test. */
import { act, type ComponentProps, type ReactElement } from "react";
import { createRoot } from "react-dom/client";
import { afterEach } from "vitest";
import { CountersignClient, CountersignHttp, type ApprovalView } from "@countersign/client";
import { CountersignProvider } from "../src/index.js";

(globalThis as { IS_REACT_ACT_ENVIRONMENT?: boolean }).IS_REACT_ACT_ENVIRONMENT = true;

// Nothing scrolls here.
Element.prototype.scrollIntoView ??= () => {};

let unmount: (() => void)[] = [];
afterEach(() => {
  for (const end of unmount.splice(0)) end();
  sessionStorage.clear();
});

/** A socket that the test answers. */
export class Socket {
  static last: Socket;
  onopen = null;
  onclose: (() => void) | null = null;
  onerror = null;
  onmessage: ((message: { data: string }) => void) | null = null;
  sent: Record<string, unknown>[] = [];
  constructor() {
    Socket.last = this;
  }
  send(text: string) {
    this.sent.push(JSON.parse(text));
  }
  close() {}
  receive(...frames: object[]) {
    for (const frame of frames) this.onmessage?.({ data: JSON.stringify(frame) });
  }
}

export function connected(): CountersignClient {
  const client = new CountersignClient({ url: "ws://server", webSocket: Socket, isUnauthorized: async () => false });
  client.connect();
  Socket.last.receive({ type: "hello", protocol: "countersign.v1", server: "test", heartbeat_seconds: 0 });
  return client;
}

type Shown = Partial<ComponentProps<typeof CountersignProvider>>;

/** Draws it below a provider; returns the page, and a function to draw it again. */
export async function show(element: ReactElement, { client = connected(), http = new CountersignHttp(), ...words }: Shown = {}) {
  const page = document.createElement("div");
  document.body.append(page);
  const root = createRoot(page);
  const draw = (now: ReactElement) =>
    act(async () => root.render(<CountersignProvider client={client} http={http} {...words}>{now}</CountersignProvider>));
  unmount.push(() => {
    act(() => root.unmount());
    page.remove();
    client.close();
  });
  await draw(element);
  return { page, draw };
}

export const click = (target: Element | null | undefined) => act(async () => (target as HTMLElement).click());

/** Writes into a field, as a person would. */
export const write = (field: Element | null, text: string) =>
  act(async () => {
    const kind = field instanceof HTMLTextAreaElement ? HTMLTextAreaElement : HTMLInputElement;
    Object.getOwnPropertyDescriptor(kind.prototype, "value")?.set?.call(field, text);
    field?.dispatchEvent(new Event("input", { bubbles: true }));
  });

/** The control with this label, whole. */
export function labelled(page: Element, words: string): Element | null {
  const label = [...page.querySelectorAll("label")].find((one) => one.textContent?.trim() === words);
  const named = [...page.querySelectorAll("[aria-labelledby]")].find(
    (one) => document.getElementById(one.getAttribute("aria-labelledby") ?? "")?.textContent === words,
  );
  return label?.control ?? named ?? page.querySelector(`[aria-label="${words}"]`);
}

export const button = (page: Element, words: string) =>
  [...page.querySelectorAll("button")].find((one) => one.textContent === words);

export const alert = (page: Element) => page.querySelector('[role="alert"]')?.textContent;

export const request = (more: Partial<ApprovalView> = {}): ApprovalView => ({
  approvalKey: "s_1",
  sessionId: "s",
  kind: "approval",
  actions: [
    {
      name: "pay",
      args: { n: 1 },
      id: "c1",
      digest: "d1",
      args_digest: "a1",
      display: { text: '{"n": 1}', digest: "x", bytes: 7, warnings: [] },
    },
  ],
  reviewConfigs: [{ allowed_decisions: ["approve", "reject", "edit", "respond"], role: "admin" }],
  digest: "d1",
  complete: true,
  updates: [],
  ...more,
});
