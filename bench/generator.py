"""What `tidemill bench` costs while it measures: its CPU and its memory beside pgbench's, against the same PostgreSQL."""

import json
import os
import subprocess

import measure
from figure import Figure

CLIENTS = 16
# LinkBench's original client in Java on such a machine: 27 to 38 µs an operation, 270 to 390 MB with as many requesters.
GOAL_CPU_US = 8
GOAL_MEMORY_MB = 50


class Generator:
    name = "generator"
    about = f"CPU an operation and memory of the load generator, {CLIENTS} clients in a closed loop on PostgreSQL"
    script = "\\set k random(1, 100000)\nSELECT v FROM one WHERE k = :k;\n"

    def run(self, bench):
        return self._linkbench(bench) + self._select(bench)

    def _linkbench(self, bench):
        postgres = bench.postgres
        postgres.query("CREATE DATABASE linkbench")
        graph = ["--preset", "fb2011", "--nodes", "100000"]
        self._bench(bench, "linkbench", "load", *graph, "--target", self._socket(postgres, "linkbench"))
        samples = {"Unix socket": [], "TCP": []}
        for _ in range(bench.repeats):
            for way, target in [("Unix socket", self._socket), ("TCP", self._tcp)]:
                load = ["-D", f"requesters={CLIENTS}", "-D", "requests=1000000000", "-D", f"maxtime={bench.seconds}"]
                output = bench.scratch / "linkbench.json"
                options = [*graph, *load, "--target", target(postgres, "linkbench"), "--no-validate", "-o", output]
                usage = self._bench(bench, "linkbench", "request", *options)
                samples[way].append((usage, _operations(output)))
        postgres.query("DROP DATABASE linkbench")
        figures = []
        for way, taken in samples.items():
            goal = GOAL_CPU_US if way == "Unix socket" else None
            figures.append(Figure(f"LinkBench, {way}", "µs", [cpu_us(*sample) for sample in taken], goal))
            memory = [usage.ru_maxrss * 1024 / 1e6 for usage, _ in taken]
            figures.append(Figure(f"LinkBench, {way}: most memory", "MB", memory, GOAL_MEMORY_MB))
        return figures

    def _select(self, bench):
        """The same script by both, in turns."""
        postgres = bench.postgres
        postgres.query("CREATE TABLE one AS SELECT k, k AS v FROM generate_series(1, 100000) k; ALTER TABLE one ADD PRIMARY KEY (k)")
        postgres.query("VACUUM ANALYZE one")
        script, output = bench.scratch / "one.sql", bench.scratch / "one.json"
        script.write_text(self.script)
        ours, theirs = [], []
        for _ in range(bench.repeats):
            load = ["-M", "prepared", "-c", str(CLIENTS), "--closed", "-T", f"{bench.seconds}s", "--warmup", "0"]
            usage = self._bench(bench, "run", script, *load, "--target", self._tcp(postgres), "-P", "0", "-o", output)
            ours.append(cpu_us(usage, _operations(output)))
            work = measure.pgbench(postgres, script, CLIENTS, os.cpu_count(), bench.seconds, "prepared")
            theirs.append(work.cpu_s * 1e6 / work.rows)
        postgres.query("DROP TABLE one")
        ratio = [a / b for a, b in zip(ours, theirs)]
        return [
            Figure("one prepared SELECT, TCP", "µs", ours),
            Figure("the same by pgbench", "µs", theirs),
            Figure("ours as a share of pgbench's", "", ratio, goal=1),
        ]

    def _bench(self, bench, *arguments):
        """What the process used."""
        process = subprocess.Popen([bench.binary, "bench", *arguments], stdout=subprocess.DEVNULL)
        _, status, usage = os.wait4(process.pid, 0)
        process.returncode = os.waitstatus_to_exitcode(status)
        if process.returncode:
            raise SystemExit(f"tidemill bench {arguments[0]} ended with {process.returncode}")
        return usage

    def _tcp(self, server, database="postgres"):
        return f"postgres://postgres@127.0.0.1:{server.port}/{database}"

    def _socket(self, server, database="postgres"):
        return f"{self._tcp(server, database)}?host={server.data_dir}"


def cpu_us(usage, operations):
    return (usage.ru_utime + usage.ru_stime) * 1e6 / operations


def _operations(path):
    [outcome] = json.loads(path.read_text())["repeats"]
    return sum(operation["processed"] for operation in outcome["record"]["operations"])


CASES = [Generator()]
