#!/usr/bin/env bash
# A real Slurm of several nodes on this machine.
#   slurm.sh start FOLDER [NODES]   starts the daemons, unless they run, and prints the line to evaluate: export SLURM_CONF=...
#   slurm.sh stop FOLDER            ends all of them, and removes the folder
# It needs root and Debian's packages slurm-wlm and munge. Several may run at once, in different folders.
# Nodes node1, node2, ... have the addresses 127.0.1.1, 127.0.1.2, ...; their names are written to /etc/hosts. All have the
# host name of this machine: SLURMD_NODENAME tells tasks where they run.
set -euo pipefail
if [ $# -lt 2 ] || { [ "$1" != start ] && [ "$1" != stop ]; }; then
    echo "usage: slurm.sh start FOLDER [NODES] | stop FOLDER" >&2
    exit 2
fi
mkdir -p "$2"
dir=$(cd "$2" && pwd) nodes=${3:-4}

# Daemons write their numbers into files.
pids() { cat "$dir"/*.pid 2> /dev/null || true; }

# True unless the process has ended, whether or not its parent has noticed.
alive() { [ -n "$1" ] && grep -qs '^State:[[:space:]]*[^ZX]' "/proc/$1/status"; }

stop() {
    local all pid
    # Steps outlive the daemons.
    if timeout 5 scancel --user=root 2> /dev/null; then
        for _ in $(seq 100); do
            [ -n "$(timeout 5 squeue -h 2> /dev/null)" ] || break
            sleep 0.1
        done
    fi
    all=$(pids)
    # shellcheck disable=SC2086
    [ -z "$all" ] || kill $all 2> /dev/null || true
    for pid in $all; do
        for _ in $(seq 50); do
            alive "$pid" || continue 2
            sleep 0.1
        done
        kill -9 "$pid" 2> /dev/null || true
    done
    rm -rf "$dir"
}

# First of so many ports in a row that nobody listens on.
free_ports() {
    local first
    for first in $(seq 17000 40 19000); do
        ss -Hltn | awk '{ sub(/.*:/, "", $4); print $4 }' | awk -v a="$first" -v n="$1" '$1 >= a && $1 < a + n { exit 1 }' || continue
        echo "$first" && return
    done
    echo "no free ports from 17000 to 19040" >&2
    exit 1
}

configure() {
    local ports i
    ports=$(free_ports $((nodes + 1)))
    cat << CONF
ClusterName=test
SlurmctldHost=localhost
SlurmctldPort=$ports
SlurmUser=root
SlurmdUser=root
AuthType=auth/munge
AuthInfo=socket=$dir/munge.socket,cred_expire=5
StateSaveLocation=$dir/state
SlurmdSpoolDir=$dir/spool/%n
SlurmctldPidFile=$dir/slurmctld.pid
SlurmdPidFile=$dir/slurmd-%n.pid
SlurmctldLogFile=$dir/slurmctld.log
SlurmdLogFile=$dir/slurmd-%n.log
ProctrackType=proctrack/linuxproc
TaskPlugin=task/none
SchedulerParameters=sched_interval=2,bf_interval=2
SelectType=select/cons_tres
SelectTypeParameters=CR_Core
MpiDefault=none
SwitchType=switch/none
ReturnToService=2
KillWait=5
CONF
    for i in $(seq "$nodes"); do
        echo "NodeName=node$i NodeHostname=localhost NodeAddr=127.0.1.$i Port=$((ports + i)) CPUs=2 RealMemory=1000"
    done
    echo "PartitionName=all Nodes=ALL Default=YES MaxTime=INFINITE OverSubscribe=FORCE:4 State=UP"
}

start() {
    local i
    mkdir -p "$dir/state"
    for i in $(seq "$nodes"); do
        mkdir -p "$dir/spool/node$i"
        grep -qw "node$i" /etc/hosts || echo "127.0.1.$i node$i" >> /etc/hosts
    done
    # munged refuses folders of others, and a key that others can read.
    head -c 1024 /dev/urandom > "$dir/munge.key"
    chmod 600 "$dir/munge.key"
    chmod 755 "$dir"
    # Others that start wait until the ports of this one are taken. A daemon must not hold the lock.
    exec 9> "${TMPDIR:-/tmp}/slurm.sh.lock"
    flock 9
    munged --force --key-file="$dir/munge.key" --socket="$dir/munge.socket" --pid-file="$dir/munged.pid" \
        --log-file="$dir/munged.log" --seed-file="$dir/munged.seed" 2> "$dir/munged.err" 9>&-
    configure > "$dir/slurm.conf"
    slurmctld 9>&-
    for i in $(seq "$nodes"); do slurmd -N "node$i" 9>&-; done
    exec 9>&-
    for _ in $(seq 150); do
        [ "$(sinfo -h -t idle -o %D 2> /dev/null | head -1)" = "$nodes" ] && return
        sleep 0.2
    done
    sinfo >&2
    tail -5 "$dir"/*.log >&2
    stop
    echo "the nodes did not come up" >&2
    exit 1
}

export SLURM_CONF=$dir/slurm.conf
case $1 in
start)
    running=$(cat "$dir/slurmctld.pid" 2> /dev/null || true)
    if ! alive "$running"; then
        trap 'stop' ERR
        start
    fi
    echo "export SLURM_CONF=$SLURM_CONF"
    ;;
stop) stop ;;
esac
