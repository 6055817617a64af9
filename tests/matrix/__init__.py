"""Every kind of schedule and dependent meets every feature: which test covers the pair, or why none does."""
