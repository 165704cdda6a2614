"""What `tidemill bench` costs while it measures: its CPU and its memory beside pgbench's, against the same PostgreSQL."""

import json
import os
import subprocess

import measure
from figure import Figure

CLIENTS = 16
# LinkBench's original client in Java takes 27 to 38 µs an operation on such a machine, and 270 to 390 MB with as many requesters.
GOAL_CPU_US = 8
GOAL_MEMORY_MB = 50
GRAPH = ["--nodes", "100000"]


class Generator:
    name = "generator"
    about = f"CPU an operation and memory of the load generator, {CLIENTS} clients in a closed loop on PostgreSQL"
    script = "\\set k random(1, 100000)\nSELECT v FROM one WHERE k = :k;\n"

    def run(self, bench):
        return self._linkbench(bench) + self._select(bench)

    def _linkbench(self, bench):
        postgres = bench.postgres
        postgres.query("CREATE DATABASE linkbench")
        _bench(bench, "linkbench", "load", *GRAPH, "--target", _socket(postgres, "linkbench"))
        output = bench.scratch / "linkbench.json"
        options = ["-D", f"requesters={CLIENTS}", "-D", "requests=1000000000", "-D", f"maxtime={bench.seconds}"]
        options += [*GRAPH, "--no-validate", "-o", output]
        ways = {"Unix socket": _socket(postgres, "linkbench"), "TCP": _tcp(postgres, "linkbench")}
        cpu_us, kernel_us, memory_mb = {way: [] for way in ways}, {way: [] for way in ways}, []
        for _ in range(bench.repeats):
            for way, target in ways.items():
                usage = _bench(bench, "linkbench", "request", *options, "--target", target)
                cpu_us[way].append(_cpu_us(output))
                # The process as a whole has the same parts.
                kernel_us[way].append(cpu_us[way][-1] * usage.ru_stime / (usage.ru_utime + usage.ru_stime))
                memory_mb.append(usage.ru_maxrss * 1024 / 1e6)
        postgres.query("DROP DATABASE linkbench")
        return [
            Figure("LinkBench, Unix socket", "µs", cpu_us["Unix socket"], GOAL_CPU_US),
            Figure("of it the kernel's", "µs", kernel_us["Unix socket"]),
            Figure("LinkBench, TCP", "µs", cpu_us["TCP"]),
            Figure("of it the kernel's", "µs", kernel_us["TCP"]),
            Figure("LinkBench: most memory", "MB", memory_mb, GOAL_MEMORY_MB),
        ]

    def _select(self, bench):
        """The same script by both, in turns."""
        postgres = bench.postgres
        postgres.query("CREATE TABLE one AS SELECT k, k AS v FROM generate_series(1, 100000) k")
        postgres.query("ALTER TABLE one ADD PRIMARY KEY (k)")
        postgres.query("VACUUM ANALYZE one")
        script, output = bench.scratch / "one.sql", bench.scratch / "one.json"
        script.write_text(self.script)
        load = ["-M", "prepared", "-c", str(CLIENTS), "--closed", "-T", f"{bench.seconds}s", "--warmup", "0", "-P", "0"]
        ours, theirs = [], []
        for _ in range(bench.repeats):
            _bench(bench, "run", script, *load, "--target", _tcp(postgres), "-o", output)
            ours.append(_cpu_us(output))
            work = measure.pgbench(postgres, script, CLIENTS, 1, bench.seconds, "prepared")
            theirs.append(work.cpu_s * 1e6 / work.rows)
        postgres.query("DROP TABLE one")
        return [
            Figure("one prepared SELECT, TCP", "µs", ours),
            Figure("the same by pgbench", "µs", theirs),
            Figure("ours as a share of pgbench's", "", [a / b for a, b in zip(ours, theirs)]),
        ]


def _bench(bench, *arguments):
    """What the process used."""
    process = subprocess.Popen([bench.binary, "bench", *arguments], stdout=subprocess.DEVNULL)
    _, status, usage = os.wait4(process.pid, 0)
    process.returncode = os.waitstatus_to_exitcode(status)
    if process.returncode:
        raise SystemExit(f"tidemill bench {arguments[0]} ended with {process.returncode}")
    return usage


def _cpu_us(path):
    """Of the run alone: making the report, which takes a moment, is no part of the load."""
    [outcome] = json.loads(path.read_text())["repeats"]
    operations = sum(operation["processed"] for operation in outcome["record"]["operations"])
    return outcome["generator_cpu_s"] * 1e6 / operations


def _tcp(server, database="postgres"):
    return f"postgres://postgres@127.0.0.1:{server.port}/{database}"


def _socket(server, database):
    return f"{_tcp(server, database)}?host={server.data_dir}"


CASES = [Generator()]
