"""mixte.profiles."""
