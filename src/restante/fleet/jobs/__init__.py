"""What runs on a Spark master: transforms put together, with input, output and errors."""
