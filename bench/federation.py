"""Queries over four nodes as one table, beside the same query on the nodes themselves, postgres_fdw and DuckDB."""

import contextlib
import dataclasses
import importlib.util
import selectors
import signal
import time

from measure import until
from server import Postgres

NODES = 4
SENSORS = 1_000
MASTER_ROWS = 100_000
HIST = "eid text, ts timestamp, v float8"
SIGNAL = "eid text, name text, lowest float8"

FLOOR, TIDEMILL, FDW, DUCKDB = "on the nodes", "Tidemill", "postgres_fdw", "DuckDB"


@dataclasses.dataclass
class Limit:
    """What Tidemill's median has to keep to, in the terms of another contender's."""

    of: str = FLOOR
    times: float = 1.0
    and_ms: float = 0.0

    def __str__(self):
        parts = [f"{self.times:.3g} times" if self.times != 1 else "", f"{self.and_ms:g} ms more than" if self.and_ms else ""]
        return f"at most {' and '.join(part for part in parts if part) or 'as long as'} {self.of}"

    def ms(self, medians):
        return medians[self.of] * self.times + self.and_ms


@dataclasses.dataclass
class Query:
    name: str
    # `{key}` is another one each time, so that the text was never asked before.
    sql: str
    limit: Limit
    # What the nodes are asked directly; the same unless something is joined.
    node_sql: str = ""
    # What is switched off in Tidemill meanwhile.
    off: str = ""
    # Any rows are right, if there are so many.
    any_rows: bool = False
    # Takes milliseconds: it is asked more often.
    short: bool = False
    # How often Tidemill and the nodes are asked in turns for each time that the others are: what runs on all processors for
    # long takes ten milliseconds more or less each time, and minutes later twenty, so that a difference of two needs many
    # samples, each compared with the one beside it. An even number, or one.
    turns: int = 1


BY_SENSOR = "SELECT eid, sum(v), count(v) FROM hist GROUP BY eid"
JOIN = "FROM hist JOIN signal USING (eid)"
SMALL = Limit(and_ms=2)
FOLDED = Limit(times=1.15)
JOINED = Limit(times=1.3)

# Samples of a short query for each of another, one right after the other, as from clients that ask all the time.
SHORT_ROUNDS = 10

QUERIES = [
    Query("one row by key", "SELECT eid, ts, v FROM hist WHERE eid = 'n2-00042' AND ts = '2019-01-01 04:04:00'", SMALL, short=True),
    Query(
        "one row by another key each time",
        "SELECT eid, ts, v FROM hist WHERE eid = 'n2-{key}' AND ts = '2019-01-01 04:04:00'",
        SMALL,
        short=True,
    ),
    Query("LIMIT 1", "SELECT eid, ts, v FROM hist LIMIT 1", SMALL, any_rows=True, short=True),
    Query("LIMIT 1000", "SELECT eid, ts, v FROM hist LIMIT 1000", SMALL, any_rows=True, short=True),
    Query("LIMIT 10000", "SELECT eid, ts, v FROM hist LIMIT 10000", SMALL, any_rows=True, short=True),
    Query("ORDER BY v, eid, ts LIMIT 1", "SELECT eid, ts, v FROM hist ORDER BY v DESC, eid, ts LIMIT 1", SMALL, turns=80),
    Query("sum", "SELECT sum(v) FROM hist", FOLDED),
    Query("avg by prefix", "SELECT left(eid, 6), avg(v) FROM hist GROUP BY 1", FOLDED),
    Query("avg by hour", "SELECT date_trunc('hour', ts), avg(v) FROM hist GROUP BY 1", FOLDED),
    Query("avg by sensor", "SELECT eid, avg(v) FROM hist GROUP BY eid", FOLDED),
    Query("avg by sensor, HAVING", "SELECT eid, avg(v) FROM hist GROUP BY eid HAVING avg(v) > 499", FOLDED),
    Query("avg by sensor, ORDER BY", "SELECT eid, avg(v) FROM hist GROUP BY eid ORDER BY 2 DESC, 1", FOLDED),
    Query("join, avg by name", f"SELECT name, avg(v) {JOIN} GROUP BY name", JOINED, BY_SENSOR),
    Query(
        "join with WHERE",
        f"SELECT name, avg(v) {JOIN} WHERE ts < '2019-01-02' GROUP BY name",
        JOINED,
        "SELECT eid, sum(v), count(v) FROM hist WHERE ts < '2019-01-02' GROUP BY eid",
    ),
    Query(
        "join with a subquery",
        "SELECT name, a FROM (SELECT eid, avg(v) AS a FROM hist GROUP BY eid) h JOIN signal USING (eid)",
        JOINED,
        BY_SENSOR,
    ),
    Query(
        "join that no node can do",
        f"SELECT name, count(*) {JOIN} WHERE v > lowest GROUP BY name",
        Limit(FDW, 1 / 3),
        "SELECT eid, v FROM hist",
    ),
    Query(
        "sum, nothing folded there",
        "SELECT sum(v) FROM hist",
        Limit(DUCKDB),
        "SELECT v FROM hist",
        off="enable_foreign_aggregates, enable_foreign_eager_aggregates",
    ),
]


class Nodes:
    """The nodes themselves, asked at the same time: no answer over all of them can be faster."""

    def __init__(self, servers):
        self.connections = [server.connect() for server in servers]

    def ask(self, sql):
        waiting, answers = selectors.DefaultSelector(), []
        for connection in self.connections:
            waiting.register(connection.socket, selectors.EVENT_READ, connection.ask(sql))
        while len(answers) < len(self.connections):
            for key, _ in waiting.select():
                if key.data.receive():
                    waiting.unregister(key.fileobj)
                    answers.append(key.data)
        return answers


class OneServer:
    def __init__(self, server):
        self.connection = server.connect()

    def ask(self, sql):
        answer = self.connection.ask(sql)
        while not answer.receive():
            pass
        return [answer]


class DuckDb:
    """In the process of the benchmark. Its extension for PostgreSQL comes from PyPI, as DuckDB does."""

    def __init__(self, nodes, master):
        import duckdb
        import duckdb_extensions

        duckdb_extensions.import_extension("postgres_scanner")
        self.connection = duckdb.connect()
        self.connection.execute("LOAD postgres_scanner")
        for name, server in [("master", master), *((f"n{i}", node) for i, node in enumerate(nodes))]:
            place = f"host=127.0.0.1 port={server.port} user=postgres dbname={server.database}"
            self.connection.execute(f"ATTACH '{place}' AS {name} (TYPE postgres, READ_ONLY)")
        union = " UNION ALL ".join(f"SELECT * FROM n{i}.hist" for i in range(len(nodes)))
        self.connection.execute(f"CREATE VIEW hist AS {union}; CREATE VIEW signal AS SELECT * FROM master.signal")

    @staticmethod
    def is_there():
        return all(importlib.util.find_spec(name) for name in ["duckdb", "duckdb_extensions"])

    def ask(self, sql):
        self.connection.execute(sql).fetchall()
        return []


class Federation:
    name = "federation"
    about = "four PostgreSQL nodes as one table, and a master table on a fifth"
    queries = QUERIES

    def run(self, bench):
        """By query the milliseconds of each contender; then the case of a dead node, and the rows that a join moved."""
        with contextlib.ExitStack() as stack:
            nodes = [stack.enter_context(self._node(bench, i)) for i in range(NODES)]
            master = stack.enter_context(self._master(bench))
            tidemill = stack.enter_context(bench.tidemill())
            define(tidemill, nodes, master, "tidemill")
            define(bench.postgres, nodes, master, "postgres")
            contenders = {FLOOR: Nodes(nodes), TIDEMILL: OneServer(tidemill), FDW: OneServer(bench.postgres)}
            if DuckDb.is_there():
                contenders[DUCKDB] = DuckDb(nodes, master)
            taken = {query.name: self._query(bench, query, contenders) for query in QUERIES}
            moved = self._rows_moved(tidemill)
            dead = self._dead_node(bench, tidemill, nodes)
            bench.postgres.query("DROP TABLE hist; DROP FOREIGN TABLE signal; DROP EXTENSION postgres_fdw CASCADE")
        return taken, moved, dead

    @contextlib.contextmanager
    def _node(self, bench, number):
        """Sensors that no other node has, a value a minute."""
        minutes = bench.node_rows // SENSORS
        rows = f"""SELECT 'n{number}-' || lpad(s::text, 5, '0'), timestamp '2019-01-01' + t * interval '1 minute',
            ((s * 37 + t * 17) % 4000) / 4.0::float8 FROM generate_series(1, {minutes}) t, generate_series(1, {SENSORS}) s"""
        with started(bench, f"node{number}") as server:
            server.query(f"CREATE TABLE hist ({HIST}); INSERT INTO hist {rows}; CREATE INDEX ON hist (eid, ts)")
            server.query("VACUUM ANALYZE hist")
            server.query("CHECKPOINT")
            yield server

    @contextlib.contextmanager
    def _master(self, bench):
        with started(bench, "master") as server:
            server.query(f"""CREATE TABLE signal ({SIGNAL}); INSERT INTO signal
                SELECT 'n' || k % 10 || '-' || lpad((k / 10)::text, 5, '0'), 'name ' || k / 40, k % 1000 + 0.5
                FROM generate_series(10, {MASTER_ROWS + 9}) k; CREATE UNIQUE INDEX ON signal (eid)""")
            server.query("VACUUM ANALYZE signal")
            yield server

    def _query(self, bench, query, contenders):
        settings = query.off.split(", ") if query.off else []
        tidemill = contenders[TIDEMILL].connection
        for setting in settings:
            tidemill.query(f"SET {setting} = off")
        samples = {name: [] for name in contenders}
        if query.short:
            # Who connects only now, or learns the sizes of tables, has done so before the first sample.
            for contender in contenders.values():
                contender.ask(_keyed(query.sql, SENSORS))
        for repeat in range(bench.repeats):
            answers = {}
            # Each of the two comes first as often as the other.
            in_turns = [FLOOR, TIDEMILL, TIDEMILL, FLOOR] * (query.turns // 2)
            others = [name for name in contenders if query.turns == 1 or name not in in_turns]
            for name in [*in_turns, *others]:
                sql = query.node_sql if name == FLOOR and query.node_sql else query.sql
                for i in range(SHORT_ROUNDS if query.short else 1):
                    keyed = _keyed(sql, repeat * SHORT_ROUNDS + i + 1)
                    began = time.monotonic()
                    answers[name] = contenders[name].ask(keyed)
                    samples[name].append((time.monotonic() - began) * 1000)
            _same(query, answers[TIDEMILL], answers[FDW])
        for setting in settings:
            tidemill.query(f"RESET {setting}")
        return samples

    def _rows_moved(self, tidemill):
        """By all nodes, for a join whose aggregate goes below it, and how many are expected at most."""
        connection = tidemill.connect()
        connection.query(f"SELECT name, avg(v) {JOIN} GROUP BY name")
        ((rows,),) = connection.query("SELECT sum(rows) FROM tidemill.last_query_nodes")
        return int(rows), NODES * SENSORS + MASTER_ROWS

    def _dead_node(self, bench, tidemill, nodes):
        """Milliseconds of the sum of three nodes, and in turns with it, of four of which one is stopped, or hangs."""
        connection = tidemill.connect()
        connection.query("SET on_dead_node = skip")
        four, three = "SELECT sum(v) FROM hist", ", ".join(f"'/node{i}/'" for i in range(NODES - 1))

        def in_turns():
            pairs = [(_timed(connection, f"{four} IN ({three})"), _timed(connection, four)) for _ in range(2 * bench.repeats)]
            return [list(samples) for samples in zip(*pairs)]

        state = f"SELECT state FROM tidemill.nodes WHERE server = 'node{NODES - 1}'"
        is_down = lambda: connection.query(state) == [["down"]]
        samples, last = {}, nodes[-1]
        last.signal(signal.SIGSTOP)
        samples["four, of which one hangs and nobody has noticed"] = [_timed(connection, four)]
        until(is_down)
        samples["three nodes"], samples["four, of which one hangs"] = in_turns()
        last.signal(signal.SIGCONT)
        last.stop()
        until(is_down)
        samples["three nodes, later"], samples["four, of which one is stopped"] = in_turns()
        return samples


@contextlib.contextmanager
def started(bench, name):
    server = Postgres(bench.scratch, name)
    server.start()
    try:
        yield server
    finally:
        if server.process.poll() is None:
            server.stop()


def _keyed(sql, sensor):
    return sql.replace("{key}", f"{sensor:05}")


def _timed(connection, sql):
    began = time.monotonic()
    connection.query(sql)
    return (time.monotonic() - began) * 1000


def _same(query, ours, theirs):
    ours, theirs = (sorted(answer.rows()) for (answer,) in (ours, theirs))
    same = len(ours) == len(theirs) if query.any_rows else ours == theirs
    assert same and ours, f"{query.name}: {ours[:3]} … here, {theirs[:3]} … in postgres_fdw"


def define(server, nodes, master, kind):
    """The same objects in Tidemill and in PostgreSQL, but for what makes one table of many."""
    statements = ["CREATE EXTENSION IF NOT EXISTS postgres_fdw"]
    for name, node in [("master", master), *((f"node{i}", node) for i, node in enumerate(nodes))]:
        options = f"host '127.0.0.1', port '{node.port}', dbname '{node.database}'"
        options += ", async_capable 'true', use_remote_estimate 'true', fetch_size '10000'" if kind == "postgres" else ""
        statements.append(f"CREATE SERVER {name} FOREIGN DATA WRAPPER postgres_fdw OPTIONS ({options})")
        statements.append(f"CREATE USER MAPPING FOR postgres SERVER {name} OPTIONS (user 'postgres')")
    statements.append(f"CREATE FOREIGN TABLE signal ({SIGNAL}) SERVER master")
    if kind == "postgres":
        # The sensors of a node begin with its name, so the table is partitioned by what queries group by.
        statements.append(f"CREATE TABLE hist ({HIST}) PARTITION BY RANGE (eid)")
        for i in range(len(nodes)):
            bounds = f"FOR VALUES FROM ('n{i}') TO ('n{i + 1}')"
            statements.append(f"CREATE FOREIGN TABLE hist{i} PARTITION OF hist {bounds} SERVER node{i} OPTIONS (table_name 'hist')")
        statements.append("ALTER DATABASE postgres SET enable_partitionwise_aggregate = on")
    else:
        children = ", ".join(f"node{i}.hist" for i in range(len(nodes)))
        statements.append(f"CREATE MULTI TENANT TABLE hist ({HIST}) CHILDREN ({children})")
    for statement in statements:
        server.query(statement)


CASES = [Federation()]
