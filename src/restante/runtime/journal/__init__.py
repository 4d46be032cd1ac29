"""Getting the journal off this machine."""
