"""A continuous view that joins events with a table, beside the same view of events that have the name already, and beside
PostgreSQL, which adds the groups of a statement's events to a table of groups."""

import time

from figure import Figure
from measure import Work, copy
from rate import POSTGRES, TIDEMILL, Goal, Rate
from values import SCATTER, Inserts, rows
from wire import frame

JOINED, NAMED = f"{TIDEMILL}, joined", f"{TIDEMILL}, name in the event"
UPSERT, DURABLE_UPSERT = f"{POSTGRES}, upsert, unlogged", f"{POSTGRES}, upsert, durable"
SIZES = [10_000, 1_000_000]
# Of devices. An event's value is the number of its site, so each group tells whether its events are the right ones.
SITES = 1_000

DEVICES = f"SELECT g AS id, 'site ' || g % {SITES} AS name FROM generate_series(0, {{}} - 1) g"
GROUPS = "SELECT name, count(*), sum(v)"


def add_groups(events):
    """Locks are taken in the order of the names, or the statements of several clients would wait for each other in a circle."""
    return f"""INSERT INTO v (name, count, sum) {GROUPS} FROM {events} JOIN device USING (id) GROUP BY name ORDER BY name
        ON CONFLICT (name) DO UPDATE SET count = v.count + excluded.count, sum = v.sum + excluded.sum"""


class StreamJoin(Rate):
    contenders = [JOINED, UPSERT, NAMED, DURABLE_UPSERT]
    goal = Goal(rate=0, of=JOINED, against=NAMED)
    beside = [NAMED, UPSERT, DURABLE_UPSERT]

    def __init__(self, size):
        self.size = size

    def define(self, contender):
        if contender == NAMED:
            return [f"CREATE STREAM s (name text, v int); CREATE CONTINUOUS VIEW v AS {GROUPS} FROM s GROUP BY name"]
        devices = DEVICES.format(self.size)
        if contender == JOINED:
            # The view reads the rows when it is made: no event waits for the first time.
            return [
                "CREATE TABLE device (id int, name text); CREATE STREAM s (id int, v int)",
                f"INSERT INTO device {devices}",
                f"CREATE CONTINUOUS VIEW v AS {GROUPS} FROM s JOIN device USING (id) GROUP BY name",
            ]
        unlogged = "UNLOGGED" if contender == UPSERT else ""
        return [
            f"CREATE TABLE device AS {devices}",
            "ALTER TABLE device ADD PRIMARY KEY (id)",
            # Half of each page is room for new versions of the rows, without a vacuum.
            f"CREATE {unlogged} TABLE v (name text PRIMARY KEY, count bigint, sum bigint) WITH (fillfactor = 50)",
            f"CREATE {unlogged} TABLE s (id int, v int)",
            "VACUUM ANALYZE device",
        ]

    def drop(self):
        return "DROP TABLE device, v, s"

    def check(self, server, contender, rows):
        wrong = "count(*) FILTER (WHERE sum <> count * substr(name, 6)::int)"
        found = server.query(f"SELECT sum(count), {wrong} FROM v")
        assert found == [[str(rows), "0"]], f"{found} where {rows} were sent, and no group is wrong"


class StreamJoinInsert(StreamJoin):
    def __init__(self, size, clients):
        super().__init__(size)
        self.clients = clients
        self.name = f"stream-join-insert-{size}-{clients}"
        self.about = f"1,000 events an INSERT join {size:,} rows of master data, {clients} client{'s'[: clients > 1]}"

    def prepare(self, bench):
        self.seconds = min(bench.seconds, 5)
        device = lambda number: number * SCATTER % self.size
        event = lambda number: f"{device(number)}, {device(number) % SITES}"
        with_name = lambda number: f"'site {device(number) % SITES}', {device(number) % SITES}"
        upsert = Inserts(bench.scratch / "upsert", add_groups("({}) AS e (id, v)"), event)
        self.inserts = {
            JOINED: Inserts(bench.scratch / "joined", "INSERT INTO s (id, v) {}", event),
            NAMED: Inserts(bench.scratch / "named", "INSERT INTO s (name, v) {}", with_name),
            UPSERT: upsert,
            DURABLE_UPSERT: upsert,
        }

    def run(self, server, contender):
        return self.inserts[contender].run(server, self.clients, self.seconds)


class StreamJoinCopy(StreamJoin):
    """PostgreSQL has a COPY into a table first, and adds the groups of all its rows then."""

    def __init__(self, size):
        super().__init__(size)
        self.name = f"stream-join-copy-{size}"
        self.about = f"COPY of events that join {size:,} rows of master data"

    def prepare(self, bench):
        self.rows = bench.copy_rows
        plain = bench.scratch / "events"
        device = f"n::bigint * {SCATTER} % {self.size}"
        self.paths = {}
        for contender, key in [(JOINED, device), (NAMED, f"'site ' || {device} % {SITES}")]:
            self.paths[contender] = bench.scratch / f"events-{len(self.paths)}.framed"
            select = f"SELECT {key}, {device} % {SITES} FROM generate_series(1, {self.rows}) n"
            bench.postgres.query(f"COPY ({select}) TO '{plain}'")
            frame(plain, self.paths[contender])
            plain.unlink()

    def run(self, server, contender):
        columns = "name, v" if contender == NAMED else "id, v"
        work = copy(server, self.paths[NAMED if contender == NAMED else JOINED], f"COPY s ({columns}) FROM STDIN")
        if contender.startswith(POSTGRES):
            began = time.monotonic()
            server.query(add_groups("s"))
            work = Work(work.rows, work.seconds + time.monotonic() - began, work.cpu_s)
        return work

    def check(self, server, contender, rows):
        assert rows == self.rows
        super().check(server, contender, rows)
        counts = server.query("SELECT count(*), min(count), max(count) FROM v")
        each = str(rows // SITES)
        assert counts == [[str(SITES), each, each]], f"{counts} where each of {SITES} sites had {each} events"


class StreamJoinChange:
    name = "stream-join-change"
    about = "UPDATE of one row of master data, then INSERT of 1,000 events that join it"

    def run(self, bench):
        return [figure for size in SIZES for figure in self._size(bench, size)]

    def _size(self, bench, size):
        case, figures = StreamJoin(size), []
        values = rows(lambda number: f"{number * SCATTER % size}, {number * SCATTER % size % SITES}")
        statements = {JOINED: f"INSERT INTO s (id, v) {values}", DURABLE_UPSERT: add_groups(f"({values}) AS e (id, v)")}
        for contender, insert in statements.items():
            with bench.contender(case, contender) as server:
                taken = self._rounds(bench, server, contender, insert)
            figures += [Figure(f"{size:,} rows, {contender.split(',')[0]}: {what}", "ms", ms) for what, ms in taken.items()]
        return figures

    def _rounds(self, bench, server, contender, insert):
        """Milliseconds by what was done."""
        connection = server.connect()
        if contender == JOINED:
            # An UPDATE writes all rows of the table, and a million do not fit into the default.
            connection.query("SET transaction_memory_limit = '1GB'")
        taken = {"UPDATE": [], "INSERT after it": [], "INSERT, nothing changed": []}
        connection.query(insert)
        for number in range(bench.repeats):
            # Device 0 is in the statement once.
            change = f"UPDATE device SET name = 'changed {number}' WHERE id = 0"
            for times, statement in zip(taken.values(), [change, insert, insert]):
                began = time.monotonic()
                connection.query(statement)
                times.append((time.monotonic() - began) * 1000)
            found = connection.query(f"SELECT count FROM v WHERE name = 'changed {number}'")
            assert found == [["2"]], f"{found} where device 0 had two events under its new name"
        total = connection.query("SELECT sum(count) FROM v")
        assert total == [[str((2 * bench.repeats + 1) * 1_000)]], f"{total} events"
        connection.close()
        return taken


RATES = [
    *(StreamJoinInsert(size, clients) for size in SIZES for clients in [1, 4]),
    *(StreamJoinCopy(size) for size in SIZES),
]
FIGURES = [StreamJoinChange()]
