"""For pytest: with this plugin, the variable WINDLASS_MUTATE names the mutant that the tests meet.

    WINDLASS_MUTATE=done_judge pytest -p mutation.plugin tests/stories

Nothing in Windlass itself reads the variable.
"""

from __future__ import annotations

import os

from mutation.hook import install

if mutant := os.environ.get("WINDLASS_MUTATE"):
    install(mutant)
