"""Stands in for tensorflow, of which the programs that are run use nothing."""
