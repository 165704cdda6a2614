"""psycopg 2 against a server: python psycopg2_test.py PORT"""

import io
import sys
import uuid
from datetime import date, datetime, time, timedelta, timezone
from decimal import Decimal

import psycopg2
import psycopg2.extras
from psycopg2 import errors

psycopg2.extras.register_uuid()


def connect():
    return psycopg2.connect(host="127.0.0.1", port=int(sys.argv[1]), user="postgres", dbname="tidemill")


def values():
    conn = connect()
    cur = conn.cursor()
    for name, value in [
        ("bool", True),
        ("int4", -5),
        ("int8", 2**60),
        ("float8", 1e-7),
        ("numeric", Decimal("1.230")),
        ("text", "it's \\ ä"),
        ("bytea", b"\x00\xff'"),
        ("date", date(2020, 2, 29)),
        ("time", time(1, 2, 3, 4)),
        ("timestamp", datetime(2020, 1, 2, 3, 4, 5, 6)),
        ("timestamptz", datetime(2020, 1, 2, 3, 4, 5, tzinfo=timezone.utc)),
        ("interval", timedelta(days=1, seconds=5)),
        ("uuid", uuid.UUID("a0eebc99-9c0b-4ef8-bb6d-6bb9bd380a11")),
        ("int4[]", [1, 2]),
        ("text[]", ["a", "b c"]),
        ("jsonb", psycopg2.extras.Json({"a": 1})),
    ]:
        cur.execute(f"SELECT %s::{name}, NULL::{name}", (value,))
        got, null = cur.fetchone()
        wanted = value.adapted if isinstance(value, psycopg2.extras.Json) else value
        assert (bytes(got) if name == "bytea" else got) == wanted, (name, value, got)
        assert null is None
    conn.close()


def streams():
    conn = connect()
    conn.autocommit = True
    cur = conn.cursor()
    cur.execute("CREATE STREAM p2 (k int, t text)")
    cur.execute("CREATE CONTINUOUS VIEW p2v AS SELECT k, count(*) AS n FROM p2 GROUP BY k")
    cur.executemany("INSERT INTO p2 (k, t) VALUES (%s, %s)", [(1, "a"), (2, None), (1, "it's")])
    psycopg2.extras.execute_values(cur, "INSERT INTO p2 (k, t) VALUES %s", [(3, "x")] * 250, page_size=100)
    psycopg2.extras.execute_batch(cur, "INSERT INTO p2 (k, t) VALUES (%s, %s)", [(4, "y")] * 30)
    cur.copy_expert("COPY p2 (k, t) FROM STDIN", io.StringIO("5\tz\n" * 500))
    assert cur.rowcount == 500
    cur.copy_from(io.StringIO("6\t\\N\n"), "p2", columns=("k", "t"))
    cur.execute("SELECT k, n FROM p2v ORDER BY k")
    assert cur.fetchall() == [(1, 2), (2, 1), (3, 250), (4, 30), (5, 500), (6, 1)]
    out = io.StringIO()
    cur.copy_expert("COPY (SELECT k, n FROM p2v WHERE k < 3 ORDER BY k) TO STDOUT CSV HEADER", out)
    assert out.getvalue() == "k,n\n1,2\n2,1\n"
    conn.close()


def transactions():
    conn = connect()
    with conn, conn.cursor() as cur:
        cur.execute("INSERT INTO p2 (k) VALUES (50)")
    try:
        with conn, conn.cursor() as cur:
            cur.execute("INSERT INTO p2 (k) VALUES (51)")
            cur.execute("SELECT 1/0")
    except errors.DivisionByZero as error:
        assert error.pgcode == "22012" and error.diag.message_primary == "division by zero"
    with conn, conn.cursor(cursor_factory=psycopg2.extras.RealDictCursor) as cur:
        cur.execute("SELECT k, n FROM p2v WHERE k >= 50")
        assert cur.fetchall() == [{"k": 50, "n": 1}]
    conn.set_session(isolation_level="REPEATABLE READ", readonly=True)
    with conn, conn.cursor() as cur:
        cur.execute("SHOW transaction_isolation")
        assert cur.fetchone() == ("repeatable read",)
    conn.close()


def cancel():
    conn = connect()
    conn.cancel()
    conn.autocommit = True
    with conn.cursor() as cur:
        cur.execute("SELECT 1")
        assert cur.fetchone() == (1,)
    conn.close()


for check in [values, streams, transactions, cancel]:
    check()
    print(f"ok {check.__name__}")
