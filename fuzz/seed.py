"""Inputs to start from: what each target understands. Statements come from the .slt files."""

import pathlib
import struct

HERE = pathlib.Path(__file__).parent
VALUES = """t|-12|1e300|12.345|NaN|hello|\\x00ff|2024-02-29|23:59:60|2024-01-01 10:00:00+02|infinity|P1Y2M3DT4H|{1,2,NULL}|
1 year 2 mons -3 days 04:05:06.7|a0eebc99-9c0b-4ef8-bb6d-6bb9bd380a11|{"a":[1,2,null,"x\\u00e9"],"b":{}}|
{{"a","b"},{"c",NULL}}|[2:3]={1,2}|Jan 8 04:05:06 1999 PST""".replace("\n", "").split("|")
SCALARS = 21


def write(target, inputs):
    folder = HERE / "corpus" / target
    folder.mkdir(parents=True, exist_ok=True)
    for number, data in enumerate(inputs):
        (folder / f"seed-{number}").write_bytes(data)


def message(kind, body=b""):
    return kind + struct.pack("!i", len(body) + 4) + body


def statements():
    for path in sorted((HERE.parent / "crates/tidemill/tests/slt").rglob("*.slt")):
        for block in path.read_text().split("\n\n"):
            lines = [line for line in block.split("\n") if not line.startswith("#")]
            if lines and lines[0].startswith(("query", "statement")):
                yield "\n".join(lines[1:]).split("\n----")[0].encode()


def messages():
    parameters = b"user\0postgres\0database\0tidemill\0\0"
    yield struct.pack("!ii", len(parameters) + 8, 196608) + parameters
    yield message(b"Q", b"select 1\0")
    bind = b"\0s\0" + struct.pack("!hhh", 1, 1, 1) + struct.pack("!ii", 4, 5) + struct.pack("!hh", 1, 1)
    prepared = message(b"P", b"s\0insert into s values ($1)\0" + struct.pack("!hi", 1, 23)) + message(b"B", bind)
    yield prepared + message(b"D", b"Ps\0") + message(b"E", b"\0" + struct.pack("!i", 0)) + message(b"S")
    yield message(b"d", b"1\t2\n") + message(b"c") + message(b"f", b"no\0") + message(b"C", b"Sx\0") + message(b"X")
    yield message(b"p", b"SCRAM-SHA-256\0" + struct.pack("!i", 5) + b"n,,n=")


def values():
    """The type, the form (bit 0: an array, bit 1: binary), the value."""
    for scalar in range(SCALARS):
        yield from (bytes([scalar, 0]) + value.encode() for value in VALUES)
        yield bytes([scalar, 1]) + b"{1,2,NULL}"
        yield bytes([scalar, 2]) + struct.pack("!hhhhhh", 2, 0, 0, 2, 12, 3400)
        yield bytes([scalar, 3]) + struct.pack("!iiiiiii", 1, 0, 23, 1, 1, 4, 7)


def copies():
    """The format, the columns, where to cut, the data."""
    text = b"1\t2\t3.5\thello\t1.5\t2024-01-01\t\\\\x00\tt\n\\N\t1\t\\N\tx\\ty\n"
    csv = b'1,2,3.5,"a ""q"" b\nc",1,now,\\x00,f\r\n,,\n\\.\n'
    for columns in range(16):
        yield from (bytes([format, columns, 5]) + data for format in range(4) for data in (text, csv))
        row = struct.pack("!hiiiiid", 1 + columns % 8, 4, 1, 4, 2, 8, 1.5)
        yield bytes([0x80, columns, 7]) + b"PGCOPY\n\xff\r\n\0" + struct.pack("!ii", 0, 0) + row + struct.pack("!h", -1)


write("sql", statements())
write("wire", [b"\x09" + data for data in messages()] + list(messages()))
write("value", values())
write("copy", copies())
write("log", [bytes([kind]) + bytes(30) for kind in range(4)])
write("run", [bytes([kind]) + bytes(30) for kind in range(3)])
