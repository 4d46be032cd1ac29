"""From Markdown to pieces, and from pieces to what each platform reads (SPEC 12.2)."""
