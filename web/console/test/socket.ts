/** A socket whose server is the test. */
export class Socket {
  static last: Socket;
  onopen: (() => void) | null = null;
  onclose: (() => void) | null = null;
  onerror = null;
  onmessage: ((message: { data: string }) => void) | null = null;
  readonly sent: Record<string, unknown>[] = [];

  constructor() {
    Socket.last = this;
  }
  send(text: string): void {
    this.sent.push(JSON.parse(text));
  }
  close(): void {}
  receive(...frames: object[]): void {
    for (const frame of frames) this.onmessage?.({ data: JSON.stringify(frame) });
  }
}
