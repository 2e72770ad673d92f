#!/usr/bin/env bash
# Writes what each crate offers to its users beside this file, a line for each item: THALWEG-CRATE.txt.
# It takes a nightly compiler and `cargo install cargo-public-api`.
set -euo pipefail
cd "$(dirname "$0")/../.."
packages=(thalweg)
for folder in crates/*/ kernels/; do
    name=thalweg-$(basename "$folder")
    [ "$name" = thalweg-cli ] || packages+=("$name")
done
for package in "${packages[@]}"; do
    features=()
    case $package in thalweg | thalweg-parallel) features=(--features cluster) ;; esac
    cargo +nightly public-api -sss -p "$package" "${features[@]}" > "docs/api/$package.txt"
done
