"""What the choice of what goes to a server is worth: keys of a join, groups by statistics, states of views. Each query is
asked with the choice and without, beside the floor and postgres_fdw."""

import contextlib
import dataclasses
import time

from federation import FDW, TIDEMILL, Nodes, OneServer, started
from measure import copy, until
from values import SCATTER
from wire import frame

FACT = "id int, v float8"
# Rows of the fact table for each value of its key: too few for the server to fold them first.
ROWS_A_KEY = 3


@dataclasses.dataclass
class Query:
    name: str
    sql: str
    # What another contender is asked in its place.
    instead: dict = dataclasses.field(default_factory=dict)
    # By contender what its plan shows, so that a figure is of what it says.
    shows: dict = dataclasses.field(default_factory=dict)
    hides: dict = dataclasses.field(default_factory=dict)
    # By contender the rows that its servers send.
    moves: dict = dataclasses.field(default_factory=dict)


class Answers:
    """A case: contenders whose answers are the same, each with a connection of its own; all are asked in turns."""

    # Contenders whose answers are parts of the whole.
    floors = ()

    def run(self, bench):
        with contextlib.ExitStack() as stack:
            contenders = self.start(bench, stack)
            return {query.name: self._query(bench, query, contenders) for query in self.queries(bench)}

    def _query(self, bench, query, contenders):
        asked = {name: query.instead.get(name, query.sql) for name in contenders}
        # Who connects only now, or learns the sizes of tables, has done so before the first sample.
        for name, contender in contenders.items():
            contender.ask(asked[name])
        for wanted, texts in [(True, query.shows), (False, query.hides)]:
            for name, text in texts.items():
                has_text = lambda: text in _plan(contenders[name], asked[name])
                until(lambda: has_text() == wanted, what=f"{query.name}: {name}: no plan with{'' if wanted else 'out'} {text}")
        samples = {name: [] for name in contenders}
        for _ in range(bench.repeats):
            answers = {}
            for name, contender in contenders.items():
                began = time.monotonic()
                answer = contender.ask(asked[name])
                samples[name].append((time.monotonic() - began) * 1000)
                if name not in self.floors:
                    answers[name] = sorted(answer[0].rows())
                if name in query.moves:
                    moved = contender.connection.query("SELECT sum(rows) FROM tidemill.last_query_nodes")
                    assert moved == [[str(query.moves[name])]], f"{query.name}: {name} moved {moved} rows"
            first, *others = answers.items()
            for name, rows in others:
                assert rows == first[1] and rows, f"{query.name}: {first[1][:3]} … {first[0]}, {rows[:3]} … {name}"
        return samples


def _plan(contender, sql):
    return "\n".join(line for (line,) in contender.connection.query(f"EXPLAIN {sql}"))


def with_settings(server, *statements):
    contender = OneServer(server)
    for statement in statements:
        contender.connection.query(statement)
    return contender


def foreign(server, node, tables, kind="tidemill"):
    """The tables of the node as foreign tables."""
    options = f"host '127.0.0.1', port '{node.port}', dbname '{node.database}'"
    options += ", use_remote_estimate 'true', fetch_size '10000'" if kind == "postgres" else ""
    server.query("CREATE EXTENSION IF NOT EXISTS postgres_fdw")
    server.query(f"CREATE SERVER node FOREIGN DATA WRAPPER postgres_fdw OPTIONS ({options})")
    server.query("CREATE USER MAPPING FOR postgres SERVER node OPTIONS (user 'postgres')")
    for table in tables:
        server.query(f"CREATE FOREIGN TABLE {table} ({FACT}) SERVER node")


def make_facts(node, table, rows, keys):
    """Keys in scattered order, equally often, and values whose sums are exact."""
    row = f"n::bigint * {SCATTER} % {keys}, (n % 4000) / 4.0::float8"
    node.query(f"CREATE TABLE {table} ({FACT}); INSERT INTO {table} SELECT {row} FROM generate_series(1, {rows}) n")


class Keys(Answers):
    name = "foreign-join-keys"
    about = "a dimension here joined with the rows of a PostgreSQL node that have its keys"
    floor, all_rows = "on the node", f"{TIDEMILL}, no keys sent"

    def start(self, bench, stack):
        node = stack.enter_context(started(bench, "node"))
        self.keys = bench.node_rows // ROWS_A_KEY
        make_facts(node, "fact", bench.node_rows, self.keys)
        node.query("CREATE INDEX ON fact (id)")
        node.query("VACUUM ANALYZE fact")
        node.query("CHECKPOINT")
        tidemill = stack.enter_context(bench.tidemill())
        for server, kind in [(tidemill, "tidemill"), (bench.postgres, "postgres")]:
            foreign(server, node, ["fact"], kind)
        dimensions = [f"dim{size}" for size in self._sizes(bench)]
        drop = f"DROP TABLE IF EXISTS {', '.join(dimensions)}; DROP EXTENSION IF EXISTS postgres_fdw CASCADE"
        stack.callback(bench.postgres.query, drop)
        for size in self._sizes(bench):
            for server in [node, tidemill, bench.postgres]:
                server.query(f"CREATE TABLE dim{size} (id int, name text)")
                # Evenly spaced keys: their rows are all over the node's table.
                rows = f"SELECT g * {self.keys // size}, 'name ' || g % 1000 FROM generate_series(0, {size - 1}) g"
                server.query(f"INSERT INTO dim{size} {rows}")
                if server is not tidemill:
                    server.query(f"VACUUM ANALYZE dim{size}")
        return {
            self.floor: OneServer(node),
            TIDEMILL: OneServer(tidemill),
            self.all_rows: with_settings(tidemill, "SET enable_foreign_dynamic_filters = off"),
            FDW: OneServer(bench.postgres),
        }

    def _sizes(self, bench):
        """20,000 and 200,000 keys of a million."""
        return [bench.node_rows // 150, bench.node_rows // 15]

    def queries(self, bench):
        for size in self._sizes(bench):
            sql = f"SELECT name, count(*), sum(v) FROM fact JOIN dim{size} USING (id) GROUP BY name"
            shows, hides = {TIDEMILL: "Dynamic Filter: id"}, {self.all_rows: "Dynamic Filter"}
            moves = {TIDEMILL: size * ROWS_A_KEY, self.all_rows: bench.node_rows}
            yield Query(f"{size:,} of {self.keys:,} keys", sql, shows=shows, hides=hides, moves=moves)


class Statistics(Answers):
    name = "foreign-join-statistics"
    about = "GROUP BY a key of which each row has its own; the same table without statistics is folded on the node"
    floor, folded, off = "on the node", f"{TIDEMILL}, folded there", f"{TIDEMILL}, aggregates off"

    def start(self, bench, stack):
        node = stack.enter_context(started(bench, "node"))
        for table in ["fact", "unknown"]:
            make_facts(node, table, bench.node_rows, keys=bench.node_rows)
        node.query("VACUUM ANALYZE fact")
        # Pages that are known to be visible, but no statistics.
        node.query("VACUUM unknown")
        node.query("CHECKPOINT")
        tidemill = stack.enter_context(bench.tidemill())
        foreign(tidemill, node, ["fact", "unknown"])
        stack.callback(bench.postgres.query, "DROP EXTENSION IF EXISTS postgres_fdw CASCADE")
        foreign(bench.postgres, node, ["fact"], "postgres")
        return {
            self.floor: OneServer(node),
            TIDEMILL: OneServer(tidemill),
            self.off: with_settings(
                tidemill, "SET enable_foreign_aggregates = off", "SET enable_foreign_eager_aggregates = off"
            ),
            self.folded: OneServer(tidemill),
            FDW: OneServer(bench.postgres),
        }

    def queries(self, bench):
        sql = "SELECT count(*), sum(a) FROM (SELECT id, avg(v) AS a FROM {} GROUP BY id) g"
        yield Query(
            f"avg by {bench.node_rows:,} keys",
            sql.format("fact"),
            instead={self.folded: sql.format("unknown")},
            shows={self.folded: "GROUP BY"},
            hides={TIDEMILL: "GROUP BY", self.off: "GROUP BY"},
        )


class Combine(Answers):
    name = "foreign-join-combine"
    about = "views of two Tidemill servers merged by their states, and all events in one PostgreSQL"
    groups = 100_000
    floor, events = "both views as they are", "PostgreSQL, all events"
    floors = (floor,)

    def start(self, bench, stack):
        parts = [stack.enter_context(bench.tidemill(name=name)) for name in ["north", "south"]]
        tidemill = stack.enter_context(bench.tidemill())
        # Each part has each key, equally often.
        half = bench.node_rows // 2
        row = f"n::bigint * {SCATTER} % {self.groups} AS k, n % 1000 AS x"
        plain, framed = bench.scratch / "half", bench.scratch / "half.framed"
        for number, part in enumerate(parts):
            select = f"SELECT {row} FROM generate_series({number * half + 1}, {(number + 1) * half}) n"
            bench.postgres.query(f"COPY ({select}) TO '{plain}'")
            frame(plain, framed)
            part.query("CREATE STREAM s (k int, x int)")
            part.query("CREATE CONTINUOUS VIEW v AS SELECT k, avg(x) FROM s GROUP BY k")
            assert copy(part, framed, "COPY s (k, x) FROM STDIN").rows == half
            for path in [plain, framed]:
                path.unlink()
            options = f"host '127.0.0.1', port '{part.port}', dbname '{part.database}'"
            name = part.data_dir.name
            tidemill.query(f"CREATE SERVER {name} FOREIGN DATA WRAPPER tidemill_fdw OPTIONS ({options})")
            tidemill.query(f"CREATE USER MAPPING FOR postgres SERVER {name} OPTIONS (user 'postgres')")
        tidemill.query("CREATE MULTI TENANT TABLE v (k int, avg numeric) CHILDREN (north.v, south.v)")
        stack.callback(bench.postgres.query, "DROP TABLE IF EXISTS e")
        bench.postgres.query(f"CREATE TABLE e AS SELECT {row} FROM generate_series(1, {2 * half}) n")
        bench.postgres.query("VACUUM ANALYZE e")
        bench.postgres.query("CHECKPOINT")
        return {self.events: OneServer(bench.postgres), TIDEMILL: OneServer(tidemill), self.floor: Nodes(parts)}

    def queries(self, bench):
        for name, shown, rest, rows in [
            (f"avg of {self.groups:,} groups", "k, {} AS a", "GROUP BY k", self.groups),
            ("avg of 1,000 groups of them", "k % 1000, {} AS a", "GROUP BY 1", 1_000),
            ("avg of all", "{} AS a", "", 1),
        ]:
            whole, parts = shown.format("avg(x)"), shown.format("combine(avg)")
            yield Query(
                name,
                f"SELECT {parts} FROM v {rest}",
                instead={self.events: f"SELECT {whole} FROM e {rest}", self.floor: "SELECT k, avg FROM v"},
                # States, of each server.
                moves={TIDEMILL: 2 * rows},
            )


CASES = [Keys(), Statistics(), Combine()]
