import { describe, expect, it } from "vitest";
import { equalJson, isLosslessNumber, isNumber, isObject, LosslessNumber, parseJson, stringifyJson } from "../src/index.js";

describe("lossless JSON", () => {
  it.each(["9007199254740993", "1.10", "-0", "1e400", "0.1000000000000000055511151231257827", "1.0", "42"])(
    "keeps %s as it was written",
    (number) => {
      const text = `{"n":${number}}`;
      expect(stringifyJson(parseJson(text))).toBe(text);
    },
  );

  it("keeps ordinary numbers usable as numbers", () => {
    expect(parseJson('{"seq":12}')).toEqual({ seq: 12 });
  });

  it("keeps a __proto__ key as an ordinary, visible key", () => {
    const value = parseJson('{"__proto__":{"admin":true}}');
    expect(Object.keys(value as object)).toEqual(["__proto__"]);
    expect(stringifyJson(value)).toBe('{"__proto__":{"admin":true}}');
  });

  it.each(['{"a":1,"a":2}', '{"a":1,"a":1}', '[{"x":{"a":"}"},"b":[{}],"\\u0062" : [{}]}]', '{"\\"":1,"":2,"\\"":1}'])("refuses duplicate keys, also of equal values: %s", (text) => {
    expect(() => parseJson(text)).toThrow(SyntaxError);
  });

  it.each(['[{"a":1},{"a":1}]', '{"a":{"a":["a","a",":","{"]},"A":"\\\\","b":"\\\\\\"a\\":"}', '{"a":"}","b":"\\"","__proto__":1}', '"a"'])("takes keys that differ, or are of different objects: %s", (text) => {
    expect(stringifyJson(parseJson(text))).toBe(text);
  });

  it("has numbers that are texts with every digit, and as near to a number as JavaScript comes, whatever they are", () => {
    for (const text of ["9007199254740993", "1e400", "-0", "1.10", "1e-400"]) {
      const number = parseJson(text);
      expect([isLosslessNumber(number), String(number), Number(number), isObject(number)]).toEqual([true, text, Number(text), false]);
    }
    expect(() => new LosslessNumber("1, 2")).toThrow('"1, 2" is no JSON number.');
    // No JSON value is taken for one.
    const object = '{"text":"1","isLosslessNumber":true,"value":"1"}';
    expect([isNumber(parseJson(object)), stringifyJson(parseJson(object))]).toEqual([false, object]);
  });

  it("compares numbers by their text", () => {
    expect(equalJson(parseJson("1.10"), parseJson("1.1"))).toBe(false);
    expect(equalJson(parseJson('{"a":[1,2],"b":null}'), parseJson('{"b":null,"a":[1,2]}'))).toBe(true);
  });
});
