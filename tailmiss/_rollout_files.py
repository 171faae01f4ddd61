"""From a path to records: compression, file kind and encoding are told by content."""

from __future__ import annotations

import bz2
import csv
import gzip
import io
import json
import lzma
import sys
import zipfile
import zlib
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from dataclasses import dataclass
from typing import Any, BinaryIO

from . import _rollout_logs as logs

Progress = Callable[[int, int | None], None]
_CUT = (EOFError, OSError, zlib.error, lzma.LZMAError)
_UNPACK: dict[bytes, Any] = {b"\x1f\x8b": gzip.open, b"BZh": bz2.open, b"\xfd7zXZ": lzma.open}


@dataclass(frozen=True)
class Part:
    """One file, or one member of an archive.

    `kind` is "line" or "row" (then `content` iterates over (number, record)) or "document" (then
    it is one JSON value).
    """

    name: str
    kind: str
    content: Any
    member: str = ""
    layout: str = "JSON lines"


class ReadError(ValueError):
    """A file that cannot be read, with its name and the place in it."""

    def __init__(self, name: str, what: str, place: str = "") -> None:
        super().__init__(f"{name}: {place + ': ' if place else ''}{what}")


def parts(path: str, open_files: ExitStack, progress: Progress | None = None) -> Iterator[Part]:
    """The parts of a file; "-" is standard input. Files stay open as long as the stack."""
    if path == "-":
        yield from _parts("standard input", io.BytesIO(sys.stdin.buffer.read()), progress, None)
        return
    file: Any = open_files.enter_context(open(path, "rb"))  # noqa: SIM115
    if not file.seekable():  # a pipe, as of <(zstdcat rollouts.jsonl.zst)
        file = io.BytesIO(file.read())
    size = file.seek(0, io.SEEK_END)
    file.seek(0)
    yield from _parts(path, file, progress, size)


def _parts(
    name: str, file: BinaryIO, progress: Progress | None, size: int | None, member: str = ""
) -> Iterator[Part]:
    watched = io.BufferedReader(_Counted(file, progress, size), 2**18)
    head = watched.peek(16)[:16]
    if not head:
        raise ReadError(name, "is empty")
    if head.startswith(b"PK\x03\x04"):
        yield from _zip(name, file)
    elif head.startswith(b"PK\x05\x06"):
        raise ReadError(name, "is an archive without files")
    elif head.startswith(b"PAR1"):
        yield Part(name, "row", _parquet(name, file, progress, size), member, "parquet")
    elif head.startswith(b"\x28\xb5\x2f\xfd"):
        raise ReadError(name, "is compressed by zstd, which is not read; decompress it first")
    else:
        for magic, unpack in _UNPACK.items():
            if head.startswith(magic):
                inner = unpack(watched, "rb")
                start = _read(name, inner, 8)
                inner.seek(0)
                if start.startswith((b"PAR1", b"PK\x03\x04")):
                    yield from _parts(name, io.BytesIO(_read(name, inner)), None, None, member)
                else:
                    yield _text(name, io.BufferedReader(inner, 2**18), member)
                return
        yield _text(name, watched, member)


def _read(name: str, file: Any, size: int = -1) -> bytes:
    try:
        return bytes(file.read(size))
    except _CUT as error:
        raise _damaged(name, error) from None


def _damaged(name: str, error: BaseException, place: str = "") -> ReadError:
    return ReadError(name, f"compressed data is cut or damaged ({error})", place)


class _Counted(io.RawIOBase):
    """A file that tells how far it has been read."""

    def __init__(self, file: BinaryIO, progress: Progress | None, size: int | None) -> None:
        self._file, self._progress, self._size = file, progress, size

    def readable(self) -> bool:
        return True

    def seekable(self) -> bool:
        return True

    def seek(self, offset: int, whence: int = 0) -> int:
        return self._file.seek(offset, whence)

    def tell(self) -> int:
        return self._file.tell()

    def readinto(self, buffer: Any) -> int:
        data = self._file.read(len(buffer))
        buffer[: len(data)] = data
        if self._progress:
            self._progress(self._file.tell(), self._size)
        return len(data)


def _zip(name: str, file: BinaryIO) -> Iterator[Part]:
    try:
        archive = zipfile.ZipFile(file)
        members = sorted(m for m in archive.namelist() if _is_data(m))
    except zipfile.BadZipFile as error:
        raise ReadError(name, f"zip archive is cut or damaged ({error})") from None
    if {"_journal/start.json", "header.json"} & set(members):
        yield _inspect(name, archive, members)
        return
    if not members:
        raise ReadError(name, "the archive holds no .json, .jsonl, .csv, .tsv or .parquet file")
    for member in members:
        try:
            data = archive.read(member)
        except (zipfile.BadZipFile, RuntimeError, NotImplementedError, *_CUT) as error:
            raise ReadError(f"{name}:{member}", f"cannot be unpacked ({error})") from None
        yield from _parts(f"{name}:{member}", io.BytesIO(data), None, None, member)


def _inspect(name: str, archive: zipfile.ZipFile, members: list[str]) -> Part:
    """An Inspect log as an archive: a JSON file a sample and epoch."""
    samples = []
    for member in members:
        if not member.startswith("samples/"):
            continue
        try:
            samples.append(parse(archive.read(member)))
        except NotImplementedError:
            what = "an Inspect log compressed by zstd, which is not read; write it as JSON first:"
            raise ReadError(name, f"is {what} inspect log dump {name} > log.json") from None
        except (zipfile.BadZipFile, RuntimeError, *_CUT) as error:
            raise ReadError(f"{name}:{member}", f"cannot be unpacked ({error})") from None
        except (ValueError, RecursionError) as error:
            raise ReadError(f"{name}:{member}", _reason(error)) from None
    return _one(name, {"version": 2, "status": "", "eval": {}, "samples": samples}, "")


def _is_data(member: str) -> bool:
    base = member.rsplit("/", 1)[-1]
    endings = (".json", ".jsonl", ".csv", ".tsv", ".parquet", ".ndjson")
    plain = base.removesuffix(".gz")
    return not base.startswith(".") and "__MACOSX" not in member and plain.endswith(endings)


def _text(name: str, file: Any, member: str) -> Part:
    try:
        head = file.peek(4096)[:4096]
    except _CUT as error:
        raise _damaged(name, error) from None
    if head.startswith((b"\xff\xfe", b"\xfe\xff")):
        try:
            text = _read(name, file).decode("utf-16")
        except UnicodeDecodeError as error:
            raise ReadError(
                name, f"is not UTF-16 as its first bytes say ({error.reason})"
            ) from None
        file = io.BufferedReader(io.BytesIO(text.encode()))
        head = file.peek(4096)[:4096]
    if head.startswith(b"\xef\xbb\xbf"):
        file.read(3)
        head = head[3:]
    if b"\0" in head:
        raise ReadError(name, "is binary data of an unknown kind")
    start = head.lstrip()[:1]
    if not start:
        rest = _read(name, file).strip()
        if not rest:
            raise ReadError(name, "is empty")
        start = rest[:1]
        file = io.BufferedReader(io.BytesIO(rest))
    if start in b"{[":
        return _json(name, file, member)
    return Part(name, "line", _csv(name, file), member, "CSV")


def _json(name: str, file: Any, member: str) -> Part:
    """One JSON document, or one record a line."""
    lines = _lines(name, file)
    number, first = next(((i, line) for i, line in lines if line.strip()))
    try:
        value = parse(first)
    except (ValueError, RecursionError):
        return _one(name, _document(name, first, file, number), member)
    second = next(((i, line) for i, line in lines if line.strip()), None)
    if second is None:
        return _one(name, value, member)

    def records() -> Iterator[tuple[int, Any]]:
        yield number, value
        yield second[0], _record(name, *second)
        for i, line in lines:
            if not line.isspace():
                yield i, _record(name, i, line)

    if logs.is_event(value):
        return Part(name, "line", _openai(name, records()), member, logs.OPENAI)
    return Part(name, "line", records(), member)


def _one(name: str, document: Any, member: str) -> Part:
    if not logs.is_inspect(document):
        return Part(name, "document", document, member, "JSON")
    try:
        return Part(name, "document", logs.inspect_rollouts(document), member, logs.INSPECT)
    except ValueError as error:
        raise ReadError(name, str(error)) from None


def _openai(name: str, records: Any) -> Iterator[tuple[int, dict[str, Any]]]:
    try:
        yield from logs.openai_rollouts(records)
    except ReadError:
        raise
    except ValueError as error:
        raise ReadError(name, str(error)) from None


def _lines(name: str, file: Any) -> Iterator[tuple[int, bytes]]:
    number = 0
    try:
        for number, line in enumerate(file, 1):
            yield number, line
    except _CUT as error:
        raise _damaged(name, error, f"after line {number}") from None


def _record(name: str, number: int, line: bytes) -> Any:
    try:
        return parse(line)
    except (ValueError, RecursionError) as error:
        raise ReadError(name, _reason(error), f"line {number}") from None


def _document(name: str, first: bytes, file: Any, number: int) -> Any:
    rest = _read(name, file)
    try:
        return parse(first + rest)
    except json.JSONDecodeError as error:
        place = f"line {error.lineno + number - 1}"
        raise ReadError(name, _reason(error), place) from None
    except (ValueError, RecursionError) as error:
        raise ReadError(name, _reason(error)) from None


def _reason(error: Exception) -> str:
    if isinstance(error, json.JSONDecodeError):
        return f"not JSON, or cut short: {error.msg.removesuffix(' at')} at column {error.colno}"
    if isinstance(error, UnicodeDecodeError):
        byte = error.object[error.start]
        return f"not UTF-8: byte 0x{byte:02x} at {error.start}; save the file as UTF-8"
    if isinstance(error, RecursionError):
        return "nested too deeply"
    return str(error)


def _unique(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    record = dict(pairs)
    if len(record) != len(pairs):
        seen: set[str] = set()
        twice = next(key for key, _ in pairs if key in seen or seen.add(key))  # type: ignore[func-returns-value]
        raise ValueError(f"the field {twice!r} stands twice in one object")
    return record


_DECODER = json.JSONDecoder(object_pairs_hook=_unique)


def parse(data: bytes) -> Any:
    """A JSON value; a field that stands twice is refused, since either could be meant."""
    return _DECODER.decode(data.decode("utf-8"))


def _csv(name: str, file: Any) -> Iterator[tuple[int, dict[str, str]]]:
    csv.field_size_limit(2**31 - 1)
    number = 1
    try:
        text = io.TextIOWrapper(file, encoding="utf-8", newline="")
        filled = ((i, line) for i, line in enumerate(text, 1) if line.strip())
        number, start = next(filled, (1, ""))
        delimiter = max(",\t;|", key=start.count)
        header = next(csv.reader([start], delimiter=delimiter, strict=True))
        header = [cell.strip() for cell in header]
        for column in header:
            if column and header.count(column) > 1:
                raise ReadError(name, f"the column {column!r} stands twice", f"line {number}")
        top, reader = number, csv.reader(text, delimiter=delimiter, strict=True)
        for cells in reader:
            number = top + reader.line_num
            if not cells:
                continue
            if len(cells) != len(header):
                what = f"{len(cells)} cells under {len(header)} columns"
                raise ReadError(name, what, f"line {number}")
            yield number, dict(zip(header, cells, strict=True))
    except csv.Error as error:
        raise ReadError(name, f"not CSV ({error})", f"line {number}") from None
    except UnicodeDecodeError as error:
        raise ReadError(name, _reason(error), f"near line {number}") from None
    except _CUT as error:
        raise _damaged(name, error, f"after line {number}") from None


def _parquet(
    name: str, file: BinaryIO, progress: Progress | None, size: int | None
) -> Iterator[tuple[int, dict[str, Any]]]:
    try:
        import pyarrow
        from pyarrow import parquet
    except ImportError:
        raise ReadError(name, "parquet needs pyarrow: pip install 'tailmiss[parquet]'") from None
    try:
        file.seek(0)
        table = parquet.ParquetFile(file)
        for column in (names := table.schema_arrow.names):
            if names.count(column) > 1:
                raise ReadError(name, f"the column {column!r} stands twice")
        number = 0
        for batch in table.iter_batches(batch_size=8192):
            for record in batch.to_pylist():
                number += 1
                yield number, record
            if progress and size:
                progress(size * number // max(table.metadata.num_rows, 1), size)
    except (pyarrow.ArrowException, OSError) as error:
        reason = str(error).splitlines()[0]
        raise ReadError(name, f"parquet data is cut or damaged ({reason})") from None
