"""How nodes keep copies: whom they watch, what they exchange, and what they take (SPEC 7.9, 7.10)."""
