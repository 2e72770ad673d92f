#!/bin/bash
# Makes the folder that gpu.sh runs in: on a machine with a GPU, and without network, Rust or source.
#
#   tests/gpu_folder.sh OUT
#
# MNIST=DIR puts the full data set in, and PEERS=DIR programs to measure against, where
# pytorch_deep_mnist.py is the one that gpu.sh knows. The programs need a C library that is no older
# than this machine's.
set -euo pipefail

tests="gpu engine"
examples="gpu_floors deep_mnist linear_regression"
most_bytes=64000000

fail() {
    echo "gpu_folder.sh: $1" >&2
    exit 1
}

[ $# -eq 1 ] || fail "say where: tests/gpu_folder.sh OUT"
mkdir -p "$1"
out=$(cd "$1" && pwd)
[ -z "$(ls -A "$out")" ] || fail "$out is not empty: remove it, or name another folder"
mnist=${MNIST:+$(cd "$MNIST" && pwd)}
peers=${PEERS:+$(cd "$PEERS" && pwd)}
cd "$(dirname "${BASH_SOURCE[0]}")/.."

# Programs without symbols: the folder is small, and a panic names its line all the same.
export CARGO_PROFILE_RELEASE_DEBUG=0 CARGO_PROFILE_RELEASE_STRIP=symbols
built=$(cargo build --release -p thalweg-tests -p thalweg-examples --message-format=json \
    $(printf -- '--test %s ' $tests) $(printf -- '--example %s ' $examples))
mkdir "$out/bin"
grep -o '"executable":"[^"]*"' <<< "$built" | cut -d '"' -f 4 | while read -r program; do
    cp "$program" "$out/bin/$(basename "$program" | sed -E 's/-[0-9a-f]{16}$//')"
done
for program in $tests $examples; do
    [ -x "$out/bin/$program" ] || fail "cargo has built no $program"
done
# Each has the whole engine in it: packed they are a third as large.
tar -czf "$out/bin.tar.gz" -C "$out" bin
rm -r "$out/bin"

mkdir -p "$out/tests/golden" "$out/data/mnist"
cp tests/gpu.sh "$out/"
cp tests/golden/ops.jsonl.gz "$out/tests/golden/"
cp data/mnist/*.gz data/mnist/README.md "$out/data/mnist/"
if [ -n "$mnist" ]; then
    mkdir "$out/data/full_mnist"
    cp "$mnist"/*-ubyte.gz "$out/data/full_mnist/"
fi
if [ -n "$peers" ]; then
    mkdir "$out/peers"
    cp "$peers"/*.py "$out/peers/"
fi
git describe --always --abbrev=40 --dirty --exclude '*' > "$out/commit"

bytes=$(du -sb "$out" | cut -f 1)
[ "$bytes" -le "$most_bytes" ] || fail "$out has $bytes bytes, more than $most_bytes"
echo "$out: $bytes bytes; run gpu.sh there"
