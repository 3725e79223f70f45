"""Rules about einshard."""
