// A conversation over the WebSocket, through the types that json-schema-to-typescript makes of wire.schema.json.

import type { ClientMessage, ConnectionEvent, SessionEvent } from "./generated/wire";
import { expect, said, url } from "./expect";

const session_id = "wire";
const socket = new WebSocket(url.replace("http", "ws") + "/v1/ws", ["countersign.v1"]);

function send(message: ClientMessage): void {
  socket.send(JSON.stringify(message));
}

const seen: string[] = [];
let text = "";

function take(event: SessionEvent | ConnectionEvent): void {
  switch (event.type) {
    case "hello":
      send({ type: "message", session_id, content: said, request_id: "r1" });
      break;
    case "content_block_start": {
      const block = event.content_block;
      seen.push(block.type);
      if (block.type === "approval_request" && "actions" in block) {
        const [action] = block.actions;
        expect(action?.args["quantity"] === 100, "the arguments are there", action);
        const edited_action = { name: action.name, args: { ...action.args, quantity: 53 } };
        send({ type: "approval", session_id, approval_key: block.approval_key, decisions: [{ type: "edit", edited_action }] });
      }
      break;
    }
    case "content_block_delta":
      if ("type" in event.delta && event.delta.type === "text_delta") {
        text += event.delta.text;
      }
      break;
    case "approval_resolved":
      expect(event.resolution === "decided", "it was decided", event);
      break;
    case "error":
      expect(false, event.code, event);
      break;
    case "run_status":
      if (event.status === "completed") {
        expect(seen.includes("tool_result") && text.includes(said), "the whole turn", { seen, text });
        socket.close();
      }
      break;
  }
}

socket.onmessage = ({ data }) => take(JSON.parse(data as string) as SessionEvent | ConnectionEvent);
socket.onerror = () => expect(false, "the connection failed", url);
