"""A fake Azure: OpenAI's Chat Completions under Azure's addresses, key and filters."""

from __future__ import annotations

import re

from windlass.models.wires.openai import chat_rules as rules
from windlass.models.wires.rules import Rejected
from windlass.testing.providers.frames import Data, Frame
from windlass.testing.providers.openai import FakeOpenAI
from windlass.testing.providers.reply import Asked, Reply

_DATED = re.compile(r"/openai/deployments/[^/]+/chat/completions")
_SAFE = {
    kind: {"filtered": False, "severity": "safe"} for kind in ("hate", "self_harm", "violence")
}


class FakeAzure(FakeOpenAI):
    """A fake of Azure OpenAI on a local port (`/openai/v1/…` or `/openai/deployments/…`).

    ```python
    async with FakeAzure("hello", api_key="k") as server:
        model = OpenAIChat("my-gpt", provider="azure", api_key="k", base_url=server.url)
    ```
    A stream begins with the result of the filters for the prompt, before any choice. A prompt with
    `blocked` words is refused by them.
    """

    base = ""

    def __init__(self, *args: object, blocked: str | None = None, **options: object) -> None:
        super().__init__(*args, **options)  # pyright: ignore[reportArgumentType]
        self.blocked = blocked

    def serves(self, asked: Asked) -> bool:
        return asked.path == "/openai/v1/chat/completions" or bool(_DATED.fullmatch(asked.path))

    def check(self, asked: Asked) -> None:
        if self.api_key is not None and asked.headers.get("api-key") != self.api_key:
            raise Rejected("Access denied due to invalid subscription key.", status=401, code="401")
        if "/deployments/" in asked.path and "api-version=" not in asked.query:
            raise Rejected("Resource not found", status=404, code="404")
        rules.check(asked.json, self.also)
        if self.blocked and self.blocked in asked.body.decode():
            raise Rejected(
                "The response was filtered due to the prompt triggering Azure OpenAI's content"
                " management policy.",
                param="prompt",
                code="content_filter",
            )

    def plain(self, asked: Asked, reply: Reply) -> Data:
        answer = super().plain(asked, reply)
        answer["choices"][0]["content_filter_results"] = _SAFE
        found = {"prompt_index": 0, "content_filter_results": _SAFE}
        return {**answer, "prompt_filter_results": [found]}

    def frames(self, asked: Asked, reply: Reply) -> list[Frame]:
        found = {"prompt_index": 0, "content_filter_results": _SAFE}
        first: Data = {"choices": [], "created": 0, "id": "", "model": "", "object": ""}
        frames = super().frames(asked, reply)
        for frame in frames:
            if isinstance(frame.data, dict):
                for choice in frame.data["choices"]:
                    choice["content_filter_results"] = {}
        return [Frame({**first, "prompt_filter_results": [found]}), *frames]
