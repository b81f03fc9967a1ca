// @vitest-environment jsdom
import { expect, test, vi } from "vitest";
import "./page.js";

test("u4: a browser that would never show a notification does not offer any", async () => {
  class OnlyWorkers {
    static permission = "default";
    constructor() {
      throw new TypeError("Illegal constructor. Use ServiceWorkerRegistration.showNotification() instead.");
    }
  }
  vi.stubGlobal("Notification", OnlyWorkers);
  vi.stubGlobal("isSecureContext", true);
  const { notifying } = await import("../src/state/notify.js");
  expect(notifying.get()).toBe("unsupported");
  // Whatever another tab stores, nor is it tried again with each key that it does.
  OnlyWorkers.permission = "granted";
  localStorage.setItem("notify", "on");
  window.dispatchEvent(new Event("storage"));
  expect(notifying.get()).toBe("unsupported");
});
