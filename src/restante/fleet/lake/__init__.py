"""The lake: its layout, its segments and its tables on any file system."""
