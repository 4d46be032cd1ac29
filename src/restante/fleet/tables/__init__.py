"""Definitions of the fleet tables and the schema of the journal."""
