"""The pytest plugin, loaded with pytest wherever Windlass is installed. Imports nothing until used.

Fixtures:

- `windlass_runtime`: a fresh Runtime, current for the test and closed after it.
- `windlass_mock`: a fresh queue of the mock provider. `windlass_mock.add(text="hi")` queues a reply,
  `windlass_mock.calls` is what was asked; `llm_mock` and its kin use the same queue.
- `virtual_loop`: a `VirtualTimeLoop` for a test that is not async.

Marks:

- `@pytest.mark.virtual_time` or `(seed=7)`: an async test, and its async fixtures, run on a
  `VirtualTimeLoop`. Works with pytest-asyncio, and without.
- `@pytest.mark.allow_model_requests`: this test may reach real models all the same.

Options of the configuration file:

- `windlass_no_model_requests = true`: no test may send a request to a real model.
- `windlass_strict = true`: a request that breaks the rule of one result for each call fails the test
  instead of being mended.
"""

from __future__ import annotations

import inspect
from collections.abc import AsyncGenerator, Generator
from contextlib import ExitStack
from typing import TYPE_CHECKING, Any, cast

import pytest

if TYPE_CHECKING:
    import asyncio

    from windlass.models.mock import MockQueue
    from windlass.runtime.runtime import Runtime
    from windlass.testing.virtual_time import VirtualTimeLoop

_ON_VIRTUAL_TIME = pytest.StashKey[bool]()


def pytest_addoption(parser: pytest.Parser) -> None:
    """Declare the settings of the plugin."""
    parser.addini("windlass_no_model_requests", "refuse requests to real models", "bool", False)
    parser.addini("windlass_strict", "fail on requests that would have to be mended", "bool", False)


def pytest_configure(config: pytest.Config) -> None:
    """Declare the markers of the plugin."""
    config.addinivalue_line(
        "markers", "virtual_time(seed=None): run this async test on a loop whose clock jumps"
    )
    config.addinivalue_line(
        "markers", "allow_model_requests: this test may send requests to real models"
    )
    asyncio_is_there = config.pluginmanager.hasplugin("asyncio")
    fixtures = _async_runtime() if asyncio_is_there else _PlainRuntime()
    config.pluginmanager.register(fixtures, "windlass-runtime")
    if config.getini("windlass_no_model_requests") or config.getini("windlass_strict"):
        config.pluginmanager.register(_Guards(), "windlass-guards")


# --------------------------------------------------------------------------- fixtures


@pytest.fixture
def windlass_mock() -> Generator[MockQueue]:
    """Provide a fresh queue of the mock provider."""
    from windlass.models.mock import MockQueue, current_queue

    queue = MockQueue()
    token = current_queue.set(queue)
    try:
        yield queue
    finally:
        current_queue.reset(token)


@pytest.fixture
def virtual_loop() -> Generator[VirtualTimeLoop]:
    """Provide a loop with a clock that jumps: `virtual_loop.run_until_complete(main())`."""
    with _open_runner() as runner:
        yield cast("VirtualTimeLoop", runner.get_loop())


def _open_runner(seed: int | None = None) -> asyncio.Runner:
    from windlass.testing.virtual_time import open_runner

    return open_runner(seed)


def _build_runtime() -> Runtime:
    from windlass.runtime.runtime import Runtime

    return Runtime(store="memory:")


def _async_runtime() -> object:
    import pytest_asyncio

    class AsyncRuntime:
        @pytest_asyncio.fixture
        async def windlass_runtime(self) -> AsyncGenerator[Runtime]:
            """Provide a fresh Runtime in memory, current for the test."""
            async with _build_runtime() as runtime:
                yield runtime

    return AsyncRuntime()


class _PlainRuntime:
    @pytest.fixture
    def windlass_runtime(self) -> Generator[Runtime]:
        """Provide a fresh Runtime in memory, current for the test."""
        import asyncio

        runtime = _build_runtime()
        # By hand: a loop would enter it in a context of its own, which the test does not share.
        with pytest.raises(StopIteration):
            runtime.__aenter__().send(None)
        yield runtime
        leaving = runtime.__aexit__(None, None, None)
        try:
            leaving.send(None)
        except StopIteration:
            return
        leaving.close()
        asyncio.run(runtime.aclose())


class _Guards:
    """Hooks that are installed only where the configuration asks for them."""

    @pytest.fixture(autouse=True)
    def _windlass_guards(self, request: pytest.FixtureRequest) -> Generator[None]:
        from windlass import seams
        from windlass.testing import no_model_requests

        allowed = request.node.get_closest_marker("allow_model_requests") is not None
        with ExitStack() as guards:
            if request.config.getini("windlass_no_model_requests") and not allowed:
                guards.enter_context(no_model_requests())
            if request.config.getini("windlass_strict"):
                guards.callback(setattr, seams, "strict", seams.strict)
                seams.strict = True
            yield


# --------------------------------------------------------------------------- virtual time


@pytest.hookimpl(tryfirst=True)
def pytest_fixture_setup(
    fixturedef: pytest.FixtureDef[Any], request: pytest.FixtureRequest
) -> object | None:
    """Give a marked test the loop of virtual time, in the fixture of pytest-asyncio."""
    if fixturedef.argname != "_function_scoped_runner":
        return None
    mark = request.node.get_closest_marker("virtual_time")
    if mark is None:
        return None
    runner = _open_runner(_seed(mark))
    fixturedef.addfinalizer(runner.close)
    fixturedef.cached_result = (runner, fixturedef.cache_key(cast("Any", request)), None)
    request.node.stash[_ON_VIRTUAL_TIME] = True
    return runner


@pytest.hookimpl(tryfirst=True)
def pytest_pyfunc_call(pyfuncitem: pytest.Function) -> bool | None:
    """Run a marked test without pytest-asyncio; refuse one that would run in real time."""
    mark = pyfuncitem.get_closest_marker("virtual_time")
    if mark is None or _ON_VIRTUAL_TIME in pyfuncitem.stash:
        return None
    if not inspect.iscoroutinefunction(pyfuncitem.obj):
        pytest.fail(
            "virtual_time marks an async test with a loop of its own; this one is not async, or "
            "shares its loop (loop_scope) with others. The fixture virtual_loop may help",
            pytrace=False,
        )
    from windlass.testing.virtual_time import run_virtual

    names = inspect.signature(pyfuncitem.obj).parameters
    arguments = {name: pyfuncitem.funcargs[name] for name in names if name in pyfuncitem.funcargs}
    run_virtual(pyfuncitem.obj(**arguments), _seed(mark))
    return True


def _seed(mark: pytest.Mark) -> int | None:
    return mark.kwargs.get("seed", mark.args[0] if mark.args else None)
