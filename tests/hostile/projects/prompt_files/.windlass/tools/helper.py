"""It lies beside the store."""

import os
import pathlib

pathlib.Path(os.environ["WINDLASS_TEST_VICTIM"], "imported").write_text(__file__)
