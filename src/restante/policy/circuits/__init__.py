"""Rules of onion circuits: which hops, for how long, how many, how fast (SPEC 11)."""
