#!/usr/bin/env bash
# Builds Thalweg's programs on a Slurm site without root, on a node of the site, and prints what to do next.
#
#   setup/slurm.sh [PREFIX]            PREFIX is ~/thalweg by default: a folder that all nodes see
#
# SBATCH_FLAGS="--account=... --partition=... --constraint=..." are passed to srun, and stand in the printed lines.
# BUILD_HERE=1 builds on this node: for sites whose compute nodes reach no network.
set -euo pipefail
cd "$(dirname "$0")/.."
prefix=${1:-$HOME/thalweg}
flags=${SBATCH_FLAGS:-}

for program in srun sbatch; do
    command -v "$program" > /dev/null || { echo "$program is not on the PATH: load the site's module of Slurm." >&2; exit 1; }
done

if [ "${BUILD_HERE:-0}" = 1 ]; then
    setup/workstation.sh "$prefix"
else
    # shellcheck disable=SC2086
    srun -N1 -n1 $flags setup/workstation.sh "$prefix"
fi

cat << TEXT

Programs are in $prefix/bin. Interactively, on two nodes:
    salloc -N2 $flags
    $prefix/bin/thalweg launch slurm --unprotected-network --ps 2 --workers 2 -- cnn_benchmarks --device=cpu --model=resnet20 --data_name=cifar10
As a job:
    $prefix/bin/thalweg launch slurm --script --unprotected-network --ps 2 --workers 2 -- cnn_benchmarks --device=cpu --model=resnet20 --data_name=cifar10 > job.sh
    sbatch -N2 $flags job.sh
--unprotected-network trusts the site's network. Otherwise: thalweg protect keys NODE..., and --protection keys.
TEXT
