"""Turn values into text, tables and HTML for people. No I/O."""
