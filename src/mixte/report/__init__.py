"""Records, summaries and comparisons as a person reads them; plain text for the terminal."""

from mixte.report._comparison import render_comparison as render_comparison
from mixte.report._summary import render_summary as render_summary
from mixte.report._text import printable as printable
