"""Circuits as pure machines: the client's end and a hop's end, which is an exit while no hop follows it (SPEC 11)."""
