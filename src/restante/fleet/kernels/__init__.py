"""Rules of the core for whole partitions: Arrow tables in, Arrow tables out, without Spark."""
