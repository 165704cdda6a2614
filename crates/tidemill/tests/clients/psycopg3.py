"""psycopg 3 against a server: python psycopg3.py PORT"""

import sys
import uuid
from datetime import date, datetime, time, timedelta, timezone
from decimal import Decimal

import psycopg
from psycopg.types.json import Json, Jsonb

PORT = int(sys.argv[1])


def connect(**kwargs):
    return psycopg.connect(host="127.0.0.1", port=PORT, user="postgres", dbname="tidemill", **kwargs)


VALUES = [
    ("bool", True),
    ("int2", -7),
    ("int4", 2147483647),
    ("int8", -(2**62)),
    ("float4", 1.5),
    ("float8", 0.1),
    ("float8", float("inf")),
    ("numeric", Decimal("12345678901234567890.012300")),
    ("numeric", Decimal("-0.5")),
    ("text", "äöü 'quoted' \\ \n line"),
    ("varchar", ""),
    ("bytea", bytes(range(256))),
    ("date", date(2020, 2, 29)),
    ("date", date(1, 1, 1)),
    ("time", time(23, 59, 59, 999999)),
    ("timestamp", datetime(2020, 2, 29, 12, 30, 1, 5)),
    ("timestamptz", datetime(2020, 2, 29, 12, 30, 1, tzinfo=timezone.utc)),
    ("interval", timedelta(days=3, hours=-2, microseconds=7)),
    ("uuid", uuid.UUID("a0eebc99-9c0b-4ef8-bb6d-6bb9bd380a11")),
    ("int4[]", [1, None, 3]),
    ("text[]", ["a", "b,c", 'd"e', None, ""]),
    ("float8[]", [1.5, -2.0]),
    ("numeric[]", [Decimal("1.50"), None]),
    ("timestamptz[]", [datetime(2020, 1, 1, tzinfo=timezone.utc)]),
]


def parameters_of_all_types():
    with connect() as conn:
        for binary in (False, True):
            for name, value in VALUES:
                marker = "%b" if binary else "%t"
                with conn.cursor(binary=binary) as cur:
                    got = cur.execute(f"SELECT {marker}::{name}", (value,)).fetchone()[0]
                    assert got == value, (name, binary, value, got)
                    got = cur.execute(f"SELECT {marker}::{name}", (None,)).fetchone()[0]
                    assert got is None, (name, binary, got)
            with conn.cursor(binary=binary) as cur:
                cur.execute("SELECT %s::json, %s::jsonb", (Json({"a": [1, None]}), Jsonb({"b": "ä"})))
                assert cur.fetchone() == ({"a": [1, None]}, {"b": "ä"})
                assert [c.type_code for c in cur.description] == [114, 3802]


def prepared_statements():
    with connect(autocommit=True) as conn:
        for i in range(12):
            assert conn.execute("SELECT %s::int4 + 1, %s::text", (i, str(i)), prepare=True).fetchone() == (i + 1, str(i))
        # By itself after five executions, and with changing types.
        for value in [1, 2, 3, 4, 5, 6, 7, "x", None, 2.5]:
            conn.execute("SELECT %s::text", (value,)).fetchone()


def streams_and_views():
    with connect(autocommit=True) as conn:
        conn.execute("CREATE STREAM p3 (k int, t text, x float8, n numeric, at timestamptz)")
        conn.execute("CREATE CONTINUOUS VIEW p3v AS SELECT k, count(*) AS n, sum(x) AS s FROM p3 GROUP BY k")
        row = ("INSERT INTO p3 (k, t, x, n, at) VALUES (%s, %s, %s, %s, %s)")
        now = datetime(2020, 1, 1, tzinfo=timezone.utc)
        with conn.cursor() as cur:
            cur.execute(row, (1, "a", 0.5, Decimal("1.5"), now))
            assert cur.rowcount == 1 and cur.statusmessage == "INSERT 0 1"
            cur.executemany(row, [(i % 2, "b", 1.0, None, now) for i in range(100)])
            assert cur.rowcount == 100
        assert conn.execute("SELECT k, n, s FROM p3v ORDER BY k").fetchall() == [(0, 50, 50.0), (1, 51, 50.5)]


def transactions():
    with connect() as conn:
        conn.execute("INSERT INTO p3 (k, x) VALUES (7, 1)")
        conn.rollback()
        conn.execute("INSERT INTO p3 (k, x) VALUES (8, 1)")
        conn.commit()
        assert conn.execute("SELECT k FROM p3v WHERE k > 5").fetchall() == [(8,)]
        conn.commit()
        try:
            conn.execute("SELECT 1/0")
        except psycopg.errors.DivisionByZero:
            pass
        try:
            conn.execute("SELECT 1")
            raise AssertionError("a failed transaction goes on")
        except psycopg.errors.InFailedSqlTransaction:
            pass
        conn.rollback()
        assert conn.execute("SELECT 1").fetchone() == (1,)


def copy_in_and_out():
    with connect(autocommit=True) as conn:
        with conn.cursor() as cur:
            with cur.copy("COPY p3 (k, t, x) FROM STDIN") as copy:
                for i in range(1000):
                    copy.write_row((100, "tab\tand \\ back", i))
            assert cur.rowcount == 1000
            with cur.copy("COPY p3 (k, t, x, n, at) FROM STDIN (FORMAT binary)") as copy:
                copy.set_types(["int4", "text", "float8", "numeric", "timestamptz"])
                for _ in range(10):
                    copy.write_row((101, "b", 2.0, Decimal("1.25"), datetime(2020, 1, 1, tzinfo=timezone.utc)))
            with cur.copy("COPY p3 (k, x) FROM STDIN (FORMAT csv, HEADER)") as copy:
                copy.write("k,x\n102,1\n102,2\n")
            assert cur.rowcount == 2
            cur.execute("SELECT k, n, s FROM p3v WHERE k >= 100 ORDER BY k")
            assert cur.fetchall() == [(100, 1000, 499500.0), (101, 10, 20.0), (102, 2, 3.0)]
            with cur.copy("COPY (SELECT k, n, s FROM p3v WHERE k >= 101 ORDER BY k) TO STDOUT") as copy:
                copy.set_types(["int4", "int8", "float8"])
                assert list(copy.rows()) == [(101, 10, 20.0), (102, 2, 3.0)]
            with cur.copy("COPY (SELECT k, n FROM p3v WHERE k >= 101 ORDER BY k) TO STDOUT (FORMAT binary)") as copy:
                copy.set_types(["int4", "int8"])
                assert list(copy.rows()) == [(101, 10), (102, 2)]
            try:
                with cur.copy("COPY p3 (k) FROM STDIN") as copy:
                    copy.write("1\nx\n")
                raise AssertionError("a row that cannot be read")
            except psycopg.errors.InvalidTextRepresentation as error:
                assert error.diag.context == 'COPY p3, line 2, column k: "x"', error.diag.context
            try:
                with cur.copy("COPY p3 (k) FROM STDIN") as copy:
                    copy.write("1\n")
                    raise ValueError("the client gives up")
            except (ValueError, psycopg.errors.QueryCanceled):
                pass


def pipeline():
    with connect(autocommit=True) as conn:
        with conn.pipeline() as pipe:
            cursors = [conn.execute("SELECT %s::int8", (i,)) for i in range(20)]
            pipe.sync()
            assert [cur.fetchone()[0] for cur in cursors] == list(range(20))
        try:
            with conn.pipeline():
                conn.execute("INSERT INTO p3 (k, x) VALUES (%s, 1)", (900,))
                conn.execute("SELECT nope")
                conn.execute("INSERT INTO p3 (k, x) VALUES (%s, 1)", (901,))
            raise AssertionError("an error in a pipeline")
        except psycopg.errors.UndefinedColumn:
            pass
        assert conn.execute("SELECT k FROM p3v WHERE k >= 900").fetchall() == []


def errors():
    with connect(autocommit=True) as conn:
        try:
            conn.execute("SELECT *\nFROM nowhere")
        except psycopg.errors.UndefinedTable as error:
            diag = error.diag
            assert (diag.sqlstate, diag.severity, diag.severity_nonlocalized) == ("42P01", "ERROR", "ERROR")
            assert diag.message_primary == 'relation "nowhere" does not exist'
            assert diag.statement_position == "15"
        try:
            conn.execute("SELECT lower(%s::int4)", (1,))
        except psycopg.errors.UndefinedFunction as error:
            assert "explicit type casts" in error.diag.message_hint
        assert conn.info.parameter_status("server_encoding") == "UTF8"
        assert conn.info.server_version >= 150000
        assert conn.info.transaction_status == psycopg.pq.TransactionStatus.IDLE


def notices_and_settings():
    with connect(autocommit=True, options="-c application_name=fromoptions -c TimeZone=Europe/Berlin") as conn:
        assert conn.execute("SHOW application_name").fetchone() == ("fromoptions",)
        assert str(conn.info.timezone) == "Europe/Berlin"
        assert conn.execute("SELECT '2020-07-01 12:00+00'::timestamptz::text").fetchone() == ("2020-07-01 14:00:00+02",)
        seen = []
        conn.add_notice_handler(lambda diag: seen.append((diag.severity, diag.sqlstate)))
        conn.execute("COMMIT")
        assert seen == [("WARNING", "25P01")], seen


for check in [
    parameters_of_all_types,
    prepared_statements,
    streams_and_views,
    transactions,
    copy_in_and_out,
    pipeline,
    errors,
    notices_and_settings,
]:
    check()
    print(f"ok {check.__name__}")
