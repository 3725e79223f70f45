"""Abstract interpreter that derives the layouts of arrays from the source, and its values."""
