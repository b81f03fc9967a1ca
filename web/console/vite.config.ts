import react from "@vitejs/plugin-react";
import { defineConfig } from "vite";
import { compressed } from "./build/compressed.js";

// In development the page is served by Vite and the API by a Countersign server beside it.
const server = "http://127.0.0.1:7410";

export default defineConfig({
  plugins: [react(), compressed()],
  // Relative addresses: the console works at any path it is served from.
  base: "./",
  resolve: { conditions: ["@countersign/source", "module", "browser", "development|production"] },
  build: {
    // Recent enough for light-dark(); nothing has to be rewritten for older browsers.
    target: ["chrome123", "firefox121", "safari17.5"],
    cssTarget: ["chrome123", "firefox121", "safari17.5"],
    modulePreload: { polyfill: false },
    assetsInlineLimit: 0,
    // What the first page loads in one file, which compresses better than parts of it that other pages need too.
    rolldownOptions: { output: { codeSplitting: { groups: [{ name: "first", tags: ["$initial"] }] } } },
  },
  server: { proxy: { "/v1": { target: server, ws: true } } },
});
