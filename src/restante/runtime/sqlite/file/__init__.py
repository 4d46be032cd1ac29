"""A SQLite file and what every kind of file shares: connection, group commit, WAL, journal, integrity."""
