"""Explanation of an exception that ended a program: the finding behind it, and the arrays involved."""
