"""A start-up file."""

import os
import pathlib

pathlib.Path(os.environ["WINDLASS_TEST_VICTIM"], "imported").write_text(__file__)
