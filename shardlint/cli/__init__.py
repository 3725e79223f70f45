"""The commands: options in, one call, a report out."""
