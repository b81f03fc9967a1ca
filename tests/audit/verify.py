#!/usr/bin/env python3
"""Verifies an exported audit log: `countersign audit export | python3 verify.py [NUMBER:HASH]`.

Written from the section "The audit log" of docs/protocol.md alone, with Python's standard library alone, so that what is hashed
is known to more than one program. Prints `ok: N records; anchor N:HASH`, or on standard error the first fault, and exits with 1.
"""

import hashlib
import json
import re
import sys

START = "0" * 64
HASH = re.compile(r"[0-9a-f]{64}\Z")
ESCAPES = {'"': '\\"', "\\": "\\\\", "\b": "\\b", "\t": "\\t", "\n": "\\n", "\f": "\\f", "\r": "\\r"}


class Number(str):
    """A number as it is written."""


class Fault(Exception):
    pass


def members(pairs):
    names = [name for name, _ in pairs]
    if len(set(names)) != len(names):
        raise Fault("a member stands twice in an object")
    return dict(pairs)


def no_constant(name):
    raise Fault(f"{name} is no JSON")


def read(text):
    return json.loads(
        text, parse_int=Number, parse_float=Number, parse_constant=no_constant, object_pairs_hook=members
    )


def string(text):
    return '"' + "".join(ESCAPES.get(c) or (f"\\u{ord(c):04x}" if c < " " else c) for c in text) + '"'


def canonical(value):
    if value is None:
        return "null"
    if value is True:
        return "true"
    if value is False:
        return "false"
    if isinstance(value, Number):
        return str(value)
    if isinstance(value, str):
        return string(value)
    if isinstance(value, list):
        return "[" + ",".join(canonical(item) for item in value) + "]"
    names = sorted(value, key=lambda name: name.encode("utf-16-be", "surrogatepass"))
    return "{" + ",".join(string(name) + ":" + canonical(value[name]) for name in names) + "}"


def verify(lines, anchor=None):
    last, last_hash = 0, START
    for line in lines:
        expected = last + 1
        try:
            record = read(line)
            if set(record) != {"n", "prev", "hash", "body"}:
                raise Fault("it has other members than n, prev, hash and body")
            number, prev, given = record["n"], record["prev"], record["hash"]
            if not (isinstance(number, Number) and HASH.match(prev) and HASH.match(given)):
                raise Fault("it is no record")
            body = canonical(record["body"])
            hashed = hashlib.sha256(f"{prev}\n{number}\n{body}".encode()).hexdigest()
        except (Fault, ValueError, KeyError, TypeError, RecursionError) as error:
            raise Fault(f"line {expected}: {error!r}") from error
        if number != str(expected):
            raise Fault(f"record {expected} is missing: record {number} stands in its place")
        if given != hashed:
            raise Fault(f"record {expected} was changed: its hash is not that of what it says")
        if prev != last_hash:
            raise Fault(f"record {expected} does not follow the record before it")
        last, last_hash = expected, given
        if anchor and anchor[0] == last and anchor[1] != last_hash:
            raise Fault(f"record {last} is not the one of the anchor")
    if anchor and anchor[0] > last:
        raise Fault(f"the log ends with record {last}, but the anchor is record {anchor[0]}")
    return last, last_hash


def main():
    anchor = None
    if len(sys.argv) > 1:
        number, given = sys.argv[1].split(":")
        anchor = (int(number), given)
    sys.stdin.reconfigure(encoding="utf-8", newline="\n")
    try:
        last, last_hash = verify(sys.stdin, anchor)
    except Fault as fault:
        sys.exit(f"the audit log is not as it was written: {fault}")
    print(f"ok: {last} records; anchor {last}:{last_hash}")


if __name__ == "__main__":
    main()
