"""What ended a program: which finding explains an exception, and what the arrays say of it."""
