"""Events that a transform hands on to a stream with a view, or to a table, beside events sent there directly, and beside a
row trigger of PostgreSQL that inserts into a second table."""

from measure import copy
from rate import POSTGRES, TIDEMILL, Goal, Rate
from values import SCATTER, Inserts
from wire import frame

TRANSFORM, DIRECT = f"{TIDEMILL}, transform", f"{TIDEMILL}, directly"
TRIGGER, DURABLE_TRIGGER = f"{POSTGRES}, trigger, unlogged", f"{POSTGRES}, trigger, durable"
CLIENTS = 4
KEYS = 1_000
# An event is (k, v) with v = k; what is handed on has twice that, and so has what is sent directly.
KEY = f"{SCATTER} % {KEYS}"

# The first table keeps nothing, as the stream does, which takes less than to keep it.
FORWARD = """CREATE FUNCTION forward() RETURNS trigger LANGUAGE plpgsql AS
    $$ BEGIN INSERT INTO b (k, v) VALUES (NEW.k, NEW.v * 2); RETURN NULL; END $$"""


class Transform(Rate):
    contenders = [TRANSFORM, TRIGGER, DIRECT, DURABLE_TRIGGER]
    goal = Goal(rate=0, of=TRANSFORM, against=DIRECT)
    beside = [DIRECT, TRIGGER, DURABLE_TRIGGER]

    def __init__(self, output):
        self.output = output
        self.what = {"stream": "a second stream with a view", "table": "a table"}[output]

    def define(self, contender):
        if contender.startswith(POSTGRES):
            unlogged = "UNLOGGED" if contender == TRIGGER else ""
            tables = [f"CREATE {unlogged} TABLE {name} (k int, v int)" for name in "ab"]
            return [*tables, FORWARD, "CREATE TRIGGER t BEFORE INSERT ON a FOR EACH ROW EXECUTE FUNCTION forward()"]
        statements = ["CREATE STREAM a (k int, v int)", f"CREATE {self.output} b (k int, v int)"]
        if self.output == "stream":
            statements.append("CREATE CONTINUOUS VIEW w AS SELECT k, count(*), sum(v) FROM b GROUP BY k")
        if contender == TRANSFORM:
            select = "SELECT k, v * 2 AS v FROM a"
            statements.append(f"CREATE CONTINUOUS TRANSFORM t AS {select} THEN EXECUTE PROCEDURE pipeline_stream_insert('b')")
        return statements

    def drop(self):
        return "DROP TABLE a, b; DROP FUNCTION forward"

    def check(self, server, contender, rows):
        select = "SELECT count(*), count(*) FILTER (WHERE v <> 2 * k) FROM b"
        if contender.startswith(TIDEMILL) and self.output == "stream":
            select = "SELECT sum(count), count(*) FILTER (WHERE sum <> 2 * k * count) FROM w"
        found = server.query(select)
        assert found == [[str(rows), "0"]], f"{found} where {rows} were sent, and none is wrong"


class TransformInsert(Transform):
    def __init__(self, output):
        super().__init__(output)
        self.name = f"transform-{output}-insert"
        self.about = f"1,000 events an INSERT, {CLIENTS} clients, that are handed on to {self.what}"

    def prepare(self, bench):
        self.seconds = min(bench.seconds, 5)
        key = lambda number: number * SCATTER % KEYS
        handed_on = Inserts(bench.scratch / "a", "INSERT INTO a (k, v) {}", lambda number: f"{key(number)}, {key(number)}")
        direct = Inserts(bench.scratch / "b", "INSERT INTO b (k, v) {}", lambda number: f"{key(number)}, {2 * key(number)}")
        self.inserts = {contender: direct if contender == DIRECT else handed_on for contender in self.contenders}

    def run(self, server, contender):
        return self.inserts[contender].run(server, CLIENTS, self.seconds)


class TransformCopy(Transform):
    def __init__(self, output):
        super().__init__(output)
        self.name = f"transform-{output}-copy"
        self.about = f"COPY of events that are handed on to {self.what}"

    def prepare(self, bench):
        """Fewer rows for PostgreSQL, where each costs a call of the trigger."""
        plain = bench.scratch / "events"
        kinds = {TRANSFORM: (bench.copy_rows, 1), DIRECT: (bench.copy_rows, 2), POSTGRES: (bench.copy_rows // 5, 1)}
        self.files = {}
        for name, (rows, factor) in kinds.items():
            path = bench.scratch / f"events-{len(self.files)}.framed"
            select = f"SELECT n::bigint * {KEY}, n::bigint * {KEY} * {factor} FROM generate_series(1, {rows}) n"
            bench.postgres.query(f"COPY ({select}) TO '{plain}'")
            frame(plain, path)
            plain.unlink()
            self.files[name] = path, rows

    def run(self, server, contender):
        path, rows = self.files[POSTGRES if contender.startswith(POSTGRES) else contender]
        work = copy(server, path, f"COPY {'b' if contender == DIRECT else 'a'} (k, v) FROM STDIN")
        # PostgreSQL counts no row that its trigger kept from the first table.
        assert work.rows == (0 if contender.startswith(POSTGRES) else rows)
        work.rows = rows
        return work


CASES = [kind(output) for output in ["stream", "table"] for kind in [TransformInsert, TransformCopy]]
