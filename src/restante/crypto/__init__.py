"""Keys, signatures and sealing, on top of `cryptography`. No files, no clock, no policy."""
