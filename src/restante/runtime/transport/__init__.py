"""Links over real sockets."""
