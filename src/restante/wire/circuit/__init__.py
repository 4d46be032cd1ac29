"""What travels on onion circuits: frames between neighbours, cells, and the commands inside them (SPEC 11)."""
