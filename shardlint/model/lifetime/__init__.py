"""What becomes of arrays over time: donation, reads, updates and dropped results."""
