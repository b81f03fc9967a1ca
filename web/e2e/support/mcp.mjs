/** A small MCP server over standard input and output, which asks in the middle of a call. Its calls answer with what it was told. */
import { createInterface } from "node:readline";

const order = {
  type: "object",
  required: ["name", "amount"],
  properties: {
    name: { type: "string", title: "Your name", description: "As it stands on the door", maxLength: 20 },
    amount: { type: "integer", title: "How many", minimum: 1, maximum: 10 },
    mail: { type: "string", title: "Email", format: "email" },
    day: { type: "string", title: "Day", format: "date" },
    gift: { type: "boolean", title: "As a gift", default: false },
    size: {
      type: "string",
      title: "Size",
      oneOf: [
        { const: "s", title: "Small" },
        { const: "l", title: "Large" },
      ],
      default: "l",
    },
    colour: { type: "string", enum: ["c1", "c2"], enumNames: ["Green", "Black"] },
    extras: {
      type: "array",
      title: "Extras",
      minItems: 1,
      maxItems: 2,
      items: {
        anyOf: [
          { const: "milk", title: "Milk" },
          { const: "sugar", title: "Sugar" },
          { const: "lemon", title: "Lemon" },
        ],
      },
      default: ["milk"],
    },
  },
};

const questions = {
  order: { mode: "form", message: "What may we send you?\nMàu gì? 什么颜色?", requestedSchema: order },
  log_in: {
    mode: "url",
    message: "Please log in first.",
    url: "https://shop.example@login.example/start?for=alice&long=" + "a".repeat(60),
    elicitationId: "e1",
  },
  odd: { mode: "url", message: "Open this.", url: "javascript://login.example/%0aalert(1)", elicitationId: "e2" },
};

const waiting = new Map();
let asked = 0;
const say = (message) => process.stdout.write(`${JSON.stringify({ jsonrpc: "2.0", ...message })}\n`);

function call(id, name) {
  const key = `q${(asked += 1)}`;
  waiting.set(key, (told) => say({ id, result: { content: [{ type: "text", text: `told: ${JSON.stringify(told)}` }] } }));
  say({ id: key, method: "elicitation/create", params: questions[name] });
}

createInterface({ input: process.stdin }).on("line", (line) => {
  const { id, method, params, result } = JSON.parse(line);
  if (method === undefined) return waiting.get(id)?.(result);
  if (id === undefined) return;
  if (method === "initialize") {
    const { protocolVersion } = params;
    const serverInfo = { name: "shop", version: "1" };
    return say({ id, result: { protocolVersion, capabilities: { tools: {} }, serverInfo } });
  }
  if (method === "tools/list") {
    const tools = Object.keys(questions).map((name) => ({ name, description: name, inputSchema: { type: "object" } }));
    return say({ id, result: { tools } });
  }
  if (method === "tools/call") return call(id, params.name);
  if (method === "ping") return say({ id, result: {} });
  say({ id, error: { code: -32601, message: `no ${method}` } });
});
