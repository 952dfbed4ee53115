"""mixte.policy."""
