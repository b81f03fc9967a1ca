import { describe, expect, test } from "vitest";
import { parseJson, type AuditRecord } from "@countersign/client";
import { catalogues } from "../src/i18n/all.js";
import { exported, tell } from "../src/lib/audit.js";

const record = (body: string, n = 1) => parseJson(`{"n":${n},"prev":"p","hash":"h","body":${body}}`) as unknown as AuditRecord;

describe("r8: a record in words", () => {
  test.each([
    ['{"event":"requested","session_id":"s","approval_key":"s_2","actions":[{"name":"pay"},{"name":"pay"},{"name":"sell"}]}', "audit.requested"],
    ['{"event":"requested","kind":"question","actions":[]}', "audit.asked"],
    ['{"event":"requested","kind":"in_doubt","actions":[]}', "audit.askedInDoubt"],
    ['{"event":"decided","decisions":[{"type":"approve"},{"type":"approve"}]}', "audit.approved"],
    ['{"event":"decided","decisions":[{"type":"edit"}]}', "audit.edited"],
    ['{"event":"decided","decisions":[{"type":"approve"},{"type":"reject"}]}', "audit.decided"],
    ['{"event":"voted","decisions":[{"type":"approve"}]}', "audit.voted"],
    ['{"event":"timed_out"}', "audit.timedOut"],
    ['{"event":"timed_out","escalated_to":["admin"]}', "audit.escalated"],
    ['{"event":"commented","text":"?"}', "audit.commented"],
    ['{"event":"decided_unasked","verdict":"allow","decided_by":{"type":"rule","id":"s_1.0"}}', "audit.ruleApproved"],
    ['{"event":"decided_unasked","verdict":"deny","decided_by":{"type":"rule","id":"s_1.0"}}', "audit.ruleRejected"],
    ['{"event":"decided_unasked","verdict":"allow","decided_by":{"type":"program"}}', "audit.programApproved"],
    ['{"event":"decided_unasked","verdict":"deny","decided_by":{"type":"program"}}', "audit.programRejected"],
    ['{"event":"finished","status":"success"}', "audit.finished"],
    ['{"event":"finished","status":"error"}', "audit.failed"],
    ['{"event":"finished","status":"rejected"}', "audit.notRun"],
    ['{"event":"forked"}', "audit.forked"],
  ])("%s", (body, key) => {
    expect(tell(record(body)).what).toEqual({ key });
    for (const catalogue of Object.values(catalogues)) expect(catalogue).toHaveProperty([key]);
  });

  test("who, when, where and which tools, each once", () => {
    const body = '{"event":"requested","at":"2027-01-01T00:00:00.000Z","by":"bob","session_id":"s","approval_key":"s_2","actions":[{"name":"pay"},{"name":"pay"}]}';
    expect(tell(record(body))).toMatchObject({ by: "bob", at: "2027-01-01T00:00:00.000Z", session: "s", request: "s_2", tools: ["pay"] });
  });

  test("what is not known, or no record at all, is shown by its name and harms nothing", () => {
    for (const [body, event] of [['{"event":"brand_new"}', "brand_new"], ["null", "?"], ['{"event":7,"actions":"x"}', "?"], ['{"event":"decided","decisions":[{"type":"maybe"}]}', "decided"]]) {
      expect(tell(record(body!)).what).toEqual({ event });
    }
  });
});

describe("r8: an export", () => {
  const line = (n: number) => `{"n":${n},"prev":"p","hash":"h","body":{"x":1.10}}`;
  const drain = async (all: AuditIterable) => {
    const parts: string[] = [];
    for await (const { lines } of all) parts.push(lines);
    return parts.join("");
  };
  type AuditIterable = ReturnType<typeof exported>;

  test("has each record once, as it was sent, whatever the number of pages", async () => {
    for (const total of [0, 1, 999, 1_000, 1_001, 2_500]) {
      const asked: number[] = [];
      // A tenant's numbers have gaps.
      const all = Array.from({ length: total }, (_, i) => line(3 * (i + 1)));
      const read = async (after: number, limit: number) => {
        asked.push(after);
        return all.slice(after / 3).slice(0, limit).map((one) => `${one}\n`).join("");
      };
      expect(await drain(exported(read))).toBe(all.map((one) => `${one}\n`).join(""));
      expect(asked).toHaveLength(Math.ceil(total / 1_000) + 1);
    }
  });

  test("has each record also where pages of long records are short", async () => {
    const all = Array.from({ length: 20 }, (_, i) => line(i + 1));
    const read = async (after: number) => all.slice(after, after + 3).map((one) => `${one}\n`).join("");
    expect(await drain(exported(read))).toBe(all.map((one) => `${one}\n`).join(""));
  });

  test("ends with an error where a line has no number, and does not ask for the same page for ever", async () => {
    const read = async () => "{}\n".repeat(1_000);
    await expect(drain(exported(read))).rejects.toThrow("does not begin with its number");
  });
});
