"""Rules that depend on numbers alone. No clock, no dice, no I/O: time and randomness are arguments."""
