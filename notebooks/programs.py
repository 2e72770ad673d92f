"""Programs of Thalweg for the notebooks: their paths, and servers that end with the notebook."""

import atexit
import os
import shutil
import socket
import subprocess
from pathlib import Path

FOLDER = Path(__file__).resolve().parent


def program(name):
    """Path of a program: in the folder that THALWEG_BIN names, of a release build, or on the PATH."""
    folders = [os.environ.get("THALWEG_BIN"), FOLDER.parent / "target" / "release"]
    for folder in filter(None, folders):
        for place in (Path(folder), Path(folder) / "examples"):
            if (place / name).is_file():
                return str(place / name)
    found = shutil.which(name)
    if found is None:
        raise FileNotFoundError(f"there is no program {name}: build it, or set THALWEG_BIN to its folder")
    return found


def free_ports(count):
    """Ports of the loopback that were free when they were asked for."""
    sockets = [socket.create_server(("127.0.0.1", 0)) for _ in range(count)]
    ports = [s.getsockname()[1] for s in sockets]
    for s in sockets:
        s.close()
    return ports


class Programs:
    """Programs that print a line when they are ready. They end with the `with` statement, by `stop`, or with the kernel."""

    def __init__(self, *commands):
        self.commands = commands
        self.running = []
        # The first line of each program.
        self.lines = []

    def start(self):
        atexit.register(self.stop)
        try:
            for command in self.commands:
                self.running.append(
                    subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True)
                )
            self.lines = [p.stdout.readline().strip() for p in self.running]
            if not all(self.lines):
                raise RuntimeError("a program has ended before it was ready")
        except BaseException:
            self.stop()
            raise
        return self

    def stop(self):
        atexit.unregister(self.stop)
        for process in self.running:
            process.terminate()
        for process in self.running:
            try:
                process.wait(timeout=20)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()
            process.stdout.close()
        self.running = []

    def __enter__(self):
        return self.start()

    def __exit__(self, *_):
        self.stop()


def server():
    """One server; `lines[0]` is the target of a session."""
    return Programs([program("thalweg"), "server", "--listen", "127.0.0.1:0"])


def cluster(servers, workers):
    """A cluster of parameter servers and workers; `lines[servers]` is the target of the first worker."""
    ports = free_ports(servers + workers)
    addresses = [f"127.0.0.1:{port}" for port in ports]
    hosts = ["--ps-hosts", ",".join(addresses[:servers]), "--worker-hosts", ",".join(addresses[servers:])]
    tasks = [("ps", i) for i in range(servers)] + [("worker", i) for i in range(workers)]
    commands = [
        [program("thalweg"), "server", "--listen", address, "--job", job, "--task", str(task), *hosts]
        for address, (job, task) in zip(addresses, tasks)
    ]
    return Programs(*commands)
