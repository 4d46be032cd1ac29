"""Writes the page about the journal's columns from their one declaration; run as a script, it writes the file."""

from pathlib import Path

from restante.wire.journal_schema import FIELDS, SCHEMA_VERSION, JournalField

JOURNAL_PAGE = Path(__file__).parents[3] / "docs" / "reference" / "journal.md"

HEAD = f"""\
# Journal columns

Written by `make docs` from `src/restante/wire/journal_schema.py`; a test keeps it current. Schema
version {SCHEMA_VERSION} (SPEC 13.1). A record has exactly these columns. None contains an address.

| column | type | null | allowed | meaning |
|---|---|---|---|---|
"""


def allowed(field: JournalField) -> str:
    """Return the values that a column may have."""
    if field.words:
        return ", ".join(f"`{word}`" for word in field.words)
    if field.pattern:
        return f"`{field.pattern}`"
    if field.type == "binary":
        sizes = f"{field.high:,}" if field.low == field.high else f"{field.low:,} to {field.high:,}"
        return f"{sizes} bytes" if field.low in (0, field.high) else f"{field.low:,} to {field.high:,} bytes"
    return f"{field.low:,} to {field.high:,}"


def journal_page() -> str:
    rows = (
        f"| {each.name} | {each.type} | {'yes' if each.nullable else 'no'} | {allowed(each)} | {each.doc} |\n"
        for each in FIELDS
    )
    return HEAD + "".join(rows)


if __name__ == "__main__":
    JOURNAL_PAGE.write_text(journal_page(), "utf-8")
