"""A client of the PostgreSQL protocol that costs next to nothing: queries, and COPY from a file that is framed already.

psql finds the end of every line of a COPY, which makes it the bottleneck of a fast server. Here the messages lie ready
in a file and the kernel sends them (`sendfile`), so what is measured is the server. Only trusted connections.
"""

import os
import socket
import struct
import sys
import time

# Data of one CopyData message: what psql sends.
FRAME_BYTES = 8 << 10
TERMINATE = b"X\x00\x00\x00\x04"
COPY_DONE = b"c\x00\x00\x00\x04"


class ServerError(Exception):
    pass


class Connection:
    def __init__(self, port, database):
        self.socket = socket.create_connection(("127.0.0.1", port))
        self.socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self.input = self.socket.makefile("rb")
        parameters = f"user\0postgres\0database\0{database}\0\0".encode()
        self.socket.sendall(struct.pack("!ii", len(parameters) + 8, 196608) + parameters)
        for _ in self._messages_until(b"Z"):
            pass

    def query(self, sql):
        """The rows of all statements in `sql`, each a list of texts, None for NULL."""
        self._send(b"Q", sql.encode() + b"\0")
        return [_columns(body) for kind, body in self._messages_until(b"Z") if kind == b"D"]

    def ask(self, sql):
        """Sends the query; the answer is for the caller to receive, so that it costs next to nothing until it is there."""
        self._send(b"Q", sql.encode() + b"\0")
        return Answer(self.socket)

    def begin_copy(self, sql):
        self._send(b"Q", sql.encode() + b"\0")
        for _ in self._messages_until(b"G"):
            pass

    def send_copy_data(self, data):
        self._send(b"d", data)

    def end_copy(self):
        """The number of rows that the server counted."""
        self.socket.sendall(COPY_DONE)
        tags = [body for kind, body in self._messages_until(b"Z") if kind == b"C"]
        return int(tags[-1].rstrip(b"\0").split()[-1])

    def copy_file(self, sql, framed_path):
        self.begin_copy(sql)
        with open(framed_path, "rb") as file:
            self.socket.sendfile(file)
        return self.end_copy()

    def close(self):
        self.socket.sendall(TERMINATE)
        self.socket.close()

    def _send(self, kind, body):
        self.socket.sendall(kind + struct.pack("!i", len(body) + 4) + body)

    def _messages_until(self, last):
        """Messages up to the first of the kind `last`; an error is raised when the server is ready again."""
        error = None
        while True:
            try:
                kind, length = struct.unpack("!ci", self._read(5))
                body = self._read(length - 4)
            except ConnectionError as lost:
                raise ServerError(error or lost) from None
            if kind == b"E":
                error = _message(body)
            if error and kind == b"Z":
                raise ServerError(error)
            yield kind, body
            if kind == last and not error:
                return

    def _read(self, count):
        data = self.input.read(count)
        if len(data) < count:
            raise ConnectionError("the server closed the connection")
        return data


class Answer:
    """What comes from the socket up to the message that the server is ready; taken apart when somebody wants the rows."""

    READY = b"Z\x00\x00\x00\x05I"

    def __init__(self, socket):
        self.socket = socket
        self.parts = []

    def receive(self):
        """Takes what is there, or waits for some; true if it was the end."""
        part = self.socket.recv(1 << 20)
        if not part:
            raise ServerError("the server closed the connection")
        self.parts.append(part)
        # Short parts can split the message.
        end = part if len(part) >= len(self.READY) else b"".join(self.parts[-len(self.READY) :])
        return end.endswith(self.READY)

    def rows(self):
        data, at, rows = b"".join(self.parts), 0, []
        while at < len(data):
            kind, length = struct.unpack_from("!ci", data, at)
            body = data[at + 5 : at + 1 + length]
            at += 1 + length
            if kind == b"E":
                raise ServerError(_message(body))
            if kind == b"D":
                rows.append(_columns(body))
        return rows


def _message(body):
    return " ".join(field[1:].decode() for field in body.split(b"\0") if field[:1] in (b"C", b"M"))


def _columns(body):
    (count,), at, columns = struct.unpack_from("!h", body), 2, []
    for _ in range(count):
        (length,) = struct.unpack_from("!i", body, at)
        at += 4
        columns.append(None if length < 0 else body[at : at + length].decode())
        at += max(length, 0)
    return columns


def frame(plain_path, framed_path):
    """Writes the file as CopyData messages."""
    with open(plain_path, "rb") as plain, open(framed_path, "wb") as framed:
        while data := plain.read(FRAME_BYTES):
            framed.write(b"d" + struct.pack("!i", len(data) + 4) + data)


if __name__ == "__main__":
    # A process of its own, so that its CPU can be told from the benchmark's: PORT DATABASE TIMES FRAMED_FILE SQL.
    # Prints when the first COPY began, the rows and the seconds of all of them. Ends early when its input is closed.
    port, database, times, framed_path, sql = sys.argv[1:]
    connection = Connection(int(port), database)
    began, rows = time.monotonic(), 0
    print(began, flush=True)
    for _ in range(int(times)):
        rows += connection.copy_file(sql, framed_path)
    print(rows, time.monotonic() - began, flush=True)
    # Not waiting for the garbage collector keeps the exit out of the CPU figure.
    os._exit(0)
