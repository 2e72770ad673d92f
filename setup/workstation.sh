#!/usr/bin/env bash
# Builds Thalweg's programs and installs them for one user: thalweg and cnn_benchmarks.
#
#   setup/workstation.sh [PREFIX]      programs go to PREFIX/bin; PREFIX is ~/.local by default
#
# It needs a C compiler and, if Rust is not installed, curl. With root it installs a missing compiler through apt or dnf.
# FEATURES="turbojpeg mpi" adds features of cnn_benchmarks: turbojpeg needs cmake and nasm, mpi needs an MPI with mpicc
# and libclang.
set -euo pipefail
cd "$(dirname "$0")/.."
prefix=${1:-$HOME/.local}

if ! command -v cc > /dev/null; then
    if [ "$(id -u)" != 0 ]; then
        echo "No C compiler: install gcc (Debian: apt install gcc; Fedora: dnf install gcc), or run this script as root." >&2
        exit 1
    elif command -v apt-get > /dev/null; then
        apt-get update -qq
        DEBIAN_FRONTEND=noninteractive apt-get install -qq -y gcc libc6-dev ca-certificates curl
    elif command -v dnf > /dev/null; then
        dnf install -q -y gcc ca-certificates curl
    else
        echo "No C compiler, and neither apt nor dnf: install gcc." >&2
        exit 1
    fi
fi

. setup/rust.sh

features=()
for feature in ${FEATURES:-}; do features+=(--features "cnn_benchmarks/$feature"); done
cargo build --release --locked -p thalweg-cli -p cnn_benchmarks "${features[@]}"

target=${CARGO_TARGET_DIR:-target}/release
mkdir -p "$prefix/bin"
for program in thalweg cnn_benchmarks; do
    # A running program's file cannot be written, and can be replaced.
    cp "$target/$program" "$prefix/bin/.$program.new"
    mv "$prefix/bin/.$program.new" "$prefix/bin/$program"
done

"$prefix/bin/thalweg" --version
case ":$PATH:" in
    *":$prefix/bin:"*) ;;
    *) echo "Add $prefix/bin to PATH: export PATH=$prefix/bin:\$PATH" ;;
esac
echo "Try: thalweg launch local --free-ports --ps 1 --workers 2 -- cnn_benchmarks --device=cpu --model=resnet20 --data_name=cifar10 --batch_size=32 --num_batches=20"
