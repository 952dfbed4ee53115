"""mixte.devices."""
