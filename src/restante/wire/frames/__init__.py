"""Frames of a connection: codec, types, and bodies by family."""
