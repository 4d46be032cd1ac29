"""Hosts of the core on one machine: SQLite, sockets, files, the system's clock and randomness."""
