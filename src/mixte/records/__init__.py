"""mixte.records."""
