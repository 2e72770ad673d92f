# shellcheck shell=bash
# Finds cargo, or installs Rust for this user. Other scripts include this file.
# RUST_VERSION is the version that Cargo.toml asks for, or a later one.
rust_version=${RUST_VERSION:-stable}
if ! command -v cargo > /dev/null && [ -f "${CARGO_HOME:-$HOME/.cargo}/env" ]; then
    . "${CARGO_HOME:-$HOME/.cargo}/env"
fi
if ! command -v cargo > /dev/null; then
    if ! command -v curl > /dev/null; then
        echo "Neither cargo nor curl: install Rust from https://rustup.rs" >&2
        exit 1
    fi
    curl --proto '=https' --tlsv1.2 -sSf https://sh.rustup.rs | sh -s -- -y --profile minimal --no-modify-path --default-toolchain "$rust_version"
    . "${CARGO_HOME:-$HOME/.cargo}/env"
fi
least=$(sed -n 's/^rust-version = "\(.*\)"$/\1/p' Cargo.toml)
found=$(cargo --version | cut -d' ' -f2)
if [ "$(printf '%s\n' "$least" "$found" | sort -V | head -n1)" != "$least" ]; then
    echo "cargo is of version $found, and $least is needed: rustup update, or load a newer module." >&2
    exit 1
fi
