"""The cases that are a figure and no rate: waiting, starting, and what an idle or a long-lived server takes."""

import dataclasses
import threading
import time

import measure
from rate import Copy, Seed

MILLION_GROUPS = 1_000_000


@dataclasses.dataclass
class Figure:
    name: str
    unit: str
    values: list
    # At most this; None for a figure that is there to compare with.
    goal: float | None = None


class Lookup:
    name = "lookup"
    about = "reading one key of a million while COPY goes on at full speed"
    # The key that pgbench looks up.
    script = f"\\set k random(0, {MILLION_GROUPS - 1})\nSELECT * FROM {{}} WHERE k = :k;\n"

    def run(self, bench):
        copy = Copy(MILLION_GROUPS, None)
        copy.prepare(bench)
        figures = []
        with bench.tidemill(views=copy.views) as server:
            measure.copy(server, copy.path, copy.sql)
            copy.check(server, "Tidemill", copy.rows)
            figures += self._figures("Tidemill", bench, server, copy, "v", goal=5)
            figures.append(Figure("Tidemill: most memory", "MB", [server.peak_memory_bytes() / 1e6], goal=1074))
        postgres = bench.postgres
        postgres.query(f"""CREATE UNLOGGED TABLE s (k int, i int, x float8);
            CREATE TABLE v AS SELECT k, 10 AS count FROM generate_series(0, {MILLION_GROUPS - 1}) k;
            ALTER TABLE v ADD PRIMARY KEY (k)""")
        figures += self._figures("PostgreSQL, primary key of a table", bench, postgres, copy, "v", goal=None)
        postgres.query("DROP TABLE s, v")
        return figures

    def _figures(self, who, bench, server, copy, relation, goal):
        script = bench.scratch / "lookup.sql"
        script.write_text(self.script.format(relation))
        log = bench.scratch / "lookup"
        # More COPYs than there is time for; they end when the look-ups do.
        ingest, _ = measure.start_copy(server, copy.path, copy.sql, times=10_000)
        work = measure.pgbench(server, script, 1, 1, bench.seconds, "prepared", "-l", f"--log-prefix={log}")
        alive = ingest.poll() is None
        ingest.kill()
        ingest.wait()
        assert alive, "the COPY ended before the look-ups did"
        latencies_ms = []
        for path in bench.scratch.glob("lookup.*[0-9]"):
            latencies_ms += [int(line.split()[2]) / 1000 for line in open(path)]
            path.unlink()
        assert len(latencies_ms) == work.rows
        latencies_ms.sort()
        at = lambda part: [latencies_ms[min(int(len(latencies_ms) * part), len(latencies_ms) - 1)]]
        return [
            Figure(f"{who}: p50 of {work.rows:,}", "ms", at(0.5)),
            Figure(f"{who}: p99", "ms", at(0.99), goal),
            Figure(f"{who}: worst", "ms", at(1)),
        ]


class Visible:
    name = "visible"
    about = "how soon a COPY that goes on can be seen in its view"

    def run(self, bench):
        copy = Copy(1_000, None)
        copy.prepare(bench)
        full, trickle = [], []
        for _ in range(bench.repeats):
            with bench.tidemill(views=copy.views) as server:
                reader = server.connect()
                process, began = measure.start_copy(server, copy.path, copy.sql)
                measure.until(lambda: reader.query("SELECT count(*) FROM v") != [["0"]])
                full.append((time.monotonic() - began) * 1000)
                measure.end_copy(process)
                copy.check(server, "Tidemill", copy.rows)
            with bench.tidemill(views=copy.views) as server:
                trickle.append(self._trickle(server, copy.sql) * 1000)
        return [
            Figure("at full speed", "ms", full, goal=100),
            Figure("ten rows every 10 ms", "ms", trickle, goal=100),
        ]

    def _trickle(self, server, sql):
        """Seconds from the first rows to the answer that has them, while more rows come slowly."""
        writer, reader, seen = server.connect(), server.connect(), threading.Event()
        writer.begin_copy(sql)
        sent = [0]

        def write():
            while not seen.is_set():
                writer.send_copy_data(b"1\t1\t1\n" * 10)
                sent[0] += 10
                time.sleep(0.01)

        began = time.monotonic()
        thread = threading.Thread(target=write)
        thread.start()
        measure.until(lambda: reader.query("SELECT count(*) FROM v") != [["0"]])
        seconds = time.monotonic() - began
        seen.set()
        thread.join()
        assert writer.end_copy() == sent[0]
        assert reader.query("SELECT count FROM v") == [[str(sent[0])]]
        return seconds


class Restart:
    name = "restart"
    about = "from the start of the server after kill -9 to the answer of a first query"

    def run(self, bench):
        copy = Copy(bench.restart_groups, None)
        copy.prepare(bench)
        seconds = []
        with bench.tidemill(views=copy.views) as server:
            measure.copy(server, copy.path, copy.sql)
            for _ in range(bench.repeats):
                server.kill()
                began = time.monotonic()
                server.start()
                assert server.query("SELECT count FROM v WHERE k = 1") != []
                seconds.append(time.monotonic() - began)
                copy.check(server, "Tidemill", copy.rows)
            disk, memory = server.disk_bytes(), server.memory_bytes()
        return [
            Figure(f"{min(bench.restart_groups, bench.copy_rows):,} groups", "s", seconds, goal=10),
            Figure("on disk afterwards", "MB", [disk / 1e6]),
            Figure("in memory afterwards", "MB", [memory / 1e6]),
        ]


class Groups:
    name = "groups"
    about = "many groups under the memory limit of 1 GB: one COPY of them all, look-ups, a scan, kill -9"
    script = "\\set k random(0, {})\nSELECT * FROM v WHERE k = :k;\n"

    def run(self, bench):
        groups = bench.many_groups
        copy = Copy(groups, None)
        copy.prepare(bench, rows=groups)
        with bench.tidemill(views=copy.views) as server:
            work = measure.copy(server, copy.path, copy.sql)
            after_copy = server.peak_memory_bytes()
            lookups = self._lookups(bench, server, groups)
            began = time.monotonic()
            copy.check(server, "Tidemill", groups)
            scan, peak, disk = time.monotonic() - began, server.peak_memory_bytes(), server.disk_bytes()
            server.kill()
            began = time.monotonic()
            server.start()
            assert server.query("SELECT count FROM v WHERE k = 1") == [["1"]]
            restart = time.monotonic() - began
            copy.check(server, "Tidemill", groups)
            again = server.peak_memory_bytes()
        return [
            Figure(f"COPY of {groups:,} groups", "M rows/s", [work.rows / work.seconds / 1e6]),
            Figure("most memory, COPY", "MB", [after_copy / 1e6], goal=1074),
            Figure("look-up, p50", "ms", [lookups[len(lookups) // 2]]),
            Figure("look-up, p99", "ms", [lookups[len(lookups) * 99 // 100]]),
            Figure("sums and number of all groups", "s", [scan]),
            Figure("most memory, with that", "MB", [peak / 1e6], goal=1074),
            Figure("on disk", "MB", [disk / 1e6]),
            Figure("start after kill -9", "s", [restart], goal=10),
            Figure("most memory afterwards, with the sums again", "MB", [again / 1e6], goal=1074),
        ]

    def _lookups(self, bench, server, groups):
        script, log = bench.scratch / "groups.sql", bench.scratch / "groups"
        script.write_text(self.script.format(groups - 1))
        measure.pgbench(server, script, 1, 1, bench.seconds, "prepared", "-l", f"--log-prefix={log}")
        latencies_ms = []
        for path in bench.scratch.glob("groups.*[0-9]"):
            latencies_ms += [int(line.split()[2]) / 1000 for line in open(path)]
            path.unlink()
        return sorted(latencies_ms)


class Disk:
    name = "disk"
    about = "the seed's workload for long: what the data directory takes"

    def run(self, bench):
        seed = Seed("prepared")
        seed.prepare(bench)
        figures, rows = [], 0
        with bench.tidemill(views=seed.views) as server:
            seed.seconds = min(bench.seconds, 5)
            marks = [bench.disk_rows // 10, bench.disk_rows // 2, bench.disk_rows]
            while marks:
                rows += seed.run(server, "Tidemill").rows
                if rows >= marks[0]:
                    marks = [mark for mark in marks if mark > rows]
                    goal = None if marks else 1
                    figures.append(Figure(f"after {rows:,} rows", "MB", [server.disk_bytes() / 1e6], goal))
            seed.check(server, "Tidemill", rows)
        return figures


class Idle:
    name = "idle"
    about = "memory of a server that nobody uses"

    def run(self, bench):
        empty, views = [], []
        for _ in range(bench.repeats):
            with bench.tidemill() as server:
                empty.append(server.memory_bytes() / 1e6)
                server.query(Seed.views)
                views.append(server.memory_bytes() / 1e6)
        postgres = [bench.postgres.memory_bytes() / 1e6]
        return [
            Figure("after the start", "MB", empty, goal=60),
            Figure("with the seed's five views", "MB", views),
            Figure("PostgreSQL, with what it has done so far here", "MB", postgres),
        ]


CASES = [Lookup(), Visible(), Restart(), Groups(), Disk(), Idle()]
