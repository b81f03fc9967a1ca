// @vitest-environment jsdom
/** A person who replies too late sees who was first, and how they decided, until they have read it. */
import { act } from "react";
import { afterEach, beforeEach, expect, it, vi } from "vitest";
import { CountersignClient, CountersignError, CountersignHttp, type JsonObject } from "@countersign/client";
import { ApprovalCard, english, inboxOf, useInbox, useSession, type ResolvedProps, type Session } from "../src/index.js";
import { chinese } from "../src/zh.js";
import { vietnamese } from "../src/vi.js";
import { button, click, connected, labelled, request, show, Socket, write } from "./page.js";

beforeEach(() => void vi.useFakeTimers());
afterEach(() => void vi.useRealTimers());
const wait = (ms: number) => act(() => vi.advanceTimersByTimeAsync(ms));

const byBob: JsonObject = { resolution: "decided", by: "bob", decisions: [{ type: "approve" }], at: "2026-01-01T00:00:00Z" };
const tooLate = (details: JsonObject = byBob) => new CountersignError("approval_already_resolved", '"s_1" is already resolved', { details });
const alert = (page: Element) => page.querySelector('[role="alert"]');

it.each([english, vietnamese, chinese])("r2: a card says that a reply came too late, who was first and how, in $language", async (labels) => {
  for (const [details, how] of [
    [byBob, labels.resolved(request({ resolution: "decided", by: "bob", decisions: [{ type: "approve" }] }))],
    [{ resolution: "timeout", by: null }, labels.resolved(request({ resolution: "timeout" }))],
    [{ resolution: "cancelled", by: "eve\u202e" }, labels.resolved(request({ resolution: "cancelled", by: "eve⟨U+202E⟩" }))],
  ] as const) {
    const onReply = vi.fn().mockRejectedValue(tooLate(details));
    const { page } = await show(<ApprovalCard approval={request()} onReply={onReply} />, { labels });
    await click(labelled(page, labels.choices.reject));
    await write(labelled(page, labels.reason), "No");
    expect(sessionStorage.length).toBe(1);
    await click(button(page, labels.send));
    expect([...alert(page)!.querySelectorAll("p")].map((p) => p.textContent)).toEqual([labels.late, how]);
    expect([page.querySelector("form"), sessionStorage.length]).toEqual([null, 0]);
    await click(button(page, labels.dismiss));
    expect([alert(page), page.querySelector("section p")?.textContent, button(page, labels.dismiss)]).toEqual([null, how, undefined]);
  }
});

it("r2: a card that was late shows what ran, not what was proposed", async () => {
  const edited = { type: "edit", edited_action: { name: "pay", args: { n: 25 } } };
  const onReply = vi.fn().mockRejectedValue(tooLate({ ...byBob, decisions: [edited] }));
  const { page } = await show(<ApprovalCard approval={request()} onReply={onReply} />);
  await click(labelled(page, "Approve"));
  await click(button(page, "Send"));
  expect(alert(page)?.textContent).toContain("Approved with changes by bob");
  expect(page.querySelector("pre")?.textContent).toBe('{\n  "n": 25\n}');
});

it("r2: a page's own end of a request is told, too, also where it is drawn again", async () => {
  const components = {
    Resolved: ({ approval, replying }: ResolvedProps) => <button onClick={replying.clearError}>{`${replying.error?.code} ${approval.by}`}</button>,
  };
  const onReply = vi.fn().mockRejectedValue(tooLate());
  const card = <ApprovalCard approval={request()} onReply={onReply} components={components} />;
  const { page, draw } = await show(card);
  await click(labelled(page, "Approve"));
  await click(button(page, "Send"));
  await draw(<p />);
  await draw(card);
  expect(page.textContent).toBe("approval_already_resolved bob");
  await click(button(page, "approval_already_resolved bob"));
  expect(page.textContent).toBe("undefined bob");
});

/** The request `s_1`, as the events of its session show it. */
const asked = [
  { type: "message_start", message_id: "m", role: "assistant", session_id: "s", seq: 1 },
  {
    type: "content_block_start",
    message_id: "m",
    index: 0,
    content_block: { type: "approval_request", approval_key: "s_1", actions: request().actions, review_configs: request().reviewConfigs },
    session_id: "s",
    seq: 2,
  },
  { type: "content_block_stop", message_id: "m", index: 0, session_id: "s", seq: 3 },
];
const over = { type: "approval_resolved", approval_key: "s_1", ...byBob, session_id: "s", seq: 4 };

it.each(["the refusal", "the event"])("r2: a session's cards keep one whose reply came too late, until that is read, where %s comes first", async (first) => {
  let session: Session;
  function Chat() {
    session = useSession("s");
    return session.requests.map((one) => <ApprovalCard key={one.approvalKey} approval={one} />);
  }
  const { page } = await show(<Chat />);
  const receive = async (frame: object) => {
    await act(async () => Socket.last.receive(frame));
    await wait(20);
  };
  for (const frame of asked) await receive(frame);
  await click(labelled(page, "Reject"));
  await click(button(page, "Send"));
  const refused = { type: "error", code: "approval_already_resolved", message: "no", request_id: Socket.last.sent.at(-1)!.request_id, details: byBob };
  for (const frame of first === "the event" ? [over, refused] : [refused, over]) await receive(frame);
  expect([session!.pending, alert(page)?.textContent]).toEqual([[], `${english.late}Approved by bob`]);
  await click(button(page, english.dismiss));
  expect([session!.requests, page.textContent]).toEqual([[], ""]);
});

it("r2: an inbox keeps one whose reply came too late in its place, until that is read, and no other inbox has it", async () => {
  const keys = ["a", "b", "c", "d"];
  const fetch = (async (url: string) => {
    const approvals = keys.map((key, i) => ({
      approval_key: key, session_id: "s", actions: [{ name: "pay", args: {}, digest: key }], expires_at: key === "d" ? undefined : `2027-01-0${i + 1}T00:00:00Z`,
    }));
    return new Response(JSON.stringify({ approvals: url.includes("tool=mail") ? [] : approvals, next_cursor: null }));
  }) as typeof globalThis.fetch;
  const [client, http] = [connected(), new CountersignHttp({ fetch })];
  const onReply = vi.fn().mockRejectedValue(tooLate());
  function Inbox({ query = {} }) {
    const { requests } = useInbox({ query });
    return (
      <ul>
        {requests.map((one) => (
          <li key={one.approvalKey} id={one.approvalKey} data-how={one.resolution}>
            <ApprovalCard approval={one} onReply={onReply} />
          </li>
        ))}
      </ul>
    );
  }
  const { page } = await show(<><Inbox /><Inbox query={{ tool: "mail" }} /></>, { client, http });
  await wait(1);
  const rows = () => [...page.querySelectorAll<HTMLElement>("li")].map((li) => li.id + (li.dataset.how ?? ""));
  for (const key of ["b", "d"]) {
    await click(labelled(page.querySelector(`#${key}`)!, "Approve"));
    await click(button(page.querySelector(`#${key}`)!, "Send"));
    keys.splice(keys.indexOf(key), 1);
    // A press that comes sooner may have been meant for what was there before.
    await wait(600);
  }
  await wait(20_100);
  expect(rows()).toEqual(["a", "bdecided", "c", "ddecided"]);
  expect(inboxOf(client, http).get().requests.map((one) => one.approvalKey)).toEqual(["a", "c"]);
  expect(alert(page.querySelector("#b")!)?.textContent).toBe(`${english.late}Approved by bob`);
  for (const key of ["b", "d"]) await click(button(page.querySelector(`#${key}`)!, english.dismiss));
  expect(rows()).toEqual(["a", "c"]);
});

it("r2: a request waits again where the server has another history", async () => {
  const client = new CountersignClient({ url: "ws://server", webSocket: Socket, isUnauthorized: async () => false });
  const hello = (history_id: string) =>
    act(async () => Socket.last.receive({ type: "hello", protocol: "countersign.v1", server: "test", heartbeat_seconds: 0, history_id }));
  client.connect();
  await hello("a");
  const { page } = await show(<ApprovalCard approval={request()} onReply={vi.fn().mockRejectedValue(tooLate())} />, { client });
  await click(labelled(page, "Approve"));
  await click(button(page, "Send"));
  expect(button(page, "Send")).toBeUndefined();
  await act(async () => Socket.last.onclose?.());
  await wait(60_000);
  await hello("b");
  expect([alert(page)?.textContent, button(page, "Send") !== undefined]).toEqual(["", true]);
});

it("r2: the newest twenty replies that came too late are told", async () => {
  const onReply = vi.fn().mockRejectedValue(tooLate());
  const all = Array.from({ length: 21 }, (_, i) => request({ approvalKey: `s_${i}` }));
  const { page } = await show(<>{all.map((one) => <ApprovalCard key={one.approvalKey} approval={one} onReply={onReply} />)}</>);
  for (let i = 0; i < all.length; i++) {
    const card = page.querySelector('[data-countersign="card"]')!;
    await click(labelled(card, "Approve"));
    await click(button(card, "Send"));
    await wait(600);
  }
  expect(page.querySelectorAll('[data-part="late"]').length).toBe(20);
  // Each reply draws all cards anew.
}, 120_000);
