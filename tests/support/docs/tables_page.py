"""docs/reference/tables.md, made from the definitions of the tables."""

from pathlib import Path

from restante.fleet.tables.definitions import TABLES
from restante.fleet.tables.table import Table

PAGE = Path(__file__).parents[3] / "docs" / "reference" / "tables.md"
HEAD = """# Fleet tables

Made by `make docs` from `restante.fleet.tables.definitions`. Each table is a Delta table under `tables/` of a lake.
Times are Unix milliseconds by the clock of the event's writer; ids and hashes are bytes. Later versions may add columns
and tables; they change and remove none without a new version of the journal schema. The journal events themselves are
in [bytes.md](../protocol/bytes.md).
"""


def page() -> str:
    return "\n".join([HEAD, *(_section(table) for table in TABLES.values())])


def _section(table: Table) -> str:
    about = [f"## {table.name}", "", table.describe, ""]
    if table.key:
        about += [f"Key: {', '.join(f'`{name}`' for name in table.key)}.", ""]
    rows = [f"| {column.name} | {column.type} | {column.describe} |" for column in table.columns]
    return "\n".join([*about, "| column | type | meaning |", "|---|---|---|", *rows, ""])


if __name__ == "__main__":
    PAGE.write_text(page(), "utf-8")
