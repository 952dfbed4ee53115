"""Records, summaries and comparisons as a person reads them; plain text for the terminal."""

from mixte.report._summary import render_summary as render_summary
