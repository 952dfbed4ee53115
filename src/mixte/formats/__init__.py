"""mixte.formats."""
