// Whether the parser of the AsyncAPI Initiative takes asyncapi.json: node asyncapi.mjs FILE

import { readFileSync } from "node:fs";
import { Parser } from "@asyncapi/parser";

const { document, diagnostics } = await new Parser().parse(readFileSync(process.argv[2], "utf8"));
const faults = diagnostics.filter(({ severity }) => severity <= 1);
const messages = document?.allMessages().all().map((message) => message.id()) ?? [];
if (faults.length > 0 || !messages.includes("MessageStartEvent") || !messages.includes("ApprovalCommand")) {
  console.error(JSON.stringify(faults, null, 1), messages);
  process.exit(1);
}
