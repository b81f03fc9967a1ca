#!/bin/sh
# Packs the program PROGRAM as NAME.tar.gz, with its manual and completions, and NAME.tar.gz.sha256: what a release offers for
# one kind of machine. This machine must be of that kind, since the program writes its own manual.
set -eu
if [ $# -ne 2 ]; then
    echo "usage: $0 PROGRAM NAME" >&2
    exit 2
fi
root=$(dirname "$0")/..
mkdir "$2"
cp "$1" "$2/countersign"
for page in README.md CHANGELOG.md LICENSE-MIT LICENSE-APACHE; do
    cp "$root/$page" "$2"
done
sh "$root/deploy/share.sh" "$2/countersign" "$2/share"
tar -czf "$2.tar.gz" "$2"
# One of the two is on every system.
if command -v sha256sum > /dev/null; then sha256sum "$2.tar.gz"; else shasum -a 256 "$2.tar.gz"; fi > "$2.tar.gz.sha256"
