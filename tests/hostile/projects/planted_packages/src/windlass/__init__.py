"""It stands in for the package."""

import os
import pathlib

pathlib.Path(os.environ["WINDLASS_TEST_VICTIM"], "imported").write_text(__file__)
