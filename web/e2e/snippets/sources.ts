/**
 * The React and parsing code of the documents that describe the protocol, unchanged.
 *
 * The `.source.txt` files hold it byte for byte. It becomes modules only by the code around it here: the imports it
 * leaves out, the variable it expects, and exports.
 */
import { readFileSync } from "node:fs";
import { join } from "node:path";
import type { Plugin } from "vite";

const around = {
  "approval-modal": {
    before: [
      'import { useState } from "react";',
      "let setApprovalRequest = () => {};",
      "export const onApprovalRequest = (listener) => (setApprovalRequest = listener);",
    ],
    after: ["export { ApprovalModal, handleEvent };"],
  },
  "parse-history": { before: [], after: ["export { parseAssistantContent };"] },
  "resolved-question": { before: [], after: ["export { renderBlock, ResolvedQuestionBlock };"] },
};

export type SnippetName = keyof typeof around;
export const snippetNames = Object.keys(around) as SnippetName[];

export function sourceOf(name: SnippetName): string {
  return readFileSync(join(import.meta.dirname, `${name}.source.txt`), "utf8");
}

export function moduleOf(name: SnippetName): string {
  const { before, after } = around[name];
  return [...before, sourceOf(name), ...after].join("\n");
}

/** Offers them to a page as `snippet:NAME`. */
export function snippets(): Plugin {
  // The ending tells the bundler that it is JSX.
  const fileOf = (name: string) => join(import.meta.dirname, `${name}.snippet.jsx`);
  return {
    name: "snippets",
    resolveId: (id) => (id.startsWith("snippet:") ? fileOf(id.slice("snippet:".length)) : undefined),
    load: (id) => {
      const name = snippetNames.find((n) => id === fileOf(n));
      return name && moduleOf(name);
    },
  };
}
