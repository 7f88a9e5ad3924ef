"""The doctor: a few tiny calls that find out what a model behind an address can really do.

```python
report = await examine(lambda name=None, api_key=None: resolve("openai:gpt-4o"))
print(report.row, report.holds_a_loop)
```
"""

from windlass.models.probes.examine import Report as Report
from windlass.models.probes.examine import examine as examine
from windlass.models.probes.patient import Finding as Finding
