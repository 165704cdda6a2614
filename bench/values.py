"""Statements that insert a thousand rows of literals each, as clients with rows of their own send them."""

from measure import pgbench

ROWS = 1_000
# Different ones, so that neither server meets the same rows all the time; pgbench takes 128 files at most.
STATEMENTS = 100
# It has no divisor in common with a power of ten: multiples of it, modulo one, are a permutation.
SCATTER = 2654435761


class Inserts:
    """pgbench chooses among the statements at random. `statement` has the rows in the place of `{}`."""

    def __init__(self, folder, statement, row):
        folder.mkdir(exist_ok=True)
        self.paths = [folder / f"{number}.sql" for number in range(STATEMENTS)]
        for number, path in enumerate(self.paths):
            path.write_text(statement.format(rows(row, number * ROWS)) + ";\n")

    def run(self, server, clients, seconds):
        others = [option for path in self.paths[1:] for option in ("-f", path)]
        work = pgbench(server, self.paths[0], clients, min(clients, 2), seconds, "simple", *others)
        work.rows *= ROWS
        return work


def rows(row, first=0):
    """VALUES of a thousand rows; `row` makes one of its number."""
    return "VALUES " + ", ".join(f"({row(number)})" for number in range(first, first + ROWS))
