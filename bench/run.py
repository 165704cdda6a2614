"""`make bench`: Tidemill beside PostgreSQL 15 on this machine. docs/benchmark.md says what the cases and figures mean."""

import argparse
import contextlib
import json
import os
import pathlib
import platform
import shutil
import subprocess
import tempfile
import time

import federation
import figure
import foreign_join
import generator
import rate
import report
import stream_join
import transform
from measure import sample
from server import Postgres, Tidemill

REPOSITORY = pathlib.Path(__file__).parent.parent


class Bench:
    """What the cases share: where files go, how much work there is, and both servers."""

    def __init__(self, options, scratch):
        self.scratch = scratch
        self.binary = options.binary
        self.repeats = options.repeats or (1 if options.quick else 5)
        self.seconds = 2 if options.quick else 10
        self.copy_rows = 1_000_000 if options.quick else 10_000_000
        self.disk_rows = options.rows or (10_000_000 if options.quick else 100_000_000)
        self.restart_groups = 1_000_000 if options.quick else 10_000_000
        self.many_groups = 5_000_000 if options.quick else 50_000_000
        self.node_rows = 300_000 if options.quick else 3_000_000
        self.postgres = Postgres(scratch)

    @contextlib.contextmanager
    def tidemill(self, level="sync_commit", views="", name="tidemill"):
        """A new server on an empty data directory."""
        server = Tidemill(self.scratch, self.binary, level, name)
        server.start()
        try:
            if views:
                server.query(views)
            yield server
        finally:
            server.kill()

    @contextlib.contextmanager
    def contender(self, case, name):
        """The server of a contender of a rate case, with what the case defines there and no more."""
        if name.startswith(rate.TIDEMILL):
            with self.tidemill("sync_receive" if name == rate.SYNC_RECEIVE else "sync_commit") as server:
                for statement in case.define(name):
                    server.query(statement)
                yield server
            return
        for statement in case.define(name):
            self.postgres.query(statement)
        # What earlier samples left to be written is not this one's work.
        self.postgres.query("CHECKPOINT")
        try:
            yield self.postgres
        finally:
            self.postgres.query(case.drop())

    def rate(self, case):
        """Samples by contender: every round runs all of them, one after another."""
        case.prepare(self)
        samples = {name: [] for name in case.contenders}
        for _ in range(self.repeats):
            for name in case.contenders:
                with self.contender(case, name) as server:
                    taken = sample(server, lambda: case.run(server, name))
                    case.check(server, name, taken.rows)
                    samples[name].append(taken)
        return samples


def main():
    options = arguments()
    rates = [*rate.CASES, *stream_join.RATES, *transform.CASES]
    figures = [*figure.CASES, *stream_join.FIGURES, *generator.CASES]
    cases = [*rates, *figures, *federation.CASES, *foreign_join.CASES]
    chosen = [case for case in cases if case.name.startswith(tuple(options.case))]
    if not chosen:
        raise SystemExit(f"no such case; there are {', '.join(case.name for case in cases)}")
    options.results.mkdir(parents=True, exist_ok=True)
    scratch = pathlib.Path(tempfile.mkdtemp(prefix="tidemill-bench-", dir=options.scratch))
    scratch.chmod(0o777)
    results = []
    try:
        bench = Bench(options, scratch)
        bench.postgres.start()
        about = machine(bench)
        print(report.heading(about), flush=True)
        for case in chosen:
            if case in rates:
                results.append(report.rate(case, bench.rate(case)))
            elif case in figures:
                results.append(report.figure(case, case.run(bench)))
            elif case in federation.CASES:
                results.append(report.federation(case, *case.run(bench)))
            else:
                results.append(report.answers(case, case.run(bench)))
            print(results[-1].pop("text"), flush=True)
    finally:
        with contextlib.suppress(NameError):
            bench.postgres.stop()
        shutil.rmtree(scratch, ignore_errors=True)
    path = options.results / time.strftime("%Y-%m-%d-%H%M%S.json")
    path.write_text(json.dumps({"about": about, "cases": results}, indent=1) + "\n")
    print(f"\nThe same figures with all samples: {path}")


def arguments():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--binary", type=pathlib.Path, required=True, help="the release build of tidemill")
    parser.add_argument("--results", type=pathlib.Path, required=True, help="folder of the JSON files")
    parser.add_argument("--scratch", type=pathlib.Path, help="where data directories and files of COPY go")
    parser.add_argument("--case", action="append", default=[], help="beginning of a case's name; all by default")
    parser.add_argument("--repeats", type=int, help="samples of each contender; 5 by default, 1 with --quick")
    parser.add_argument("--rows", type=int, help="rows of the case disk; 100 million by default")
    parser.add_argument("--quick", action="store_true", help="a tenth of the work, for trying it out")
    options = parser.parse_args()
    options.case = options.case or [""]
    return options


def machine(bench):
    def git(*command):
        return subprocess.run(["git", "-C", REPOSITORY, *command], capture_output=True, text=True).stdout.strip()

    models = [line for line in open("/proc/cpuinfo") if line.startswith("model name")]
    return {
        "at": time.strftime("%Y-%m-%d %H:%M:%S%z"),
        "commit": git("rev-parse", "--short=12", "HEAD") + ("+" if git("status", "--porcelain") else ""),
        "cpu": models[0].split(":")[1].strip() if models else platform.machine(),
        "cores": os.cpu_count(),
        "kernel": platform.release(),
        "load": os.getloadavg()[0],
        "postgres": bench.postgres.version,
        "repeats": bench.repeats,
    }


if __name__ == "__main__":
    main()
