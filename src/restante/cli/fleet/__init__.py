"""Commands for the fleet: journals, Spark jobs and actions."""
