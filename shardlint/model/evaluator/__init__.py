"""Evaluator of expressions: names, calls, classes and trees, followed through the project."""
