"""The tables that are made from the events: messages and everything that follows from them (SPEC 13.3 to 13.6)."""

from typing import Final

from restante.fleet.tables.message_tables import MESSAGE_TABLES
from restante.fleet.tables.node_tables import NODE_TABLES

DERIVED: Final = (*MESSAGE_TABLES, *NODE_TABLES)
"""In an order in which each is made from tables before it."""
