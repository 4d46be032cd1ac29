"""A node: today, one relay with an inbox store."""
