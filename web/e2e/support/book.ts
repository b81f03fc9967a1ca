/** A tool that books transfers, whose schema has titles, units, formats, choices, an object and a list. */
import type { ServerOptions, Turn } from "./server.js";

/** Its arguments have all that a form is made of. */
export const TITLES = `
[tools.book]
description = "Book a transfer."
command = ["/bin/cat"]
approval = { timeout = 300, allowed_decisions = ["approve", "edit", "reject"] }
[tools.book.parameters]
type = "object"
required = ["account", "amount", "legs"]
[tools.book.parameters.properties]
account = { type = "string", title = "Account", description = "Where the money comes from." }
amount = { type = "number", title = "Amount", x-unit = "VND", minimum = 1, maximum = 99999999 }
due = { type = "string", format = "date", title = "Due" }
urgent = { type = "boolean", title = "Urgent", default = false }
speed = { title = "Speed", oneOf = [{ const = "n", title = "Normal" }, { const = "f", title = "Fast" }] }
[tools.book.parameters.properties.to]
type = "object"
title = "Receiver"
required = ["name"]
properties = { name = { type = "string", title = "Name", minLength = 2 }, note = { type = "string" } }
[tools.book.parameters.properties.legs]
type = "array"
title = "Parts"
minItems = 1
[tools.book.parameters.properties.legs.items]
type = "object"
required = ["share", "label"]
properties = { share = { type = "integer", title = "Share", minimum = 5, multipleOf = 5 }, label = { type = "string" } }
`;

const book = (args: string): Turn => ({ text: "Please check.", calls: [{ name: "book", args }] });
export const ARGS =
  '{"legs":[{"label":"rent","share":60},{"share":40,"label":"food"}],"speed":"f","to":{"name":"Ann"},"due":"2026-03-01","amount":12345678.10,"account":"VN-1"}';

/** A server whose model calls it once. */
export const withBook = (args = ARGS): ServerOptions => ({
  turns: [book(args), { text: "Result: {{ last_tool_result }}" }],
  more: TITLES,
  tools: ["book"],
});
