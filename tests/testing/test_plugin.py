"""The pytest plugin, seen from a project that uses it."""

from __future__ import annotations

import subprocess
import sys

import pytest

pytest_plugins = "pytester"

ASYNC = ("-o", "asyncio_mode=auto", "-o", "asyncio_default_fixture_loop_scope=function")


@pytest.fixture
def project(pytester):
    def run(source: str, *options: str):
        pytester.makepyfile(source)
        return pytester.runpytest_inprocess("-p", "no:cacheprovider", *(options or ASYNC))

    return run


VIRTUAL = """
    import asyncio, pytest
    from windlass import seams

    @pytest.fixture
    async def started():
        loop = asyncio.get_running_loop()
        await asyncio.sleep(3600)
        yield loop

    @pytest.mark.virtual_time
    async def test_marked(started):
        before = seams.now()
        await asyncio.sleep(86_400)
        assert asyncio.get_running_loop() is started
        assert seams.now() - before == 86_400

    class TestSeeded:
        @pytest.mark.virtual_time(seed=3)
        async def test_one(self):
            type(self).first = seams.new_id("x")

        @pytest.mark.virtual_time(seed=3)
        async def test_two(self):
            assert seams.new_id("x") == self.first

    async def test_unmarked():
        assert type(asyncio.get_running_loop()).__name__ != "VirtualTimeLoop"
"""


def test_a_marked_test_and_its_fixtures_run_on_virtual_time(project):
    project(VIRTUAL).assert_outcomes(passed=4)


def test_a_marked_test_runs_without_pytest_asyncio(project):
    source = """
        import asyncio, pytest

        @pytest.mark.virtual_time
        async def test_marked(tmp_path):
            await asyncio.sleep(86_400)
            assert asyncio.get_running_loop().time() > 86_400

        def test_runtime(windlass_runtime):
            from windlass.engine.environment import current_environment
            assert current_environment() is windlass_runtime

        def test_no_runtime():
            from windlass.engine.environment import current_environment
            assert current_environment() is current_environment()
    """
    project(source, "-p", "no:asyncio").assert_outcomes(passed=3)


def test_a_mark_that_cannot_work_is_refused(project):
    source = """
        import pytest

        @pytest.mark.virtual_time
        def test_not_async():
            pass

        @pytest.mark.asyncio(loop_scope="module")
        @pytest.mark.virtual_time
        async def test_shared_loop():
            pass
    """
    result = project(source)
    result.assert_outcomes(failed=2)
    result.stdout.fnmatch_lines(["*virtual_loop may help*"])


def test_the_virtual_loop_fixture(project):
    source = """
        import asyncio

        def test_it(virtual_loop):
            before = virtual_loop.time()
            virtual_loop.run_until_complete(asyncio.sleep(60))
            assert virtual_loop.time() == before + 60
    """
    project(source).assert_outcomes(passed=1)


def test_the_mock_queue_is_fresh_in_every_test(project):
    source = """
        import pytest
        from windlass.models.mock import MockModel, llm_mock, llm_mock_calls
        from windlass.models.base import Request, silent
        from windlass.messages import Message

        @pytest.mark.parametrize("time", [1, 2])
        async def test_it(windlass_mock, time):
            assert llm_mock_calls() == []
            llm_mock(text="hello")
            windlass_mock.add(text="again")
            for words in ("hello", "again"):
                reply = await MockModel().respond(Request([Message("user", "hi")]), silent)
                assert reply.message.text == words
            assert len(windlass_mock.calls) == len(llm_mock_calls()) == 2
    """
    project(source).assert_outcomes(passed=2)


def test_the_runtime_is_fresh_and_current(project):
    source = """
        from windlass.engine.environment import current_environment
        from windlass.runtime.runtime import Runtime
        from windlass.models.mock import active_queue

        seen = []

        async def test_one(windlass_runtime):
            assert isinstance(windlass_runtime, Runtime)
            assert current_environment() is windlass_runtime
            assert active_queue() is windlass_runtime.mock
            seen.append(windlass_runtime)

        async def test_two(windlass_runtime):
            assert windlass_runtime is not seen[0]
    """
    project(source).assert_outcomes(passed=2)


GUARDED = """
    import pytest
    from windlass import seams
    from windlass.models.transport import base as transport

    async def test_guarded():
        assert transport.forbid is not None
        assert seams.strict

    @pytest.mark.allow_model_requests
    async def test_allowed():
        assert transport.forbid is None
"""


def test_guards_are_there_when_the_configuration_asks(project):
    asked = ("-o", "windlass_no_model_requests=true", "-o", "windlass_strict=true")
    project(GUARDED, *ASYNC, *asked).assert_outcomes(passed=2)


def test_guards_are_not_there_when_nobody_asks(project):
    project(GUARDED).assert_outcomes(passed=1, failed=1)


def test_loading_the_plugin_loads_nothing_of_windlass():
    program = (
        "import sys, pytest; import windlass.testing.plugin; "
        "print(*(m for m in sys.modules if m.startswith(('windlass', 'aiohttp', 'msgspec'))))"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True)
    loaded = set(done.stdout.split())
    assert loaded <= {
        "windlass",
        "windlass.errors",
        "windlass.json_types",
        "windlass.testing",
        "windlass.testing.plugin",
    }, loaded
