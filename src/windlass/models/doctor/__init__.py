"""The doctor: a few small calls that find out what a model behind a URL can do.

```python
report = await examine(lambda name=None, api_key=None: resolve("openai:gpt-4o"))
print(report.row, report.holds_a_loop)
```
"""

from windlass.models.doctor.model import Finding as Finding
from windlass.models.doctor.run import Report as Report
from windlass.models.doctor.run import examine as examine
