"""The language server: what `check`, `fix` and `explain` say, in an editor and as one types.

One thread (`worker`) does all that asks the program; the loop of pygls (`app`) takes messages and gives answers.
"""
