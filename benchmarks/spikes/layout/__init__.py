"""Layouts of the run history compared: plain, partitioned by keep_until, live partition + daily buckets."""
