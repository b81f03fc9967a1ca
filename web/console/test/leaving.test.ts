// @vitest-environment jsdom
import { expect, test } from "vitest";
import { client } from "../src/state/connection.js";

test("a person is asked before they leave a page that has not sent everything, and only then", async () => {
  const leave = () => !window.dispatchEvent(new Event("beforeunload", { cancelable: true }));
  expect(leave()).toBe(false);
  const sent = client.sendApproval({ session_id: "s", approval_key: "s_1", decisions: [{ type: "approve" }] });
  expect(leave()).toBe(true);
  client.close();
  await expect(sent).rejects.toMatchObject({ code: "closed" });
  expect(leave()).toBe(false);
});
