"""What made a result: parameters, code, machine. No dates, so equal inputs give equal bytes."""

from __future__ import annotations

import functools
import hashlib
import json
import os
import platform
import subprocess
import tempfile
from importlib import metadata
from pathlib import Path
from typing import Any

_MARK = ".unfinished-"
_HOST = platform.node().replace("/", "_")
PACKAGES = ("numpy", "scipy", "pandas", "numba", "matplotlib", "torch", "trl")


def record(**parameters: Any) -> dict[str, Any]:
    """The parameters of a result beside the code and the machine that produced it."""
    return {
        "parameters": parameters,
        "commit": _commit(),
        "software": {"python": platform.python_version(), **_versions()},
        "machine": {"processor": _processor(), "cores": os.cpu_count()},
    }


def key(parameters: Any) -> str:
    """A name for a result: SHA-256 of the canonical JSON of everything that determines it."""
    return hashlib.sha256(_json(parameters).encode()).hexdigest()[:32]


def write(path: Path, content: str | bytes) -> None:
    """Write a file whole or not at all: a killed process leaves the old one or none.

    What UTF-8 cannot write (half of a surrogate pair, from a model's output) is escaped.
    """
    path.parent.mkdir(parents=True, exist_ok=True)
    data = content.encode(errors="backslashreplace") if isinstance(content, str) else content
    handle, temporary = tempfile.mkstemp(dir=path.parent, prefix=f"{_MARK}{_HOST}-{os.getpid()}-")
    try:
        with os.fdopen(handle, "wb") as file:
            file.write(data)
        os.chmod(temporary, 0o644)
        os.replace(temporary, path)
    except BaseException:
        Path(temporary).unlink(missing_ok=True)
        raise


def discard_abandoned(folder: Path) -> None:
    """Remove what writers on this machine that were killed half-way left in a folder."""
    for path in folder.glob(f"{_MARK}{_HOST}-*"):
        try:
            os.kill(int(path.name.removeprefix(f"{_MARK}{_HOST}-").split("-")[0]), 0)
        except ProcessLookupError:
            path.unlink(missing_ok=True)
        except (ValueError, PermissionError):
            continue


def write_json(path: Path, value: Any) -> None:
    """Write `value` as readable JSON with sorted keys."""
    write(path, json.dumps(value, indent=1, sort_keys=True, default=_plain) + "\n")


def _json(value: Any) -> str:
    return json.dumps(value, sort_keys=True, separators=(",", ":"), default=_plain)


def _plain(value: Any) -> Any:
    if hasattr(value, "tolist"):
        return value.tolist()
    if isinstance(value, Path):
        return str(value)
    raise TypeError(f"{value!r} has no JSON form")


@functools.cache
def _commit() -> str | None:
    """The last commit of the code, marked if it has changed since; None outside its checkout."""
    code = [":/tailmiss", ":/sims", ":/figures/*.py"]
    found = []
    for command in (
        ["ls-files", "--error-unmatch", Path(__file__).name],
        ["log", "-1", "--format=%h", "--", *code],
        ["status", "--porcelain", "--", *code],
    ):
        try:
            done = subprocess.run(
                ["git", *command], cwd=Path(__file__).parent, capture_output=True, text=True,
                check=True,
            )  # fmt: skip
        except (OSError, subprocess.CalledProcessError):
            return None
        found.append(done.stdout.strip())
    _, last, changed = found
    return f"{last}-changed" if changed else last


def _versions() -> dict[str, str]:
    found = {}
    for name in ("tailmiss", *PACKAGES):
        try:
            found[name] = metadata.version(name)
        except metadata.PackageNotFoundError:
            continue
    return found


def _processor() -> str:
    try:
        for line in Path("/proc/cpuinfo").read_text().splitlines():
            if line.startswith("model name"):
                return line.split(":", 1)[1].strip()
    except OSError:
        pass
    return platform.processor() or platform.machine()
