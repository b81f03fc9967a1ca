import { describe, expect, it } from "vitest";
import { CountersignHttp } from "../src/index.js";

describe("CountersignHttp", () => {
  const answering = (body: object) => {
    const asked: string[] = [];
    const fetch = ((url: string) => {
      asked.push(url);
      return Promise.resolve(new Response(JSON.stringify(body)));
    }) as typeof globalThis.fetch;
    return { asked, http: new CountersignHttp({ fetch }) };
  };

  it("reads a history in pages, both ways", async () => {
    const page = { messages: [], has_more: true, next_cursor: "m7" };
    const { asked, http } = answering(page);
    expect(await http.history("s.1")).toEqual(page);
    await http.history("s.1", { direction: "backward", limit: 20 });
    await http.history("s.1", { direction: "backward", limit: 20, cursor: "m7" });
    expect(asked).toEqual([
      "/v1/sessions/s.1/history",
      "/v1/sessions/s.1/history?direction=backward&limit=20",
      "/v1/sessions/s.1/history?direction=backward&limit=20&cursor=m7",
    ]);
  });

  it("lists a question that waits", async () => {
    const { http } = answering({
      approvals: [
        {
          type: "approval_request",
          approval_key: "s_1",
          session_id: "s",
          kind: "question",
          action_requests: [{ name: "ask_user_question", args: { questions: [] } }],
          review_configs: [{ action_name: "ask_user_question" }],
          timeout_seconds: 600,
        },
      ],
    });
    expect(await http.waiting()).toMatchObject([
      { approvalKey: "s_1", kind: "question", complete: true, timeoutSeconds: 600, actions: [{ name: "ask_user_question" }] },
    ]);
  });
});
