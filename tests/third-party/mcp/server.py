"""An MCP server on a library that somebody else wrote.

    python server.py sdk|fastmcp stdio
    python server.py sdk|fastmcp http PORT

`sdk` is FastMCP as the MCP SDK carries it (1.x), `fastmcp` is the package of that name. `pay` leaves a line in `paid.txt`
each time it runs, so that a test can count.
"""

import sys

LIBRARY, TRANSPORT = sys.argv[1], sys.argv[2]

if LIBRARY == "sdk":
    from mcp.server.fastmcp import Context, FastMCP
else:
    from fastmcp import Context, FastMCP

options = {}
if LIBRARY == "sdk" and TRANSPORT == "http":
    options = {"host": "127.0.0.1", "port": int(sys.argv[3])}
server = FastMCP("bank", **options)


@server.tool()
def total(a: int, b: int) -> int:
    """Adds two numbers."""
    return a + b


@server.tool()
def pay(to: str, amount: float) -> str:
    """Pays an amount."""
    with open("paid.txt", "a", encoding="utf-8") as paid:
        paid.write(f"{to} {amount}\n")
    return f"paid {amount} to {to}"


if TRANSPORT == "stdio":
    server.run("stdio")
elif LIBRARY == "sdk":
    server.run("streamable-http")
else:
    server.run("http", host="127.0.0.1", port=int(sys.argv[3]), show_banner=False)
