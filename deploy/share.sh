#!/bin/sh
# Writes the manual pages and the completions of the program PROGRAM below FOLDER, which is laid out as /usr/local/share is.
# The archives and the image of a release have them from here.
set -eu
if [ $# -ne 2 ]; then
    echo "usage: $0 PROGRAM FOLDER" >&2
    exit 2
fi
# For everybody to read, whatever is usual where it runs.
umask 022
mkdir -p "$2/man/man1" "$2/bash-completion/completions" "$2/zsh/site-functions" "$2/fish/vendor_completions.d"
"$1" man --out "$2/man/man1"
"$1" completions bash > "$2/bash-completion/completions/countersign"
"$1" completions zsh > "$2/zsh/site-functions/_countersign"
"$1" completions fish > "$2/fish/vendor_completions.d/countersign.fish"
