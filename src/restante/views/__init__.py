"""What people look at: values in, text, tables and pages out. No I/O."""
