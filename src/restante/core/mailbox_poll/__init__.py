"""How a recipient reads its mail from the mesh: which buckets, from whom, and until when (SPEC 7.4, 7.5)."""
