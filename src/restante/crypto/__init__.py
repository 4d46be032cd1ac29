"""Keys, signatures and sealing on top of `cryptography`. Knows no files, no clock and no policy."""
