"""The rules of delivery at work on a whole fleet: journals in, message table, books and latencies out, on Spark."""
