"""What an expression is: names, calls, classes and trees, followed through the project."""
