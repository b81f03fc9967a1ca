import { defineConfig } from "vitest/config";

// One run for every package. The "@countersign/source" condition lets the console's tests use the client's
// TypeScript directly, so tests never depend on an earlier build.
export default defineConfig({
  resolve: { conditions: ["@countersign/source"] },
  ssr: { resolve: { conditions: ["@countersign/source", "module", "node", "import", "default"] } },
  test: {
    environment: "node",
    // Other tests run meanwhile.
    testTimeout: 30_000,
    setupFiles: ["console/test/setup.ts"],
    include: ["packages/*/test/**/*.test.{ts,tsx}", "test/*.test.ts", "console/test/**/*.test.ts", "e2e/snippets/*.test.ts"],
  },
});
