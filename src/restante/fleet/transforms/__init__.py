"""One table each: pure functions from DataFrame to DataFrame whose last `select` is the table's contract."""
