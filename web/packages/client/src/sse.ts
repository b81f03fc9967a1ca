/** Server-sent events, in the form that the server writes: one `data` line for each event, and comments. */

/** More than the server's largest frame: an event of a session. */
const LONGEST = 64 * 1024 * 1024;

/** The `data` of each event, until the stream ends. Ending the iteration ends the request. */
export async function* dataOf(body: ReadableStream<Uint8Array>): AsyncGenerator<string, void, undefined> {
  const reader = body.getReader();
  const decoder = new TextDecoder();
  let rest = "";
  try {
    for (;;) {
      const { value, done } = await reader.read();
      if (done) return;
      const lines = decoder.decode(value, { stream: true }).split("\n");
      lines[0] = rest + lines[0];
      rest = lines.pop() ?? "";
      if (rest.length > LONGEST) throw new Error("A line of the stream is too long.");
      for (const line of lines) {
        if (line.startsWith("data:")) yield line.slice("data:".length).trim();
      }
    }
  } finally {
    await reader.cancel().catch(() => undefined);
  }
}
