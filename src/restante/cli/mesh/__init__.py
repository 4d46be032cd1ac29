"""`restante mesh` and `restante requests`: the mesh from a client's side."""
