// What all conversations need.

declare const process: { argv: string[]; exit(code: number): never };

export const url: string = process.argv[2] ?? "";
export const said = "Mua 100 VNM / 买入";

/** Ends the program when something is not as it should be. */
export function expect(right: unknown, what: string, found: unknown): asserts right {
  if (right !== true) {
    console.error(what, JSON.stringify(found, null, 1));
    process.exit(1);
  }
}
