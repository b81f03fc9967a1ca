/** An animated PNG of pictures of one size: their own data, with the times between them. */
import { crc32 } from "node:zlib";

const SIGNATURE = Buffer.from("89504e470d0a1a0a", "hex");

interface Chunk {
  type: string;
  data: Buffer;
}

function chunks(png: Buffer): Chunk[] {
  if (!png.subarray(0, 8).equals(SIGNATURE)) throw new Error("not a PNG");
  const found: Chunk[] = [];
  for (let at = 8; at < png.length; ) {
    const length = png.readUInt32BE(at);
    found.push({ type: png.toString("latin1", at + 4, at + 8), data: png.subarray(at + 8, at + 8 + length) });
    at += length + 12;
  }
  return found;
}

function written({ type, data }: Chunk): Buffer {
  const body = Buffer.concat([Buffer.from(type, "latin1"), data]);
  const [length, sum] = [Buffer.alloc(4), Buffer.alloc(4)];
  length.writeUInt32BE(data.length);
  sum.writeUInt32BE(crc32(body));
  return Buffer.concat([length, body, sum]);
}

function numbers(...values: number[]): Buffer {
  const data = Buffer.alloc(4 * values.length);
  values.forEach((value, i) => data.writeUInt32BE(value, 4 * i));
  return data;
}

/** `frames`: pictures, each with how long it is shown, in milliseconds. It repeats forever. */
export function animated(frames: readonly { png: Buffer; ms: number }[]): Buffer {
  const header = frames[0] && chunks(frames[0].png).find(({ type }) => type === "IHDR");
  if (!header) throw new Error("no pictures");
  const made: Chunk[] = [header, { type: "acTL", data: numbers(frames.length, 0) }];
  const size = header.data.subarray(0, 8);
  let sequence = 0;
  for (const [i, { png, ms }] of frames.entries()) {
    const parts = chunks(png);
    if (!parts.find(({ type }) => type === "IHDR")?.data.equals(header.data)) throw new Error(`picture ${i} is another kind of PNG`);
    const delay = Buffer.from([ms >> 8, ms & 255, 1000 >> 8, 1000 & 255, 0, 0]);
    made.push({ type: "fcTL", data: Buffer.concat([numbers(sequence++), size, numbers(0, 0), delay]) });
    for (const { type, data } of parts) {
      if (type !== "IDAT") continue;
      // The first picture is also the one shown without animation.
      made.push(i === 0 ? { type, data } : { type: "fdAT", data: Buffer.concat([numbers(sequence++), data]) });
    }
  }
  made.push({ type: "IEND", data: Buffer.alloc(0) });
  return Buffer.concat([SIGNATURE, ...made.map(written)]);
}
