"""mixte.scaling."""
