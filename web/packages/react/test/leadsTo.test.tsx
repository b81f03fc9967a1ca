// @vitest-environment jsdom
import { expect, test } from "vitest";
import type { EditPreview } from "@countersign/client";
import { english, LeadsTo } from "../src/index.js";
import { show } from "./page.js";

async function verdict(found: EditPreview) {
  const { page } = await show(<LeadsTo editing={{ state: "known", found, retry: () => {} }} problems={[]} />);
  return page.textContent;
}

test("p1: who must approve an edited call is said, also where an edit is no approval in any case", async () => {
  for (const more of [{}, { level: 1, levels: ["cfo", "legal"] }, { quorum: 2 }]) {
    expect(await verdict({ outcome: "asks", reviewConfig: { role: "cfo", ...more } })).toBe("These values need approval: cfo");
  }
  const accepted = english.texts["edit.accepted"];
  expect(await verdict({ outcome: "approves" })).toBe(accepted);
  expect(await verdict({ outcome: "refused" })).toBe(english.texts["edit.refused"]);
  // From a newer server: the page does not call it accepted.
  expect(await verdict({ outcome: "delayed" })).toBe("delayed");
  // It has counted as the approval of the first step.
  expect(await verdict({ outcome: "asks", reviewConfig: { role: "legal", level: 2, levels: ["cfo", "legal"] } })).toBe(accepted);
});
