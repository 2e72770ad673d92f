#!/bin/bash
# Makes the folder that is brought to a machine with a GPU, and without network, Rust or source:
#
#   tests/gpu_folder.sh FOLDER [ARCHITECTURE]   there: FOLDER/gpu_run --out RESULTS
#
# It needs NVRTC here, for the machine code of the kernels. MNIST=DIR puts the full data set in. The
# program needs a C library that is no older than this machine's.
set -euo pipefail

# The folder travels with the files of the checkout: 64 MiB together.
most_bytes=$((64 << 20))

fail() {
    echo "gpu_folder.sh: $1" >&2
    exit 1
}

[ $# -ge 1 ] || fail "say where: tests/gpu_folder.sh FOLDER"
mkdir -p "$1"
out=$(cd "$1" && pwd)
[ -z "$(ls -A "$out")" ] || fail "$out is not empty: remove it, or name another folder"
mnist=${MNIST:+$(cd "$MNIST" && pwd)}
cd "$(dirname "${BASH_SOURCE[0]}")/.."

# Without symbols: the folder is small, and a panic names its line all the same.
export CARGO_PROFILE_RELEASE_DEBUG=0 CARGO_PROFILE_RELEASE_STRIP=symbols
program=$(cargo build --release -p thalweg-tests --bin gpu_run --message-format=json |
    grep -o '"executable":"[^"]*gpu_run"' | cut -d '"' -f 4)
[ -x "$program" ] || fail "cargo has built no gpu_run"
benchmarks=$(cargo build --release -p cnn_benchmarks --message-format=json |
    grep -o '"executable":"[^"]*cnn_benchmarks"' | cut -d '"' -f 4)
[ -x "$benchmarks" ] || fail "cargo has built no cnn_benchmarks"
mkdir -p "$out/bin" "$out/tests/golden" "$out/tests/cards" "$out/data/mnist" "$out/benches/peers"
cp "$program" "$benchmarks" "$out/bin/"
"$program" cubins "$out/cubins" --architecture "${2:-sm_90}"
cp tests/golden/ops.jsonl.gz "$out/tests/golden/"
cp tests/cards/*.json "$out/tests/cards/"
cp data/mnist/*.gz data/mnist/README.md "$out/data/mnist/"
cp benches/peers/peer.py benches/peers/pytorch_gpu.py "$out/benches/peers/"
if [ -n "$mnist" ]; then
    mkdir "$out/data/full_mnist"
    cp "$mnist"/*-ubyte.gz "$out/data/full_mnist/"
fi
git describe --always --abbrev=40 --dirty --exclude '*' > "$out/commit"

# Programs and machine code are large, and travel as an archive.
packed=$(mktemp)
tar -C "$out" --use-compress-program="gzip -9" --remove-files -cf "$packed" .
mkdir -p "$out"
mv "$packed" "$out/files.tar.gz"
chmod 644 "$out/files.tar.gz"
# Files of another build are not taken for these.
id=$(sha256sum "$out/files.tar.gz" | cut -c 1-16)
{
    echo '#!/bin/bash'
    echo "id=$id"
    cat <<'END'
# The files are unpacked beside this script, from wherever it is called; elsewhere where that folder may not be written.
set -e
here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
files=$here/files-$id
[ -w "$here" ] || files=${TMPDIR:-/tmp}/gpu_run-$UID-$id
if [ ! -e "$files/commit" ]; then
    part=$(mktemp -d "$files.XXXXXX")
    tar -C "$part" -xzf "$here/files.tar.gz"
    # Another call may have unpacked them meanwhile.
    mv -T "$part" "$files" 2>/dev/null || rm -rf "$part"
fi
THALWEG_ROOT=$files exec "$files/bin/gpu_run" "$@"
END
} > "$out/gpu_run"
chmod +x "$out/gpu_run"

bytes=$(du -sb "$out" | cut -f 1)
tree=$(git ls-files -z --cached --others --exclude-standard | du -cb --files0-from=- | tail -n 1 | cut -f 1)
[ $((bytes + tree)) -le "$most_bytes" ] ||
    fail "$out has $bytes bytes and the checkout $tree, together more than $most_bytes"
echo "$out: $bytes bytes; run gpu_run there"
