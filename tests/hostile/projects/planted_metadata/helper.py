"""It is named by an entry point."""

import os
import pathlib

pathlib.Path(os.environ["WINDLASS_TEST_VICTIM"], "imported").write_text(__file__)

providers = {}
