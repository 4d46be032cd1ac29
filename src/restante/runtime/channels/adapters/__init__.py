"""Adapters of single platforms."""
