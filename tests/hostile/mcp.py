"""An MCP server that is broken, or means harm, in as many ways as there are modes here.

    python3 mcp.py modes                  lists them, each with the ways it is spoken to
    python3 mcp.py MODE stdio [CANARY]
    python3 mcp.py MODE http [CANARY]     says its port first

Unless its mode says otherwise, it has one tool, `pay`, which leaves a line in `MODE.ran` each time it runs. CANARY is a port
of a listener that nothing may ever reach by what this server says.
"""

import json
import os
import socket
import sys
import threading
import time

from modes import ANSWERS, DEAF, FOR_EVER, MODES, USUAL, WAYS, failed


class Output:
    """Standard output: a message is a line."""

    def __init__(self):
        self.lock = threading.Lock()

    def send(self, message):
        self.line(json.dumps(message).encode())

    def line(self, line):
        with self.lock:
            self.raw(line + b"\n")

    def raw(self, part):
        while part:
            part = part[os.write(1, part) :]

    def end(self):
        self.raw(b"\n")


class Response:
    """One answer over HTTP, by default a stream in which a message is an event."""

    def __init__(self, connection):
        self.connection = connection
        self.began = False
        self.in_event = False
        self.lock = threading.Lock()

    def write(self, part):
        self.connection.sendall(part)

    def head(self, status, **headers):
        self.began = True
        lines = "".join(f"{name.replace('_', '-')}: {value}\r\n" for name, value in headers.items())
        self.write(f"HTTP/1.1 {status}\r\nconnection: close\r\nmcp-session-id: s1\r\n{lines}\r\n".encode())

    def json(self, status, message):
        body = json.dumps(message).encode()
        self.head(status, content_type="application/json", content_length=str(len(body)))
        self.write(body)

    def send(self, message):
        self.line(json.dumps(message).encode())

    def line(self, line):
        with self.lock:
            self.raw(line)
            self.end()

    def raw(self, part):
        if not self.began:
            self.head("200 OK", content_type="text/event-stream")
        if not self.in_event:
            self.in_event = True
            self.write(b"data: ")
        self.write(part)

    def end(self):
        self.in_event = False
        self.write(b"\n\n")


def step(mode, name, to, request):
    own = MODES[mode]
    if f"http {name}" in own and isinstance(to, Response):
        own[f"http {name}"](to, request)
    elif name in own:
        own[name](to, request)
    elif name in USUAL:
        USUAL[name](to, request)
    else:
        to.send(failed(request, -32601, "method not found"))


def serve_stdio(mode):
    to = Output()
    if "start" in MODES[mode]:
        MODES[mode]["start"](to, None)
    for line in sys.stdin.buffer:
        message = json.loads(line)
        if "method" not in message:
            ANSWERS.release()
        elif "id" in message:
            request = (mode, message["method"], to, message)
            threading.Thread(target=step, args=request, daemon=True).start()
            if mode == "asks_and_never_reads" and message["method"] == "tools/call":
                DEAF.wait()
                time.sleep(FOR_EVER)


def serve_connection(mode, connection):
    with connection:
        stream = connection.makefile("rb")
        method = stream.readline().split(b" ")[0].decode()
        length = 0
        while (line := stream.readline().strip().lower()) != b"":
            if line.startswith(b"content-length:"):
                length = int(line.split(b":")[1])
        to = Response(connection)
        if method != "POST":
            if method in MODES[mode]:
                return MODES[mode][method](to, None)
            return to.head("405 Method Not Allowed", content_length="0")
        message = json.loads(stream.read(length))
        if "method" not in message:
            ANSWERS.release()
            MODES[mode].get("answer", lambda *_: None)(to, message)
        if "method" not in message or "id" not in message:
            return to.head("202 Accepted", content_length="0")
        try:
            step(mode, message["method"], to, message)
        except OSError:
            # Whoever asked has gone.
            pass


def serve_http(mode):
    listener = socket.create_server(("127.0.0.1", 0), backlog=64)
    print(listener.getsockname()[1], flush=True)
    while True:
        connection, _ = listener.accept()
        threading.Thread(target=serve_connection, args=(mode, connection), daemon=True).start()


def end_with(parent):
    """Nothing is left running, however the one who started this has ended."""
    while os.getppid() == parent:
        time.sleep(0.2)
    os._exit(0)


if __name__ == "__main__":
    threading.Thread(target=end_with, args=(os.getppid(),), daemon=True).start()
    if sys.argv[1] == "modes":
        for name, ways in WAYS.items():
            print(name, *ways)
    elif sys.argv[2] == "stdio":
        serve_stdio(sys.argv[1])
    else:
        serve_http(sys.argv[1])
