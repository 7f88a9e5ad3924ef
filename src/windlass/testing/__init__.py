"""Tools for tests of agents: scripted models, fake providers, virtual time, and sweeps.

```python
from windlass.testing import call, run_virtual, scripted

model = scripted(call("add", a=1, b=2), "3")
```
Each name is loaded when it is first used.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

from windlass.errors import nearest

if TYPE_CHECKING:
    from windlass.testing import store_kit as store_kit
    from windlass.testing.cancel import CancelReport as CancelReport
    from windlass.testing.cancel import Trial as Trial
    from windlass.testing.cancel import cancel_sweep as cancel_sweep
    from windlass.testing.converse import Conversation as Conversation
    from windlass.testing.converse import converse as converse
    from windlass.testing.kill import EffectLog as EffectLog
    from windlass.testing.kill import KillReport as KillReport
    from windlass.testing.kill import Scene as Scene
    from windlass.testing.kill import Seen as Seen
    from windlass.testing.kill import kill_sweep as kill_sweep
    from windlass.testing.providers import FAULTS as FAULTS
    from windlass.testing.providers import FakeAnthropic as FakeAnthropic
    from windlass.testing.providers import FakeAzure as FakeAzure
    from windlass.testing.providers import FakeBedrock as FakeBedrock
    from windlass.testing.providers import FakeGemini as FakeGemini
    from windlass.testing.providers import FakeMistral as FakeMistral
    from windlass.testing.providers import FakeOllama as FakeOllama
    from windlass.testing.providers import FakeOpenAI as FakeOpenAI
    from windlass.testing.providers import FakeResponses as FakeResponses
    from windlass.testing.providers import FakeServer as FakeServer
    from windlass.testing.providers import FakeVertex as FakeVertex
    from windlass.testing.providers import Hangup as Hangup
    from windlass.testing.providers import Reply as Reply
    from windlass.testing.providers import Silence as Silence
    from windlass.testing.providers import Status as Status
    from windlass.testing.providers import conversation as conversation
    from windlass.testing.script import ScriptedModel as ScriptedModel
    from windlass.testing.script import call as call
    from windlass.testing.script import no_model_requests as no_model_requests
    from windlass.testing.script import scripted as scripted
    from windlass.testing.tape import Cassette as Cassette
    from windlass.testing.tape import cassette as cassette
    from windlass.testing.virtual_time import Deadlock as Deadlock
    from windlass.testing.virtual_time import VirtualTimeLoop as VirtualTimeLoop
    from windlass.testing.virtual_time import run_virtual as run_virtual

_HOMES = {
    "CancelReport": "cancel",
    "Cassette": "tape",
    "Conversation": "converse",
    "Deadlock": "virtual_time",
    "EffectLog": "effects",
    "FAULTS": "providers",
    "FakeAnthropic": "providers",
    "FakeAzure": "providers",
    "FakeBedrock": "providers",
    "FakeGemini": "providers",
    "FakeMistral": "providers",
    "FakeOllama": "providers",
    "FakeOpenAI": "providers",
    "FakeResponses": "providers",
    "FakeServer": "providers",
    "FakeVertex": "providers",
    "Hangup": "providers",
    "KillReport": "kill",
    "Reply": "providers",
    "Scene": "kill",
    "ScriptedModel": "script",
    "Seen": "kill",
    "Silence": "providers",
    "Status": "providers",
    "Trial": "cancel",
    "VirtualTimeLoop": "virtual_time",
    "call": "script",
    "cancel_sweep": "cancel",
    "cassette": "tape",
    "conversation": "providers",
    "converse": "converse",
    "kill_sweep": "kill",
    "no_model_requests": "script",
    "run_virtual": "virtual_time",
    "scripted": "script",
    "store_kit": "store_kit",
}

#: `store_kit` is made of tests and needs pytest, so a star leaves it out.
__all__ = [name for name in _HOMES if name != "store_kit"]  # pyright: ignore[reportUnsupportedDunderAll]


def __getattr__(name: str) -> Any:
    home = _HOMES.get(name)
    if home is None:
        raise AttributeError(f"windlass.testing has no {name!r}{nearest(name, _HOMES)}")
    module = import_module(f"windlass.testing.{home}")
    value = module if name == home == "store_kit" else getattr(module, name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted(_HOMES)
