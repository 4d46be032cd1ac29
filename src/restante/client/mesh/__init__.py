"""The route `mesh`: directory, connections to nodes, storing, reading and prekey records (SPEC 7)."""
