import { createHash } from "node:crypto";
import { expect, it } from "vitest";
import { moduleOf, snippetNames, sourceOf, type SnippetName } from "./sources.js";

/** SHA-256 of the fragments as the documents print them. */
const printed: Record<SnippetName, string> = {
  "approval-modal": "ab4f971dbfcdae51f37ea1871a08ac983bcfb6fccdb75fb62513cf3caea1688c",
  "parse-history": "1356646ab0fcb5265bc4ba724bd8cdf47cc8608d9a802a1e8992a1f35175ce79",
  "resolved-question": "75f0765553fade3ca982388f6b714de329388109c0acb1c2769268b1530f832d",
};

it.each(snippetNames)("%s is what the document prints, and all of it is in the module", (name) => {
  const source = sourceOf(name);
  expect(createHash("sha256").update(source).digest("hex")).toBe(printed[name]);
  expect(moduleOf(name)).toContain(source);
});
