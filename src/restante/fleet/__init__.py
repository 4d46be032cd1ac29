"""The Spark pipeline: journals in; events, arrivals, messages, conservation and the other tables out."""
