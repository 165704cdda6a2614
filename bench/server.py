"""The two servers that are compared: each starts on an empty data directory and a free port, and tells what it uses."""

import contextlib
import os
import pathlib
import pwd
import shutil
import signal
import socket
import subprocess
import time

from wire import Connection, ServerError

TICKS_PER_SECOND = os.sysconf("SC_CLK_TCK")
START_TIMEOUT_S = 120

# What gives PostgreSQL its best figures here: memory enough, no WAL that only replicas need, nothing in the background.
POSTGRES_SETTINGS = {
    "shared_buffers": "1GB",
    "max_wal_size": "8GB",
    "checkpoint_timeout": "1h",
    "wal_level": "minimal",
    "max_wal_senders": "0",
    "autovacuum": "off",
    "max_connections": "200",
    "listen_addresses": "127.0.0.1",
    "logging_collector": "off",
}


def free_port():
    with contextlib.closing(socket.create_server(("127.0.0.1", 0))) as listener:
        return listener.getsockname()[1]


def cpu_seconds(pid, reaped=True):
    """CPU of a process so far; with `reaped` also that of its children that have ended."""
    # The name of the command, in parentheses, may hold anything.
    fields = pathlib.Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return sum(int(ticks) for ticks in fields[11 : 15 if reaped else 13]) / TICKS_PER_SECOND


class Server:
    """What both have in common. `process` is the one that was started; its children belong to it."""

    def __init__(self, data_dir, database):
        self.data_dir = data_dir
        self.database = database
        self.port = free_port()
        self.process = None

    def connect(self):
        return Connection(self.port, self.database)

    def query(self, sql):
        connection = self.connect()
        rows = connection.query(sql)
        connection.close()
        return rows

    def pids(self):
        children = pathlib.Path(f"/proc/{self.process.pid}/task/{self.process.pid}/children").read_text()
        return [self.process.pid, *map(int, children.split())]

    def cpu_seconds(self):
        total = 0
        for pid in self.pids():
            with contextlib.suppress(FileNotFoundError, ProcessLookupError):
                total += cpu_seconds(pid)
        return total

    def memory_bytes(self):
        """Resident memory; what processes share is counted once."""
        total = 0
        for pid in self.pids():
            for line in pathlib.Path(f"/proc/{pid}/smaps_rollup").read_text().splitlines():
                total += int(line.split()[1]) << 10 if line.startswith("Pss:") else 0
        return total

    def peak_memory_bytes(self):
        """The most that was resident since the start."""
        status = (pathlib.Path(f"/proc/{pid}/status").read_text() for pid in self.pids())
        return sum(int(line.split()[1]) << 10 for text in status for line in text.splitlines() if "VmHWM" in line)

    def disk_bytes(self):
        files = (path for path in self.data_dir.rglob("*") if path.is_file())
        return sum(path.stat().st_blocks * 512 for path in files)

    def signal(self, number):
        for pid in self.pids():
            os.kill(pid, number)

    def kill(self):
        self.process.kill()
        self.process.wait()

    def _wait_until_ready(self):
        deadline = time.monotonic() + START_TIMEOUT_S
        while True:
            try:
                return self.connect().close()
            except (OSError, ServerError):
                if self.process.poll() is not None:
                    raise SystemExit(f"{type(self).__name__} did not start: see {self.data_dir}.log")
                if time.monotonic() > deadline:
                    raise
                time.sleep(0.002)


class Tidemill(Server):
    def __init__(self, scratch, binary, level="sync_commit", name="tidemill"):
        super().__init__(scratch / name, "tidemill")
        self.binary = binary
        shutil.rmtree(self.data_dir, ignore_errors=True)
        self.config = scratch / f"{name}.toml"
        self.config.write_text(f"stream_insert_level = '{level}'\n")

    def start(self):
        with open(f"{self.data_dir}.log", "ab") as log:
            command = [self.binary, "serve", "--trust-loopback", "--data-dir", self.data_dir, "--config", self.config]
            command += ["--listen", f"127.0.0.1:{self.port}"]
            self.process = subprocess.Popen(command, stderr=log, stdout=log)
        self._wait_until_ready()

    def stop(self):
        self.process.terminate()
        self.process.wait()


class Postgres(Server):
    def __init__(self, scratch, name="postgres"):
        super().__init__(scratch / name, "postgres")
        self.bin = _postgres_bin()
        # PostgreSQL refuses to run as root.
        self.user = "postgres" if os.geteuid() == 0 else None
        shutil.rmtree(self.data_dir, ignore_errors=True)
        self.data_dir.mkdir()
        if self.user:
            shutil.chown(self.data_dir, self.user, pwd.getpwnam(self.user).pw_gid)
        self._run("initdb", "-A", "trust", "-U", "postgres", "--locale=C.UTF-8", "-N", "-D", self.data_dir).wait()
        self.version = subprocess.check_output([self.bin / "postgres", "--version"], text=True).strip()

    def start(self):
        settings = [f"-c{name}={value}" for name, value in POSTGRES_SETTINGS.items()]
        self.process = self._run(
            "postgres", "-D", self.data_dir, "-p", str(self.port), "-k", self.data_dir, *settings
        )
        self._wait_until_ready()

    def stop(self):
        self.process.send_signal(signal.SIGINT)
        self.process.wait()

    def _run(self, program, *arguments):
        as_user = {"user": self.user, "group": self.user, "extra_groups": []} if self.user else {}
        with open(f"{self.data_dir}.log", "ab") as log:
            return subprocess.Popen(
                [self.bin / program, *arguments], cwd=self.data_dir, stdout=log, stderr=log, **as_user
            )


def _postgres_bin():
    for folder in ["/usr/lib/postgresql/15/bin", *os.get_exec_path()]:
        if (pathlib.Path(folder) / "initdb").exists():
            return pathlib.Path(folder)
    raise SystemExit("make bench compares with PostgreSQL 15: apt-get install postgresql-15")
