"""Stands in for gcsfs, of which the programs that are run use nothing."""
