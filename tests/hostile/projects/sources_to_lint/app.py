"""It runs when it is imported."""

import os
import pathlib

import windlass as w

pathlib.Path(os.environ["WINDLASS_TEST_VICTIM"], "imported").write_text(__file__)
agent = w.Agent("anthropic:claude-sonnet-4-5", llm_retries=3)
