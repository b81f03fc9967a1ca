import { defineConfig } from "@playwright/test";

// The system's Chromium; no browser is ever downloaded. Set CHROMIUM if it is somewhere else.
const whole = process.env.CHROMIUM ?? "/usr/bin/chromium";
// The same engine without a browser's own interface, which costs a third of the time. It has no notifications.
const shell = process.env.CHROMIUM_HEADLESS_SHELL ?? whole;
const needsWhole = "notify.spec.ts";
const needsAll = "fifty.spec.ts";

const args = [
  "--no-sandbox",
  "--disable-gpu",
  "--disable-quic",
  "--no-first-run",
  "--disable-background-networking",
  "--disable-component-update",
  "--disable-sync",
];
const browser = (executablePath: string) => ({ launchOptions: { executablePath, args } });

export default defineConfig({
  testDir: ".",
  testMatch: "*.spec.ts",
  // Far more than any takes, since other tests run meanwhile: of those that are usually done in 10 s some took 50.
  timeout: 360_000,
  // Longer than Chromium's lock on its cache: a tab waits up to 20 s for a file that another tab is just storing. And than
  // a page needs beside other tests: at a load of 40 some took 50 s to their first request.
  expect: { timeout: 90_000 },
  fullyParallel: true,
  workers: 2,
  reporter: [["list"], ["./support/failures.ts"]],
  use: {
    viewport: { width: 1280, height: 800 },
    locale: "en-US",
  },
  projects: [
    { name: "shell", testIgnore: [needsWhole, needsAll], use: browser(shell) },
    { name: "whole", testMatch: needsWhole, use: browser(whole) },
    // After the others, if those pass.
    { name: "alone", testMatch: needsAll, dependencies: ["shell", "whole"], use: browser(shell) },
  ],
});
