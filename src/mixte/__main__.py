"""``python -m mixte``: the same as the command ``mixte``."""

import sys

from mixte.cli import main

sys.exit(main())
