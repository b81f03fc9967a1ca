// A conversation through the client that @hey-api/openapi-ts makes of openapi.json.

import { client } from "./generated/hey-api/client.gen";
import { decideApproval, listApprovals, readHistory, sendMessage } from "./generated/hey-api/sdk.gen";
import { expect, said, url } from "./expect";

client.setConfig({ baseUrl: url });

async function main(): Promise<void> {
  const path = { session_id: "hey-api" };
  const turn = await sendMessage({ path, body: { content: [{ type: "text", text: said }] } });
  expect(typeof turn.data === "object" && turn.data.status === "awaiting_input", "a turn", turn);

  const inbox = await listApprovals({ query: { status: "waiting", session_id: path.session_id } });
  const [view] = inbox.data?.approvals ?? [];
  expect(view !== undefined && view.kind !== "question", "the inbox", inbox);
  const [action] = view.actions;
  expect(action?.args["quantity"] === 100, "the arguments are there", view);

  const decided = await decideApproval({
    path: { approval_key: view.approval_key },
    query: { wait: true },
    body: { decisions: [{ type: "edit", edited_action: { name: action.name, args: { ...action.args, quantity: 52 } } }] },
  });
  expect(decided.data !== undefined && "text" in decided.data && decided.data.status === "completed", "it ended", decided);

  const history = await readHistory({ path });
  const roles = history.data?.messages.map((message) => message.role) ?? [];
  expect(roles[0] === "user" && roles.includes("tool") && roles.at(-1) === "assistant", "the history", roles);
}

void main();
