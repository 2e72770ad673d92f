#!/usr/bin/env python3
"""Failures of launched jobs: exit status, time to the end, message, and processes that are left, as a table.

    failures.py THALWEG [--front NAME ...] [--only TEXT]

THALWEG is the program. Four tasks run a shell script; times
count from the failure, or from the last signal. They are on this host, on two hosts that one OpenSSH daemon serves at
127.0.0.2 and 127.0.0.3, or on the nodes of a Slurm that tests/slurm.sh starts. Needs Linux, root, sshd, Slurm and an MPI. The
status is 1 if a process is left, or if a job does not end.
"""

import argparse
import os
import pathlib
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time
import uuid

TASKS = 4
MARK = "LAUNCH_FAILURES"
LIMIT = 90.0
SLURM = pathlib.Path(__file__).resolve().parents[1] / "slurm.sh"
RANK = "${HOROVOD_RANK-${OMPI_COMM_WORLD_RANK-${PMI_RANK-}}}"
STAYS = "echo ready; exec sleep 300"
IGNORES = "trap '' TERM INT; echo ready; while :; do sleep 0.1; done"


def fails(then):
    """Script of which rank 2 fails and the others go on."""
    return f"if [ {RANK} = 2 ]; then echo ready; sleep 2; exit 3; fi; {then}"


# Name, script of the tasks, options, and what happens when all tasks are ready.
CASES = [
    ("a task ends with status 3", fails(STAYS), [], None),
    ("a task fails, others ignore SIGTERM", fails(IGNORES), ["--grace", "2"], None),
    ("a task never starts", None, [], None),
    ("Ctrl-C", STAYS, [], ["INT"]),
    ("Ctrl-C twice, tasks ignore it", IGNORES, [], ["INT", "INT"]),
    ("SIGTERM", STAYS, [], ["TERM"]),
    ("kill -9 of the launcher", STAYS, [], ["KILL"]),
    ("a host goes away", STAYS, [], ["lose"]),
    ("scancel", STAYS, [], ["scancel"]),
]


class Local:
    """Ranks of this host."""

    args = ["launch", "local", "-np", str(TASKS)]
    before, events = [], set()
    env = {}

    def close(self):
        pass


class Ssh(Local):
    """Ranks of two hosts that OpenSSH reaches."""

    events = {"lose"}

    def __init__(self, folder, front):
        at = folder.joinpath
        for key in ["host_key", "user_key"]:
            make = ["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", at(key)]
            subprocess.run(make, check=True)
        with socket.socket() as free:
            free.bind(("127.0.0.2", 0))
            port = free.getsockname()[1]
        config = f"Port {port}\nListenAddress 127.0.0.2\nListenAddress 127.0.0.3\nHostKey {at('host_key')}\n"
        config += f"AuthorizedKeysFile {at('user_key.pub')}\nStrictModes no\nUsePAM no\nPidFile none\nMaxStartups 100\n"
        at("sshd_config").write_text(config)
        # The launcher takes a loopback address for this host, and these names for others.
        names = {"host_a": "127.0.0.2", "host_b": "127.0.0.3"}
        options = f"Port {port}\nIdentityFile {at('user_key')}\nStrictHostKeyChecking no\n"
        options += "UserKnownHostsFile /dev/null\nLogLevel ERROR\n"
        at("ssh_config").write_text(options + "".join(f"Host {name}\n  HostName {ip}\n" for name, ip in names.items()))
        at("ssh.sh").write_text(f'#!/bin/sh\nexec ssh -F {at("ssh_config")} "$@"\n')
        at("ssh.sh").chmod(0o755)
        os.makedirs("/run/sshd", exist_ok=True)
        self.daemon = subprocess.Popen(["/usr/sbin/sshd", "-D", "-f", at("sshd_config")])
        until(lambda: connects(port), "sshd")
        at("hosts").write_text("".join(f"{name} address={ip} slots=2\n" for name, ip in names.items()))
        hosts = {"ssh": "--hosts", "hvd": "--hostfile"}[front]
        self.args = ["launch", front, "--ssh", str(at("ssh.sh")), hosts, str(at("hosts"))]
        self.args += ["-np", str(TASKS), "--unprotected-network"]

    def lose(self, _job):
        """Kills the connection of the last host, as a power cut does."""
        for pid in processes():
            if pid != self.daemon.pid and words_of(pid)[0].startswith("sshd: ") and has_descendant(pid, "agent"):
                os.kill(pid, signal.SIGKILL)
                return

    def close(self):
        self.daemon.kill()
        self.daemon.wait()


class Slurm(Local):
    """Ranks of four nodes of a Slurm."""

    args = ["launch", "slurm", "-np", str(TASKS), "--unprotected-network"]
    before = ["salloc", "-Q", f"-N{TASKS}"]
    events = {"lose", "scancel"}

    def __init__(self, folder):
        self.folder = folder / "slurm"
        started = subprocess.run([SLURM, "start", self.folder, str(TASKS)], check=True, capture_output=True, text=True)
        name, value = started.stdout.strip().removeprefix("export ").split("=", 1)
        self.env = {name: value.strip("'\"")}

    def run(self, *command):
        subprocess.run(command, env=os.environ | self.env, check=False, capture_output=True)

    def lose(self, _job):
        self.run("scontrol", "update", "nodename=node3", "state=down", "reason=test")

    def scancel(self, job):
        self.run("scancel", job)

    def resume(self):
        self.run("scontrol", "update", "nodename=node3", "state=resume")
        until(lambda: self.nodes() == str(TASKS), "four idle nodes")

    def nodes(self):
        query = ["sinfo", "-h", "-t", "idle", "-o", "%D"]
        return subprocess.run(query, env=os.environ | self.env, capture_output=True, text=True).stdout.strip()

    def close(self):
        self.run(SLURM, "stop", self.folder)


class Mpi(Local):
    """Ranks of this host that an mpirun starts."""

    def __init__(self, mpirun, args=()):
        self.args = ["launch", "mpi", "--mpirun", mpirun, *args, "-np", str(TASKS)]


class PmiOfSlurm(Slurm):
    """Ranks of four nodes that srun --mpi=pmi2 starts."""

    args = ["launch", "mpi", "--mpi", "srun", "-np", str(TASKS), "--unprotected-network"]


FRONTS = {
    "local": lambda folder: Local(),
    "ssh": lambda folder: Ssh(folder, "ssh"),
    "hvd": lambda folder: Ssh(folder, "hvd"),
    "slurm": Slurm,
    "mpi (Open MPI)": lambda folder: Mpi("mpirun.openmpi", ["--mpirun-args", "--oversubscribe"]),
    "mpi (MPICH)": lambda folder: Mpi("mpirun.mpich"),
    "mpi (srun)": PmiOfSlurm,
}


def connects(port):
    try:
        socket.create_connection(("127.0.0.2", port), 1).close()
    except OSError:
        return False
    return True


def until(holds, what, limit=60.0):
    end = time.monotonic() + limit
    while not holds():
        if time.monotonic() > end:
            raise SystemExit(f"{what}: not within {limit:.0f} s")
        time.sleep(0.05)


def words_of(pid):
    """Command line of a process; nothing if it has ended."""
    try:
        return pathlib.Path(f"/proc/{pid}/cmdline").read_bytes().decode(errors="replace").rstrip("\0").split("\0")
    except OSError:
        return [""]


def processes():
    """Numbers of all processes."""
    return [int(entry.name) for entry in pathlib.Path("/proc").iterdir() if entry.name.isdigit()]


def has_descendant(pid, word):
    """True if a descendant of a process has such a word."""
    for path in pathlib.Path(f"/proc/{pid}/task").glob("*/children"):
        try:
            children = path.read_text().split()
        except OSError:
            continue
        if any(word in words_of(child) or has_descendant(child, word) for child in children):
            return True
    return False


def marked(mark):
    """Command lines of the processes that have the mark of a job in their environment."""
    sign = f"{MARK}={mark}".encode()
    found = []
    for pid in processes():
        try:
            if sign in pathlib.Path(f"/proc/{pid}/environ").read_bytes().split(b"\0"):
                found.append(" ".join(words_of(pid)))
        except OSError:
            pass
    return [command for command in found if command]


def run(program, front, case, folder):
    """Runs a job into a failure; returns the cells of its row."""
    name, script, options, events = case
    mark = uuid.uuid4().hex
    command = ["sh", "-c", script] if script else ["no_such_program"]
    command = [program, *front.args, *options, "--env", MARK, "--", *command]
    # The launcher has the number of this shell.
    whole = [*front.before, "sh", "-c", 'echo "launcher $$ ${SLURM_JOB_ID-}"; exec "$@"', "sh", *command]
    log = folder / "log"
    with log.open("w") as out:
        job = subprocess.Popen(whole, stdout=out, stderr=subprocess.STDOUT, env=os.environ | front.env | {MARK: mark})
    lines = lambda: log.read_text(errors="replace").splitlines()
    began = time.monotonic()
    if script:
        ready = lambda: sum("ready" in line for line in lines()) == TASKS
        until(lambda: ready() or job.poll() is not None, f"{name}: tasks")
        began = time.monotonic()
        if events is None:
            # The task that fails sleeps for two seconds.
            began += 2
    launcher, number = next(((line.split() + [""])[1:3] for line in lines() if line.startswith("launcher")), ("", ""))
    for number_of_event, event in enumerate(events or []):
        # Two signals at once are one.
        time.sleep(0.5 if number_of_event else 0)
        began = time.monotonic()
        if hasattr(front, event):
            getattr(front, event)(number)
        elif job.poll() is None:
            os.kill(int(launcher), getattr(signal, f"SIG{event}"))
    try:
        status = job.wait(LIMIT)
    except subprocess.TimeoutExpired:
        job.kill()
        status = "none"
    ended = time.monotonic() - began
    last = time.monotonic()
    while marked(mark) and time.monotonic() - last < 20:
        time.sleep(0.02)
    gone = time.monotonic() - began
    left = marked(mark)
    own = [line for line in lines() if not line.startswith("launcher") and " | " not in line and "ready" not in line]
    message = next((line for line in own if line.startswith("error:")), own[-1] if own else "")
    if os.environ.get("SHOW_LOG"):
        print(*lines(), sep="\n", file=sys.stderr)
    if hasattr(front, "resume") and events == ["lose"]:
        front.resume()
    return status, ended, gone, message.strip(), left


def main():
    arguments = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    arguments.add_argument("program")
    arguments.add_argument("--front", action="append", choices=FRONTS)
    arguments.add_argument("--only", default="")
    given = arguments.parse_args()
    program = shutil.which(given.program)
    fine = True
    print("| front | failure | status | launcher ends, s | last process ends, s | left | message |")
    print("| --- | --- | --- | --- | --- | --- | --- |")
    for title in given.front or FRONTS:
        folder = pathlib.Path(tempfile.mkdtemp(prefix="launch_failures"))
        front = FRONTS[title](folder)
        try:
            for case in CASES:
                events = set(case[3] or []) & {"lose", "scancel"}
                if not events <= front.events or given.only not in case[0]:
                    continue
                status, ended, gone, message, left = run(program, front, case, folder)
                fine &= not left and status != "none"
                message = message.replace("|", "\\|").replace(str(folder), "DIR")
                print(f"| {title} | {case[0]} | {status} | {ended:.2f} | {gone:.2f} | {len(left)} | {message} |", flush=True)
                for command in left:
                    print(f"left: {command}", file=sys.stderr)
        finally:
            front.close()
            shutil.rmtree(folder, ignore_errors=True)
    return 0 if fine else 1


if __name__ == "__main__":
    sys.exit(main())
