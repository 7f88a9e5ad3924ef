"""Hostile commands: nothing outside is read, changed, reached or outlived, at each level."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tests.toolbox import hostile_commands, hostile_paths
from windlass.toolbox.bash import wait_until
from windlass.toolbox.options import Level, Sandbox
from windlass.toolbox.output import CappedOutput
from windlass.toolbox.sandbox import launcher
from windlass.toolbox.sandbox.levels import find_problem
from windlass.toolbox.sandbox.paths import Workspace
from windlass.toolbox.sandbox.session import SandboxSession, SandboxSettings

EVERYTHING = os.environ.get("WINDLASS_PROVE_SANDBOX") == "1"
SMALL = 1 << 20


def need(level: Level) -> None:
    """Skip where a level cannot be had."""
    problem = find_problem(level)
    if problem is not None:
        pytest.skip(f"sandbox={level!r}: {problem}")


async def run_all(
    place: Path, level: Level, *, everything: bool
) -> tuple[int, list[tuple[str, str]]]:
    """Run the hostile commands; return how many, and the names of those that escaped."""
    workspace = hostile_paths.build_tree(place)
    sandbox = Sandbox(level=level, memory=1 << 31, file_size=50_000_000, processes=300)
    escaped: list[tuple[str, str]] = []
    with hostile_commands.hold_host(place, workspace) as host:
        session = SandboxSession(SandboxSettings(Workspace(workspace), sandbox))
        try:
            await (await session.start("true", lambda _: None)).wait()
            assert launcher._shared is not None
            attempts = hostile_commands.generate_commands(
                host, launcher._shared.pid, everything=everything
            )
            for attempt in attempts:
                before = hostile_paths.snapshot(place)
                output = CappedOutput()
                command = await session.start(
                    f"export LEVEL={level}; {attempt.command}", output.hear
                )
                ended = await wait_until(command, 60)
                session.forget(command)
                how = hostile_commands.find_escape(host, before, output.text)
                if ended is None:
                    how = "it did not end"
                if left := hostile_commands.left_processes():
                    how = f"it left {left}"
                if how is not None:
                    escaped.append((attempt.name, f"{how}: {output.text[-300:]}"))
                    host.contacts.clear()
        finally:
            await session.close()
    return len(attempts), escaped


@pytest.mark.parametrize("level", ["workspace", "isolated"])
async def test_hostile_commands_do_not_leave_the_workspace(tmp_path: Path, level: Level):
    need(level)
    count, escaped = await run_all(tmp_path, level, everything=EVERYTHING)
    assert not escaped
    assert count >= (200 if EVERYTHING else 25)


async def _run(
    workspace: Path,
    command: str,
    change: Callable[[dict[str, Any]], None] | None = None,
    *,
    namespaces: bool = True,
    **options: Any,
) -> str:
    """Run one command; `change` may take a rule out of the request before it is sent."""
    session = SandboxSession(SandboxSettings(Workspace(workspace), Sandbox(**options)))
    build = session._build_request

    def build_changed(*given: Any) -> dict[str, Any]:
        request = build(*given)
        if change is not None:
            change(request)
        return request

    session._build_request = build_changed  # type: ignore[method-assign]
    if not namespaces:
        start = launcher.Warden.send

        def send(self: Any, handles: Any, *, namespaces: bool) -> None:
            start(self, handles, namespaces=False)

        launcher.Warden.send = send  # type: ignore[method-assign]
    output = CappedOutput()
    try:
        command_ = await session.start(command, output.hear)
        ended = await wait_until(command_, 60)
        assert ended is not None
        return f"{output.text}\n{ended}"
    finally:
        if not namespaces:
            launcher.Warden.send = start  # type: ignore[method-assign]
        await session.close()


def _without(*keys: str) -> Callable[[dict[str, Any]], None]:
    def remove(request: dict[str, Any]) -> None:
        for key in keys:
            del request[key]

    return remove


def _keep_environment(request: dict[str, Any]) -> None:
    request["env"] = dict(os.environ)


def _without_limits(request: dict[str, Any]) -> None:
    request["limits"] = {}


RULES: list[tuple[str, str, Callable[[dict[str, Any]], None]]] = [
    ("files are read by Landlock's leave only", "cat {out}/secret.txt", _without("landlock")),
    ("files are written by its leave only", "echo x > {out}/new && echo SECRET-OF-THE-HOST",
     _without("landlock")),
    ("no TCP", "echo hello > /dev/tcp/127.0.0.1/{tcp} && echo SECRET-OF-THE-HOST", _without("landlock", "seccomp")),
    ("no UDP", "echo hello > /dev/udp/127.0.0.1/{udp} && echo SECRET-OF-THE-HOST",
     _without("seccomp")),
    ("no sockets of other programs",
     "{py} -I -c 'import socket; socket.socket(1).connect(\"{unix}\")' && echo SECRET-OF-THE-HOST",
     _without("seccomp")),
    ("keys are not in the environment", "echo $WINDLASS_TEST_API_KEY", _keep_environment),
    ("a file has a largest size",
     "head -c 2000000 /dev/zero > big; [ $(stat -c %s big) = 2000000 ] && echo SECRET-OF-THE-HOST",
     _without_limits),
    ("a process has a largest memory",
     "{py} -I -c 'bytearray(900_000_000)' && echo SECRET-OF-THE-HOST", _without_limits),
]  # fmt: skip


@pytest.mark.parametrize("rule, act, without", RULES, ids=[one[0] for one in RULES])
async def test_sandbox_rule_holds_and_the_act_succeeds_without_it(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    rule: str,
    act: str,
    without: Callable[[dict[str, Any]], None],
):
    need("workspace")
    monkeypatch.setenv("WINDLASS_TEST_API_KEY", hostile_paths.SECRET.decode())
    workspace = hostile_paths.build_tree(tmp_path)
    options = {"memory": 600_000_000, "file_size": SMALL}
    with hostile_commands.hold_host(tmp_path, workspace) as host:
        command = act.format(
            out=tmp_path / "outside",
            tcp=host.tcp,
            udp=host.udp,
            unix=host.unix,
            py=sys.executable,
        )
        held = await _run(workspace, command, **options)
        assert hostile_commands.SECRET_TEXT not in held, held
        free = await _run(workspace, command, without, **options)
        assert hostile_commands.SECRET_TEXT in free, free


@pytest.mark.skipif(os.geteuid() != 0, reason="only root has capabilities to drop")
async def test_sandbox_of_root_has_no_capabilities(tmp_path: Path):
    need("workspace")
    act = "chown 12345 a.txt && echo SUCCEEDED; grep CapEff /proc/self/status"
    workspace = hostile_paths.build_tree(tmp_path)
    held = await _run(workspace, act)
    assert "SUCCEEDED" not in held and "CapEff:\t0000000000000000" in held
    assert "SUCCEEDED" in await _run(workspace, act, _without("drop"))


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can become another user")
async def test_sandbox_of_root_runs_as_the_owner_of_the_workspace(open_folder: Path):
    need("workspace")
    workspace = open_folder / "owned"
    workspace.mkdir()
    os.chown(workspace, 12345, 12346)
    said = await _run(
        workspace,
        "id -u; id -g; id -G; echo x > made && stat -c %u made; echo y > $HOME/z && cat $HOME/z",
    )
    assert said.startswith("12345\n12346\n12346\n12345\ny\n"), said
    assert "Permission denied" in await _run(workspace, "cat /etc/shadow; chmod 777 /etc/shadow")


async def test_sandbox_namespaces_hide_other_processes(tmp_path: Path):
    need("workspace")
    workspace = hostile_paths.build_tree(tmp_path)
    act = f"[ -e /proc/{os.getpid()}/status ] && grep -q ython /proc/{os.getpid()}/status && echo SEEN"
    warden = launcher.acquire_warden()
    kind = warden.hello.namespaces
    launcher.release_warden(warden)
    if kind == "none":
        pytest.skip(f"no process namespaces here: {warden.hello.why}")
    assert "SEEN" not in await _run(workspace, act)
    assert "SEEN" in await _run(workspace, act, namespaces=False)


async def test_sandbox_that_cannot_be_set_up_executes_nothing(tmp_path: Path):
    need("workspace")
    workspace = hostile_paths.build_tree(tmp_path)

    def spoil(request: dict[str, Any]) -> None:
        request["landlock"] = 0  # the output, which is no ruleset

    said = await _run(workspace, "touch ran", spoil)
    assert "landlock_" in said and not (workspace / "ran").exists()
    assert "code=0" in await _run(workspace, "touch ran") and (workspace / "ran").exists()


@pytest.mark.parametrize("namespaces", [True, False])
async def test_sandbox_kills_whole_trees(tmp_path: Path, namespaces: bool):
    need("workspace")
    workspace = hostile_paths.build_tree(tmp_path)
    for act in hostile_commands._OUTLIVE[:8]:
        text = act.format(mark=hostile_commands.MARK, py=f"{sys.executable} -I -S")
        await _run(workspace, text, namespaces=namespaces)
        assert hostile_commands.left_processes() == []


async def test_sandbox_commands_leave_no_descriptor(tmp_path: Path):
    need("workspace")
    workspace = hostile_paths.build_tree(tmp_path)
    count = 1000 if EVERYTHING else 50
    session = SandboxSession(SandboxSettings(Workspace(workspace), Sandbox()))
    try:
        await (await session.start("true", lambda _: None)).wait()
        assert launcher._shared is not None
        warden = launcher._shared.pid
        before = _count_descriptors(os.getpid()), _count_descriptors(warden)
        for _ in range(count):
            command = await session.start(
                f"setsid sleep {hostile_commands.MARK} & true", lambda _: None
            )
            assert (await command.wait()).code == 0
            session.forget(command)
        assert (_count_descriptors(os.getpid()), _count_descriptors(warden)) == before
        assert hostile_commands.left_processes() == []
    finally:
        await session.close()
    assert str(warden) not in os.listdir("/proc")


def _count_descriptors(process: int) -> int:
    return len(os.listdir(f"/proc/{process}/fd"))
