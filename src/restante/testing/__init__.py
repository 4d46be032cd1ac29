"""Deterministic doubles: for our tests, for yours, and for the demo's bad network."""
