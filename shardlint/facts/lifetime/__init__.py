"""Lifetimes of arrays: donation, reads, updates and dropped results."""
