"""Rules of the mesh: which nodes store a key, in which time bucket, and when copies are repaired (SPEC 7)."""
