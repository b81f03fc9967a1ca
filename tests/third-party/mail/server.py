"""A mail server (aiosmtpd) that writes down what it gets, as Python's own parser reads it.

usage: server.py FOLDER MODE [USER PASSWORD]

MODE is `starttls` (nothing is taken without), `implicit` or `plain`. FOLDER gets `ca.pem`, the certificate to trust,
`port`, and a line of JSON in `mails.jsonl` for each message. While it has a file `refuse`, messages are answered with
its text.
"""

import asyncio
import email
import email.policy
import json
import os
import ssl
import sys

import trustme
from aiosmtpd.smtp import SMTP, AuthResult

folder, mode, *login = sys.argv[1:]


def path(name):
    return os.path.join(folder, name)


class Handler:
    async def handle_DATA(self, server, session, envelope):
        if os.path.exists(path("refuse")):
            with open(path("refuse")) as text:
                return text.read()
        message = email.message_from_bytes(envelope.content, policy=email.policy.default)
        told = {
            "mail_from": envelope.mail_from,
            "rcpt_tos": envelope.rcpt_tos,
            "encrypted": session.ssl is not None or mode == "implicit",
            "login": session.authenticated,
            "hello": session.host_name,
            "headers": [[name, str(value)] for name, value in message.items()],
            "defects": [str(defect) for defect in message.defects],
            "text": message.get_content(),
        }
        with open(path("mails.jsonl"), "a") as mails:
            mails.write(json.dumps(told) + "\n")
        return "250 OK"


def authenticate(server, session, envelope, mechanism, data):
    said = [data.login.decode(), data.password.decode()]
    # `handled` would mean that the answer was given.
    return AuthResult(success=said == login, handled=False)


async def main():
    authority = trustme.CA()
    authority.cert_pem.write_to_path(path("ca.pem"))
    context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    authority.issue_cert("localhost").configure_cert(context)
    options = {"authenticator": authenticate, "auth_required": bool(login)}
    if mode == "starttls":
        options |= {"tls_context": context, "require_starttls": True}
    else:
        options |= {"auth_require_tls": False}
    server = await asyncio.get_running_loop().create_server(
        lambda: SMTP(Handler(), hostname="localhost", **options),
        "localhost",
        0,
        # One family, so that there is one port.
        family=2,
        ssl=context if mode == "implicit" else None,
    )
    with open(path("port.new"), "w") as port:
        port.write(str(server.sockets[0].getsockname()[1]))
    # Whole, once it is there.
    os.rename(path("port.new"), path("port"))
    await server.serve_forever()


asyncio.run(main())
