import { defineConfig } from "@playwright/test";

// The system's Chromium; no browser is ever downloaded. Set CHROMIUM if it is somewhere else.
export default defineConfig({
  testDir: ".",
  testMatch: "*.spec.ts",
  // Far more than any takes on a machine that does nothing else.
  timeout: 90_000,
  expect: { timeout: 20_000 },
  fullyParallel: true,
  workers: 2,
  reporter: [["list"], ["./support/failures.ts"]],
  use: {
    viewport: { width: 1280, height: 800 },
    locale: "en-US",
    launchOptions: {
      executablePath: process.env.CHROMIUM ?? "/usr/bin/chromium",
      args: [
        "--no-sandbox",
        "--disable-gpu",
        "--disable-quic",
        "--no-first-run",
        "--disable-background-networking",
        "--disable-component-update",
        "--disable-sync",
      ],
    },
  },
});
