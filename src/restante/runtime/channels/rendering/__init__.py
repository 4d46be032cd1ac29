"""Turn Markdown into text runs, and text runs into each platform's format (SPEC 12.2)."""
