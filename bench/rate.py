"""The cases that are a rate: rows a second into views, beside PostgreSQL taking the same rows into a table."""

import dataclasses

from measure import copy, pgbench
from wire import frame

POSTGRES, TIDEMILL = "PostgreSQL", "Tidemill"
UNLOGGED, DURABLE = f"{POSTGRES}, unlogged table", f"{POSTGRES}, durable"
SYNC_COMMIT, SYNC_RECEIVE = f"{TIDEMILL}, sync_commit", f"{TIDEMILL}, sync_receive"


@dataclasses.dataclass
class Goal:
    """What the line `of` has to reach."""

    # Times the rate of the contender `against`; 0 for a case that only compares.
    rate: float
    against: str = UNLOGGED
    of: str = SYNC_COMMIT
    rows_per_cpu_s: float = 0
    # At most this part of the server CPU that the contender `against` takes for a row; 0 for no such goal.
    cpu_per_row: float = 0


class Rate:
    """A case: `views` of Tidemill, and `tables` of PostgreSQL without index, which take the same rows."""

    # In this order in each round, so that a machine that gets slower or faster meanwhile does it to all of them.
    contenders = [UNLOGGED, SYNC_COMMIT, DURABLE, SYNC_RECEIVE]
    # Those that the goal's line is shown as a ratio to, each in a line of its own.
    beside = []

    def define(self, contender):
        """Statements for an empty server, or for a PostgreSQL that has nothing of the case."""
        if contender.startswith(TIDEMILL):
            return [self.views]
        unlogged = "UNLOGGED" if contender == UNLOGGED else ""
        return [f"CREATE {unlogged} TABLE {table} ({columns})" for table, columns in self.tables.items()]

    def drop(self):
        """What undoes that in PostgreSQL."""
        return f"DROP TABLE {', '.join(self.tables)}"


class Seed(Rate):
    """The script of the article that the project began with: four streams, five views, a thousand rows a statement."""

    goal = Goal(rate=4, rows_per_cpu_s=10e6)
    views = """
        CREATE CONTINUOUS VIEW v0 AS SELECT COUNT(*) FROM stream;
        CREATE CONTINUOUS VIEW v1 AS SELECT sum(x::int),count(*),avg(y::int) FROM stream;
        CREATE CONTINUOUS VIEW v001 AS SELECT sum(x::int),count(*),avg(y::int) FROM stream1;
        CREATE CONTINUOUS VIEW v002 AS SELECT sum(x::int),count(*),avg(y::int) FROM stream2;
        CREATE CONTINUOUS VIEW v003 AS SELECT sum(x::int),count(*),avg(y::int) FROM stream3;
        ACTIVATE"""
    tables = {name: "x int, y int, z int" for name in ["stream", "stream1", "stream2", "stream3"]}
    script = "".join(f"insert into {name}(x,y,z) select generate_series(1,1000),1,1;\n" for name in tables)

    def __init__(self, mode):
        self.name = f"seed-{mode}"
        self.about = f"the seed's pgbench script, 10 clients, five views, -M {mode}"
        self.mode = mode

    def prepare(self, bench):
        self.path = bench.scratch / "seed.sql"
        self.path.write_text(self.script)
        self.seconds = bench.seconds

    def run(self, server, contender):
        work = pgbench(server, self.path, 10, 10, self.seconds, self.mode)
        work.rows *= 4000
        return work

    def check(self, server, contender, rows):
        each = rows // 4
        if contender.startswith(POSTGRES):
            found = [server.query(f"SELECT sum(x), count(*) FROM {table}")[0] for table in self.tables]
        else:
            assert server.query("SELECT count FROM v0") == [[str(each)]]
            found = [server.query(f"SELECT sum, count FROM {view}")[0] for view in ["v1", "v001", "v002", "v003"]]
        expected = [str(each // 1000 * 500_500), str(each)]
        assert found == [expected] * 4, f"{found} where {expected} was sent four times"


class Copy(Rate):
    """COPY of (k int, i int, x float8) into a view that counts, adds and averages by k."""

    views = """
        CREATE STREAM s (k int, i int, x float8);
        CREATE CONTINUOUS VIEW v AS SELECT k, count(*), sum(i), avg(x) FROM s GROUP BY k"""
    tables = {"s": "k int, i int, x float8"}

    def __init__(self, groups, goal, format="text"):
        self.name = f"copy-{format}-{groups}"
        self.about = f"COPY {format} of (int, int, float8) into a view of {groups:,} group{'s'[: groups > 1]}"
        self.groups, self.goal, self.format = groups, goal, format
        self.sql = f"COPY s (k, i, x) FROM STDIN (FORMAT {format})"

    def prepare(self, bench, rows=None):
        """The file has each key equally often, in a scattered order, and floats of six digits and a quarter."""
        self.rows = rows or bench.copy_rows
        plain, self.path = bench.scratch / self.name, bench.scratch / f"{self.name}.framed"
        # 2654435761 has no divisor in common with a power of ten: it permutes each round of the keys.
        select = f"""SELECT (n::bigint * 2654435761 % {self.groups})::int, n, (n::bigint * 37 % 4000000) / 4.0::float8
            FROM generate_series(1, {self.rows}) n"""
        bench.postgres.query(f"COPY ({select}) TO '{plain}' (FORMAT {self.format})")
        frame(plain, self.path)
        plain.unlink()

    def run(self, server, contender):
        return copy(server, self.path, self.sql)

    def check(self, server, contender, rows):
        assert rows == self.rows
        relation, count, sums = "v", "sum(count)", "sum(sum)"
        if contender.startswith(POSTGRES):
            relation, count, sums = "s", "count(*)", "sum(i::bigint)"
        distinct = f"count(*) FROM (SELECT k FROM {relation} GROUP BY k) g"
        found = server.query(f"SELECT {count}, {sums} FROM {relation}; SELECT {distinct}")
        found = [int(float(value)) for row in found for value in row]
        expected = [rows, rows * (rows + 1) // 2, min(self.groups, rows)]
        assert found == expected, f"{found} where {expected} was sent"


class Single(Rate):
    """One row a statement, prepared: what a commit costs."""

    views = """
        CREATE STREAM s (k int, x int);
        CREATE CONTINUOUS VIEW v AS SELECT k, count(*), sum(x) FROM s GROUP BY k"""
    tables = {"s": "k int, x int"}

    def __init__(self, clients, goal):
        self.name = f"single-{clients}"
        self.about = f"one row an INSERT, prepared, {clients} connections"
        self.clients, self.goal = clients, goal

    def prepare(self, bench):
        self.path = bench.scratch / "single.sql"
        self.path.write_text("insert into s (k, x) values (:client_id, 1);\n")
        self.seconds = bench.seconds

    def run(self, server, contender):
        return pgbench(server, self.path, self.clients, 2, self.seconds, "prepared")

    def check(self, server, contender, rows):
        postgres = contender.startswith(POSTGRES)
        found = server.query("SELECT count(*), sum(x) FROM s" if postgres else "SELECT sum(count), sum(sum) FROM v")
        assert [int(float(value)) for value in found[0]] == [rows, rows], f"{found} where {rows} were sent"


CASES = [
    Seed("simple"),
    Seed("extended"),
    Seed("prepared"),
    Copy(1, Goal(rate=3, rows_per_cpu_s=10e6)),
    Copy(1_000, Goal(rate=3, rows_per_cpu_s=10e6)),
    Copy(1_000_000, Goal(rate=1, rows_per_cpu_s=3e6)),
    Copy(1_000, Goal(rate=4), "binary"),
    Single(10, Goal(rate=1, against=DURABLE, cpu_per_row=0.5)),
    Single(90, Goal(rate=1.5, against=DURABLE)),
]
