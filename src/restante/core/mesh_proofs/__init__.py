"""Make and verify what nodes and recipients sign in the mesh."""
