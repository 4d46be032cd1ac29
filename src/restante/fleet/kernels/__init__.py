"""Rules of the core for whole partitions at once: Arrow tables in, Arrow tables out. Nothing here knows Spark."""
