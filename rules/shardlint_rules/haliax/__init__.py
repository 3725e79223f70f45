"""Rules for Haliax, and Levanter, which is built on it."""
