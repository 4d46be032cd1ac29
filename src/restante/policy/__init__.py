"""Every rule that can be decided from numbers alone. No clock, no dice, no I/O: time and chance are arguments."""
