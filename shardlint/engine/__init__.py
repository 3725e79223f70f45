"""Files to findings: screening, dispatch, workers and the cache."""
