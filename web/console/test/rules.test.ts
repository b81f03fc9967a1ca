// @vitest-environment jsdom
import { createElement as h } from "react";
import { expect, test, vi } from "vitest";
import type { StandingRule } from "@countersign/client";
import { RulesPage } from "../src/components/RulesPage.js";
import { catalogues } from "../src/i18n/all.js";
import { client, http } from "../src/state/connection.js";
import { button, show } from "./page.js";
import { Socket } from "./socket.js";

vi.stubGlobal("WebSocket", Socket);
client.connect();
Socket.last.receive({ type: "hello", protocol: "countersign.v1", server: "test", heartbeat_seconds: 0 });

const rule: StandingRule = {
  id: "s_1.0",
  scope: "session",
  decision: "reject",
  agent: "a",
  tool: "pay",
  role: "admin",
  session_id: "s",
  created_at: "2026-01-01T00:00:00Z",
  state: "active",
  may_revoke: true,
};

test("s7: who may not revoke a rule is told who may, and gets no button", async () => {
  for (const may_revoke of [true, false]) {
    vi.spyOn(http, "rules").mockResolvedValue({ rules: [{ ...rule, may_revoke }], next: undefined });
    const { page, leave } = await show(h(RulesPage, { onMenu: () => {} }));
    expect(page.querySelectorAll(".rule")).toHaveLength(1);
    expect(button(page, "rules.revoke") !== undefined).toBe(may_revoke);
    expect(page.textContent?.includes(catalogues.en["rules.notYours"])).toBe(!may_revoke);
    await leave();
  }
});
