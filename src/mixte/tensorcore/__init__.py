"""mixte.tensorcore."""
