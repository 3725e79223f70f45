"""One module per output format. Each turns a report into text."""
