"""Paths of a workspace: what may be opened, what is refused, and what is said about it."""

from __future__ import annotations

import errno
import os
import stat
import subprocess
import sys
from pathlib import Path

import pytest

from tests.toolbox import hostile_paths
from windlass.errors import ConfigError
from windlass.toolbox.sandbox import openat2, paths
from windlass.toolbox.sandbox.atomic import remove_litter, write_atomically
from windlass.toolbox.sandbox.path_errors import (
    FileChanged,
    InvalidPath,
    OutsideWorkspace,
    PathFailed,
    PathMissing,
    PathRefused,
    ReadOnlyPath,
    WrongFileType,
)
from windlass.toolbox.sandbox.paths import Workspace, open_folder_in, open_in


@pytest.fixture(params=["openat2", "walk"])
def tree(request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A workspace with links and special files, opened by the kernel and by our own walk."""
    if request.param == "walk":
        monkeypatch.setattr(paths, "HAS_OPENAT2", False)
    elif not openat2.HAS_OPENAT2:
        pytest.skip("this kernel has no openat2")
    return hostile_paths.build_tree(tmp_path)


@pytest.mark.parametrize(
    "path",
    [
        "a/b/c/a.txt",
        "./a//b/../a.txt",
        "good/a.txt",
        "a/good/a.txt",
        "inner/a.txt",
        "hop2/a.txt",
        "{ws}/a/a.txt",
        "\udcff\udcfe",
    ],
)
def test_paths_inside_the_workspace_are_opened(tree: Path, path: str):
    workspace = Workspace(tree)
    assert workspace.read_bytes(path.format(ws=tree)) == b"inside"


@pytest.mark.parametrize(
    "path",
    [
        "../outside/secret.txt",
        "a/../../outside/secret.txt",
        "{out}/secret.txt",
        "out/secret.txt",
        "abs/secret.txt",
        "file",
        "absfile",
        "up/outside/secret.txt",
        "a/climb/secret.txt",
        "hop1/outside/secret.txt",
        "/etc/passwd",
        "root/etc/passwd",
        "proc/etc/passwd",
        "/proc/self/environ",
        "{ws}/../outside/secret.txt",
    ],
)
def test_paths_that_lead_out_are_refused(tree: Path, path: str):
    workspace = Workspace(tree)
    given = path.format(ws=tree, out=tree.parent / "outside")
    for use in (workspace.open_read, workspace.fingerprint, workspace.remove):
        with pytest.raises(OutsideWorkspace, match="option mounts"):
            use(given)
    with pytest.raises(OutsideWorkspace):
        write_atomically(workspace, given, b"x")
    assert (tree.parent / "outside" / "secret.txt").read_bytes() == hostile_paths.SECRET


def test_paths_of_a_link_that_dangles_outside_make_no_file(tree: Path):
    with pytest.raises(OutsideWorkspace):
        write_atomically(Workspace(tree), "dangling", b"x")
    assert not (tree.parent / "outside" / "new.txt").exists()


@pytest.mark.parametrize("path", ["fifo", "a/fifo", "socket", "null", "a/zero"])
def test_paths_of_special_files_are_refused_without_waiting(tree: Path, path: str):
    if not (tree / path).exists():
        pytest.skip("devices can only be made by root")
    workspace = Workspace(tree)
    with hostile_paths.limit_time(5):
        with pytest.raises(WrongFileType, match="which tools do not open"):
            workspace.open_read(path)
        with pytest.raises(WrongFileType):
            write_atomically(workspace, path, b"x")


def test_paths_with_nul_are_refused_and_do_not_open_the_shorter_name(tree: Path):
    workspace = Workspace(tree)
    assert workspace.read_bytes("a.txt") == b"inside"
    with pytest.raises(InvalidPath, match="NUL"):
        workspace.open_read("a.txt\0.png")
    if openat2.HAS_OPENAT2:
        with pytest.raises(OSError) as failed:
            openat2.open_beneath(os.open(tree, os.O_RDONLY), b"a.txt\0.png", os.O_RDONLY)
        assert failed.value.errno == errno.EINVAL


@pytest.mark.parametrize("path, error", [("", InvalidPath), ("\ud800", InvalidPath)])
def test_paths_that_no_file_can_have_are_refused(tree: Path, path: str, error: type[Exception]):
    with pytest.raises(error):
        Workspace(tree).open_read(path)


@pytest.mark.parametrize("path", ["x/" * 2_100 + "y", "x" * 256])
def test_paths_that_are_too_long_are_refused(tree: Path, path: str):
    with pytest.raises(InvalidPath, match="longer than"):
        Workspace(tree).open_read(path)


def test_paths_errors_name_the_fix(tree: Path):
    workspace = Workspace(tree)
    with pytest.raises(PathMissing, match=r"did you mean 'a\.txt'"):
        workspace.open_read("a/b.txt")
    with pytest.raises(PathMissing, match="no folder 'nowhere' either"):
        workspace.open_read("nowhere/b.txt")
    with pytest.raises(WrongFileType, match="is a folder, not a file"):
        workspace.open_read("a")
    with pytest.raises(WrongFileType, match="is a file, not a folder"):
        workspace.open_folder("a.txt")
    with pytest.raises(WrongFileType, match="goes through a file"):
        workspace.open_read("a.txt/b")
    with pytest.raises(WrongFileType, match="without an end"):
        workspace.open_read("self")
    with pytest.raises(WrongFileType, match="names a folder"):
        write_atomically(workspace, "a/..", b"x")


def test_paths_of_a_mount_are_read_and_written_by_its_mode(tree: Path):
    other, extra = tree.parent / "other", tree.parent / "extra"
    for folder in (other, extra):
        folder.mkdir()
        (folder / "f.txt").write_text("mounted")
    workspace = Workspace(tree, {str(other): "read", "../extra": "extend", "a/b": "read"})
    assert workspace.read_bytes(f"{other}/f.txt") == b"mounted"
    assert workspace.read_bytes("../extra/f.txt") == b"mounted"
    write_atomically(workspace, f"{extra}/new.txt", b"x")
    assert (extra / "new.txt").read_text() == "x"
    for path in (f"{other}/f.txt", f"{other}/new.txt", "a/b/a.txt", "good/a.txt", "inner/b/a.txt"):
        with pytest.raises(ReadOnlyPath, match="mounted as 'read'"):
            write_atomically(workspace, path, b"x")
        with pytest.raises(ReadOnlyPath):
            workspace.remove(path)
    assert workspace.read_bytes("a/b/a.txt") == b"inside"
    write_atomically(workspace, "a/a.txt", b"changed")
    os.rename(tree / "a" / "b", tree / "elsewhere")
    with pytest.raises(ReadOnlyPath):
        write_atomically(workspace, "elsewhere/a.txt", b"x")
    assert workspace.mounts == {str(other): "read", str(extra): "extend", f"{tree}/a/b": "read"}


def test_paths_of_a_link_into_a_mount_are_followed(tree: Path):
    other = tree.parent / "other"
    other.mkdir()
    (other / "f.txt").write_text("mounted")
    (tree / "linked").symlink_to(other)
    with pytest.raises(OutsideWorkspace):
        Workspace(tree).open_read("linked/f.txt")
    workspace = Workspace(tree, {str(other): "read"})
    assert workspace.read_bytes("linked/f.txt") == b"mounted"
    with pytest.raises(ReadOnlyPath):
        write_atomically(workspace, "linked/f.txt", b"x")


def test_paths_on_another_file_system_need_a_mount(tree: Path):
    if os.geteuid() != 0 or subprocess.run(["mount", "--version"], capture_output=True).returncode:
        pytest.skip("mounting a file system needs root and mount(8)")
    there = tree / "mounted"
    there.mkdir()
    source = ["mount", "-t", "tmpfs", "none", str(there)]
    if subprocess.run(source, capture_output=True).returncode:
        pytest.skip("this container may not mount")
    try:
        (there / "f.txt").write_text("other")
        with pytest.raises(OutsideWorkspace, match="another file system"):
            Workspace(tree).open_read("mounted/f.txt")
        assert Workspace(tree, {"mounted": "read"}).read_bytes("mounted/f.txt") == b"other"
    finally:
        subprocess.run(["umount", str(there)], check=True)


@pytest.mark.parametrize(
    "anchor, mounts, words",
    [
        ("missing", {}, "no folder that can be used"),
        ("ws/a.txt", {}, "no folder that can be used"),
        ("ws", {"nowhere": "read"}, "no folder that can be used"),
        ("ws", {"a": "write"}, "'read' or 'extend'"),
        ("w\0s", {}, "no folder"),
    ],
)
def test_workspace_that_cannot_be_had_is_a_config_error(
    tree: Path, anchor: str, mounts: dict[str, paths.MountMode], words: str
):
    with pytest.raises(ConfigError, match=words):
        Workspace(tree.parent / anchor, mounts)


def test_workspace_displays_paths_relative_to_its_anchor(tree: Path):
    other = tree.parent / "other"
    other.mkdir()
    workspace = Workspace(tree, {str(other): "read"})
    assert workspace.anchor == str(tree)
    shown = [workspace.display(one) for one in ("a//b/../c", f"{tree}/a", ".", f"{other}/x")]
    assert shown == ["a/c", "a", ".", f"{other}/x"]
    assert workspace.display("\udcff").encode() == b"\\udcff"


def test_workspace_walks_folders_by_descriptor(tree: Path):
    workspace = Workspace(tree)
    folder = workspace.open_folder("a")
    inner = open_folder_in(folder, "b")
    try:
        with open_in(folder, "a.txt") as file:
            assert file.read() == b"inside"
        for name in ("fifo", "good", "climb"):
            with pytest.raises(OSError):
                open_in(folder, name)
        with pytest.raises(OSError):
            open_folder_in(folder, "climb")
        assert sorted(os.listdir(inner)) == ["a.txt", "c"]
    finally:
        os.close(inner)
        os.close(folder)


def test_atomic_write_keeps_mode_owner_and_attributes(tree: Path):
    path = tree / "a.txt"
    os.chmod(path, 0o2751)
    if os.geteuid() == 0:
        os.chown(path, 1234, 1235)
        os.chmod(path, 0o6751)
    has_attributes = True
    try:
        os.setxattr(path, "user.note", b"kept")
    except OSError:
        has_attributes = False
    before, workspace = path.stat(), Workspace(tree)
    written = write_atomically(workspace, "a.txt", b"new", expect=workspace.fingerprint("a.txt"))
    after = path.stat()
    assert (after.st_mode, after.st_uid, after.st_gid) == (
        before.st_mode,
        before.st_uid,
        before.st_gid,
    )
    assert path.read_bytes() == b"new" and not written.created and written.notes == ()
    assert not has_attributes or os.getxattr(path, "user.note") == b"kept"
    assert written.after == workspace.fingerprint("a.txt")


def test_atomic_write_makes_files_and_folders_on_request(tree: Path):
    workspace = Workspace(tree)
    with pytest.raises(PathMissing):
        write_atomically(workspace, "new/er/f.txt", b"x")
    written = write_atomically(workspace, "new/er/f.txt", b"x", make_folders=True)
    assert written.created and stat.S_IMODE((tree / "new/er/f.txt").stat().st_mode) & 0o600 == 0o600
    write_atomically(workspace, "new/er/empty", b"", create=True)
    workspace.remove("new/er/f.txt")
    assert workspace.list_folder("new/er") == ["empty"]


def test_atomic_write_follows_a_link_that_stays_inside(tree: Path):
    (tree / "to a").symlink_to("a/../a/a.txt")
    write_atomically(Workspace(tree), "to a", b"through")
    assert (tree / "to a").is_symlink() and (tree / "a" / "a.txt").read_bytes() == b"through"


def test_atomic_write_does_not_write_through_a_hard_link(tree: Path):
    secret = tree.parent / "outside" / "secret.txt"
    os.link(secret, tree / "hard")
    write_atomically(Workspace(tree), "hard", b"x")
    assert secret.read_bytes() == hostile_paths.SECRET and (tree / "hard").read_bytes() == b"x"


def test_atomic_write_refuses_a_file_that_changed(tree: Path):
    workspace = Workspace(tree)
    seen, status = workspace.fingerprint("a.txt"), (tree / "a.txt").stat()
    (tree / "a.txt").write_bytes(b"INSIDE")  # the same size, and the same time
    os.utime(tree / "a.txt", ns=(status.st_atime_ns, status.st_mtime_ns))
    with pytest.raises(FileChanged, match="read it again"):
        write_atomically(workspace, "a.txt", b"x", expect=seen)
    (tree / "a.txt").unlink()
    with pytest.raises(FileChanged, match="gone"):
        write_atomically(workspace, "a.txt", b"x", expect=seen)
    with pytest.raises(FileChanged, match="there already"):
        write_atomically(workspace, "a/a.txt", b"x", create=True)
    assert [one for one in os.listdir(tree) if one.startswith(".windlass")] == []


def test_atomic_write_that_fails_leaves_the_old_file_and_no_litter(
    tree: Path, monkeypatch: pytest.MonkeyPatch
):
    def fail(*_: object, **__: object) -> None:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    workspace = Workspace(tree)
    for step in ("fsync", "rename", "write"):
        with monkeypatch.context() as patched:
            patched.setattr(os, step, fail)
            with pytest.raises(PathFailed, match="No space left"):
                write_atomically(workspace, "a.txt", b"x")
    assert (tree / "a.txt").read_bytes() == b"inside"
    assert [one for one in os.listdir(tree) if one.startswith(".windlass")] == []


def test_atomic_write_removes_what_a_killed_process_left(tree: Path):
    code = (
        "import os, sys\n"
        "from windlass.toolbox.sandbox import atomic\n"
        "from windlass.toolbox.sandbox.paths import Workspace\n"
        "os.fsync = lambda _: os.kill(os.getpid(), 9)\n"
        "atomic.write_atomically(Workspace(sys.argv[1]), 'a.txt', b'x')\n"
    )
    subprocess.run([sys.executable, "-c", code, str(tree)], check=False)
    left = [one for one in os.listdir(tree) if one.startswith(".windlass")]
    assert len(left) == 1 and (tree / "a.txt").read_bytes() == b"inside"
    own = tree / left[0].replace(left[0].split("-")[2], str(os.getpid()))
    own.touch()  # of a process that lives
    write_atomically(Workspace(tree), "b.txt", b"x")
    found = [one for one in os.listdir(tree) if one.startswith(".windlass")]
    assert found == [own.name]
    folder = os.open(tree, os.O_RDONLY)
    assert remove_litter(folder) == 0
    os.close(folder)


def test_paths_leave_no_descriptor_open(tree: Path):
    def count() -> int:
        return len(os.listdir("/proc/self/fd"))

    if not os.path.isdir("/proc/self/fd"):
        pytest.skip("descriptors are counted in /proc")
    before = count()
    workspace = Workspace(tree, {"read only": "read"})
    for path in hostile_paths.generate_paths(tree.parent, 200, 5):
        hostile_paths.try_path(workspace, path)
    workspace.close()
    assert count() == before
    Workspace(tree)  # collected without close
    assert count() == before
    with pytest.raises(ConfigError):
        Workspace(tree, {"nowhere": "read"})
    assert count() == before


@pytest.mark.parametrize("walk", [False, True])
def test_hostile_paths_do_not_leave_the_workspace(tmp_path: Path, walk: bool):
    if not hostile_paths.renameat2_is_there():
        pytest.skip("the race needs renameat2")
    happened = hostile_paths.run(tmp_path, 600, walk=walk)
    assert [key for key in happened if "escape" in key or "mount" in key or key == "blocked"] == []
    for expected in ("read", "listed", "written", "OutsideWorkspace", "InvalidPath", "PathMissing"):
        assert happened[expected], happened


def test_hostile_paths_escape_a_check_by_realpath(tmp_path: Path):
    """The race is real: whoever checks first and opens afterwards reads the secret."""
    if not hostile_paths.renameat2_is_there():
        pytest.skip("the race needs renameat2")
    inside = str(hostile_paths.build_tree(tmp_path))
    path = os.path.join(inside, "turning", "secret.txt")
    escapes = 0
    with hostile_paths.swap_folders(Path(inside)):
        for _ in range(200_000):
            try:
                if os.path.realpath(path).startswith(inside + "/"):
                    escapes += Path(path).read_bytes() == hostile_paths.SECRET
            except OSError:
                continue
            if escapes:
                break
    assert escapes
    with pytest.raises(PathRefused):
        Workspace(inside).open_read("../outside/secret.txt")
