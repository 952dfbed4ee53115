"""mixte.report."""
