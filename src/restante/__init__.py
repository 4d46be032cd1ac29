"""Restante: mail held until its addressee comes for it."""

__version__ = "0.1.0"
