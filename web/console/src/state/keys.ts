/** Whether single-letter keys are on, which the browser keeps: people who use speech input type them by accident. */
import { readLocal, writeLocal } from "../lib/storage.js";
import { Store } from "./store.js";

const OFF = "keys-off";

export const keysOn = new Store(readLocal(OFF) === null);

export function switchKeys(on: boolean): void {
  keysOn.set(on);
  writeLocal(OFF, on ? null : "yes");
}
