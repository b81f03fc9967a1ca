import { beforeEach, describe, expect, it } from "vitest";
import { emptySession, fold, type CountersignClient } from "../src/index.js";
import { FakeSocket, blockStart, blockStop, delta, event, last, make } from "./support/socket.js";

beforeEach(() => void (FakeSocket.all = []));

/** What a client emits from now on, as texts. */
function told(client: CountersignClient) {
  const all: string[] = [];
  client.on("event", (one) => void all.push("seq" in one ? String(one.seq) : "delta"));
  client.on("restarted", () => void all.push("restarted"));
  return all;
}
const open = () => {
  const client = make();
  client.connect();
  last().hello();
  return client;
};
const begin = { type: "message_start", session_id: "s", message_id: "m", role: "assistant", seq: 1 };
/** What a server replays of a session whose first block is over, and whose second continues. */
const past = (text: string) => [begin, blockStart(2), delta("all"), blockStop(3), { ...blockStart(4), index: 1 }, { ...delta(text), index: 1 }];
const answer = (...frames: object[]) => frames.forEach((frame) => last().receive(frame));

describe("u2: a session that is subscribed to twice is told in order, and once", () => {
  it.each([[0], [{ last: 80 }]])("as StrictMode does it: followed, left and followed in one tick, from %j", (from) => {
    const client = open();
    const all = told(client);
    let view = emptySession("s");
    client.on("event", (one) => void (view = fold(view, one)));
    client.subscribe("s", from);
    client.unsubscribe("s");
    client.subscribe("s", from);
    expect(last().sent.map(({ type }) => type)).toEqual(["subscribe", "unsubscribe", "subscribe"]);
    // The server answers both; in the second answer the open block has grown.
    answer(...past("half"), ...past("half, and half"), { ...delta("."), index: 1 }, event(5));
    expect(all).toEqual(["1", "2", "delta", "3", "4", "delta", "4", "delta", "delta", "5"]);
    const texts = view.messages[0]?.blocks.map((block) => (block.type === "text" ? block.text : ""));
    expect([texts, view.lastSeq]).toEqual([["all", "half, and half."], 5]);
  });

  it("by two in one tick", () => {
    const client = open();
    const all = told(client);
    client.subscribe("s");
    client.subscribe("s");
    answer(...past("x"), ...past("x"), event(5));
    expect(all).toEqual(["1", "2", "delta", "3", "4", "delta", "4", "delta", "5"]);
  });

  it("by another from its start, later: all are told anew, and know it", () => {
    const client = open();
    const all = told(client);
    client.subscribe("s", { last: 80 });
    answer(...past("x"), event(5));
    all.length = 0;
    client.subscribe("s");
    expect([all, last().sent.at(-1)]).toEqual([["restarted"], { type: "subscribe", session_id: "s", after: 0 }]);
    answer(event(1), event(2));
    expect(all).toEqual(["restarted", "1", "2"]);
  });

  it("by another from near its end, while the first awaits what follows what it has: that misses nothing in silence", () => {
    const client = open();
    const all = told(client);
    client.subscribe("s", { last: 80, after: 25 });
    client.subscribe("s", { last: 80 });
    expect([all, last().sent.at(-1)]).toEqual([["restarted"], { type: "subscribe", session_id: "s", last: 80 }]);
    answer(event(40), event(41));
    expect(all).toEqual(["restarted", "40", "41"]);
  });

  it("by another from where it is, or from near its end while that is awaited: nothing is told again", () => {
    const client = open();
    const all = told(client);
    client.subscribe("s", 3);
    answer(event(4), event(5));
    client.subscribe("s", 7);
    answer(event(6), event(7), event(8), event(8));
    expect([all, last().sent.at(-1)]).toEqual([["4", "5", "6", "7", "8"], { type: "subscribe", session_id: "s", after: 5 }]);
    client.subscribe("end", { last: 80 });
    client.subscribe("end", { last: 80 });
    answer(event(31, "end"), event(32, "end"), event(31, "end"), event(32, "end"), event(33, "end"));
    expect(all.slice(5)).toEqual(["31", "32", "33"]);
  });

  it("a block that is over does not begin anew, nor is its text told again, also where it began before what is known", () => {
    const client = open();
    const all = told(client);
    client.subscribe("s", 2);
    const rest = [blockStart(2), delta("all"), blockStop(3), event(4)];
    answer(...rest, ...rest, { type: "message_stop", session_id: "s", message_id: "m", stop_reason: "end_turn", seq: 5 });
    expect(all).toEqual(["2", "delta", "3", "4", "5"]);
    // A block is over too if its turn ends in the middle of it.
    const other = { message_id: "other" };
    answer({ ...blockStart(6), ...other }, { type: "message_stop", session_id: "s", ...other, stop_reason: "cancelled", seq: 7 });
    answer({ ...blockStart(6), ...other }, { ...delta("x"), ...other });
    expect(all.slice(5)).toEqual(["6", "7"]);
  });

  it("a block that ends while its session is left and followed again is told whole", () => {
    const client = open();
    let view = emptySession("s");
    client.on("event", (one) => void (view = fold(view, one)));
    client.subscribe("s", { last: 80 });
    answer(begin, blockStart(2), delta("first half, "));
    client.unsubscribe("s");
    client.subscribe("s", { last: 80, after: view.lastSeq });
    // The events still in flight, and the answer to the second subscription.
    answer(delta("second half."), blockStop(3));
    answer(blockStart(2), delta("first half, second half."), blockStop(3), event(4));
    expect([view.messages[0]?.blocks[0], view.lastSeq]).toMatchObject([{ text: "first half, second half.", open: false }, 4]);
  });

  it("a block that is open begins anew also behind what came since", () => {
    const client = open();
    const all = told(client);
    client.subscribe("s", 2);
    answer(event(3), blockStart(2), delta("x"), blockStop(4), blockStart(2), delta("x"), blockStop(4));
    expect(all).toEqual(["3", "2", "delta", "4"]);
  });

  it("after it was left it is told from where it is followed then", () => {
    const client = open();
    const all = told(client);
    client.subscribe("s");
    answer(event(1), event(2));
    client.unsubscribe("s");
    client.subscribe("s");
    answer(event(1), event(2), event(3));
    expect(all).toEqual(["1", "2", "1", "2", "3"]);
  });
});
