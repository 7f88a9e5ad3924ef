"""A fake Gemini, and a fake Vertex: generateContent, plain and streamed, as Google frames it."""

from __future__ import annotations

import hashlib
import re
from typing import ClassVar

from windlass.json_types import JsonObject
from windlass.testing.providers import gemini_rules
from windlass.testing.providers.frames import Data, Frame
from windlass.testing.providers.gemini_twists import REFRAMES, REWRITES
from windlass.testing.providers.reply import (
    Asked,
    Reply,
    cut,
    signature,
    usage_of,
)
from windlass.testing.providers.server import FakeServer, Rejected
from windlass.usage import Usage

FINISH = {"max_tokens": "MAX_TOKENS", "refusal": "SAFETY"}
ERRORS = {
    400: ("INVALID_ARGUMENT", "Request contains an invalid argument."),
    401: ("UNAUTHENTICATED", "Request had invalid authentication credentials."),
    403: ("PERMISSION_DENIED", "The caller does not have permission"),
    404: ("NOT_FOUND", "Requested entity was not found."),
    429: ("RESOURCE_EXHAUSTED", "Resource has been exhausted (e.g. check quota)."),
    500: ("INTERNAL", "An internal error has occurred."),
    503: ("UNAVAILABLE", "The service is currently unavailable."),
    504: ("DEADLINE_EXCEEDED", "Deadline expired before operation could complete."),
    529: ("UNAVAILABLE", "The model is overloaded. Please try again later."),
}
METHODS = "generateContent|streamGenerateContent|countTokens"
VERSIONS = ("v1", "v1alpha", "v1beta", "v1beta1")
CODES = {
    "context_length_exceeded": "The input token count (1200000) exceeds the maximum number of"
    " tokens allowed (1048576).",
}


class FakeGemini(FakeServer):
    """A fake of the Gemini API on a local port (`POST /v1beta/models/NAME:generateContent`).

    ```python
    async with FakeGemini(conversation(Reply(tool_calls=[("add", {"a": 1})]), "1")) as server:
        model = GeminiGenerate("gemini-3-flash-preview", api_key="k", base_url=server.url)
    ```
    From Gemini 3 on, the first call of a turn is signed, or its last text. A turn that is sent back
    without the signature of its calls is refused.
    """

    wire = "gemini"
    path = "/v1beta/models/"
    base = ""
    ping = b": keep-alive\n\n"
    rewrites = REWRITES
    reframes = REFRAMES
    ids: ClassVar[bool] = True  # whether calls have ids, and results may

    def serves(self, asked: Asked) -> bool:
        _, version, rest = asked.path.split("/", 2) if asked.path.count("/") > 1 else ("", "", "")
        below = re.escape(self.path.split("/", 2)[2]) + rf"[\w.@-]+:(?:{METHODS})"
        return version in VERSIONS and re.fullmatch(below, rest) is not None

    def streams(self, asked: Asked) -> bool:
        return asked.path.endswith(":streamGenerateContent")

    def check(self, asked: Asked) -> None:
        body = gemini_rules.normalize(asked.json)
        if _counting(asked):
            body = self.counts(body)
        gemini_rules.check(body, self.given_key(asked), self.api_key, ids=self.ids)
        if self.streams(asked) and "alt=sse" not in asked.query.split("&"):
            raise Rejected("this server streams events only: ask with alt=sse")

    def counts(self, body: Data) -> Data:
        """Return the request with tokens to be counted."""
        gemini_rules.only(body, frozenset({"generateContentRequest", "contents"}), "")
        held: Data = body.get("generateContentRequest") or body
        name = held.get("model", "models/m")
        if not isinstance(name, str) or not name.startswith("models/"):
            raise Rejected("* CountTokensRequest.model: unexpected model name format")
        return {key: value for key, value in held.items() if key != "model"}

    def given_key(self, asked: Asked) -> str:
        """Return the key that came with the request."""
        return asked.headers.get("x-goog-api-key", "")

    def plain(self, asked: Asked, reply: Reply) -> Data:
        if _counting(asked):
            return {"totalTokens": usage_of(asked, reply).input_tokens}
        parts: list[Data] = []
        if reply.thinking:
            parts.append({"text": reply.thinking, "thought": True})
        if reply.text:
            parts.append({"text": reply.text})
        calls = self._calls(asked, reply)
        if reply.text and not calls:
            parts[-1]["thoughtSignature"] = signature(reply.text)
        candidate: Data = {"content": {"parts": [*parts, *calls], "role": "model"}}
        candidate.update(finishReason=FINISH.get(reply.stop, "STOP"), index=0)
        usage = _usage(usage_of(asked, reply))
        return {"candidates": [candidate], "usageMetadata": usage, **_about(asked)}

    def frames(self, asked: Asked, reply: Reply) -> list[Frame]:
        parts: list[Data] = [{"text": piece, "thought": True} for piece in cut(reply.thinking)]
        parts += [{"text": piece} for piece in cut(reply.text)]
        calls = self._calls(asked, reply)
        last: Data = {"text": ""}
        if reply.text and not calls:
            last["thoughtSignature"] = signature(reply.text)
        parts += [*calls, last]
        usage = _usage(usage_of(asked, reply))
        chunks: list[Data] = []
        for number, part in enumerate(parts):
            candidate: Data = {"content": {"parts": [part], "role": "model"}, "index": 0}
            if part is last:
                candidate["finishReason"] = FINISH.get(reply.stop, "STOP")
            so_far = usage["candidatesTokenCount"] * (number + 1) // len(parts)
            counted = {**usage, "candidatesTokenCount": so_far}
            chunks.append({"candidates": [candidate], "usageMetadata": counted, **_about(asked)})
        return [Frame(chunk) for chunk in chunks]

    def error(self, problem: Rejected) -> Data:
        status, text = ERRORS.get(problem.status, ERRORS[500])
        message = problem.message or CODES.get(problem.code or "", text)
        error: Data = {"code": problem.status, "message": message, "status": status}
        if problem.code == "API_KEY_INVALID":
            kind = "type.googleapis.com/google.rpc.ErrorInfo"
            error["details"] = [{"@type": kind, "reason": problem.code, "domain": "googleapis.com"}]
        return {"error": error}

    def headers(self, asked: Asked) -> dict[str, str]:
        return {"server-timing": "gfet4t7; dur=7", "vary": "Origin, X-Origin, Referer"}

    def _calls(self, asked: Asked, reply: Reply) -> list[Data]:
        calls: list[Data] = []
        for number, (name, arguments) in enumerate(reply.tool_calls):
            call: JsonObject = {"name": name, "args": arguments}
            if self.ids:
                seed = f"{asked.seed}:{number}"
                call["id"] = hashlib.sha256(seed.encode()).hexdigest()[:8]
            part: Data = {"functionCall": call}
            if number == 0:
                part["thoughtSignature"] = gemini_rules.call_signature(name)
            calls.append(part)
        return calls


class FakeVertex(FakeGemini):
    """A fake of Vertex AI on a local port: a project's address, a bearer token, no call ids.

    ```python
    async with FakeVertex("hello", api_key="token") as server:
        model = VertexGenerate("gemini-2.5-pro", token="token", base_url=server.url)
    ```
    """

    wire = "vertex"
    base = "/v1beta1/projects/fake/locations/global"
    path = f"{base}/publishers/google/models/"
    ids = False

    def counts(self, body: Data) -> Data:
        known = frozenset("model contents systemInstruction tools generationConfig".split())
        gemini_rules.only(body, known, "")
        return {key: value for key, value in body.items() if key != "model"}

    def given_key(self, asked: Asked) -> str:
        return asked.headers.get("authorization", "").removeprefix("Bearer ")


def _counting(asked: Asked) -> bool:
    return asked.path.endswith(":countTokens")


def _about(asked: Asked) -> Data:
    model = asked.path.rpartition("/")[2].partition(":")[0]
    return {"modelVersion": model, "responseId": asked.seed[:22]}


def _usage(usage: Usage) -> JsonObject:
    return {
        "promptTokenCount": usage.input_tokens,
        "candidatesTokenCount": usage.output_tokens - usage.reasoning_tokens,
        "totalTokenCount": usage.total_tokens,
        "cachedContentTokenCount": usage.cache_read_tokens,
        "promptTokensDetails": [{"modality": "TEXT", "tokenCount": usage.input_tokens}],
        "thoughtsTokenCount": usage.reasoning_tokens,
    }
