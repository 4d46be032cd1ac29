"""Stand-ins with a seed instead of luck: for our tests, for yours, and for the demo's bad network."""
