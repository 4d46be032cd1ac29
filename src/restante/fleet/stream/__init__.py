"""The stream's own files: what it knows of a bucket of writers, and the step from one commit to the next. No Spark."""
