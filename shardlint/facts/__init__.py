"""Facts of a program that rules ask for, each made when it is first asked."""
