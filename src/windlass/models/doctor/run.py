"""Every probe in order, and their summary: a table, a row, and contradictions to it."""

from __future__ import annotations

import re
from collections.abc import Awaitable, Callable, Sequence
from typing import Any, TypeAlias

import msgspec

from windlass import seams
from windlass.errors import ConfigError, ModelError, error_text, nearest
from windlass.json_types import JsonObject
from windlass.models.base import Model
from windlass.models.doctor import answers, edges
from windlass.models.doctor import tools as calls
from windlass.models.doctor.model import (
    Enough,
    Finding,
    Make,
    ProbedModel,
)
from windlass.models.registry.capabilities import ABILITIES, Capabilities
from windlass.models.wires.base import HttpModel
from windlass.usage import Usage

Probe: TypeAlias = Callable[[ProbedModel], Awaitable[Finding]]

#: In the order of asking; what comes first is what the rest stands on.
PROBES: dict[str, Probe] = {
    "reach": answers.reach,
    "plain": answers.plain,
    "stream": answers.stream,
    "stream_usage": answers.stream_usage,
    "system": answers.system,
    "tools": calls.tools,
    "loop": calls.loop,
    "parallel": calls.parallel,
    "streamed_arguments": calls.streamed_arguments,
    "choice_required": calls.choice_required,
    "choice_named": calls.choice_named,
    "finish_reason": edges.finish_reason,
    "json": answers.json_mode,
    "schema": answers.schema,
    "thinking": answers.thinking,
    "thinking_off": answers.thinking_off,
    "effort": answers.effort,
    "image": edges.image,
    "count_tokens": edges.count_tokens,
    "completion": edges.completion,
    "bad_model": edges.bad_model,
    "bad_key": edges.bad_key,
}
# without these there is no loop of a model and its tools
NEEDED = ("reach", "tools", "loop")
A_MILLION = Usage(1_000_000, 1_000_000)


class Report(msgspec.Struct, frozen=True):
    """The report of the doctor."""

    provider: str
    model: str
    findings: list[Finding]
    row: JsonObject  # fields for [[capabilities.provider.X]]
    contradictions: list[str]
    calls: int
    tokens: int
    cost_usd: float
    priced: bool
    seconds: float
    first_s: float | None  # to the first piece of a streamed reply

    @property
    def holds_a_loop(self) -> bool:
        """Whether the model can call a tool and continue from its result."""
        status = {finding.name: finding.status for finding in self.findings}
        answers = status.get("plain") == "pass" or status.get("stream") == "pass"
        return answers and all(status.get(name) == "pass" for name in NEEDED)


async def examine(
    make: Make,
    *,
    timeout: float = 300.0,
    max_usd: float = 0.25,
    only: Sequence[str] | None = None,
    tell: Callable[[Finding], None] = lambda finding: None,
) -> Report:
    """Examine a model: `make(name=None, api_key=None)` builds it, `tell` gets each finding.

    `timeout` bounds the whole examination in seconds, `max_usd` what it may cost; what no longer fits
    is skipped. `only` names probes; those they stand on are asked too.
    """
    for name in only or ():
        if name not in PROBES:
            raise ConfigError(f"there is no probe {name!r}{nearest(name, PROBES)}")
    patient = ProbedModel(make, timeout=timeout, max_usd=max_usd)
    patient.model.check()
    started = seams.monotonic()
    findings: list[Finding] = []
    reason: str | None = None
    for name, probe in PROBES.items():
        if only is not None and name not in only and name != "reach":
            continue
        finding = (
            Finding(name, "skipped", reason) if reason else await _run_probe(name, probe, patient)
        )
        findings.append(finding)
        tell(finding)
        if name == "reach" and finding.status != "pass":
            reason = "it was not reached"
        elif finding.status == "skipped" and reason is None:
            reason = finding.detail
    row = _row(findings, patient.caps)
    model = patient.model
    return Report(
        model.provider,
        model.name,
        findings,
        row,
        contradictions(row, patient.caps),
        patient.calls,
        patient.tokens,
        patient.spent,
        _has_price(model),
        seams.monotonic() - started,
        patient.memory.get("first_s"),
    )


def _has_price(model: Model) -> bool:
    """Check whether the cost of a call is known; self-hosted models cost nothing."""
    own = isinstance(model, HttpModel) and not model.endpoint.key_env
    return own or bool(model.price(A_MILLION))


async def _run_probe(name: str, probe: Probe, patient: ProbedModel) -> Finding:
    started = seams.monotonic()
    try:
        found = await probe(patient)
    except Enough as enough:
        found = Finding(name, "skipped", str(enough))
    except ModelError as error:
        found = _finding_of_error(name, error)
    except ConfigError as error:  # the wire itself refuses this request
        found = Finding(name, "unsupported", error_text(error, 200))
    took = seams.monotonic() - started
    return msgspec.structs.replace(found, name=name, seconds=took)


def _finding_of_error(name: str, error: ModelError) -> Finding:
    """Build the finding of an error: a refusal means unsupported, all else is a failure."""
    text = " ".join(error_text(error, 200).split())
    # some servers call it their own failure that they cannot do a thing
    polite = error.category == "server_error" and re.search(r"not support|unsupported", text, re.I)
    if error.category in ("bad_request", "refused") or polite:
        return Finding(name, "unsupported", text, facts=_LACKS.get(name, {}))
    return Finding(name, "fail", f"{error.category}: {text}")


_LACKS: dict[str, JsonObject] = {
    "tools": {"native_tools": False},
    "thinking": {"thinking": False},
    "count_tokens": {"counts_tokens": False},
    "completion": {"completes": ""},
    "image": {"images": False},
    "choice_required": {"forces_calls": False},
}


def _row(findings: Sequence[Finding], known: Capabilities) -> JsonObject:
    facts: JsonObject = {}
    structured: list[str] = []
    for finding in findings:
        facts |= {key: value for key, value in finding.facts.items() if key != "structured"}
        structured += finding.facts.get("structured", ())
    tried = {finding.name for finding in findings if finding.status in ("pass", "unsupported")}
    if {"json", "schema"} <= tried:
        order = ("schema", "json", "tool", "prompt")
        facts["structured"] = sorted({*structured, "prompt"}, key=order.index)
    if not facts.keys().isdisjoint(ABILITIES):
        # the first rule that sets any of these sets all: what it leaves out would be lost
        for key in ABILITIES:
            value: Any = getattr(known, key)
            if value != getattr(_NOTHING, key):
                facts.setdefault(key, _to_list(value))
    return {key: facts[key] for key in Capabilities.__struct_fields__ if key in facts}


def _to_list(value: Any) -> Any:
    return [*value] if isinstance(value, tuple) else value  # pyright: ignore[reportUnknownVariableType]


_NOTHING = Capabilities()


def contradictions(row: JsonObject, known: Capabilities) -> list[str]:
    """List where the findings differ from the capability row that applies now."""
    if not known.known:
        return []
    found: list[str] = []
    for key, value in row.items():
        current = getattr(known, key)
        same = list(current) == value if isinstance(value, list) else current == value
        if not same and key not in _MATTERS_LITTLE:
            found.append(
                f"{key}: the row says {_to_json(current)}, the doctor found {_to_json(value)}"
            )
    return found


# what a row may leave out without being wrong
_MATTERS_LITTLE = frozenset({"structured", "thinking_modes", "efforts", "lowering"})


def _to_json(value: Any) -> str:
    return msgspec.json.encode(value).decode()
