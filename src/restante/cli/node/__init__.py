"""Commands for node operators."""
