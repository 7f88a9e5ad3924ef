"""`with_circuit_breaker`: stop calling a model that keeps failing, and retry later."""

from __future__ import annotations

from collections.abc import Iterable

from windlass import seams
from windlass.callers.caller import Layer
from windlass.callers.common import who
from windlass.callers.options import categories, number, takes_a_dict, whole
from windlass.callers.scope import ScopedStates, scope_of
from windlass.errors import CircuitOpen, ModelError
from windlass.models.base import Emit, Holding, Model, Request, Response

#: Signs of a sick provider; one that asks for patience (429) is not.
SICK = frozenset({"overloaded", "server_error", "timeout", "network", "bad_reply"})


class Circuit:
    """The health of one model, shared by the runs of a scope."""

    __slots__ = ("failures", "opened_at", "probing")

    def __init__(self) -> None:
        self.failures = 0  # in a row
        self.opened_at: float | None = None
        self.probing = False


class Breaking(Holding):
    """A model behind a circuit breaker."""

    def __init__(self, model: Model, layer: Breaker) -> None:
        super().__init__(model)
        self.layer = layer

    async def respond(self, request: Request, emit: Emit) -> Response:
        """Return the answer, or raise `CircuitOpen` without a call."""
        layer = self.layer
        circuit = layer.circuits.get(scope_of(self.model))
        probe = self._admit_call(circuit)
        try:
            response = await self.model.respond(request, emit)
        except ModelError as error:
            if error.category in layer.on:
                circuit.failures += 1
                if probe or circuit.failures >= layer.failures:
                    circuit.opened_at = seams.monotonic()
            else:
                _close(circuit)  # it answered, if only to refuse
            raise
        else:
            _close(circuit)
            return response
        finally:
            if probe:
                circuit.probing = False

    def _admit_call(self, circuit: Circuit) -> bool:
        """Check whether this call probes a half-open circuit; raise if it may not be made."""
        if circuit.opened_at is None:
            return False
        left = circuit.opened_at + self.layer.reset_after - seams.monotonic()
        if left > 0 or circuit.probing:
            raise CircuitOpen(
                f"{who(self.model)} failed {circuit.failures} times in a row and is not asked",
                provider=self.provider,
                model=self.name,
                retry_after=max(left, 0.0) or None,
            )
        circuit.probing = True
        return True


def _close(circuit: Circuit) -> None:
    circuit.failures, circuit.opened_at = 0, None


def _is_closed(circuit: Circuit) -> bool:
    return circuit.opened_at is None and not circuit.failures and not circuit.probing


class Breaker(Layer):
    """The layer of `with_circuit_breaker`, with one circuit for each scope."""

    name = "with_circuit_breaker"

    def __init__(self, failures: int, reset_after: float, on: frozenset[str]) -> None:
        self.failures, self.reset_after, self.on = failures, reset_after, on
        self.circuits = ScopedStates(Circuit, _is_closed)

    def wrap(self, model: Model) -> Model:
        """Wrap the model in its circuit breaker."""
        return Breaking(model, self)


@takes_a_dict
def with_circuit_breaker(
    *, failure_threshold: int = 5, reset_after: float = 30.0, on: Iterable[str] | None = None
) -> Layer:
    """Stop calls for `reset_after` seconds after `failure_threshold` failures in a row.

    `with_circuit_breaker(failure_threshold=3, reset_after=60)`. While the circuit is open, every
    call raises `CircuitOpen` at once, and `with_fallback` goes to the next model. Then one call is
    let through: if it succeeds, the circuit closes; if it fails, the wait begins again. Overloads,
    server errors, timeouts, lost connections and bad replies count, or the categories in `on`. Runs
    of one process that use the same layer share it, with one circuit per tenant, address and key.
    """
    return Breaker(
        whole("failure_threshold", failure_threshold),
        number("reset_after", reset_after),
        SICK if on is None else categories("on", on),
    )
