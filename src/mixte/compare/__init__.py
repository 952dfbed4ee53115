"""mixte.compare."""
