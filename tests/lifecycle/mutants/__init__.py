"""Every guard, lock and predicate of the driver, broken once: a test has to notice."""
