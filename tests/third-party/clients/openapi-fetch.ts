// A conversation through the types that openapi-typescript makes of openapi.json.

import createClient from "openapi-fetch";
import type { components, paths } from "./generated/openapi";
import { expect, said, url } from "./expect";

const client = createClient<paths>({ baseUrl: url });

/** The order that waits, with what the document says about it. */
function asked(outcome: components["schemas"]["Outcome"]): components["schemas"]["ApprovalRequest"] {
  const [request] = outcome.interruptions;
  expect(request !== undefined && request.kind !== "question", "an approval waits", outcome);
  return request;
}

async function main(): Promise<void> {
  const session_id = "openapi-fetch";
  const path = { session_id };
  const turn = await client.POST("/v1/sessions/{session_id}/messages", { params: { path }, body: { content: said } });
  expect(typeof turn.data === "object" && turn.data.status === "awaiting_input", "a turn", turn);
  const request = asked(turn.data);
  const [action] = request.actions;
  expect(action?.name === "execute_trade" && action.args["quantity"] === 100, "the arguments are there", action);

  const decided = await client.POST("/v1/approvals/{approval_key}", {
    params: { path: { approval_key: request.approval_key }, query: { wait: true } },
    body: {
      decisions: [{ type: "edit", edited_action: { name: action.name, args: { ...action.args, quantity: 51 } } }],
      user_edit_content: "fewer",
    },
  });
  expect(decided.data !== undefined && "text" in decided.data && decided.data.status === "completed", "it ended", decided);

  const again = await client.POST("/v1/approvals/{approval_key}", {
    params: { path: { approval_key: request.approval_key } },
    body: { decisions: [{ type: "approve" }] },
  });
  expect(again.error?.code === "approval_already_resolved" && again.error.status === 409, "a second decision", again);

  const history = await client.GET("/v1/sessions/{session_id}/history", { params: { path } });
  const blocks = history.data?.messages.flatMap((message) => message.content) ?? [];
  const texts = blocks.flatMap((block) => (block.type === "text" ? [block.text] : []));
  expect(texts[0] === said && blocks.some((block) => block.type === "approval_request"), "the history", blocks);

  const view = await client.GET("/v1/approvals/{approval_key}", { params: { path: { approval_key: request.approval_key } } });
  expect(view.data?.kind === "approval" && view.data.decisions?.[0]?.type === "edit", "the inbox", view);
}

void main();
