"""One sample: what a piece of work took, in time and in CPU of the server, of the client and of everybody else."""

import dataclasses
import os
import pathlib
import re
import subprocess
import sys
import time

from server import TICKS_PER_SECOND

HERE = pathlib.Path(__file__).parent


@dataclasses.dataclass
class Sample:
    rows: int
    seconds: float
    server_cpu_s: float
    client_cpu_s: float
    other_cpu_s: float

    @property
    def rows_per_s(self):
        return self.rows / self.seconds

    @property
    def rows_per_cpu_s(self):
        # A tick is the smallest that the kernel counts.
        return self.rows / max(self.server_cpu_s, 1 / TICKS_PER_SECOND)


@dataclasses.dataclass
class Work:
    """What a client did."""

    rows: int
    seconds: float
    cpu_s: float


def sample(server, work):
    """Runs `work`, a function that returns the `Work` of its client processes."""
    machine, at_start = machine_cpu_seconds(), server.cpu_seconds()
    done = work()
    server_cpu = server.cpu_seconds() - at_start
    other = machine_cpu_seconds() - machine - server_cpu - done.cpu_s
    return Sample(done.rows, done.seconds, server_cpu, done.cpu_s, max(other, 0))


def machine_cpu_seconds():
    user, nice, system, _idle, _iowait, irq, softirq, *_ = map(int, _first_line("/proc/stat").split()[1:])
    return (user + nice + system + irq + softirq) / TICKS_PER_SECOND


def _first_line(path):
    with open(path) as file:
        return file.readline()


def pgbench(server, script, clients, threads, seconds, mode, *options):
    """The statistics that pgbench prints, and its CPU; `rows` are its transactions."""
    command = ["pgbench", "-h", "127.0.0.1", "-p", str(server.port), "-U", "postgres", "-n", "-M", mode]
    command += ["-c", str(clients), "-j", str(threads), "-T", str(seconds), "-f", script, *options, server.database]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    output = process.stdout.read()
    errors = process.stderr.read()
    cpu = _wait(process)
    transactions = re.search(r"actually processed: (\d+)", output)
    rate = re.search(r"^tps = ([\d.]+)", output, re.M)
    if process.returncode or not rate:
        raise SystemExit(f"pgbench failed:\n{output}{errors}")
    return Work(int(transactions[1]), int(transactions[1]) / float(rate[1]), cpu)


def start_copy(server, framed, sql, times=1):
    """A process that sends the file; the second value is the moment in which the first COPY began."""
    command = [sys.executable, HERE / "wire.py", str(server.port), server.database, str(times), framed, sql]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
    began = process.stdout.readline()
    if not began:
        raise SystemExit("the client of COPY failed, see above")
    return process, float(began)


def end_copy(process):
    output = process.stdout.read().split()
    cpu = _wait(process)
    if process.returncode or len(output) != 2:
        raise SystemExit("the client of COPY failed, see above")
    return Work(int(output[0]), float(output[1]), cpu)


def copy(server, framed, sql):
    return end_copy(start_copy(server, framed, sql)[0])


def _wait(process):
    """CPU of a process that has ended or is about to."""
    _, status, usage = os.wait4(process.pid, 0)
    process.returncode = os.waitstatus_to_exitcode(status)
    return usage.ru_utime + usage.ru_stime


def until(condition, timeout_s=120, what="nothing"):
    """Seconds until `condition` holds, asked without a pause."""
    began = time.monotonic()
    while not condition():
        if time.monotonic() - began > timeout_s:
            raise SystemExit(f"{what} within {timeout_s} s")
    return time.monotonic() - began
