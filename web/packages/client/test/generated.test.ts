import { readFile } from "node:fs/promises";
import { describe, expect, it } from "vitest";
import { generate } from "../scripts/generate.mjs";
import { ERROR_CODES, isSessionEvent, STATUSES } from "../src/index.js";

const generated = new URL("../src/generated/", import.meta.url);
const published = new URL("../../../../docs/wire.schema.json", import.meta.url);

describe("u2: the types of the wire", () => {
  it("are those that the server publishes", async () => {
    for (const [name, now] of Object.entries(await generate())) {
      const kept = await readFile(new URL(name, generated), "utf8");
      expect(kept, `src/generated/${name} is out of date: npm run generate -w @countersign/client`).toBe(now);
    }
  });

  it("name what a program compares with: statuses, codes, events", async () => {
    const { $defs } = JSON.parse(await readFile(published, "utf8"));
    expect(STATUSES).toEqual($defs.Status.anyOf[0].enum);
    expect(ERROR_CODES).toEqual($defs.Code.anyOf[0].enum);
    const events = Object.keys($defs.SessionEvent.discriminator.mapping);
    expect(events.filter((type) => !isSessionEvent({ type }))).toEqual([]);
    expect(isSessionEvent({ type: "ack" })).toBe(false);
  });
});
