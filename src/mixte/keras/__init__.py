"""mixte.keras."""
