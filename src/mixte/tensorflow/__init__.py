"""mixte.tensorflow."""
