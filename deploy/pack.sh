#!/bin/sh
# Packs the program PROGRAM as NAME.tar.gz, with its manual, completions and unit for systemd, and NAME.tar.gz.sha256: what a
# release offers for one kind of machine. This machine must be of that kind, since the program writes its own manual.
set -eu
if [ $# -ne 2 ]; then
    echo "usage: $0 PROGRAM NAME" >&2
    exit 2
fi
root=$(dirname "$0")/..
# For everybody to read, whatever is usual where it runs.
umask 022
mkdir "$2"
install -m 755 "$1" "$2/countersign"
for page in README.md CHANGELOG.md LICENSE-MIT LICENSE-APACHE deploy/countersign.service; do
    install -m 644 "$root/$page" "$2"
done
sh "$root/deploy/share.sh" "$2/countersign" "$2/share"
# The superuser's: where they are unpacked as root, they would belong to whoever has the number of this user there.
case $(tar --version) in
    *bsdtar*) owner='--uid 0 --gid 0' ;;
    *) owner='--owner 0 --group 0' ;;
esac
tar $owner --numeric-owner -czf "$2.tar.gz" "$2"
# One of the two is on every system.
if command -v sha256sum > /dev/null; then sha256sum "$2.tar.gz"; else shasum -a 256 "$2.tar.gz"; fi > "$2.tar.gz.sha256"
