"""Writes `ca.pem`, the certificate of a new authority, and `cert.pem` and `key.pem`, a certificate of it for a host.

usage: certificates.py FOLDER HOST
"""

import os
import sys

import trustme

folder, host = sys.argv[1:]
authority = trustme.CA()
issued = authority.issue_cert(host)
authority.cert_pem.write_to_path(os.path.join(folder, "ca.pem"))
issued.private_key_pem.write_to_path(os.path.join(folder, "key.pem"))
for pem in issued.cert_chain_pems:
    pem.write_to_path(os.path.join(folder, "cert.pem"), append=True)
