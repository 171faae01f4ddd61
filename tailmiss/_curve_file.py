"""A printed pass@k curve from a CSV of k, value and, where given, printed decimals."""

from __future__ import annotations

from contextlib import ExitStack
from dataclasses import dataclass
from decimal import Decimal, InvalidOperation

from ._rollout_files import ReadError, parts
from ._rollout_names import plain
from ._rollout_table import record_of

_K = ("k", "pass_k", "samples", "n", "x")
_VALUE = ("value", "pass_at_k", "pass@k", "pass", "accuracy", "acc", "score", "y")
_DECIMALS = ("decimals", "digits", "printed_decimals")


@dataclass(frozen=True)
class PrintedCurve:
    """A curve as fractions, with half of its last printed digit."""

    k: tuple[int, ...]
    value: tuple[float, ...]
    half_width: float
    percent: bool


def read_curve(path: str, *, percent: bool | None = None) -> PrintedCurve:
    """Read k and value. Values are percent where one is above 1, unless told otherwise.

    The half width is half of the last digit printed anywhere in the column, since "17" in a column
    with "17.4" stands for 17.0.

    Raises
    ------
    ValueError
        No such columns, a line that does not read, values outside the scale, a k that stands twice.
    """
    rows = []
    with ExitStack() as open_files:
        for part in parts(path, open_files):
            if part.kind != "line":
                raise ReadError(part.name, "a table of k and value is needed")
            rows += [(number, record_of(part, number, row)) for number, row in part.content]
    if not rows:
        raise ReadError(path, "holds no values")
    names = list(rows[0][1])
    column_k, column_v = _column(path, names, _K, "k"), _column(path, names, _VALUE, "value")
    counted = [name for name in names if plain(name) in _DECIMALS]
    ks, values, decimals = [], [], 0
    for number, row in rows:
        place = f"line {number}"
        ks.append(_whole(path, place, column_k, row.get(column_k)))
        text = str(row.get(column_v)).strip().removesuffix("%")
        try:
            value = Decimal(text)
            exponent = value.as_tuple().exponent
        except InvalidOperation:
            raise ReadError(path, f"{column_v!r} is no number: {text!r}", place) from None
        if not isinstance(exponent, int):
            raise ReadError(path, f"{column_v!r} is no number: {text!r}", place)
        values.append(value)
        shown = max(-exponent, 0)
        if counted:
            shown = _whole(path, place, counted[0], row.get(counted[0]))
        decimals = max(decimals, shown)
        if ks.count(ks[-1]) > 1:
            raise ReadError(path, f"k = {ks[-1]} stands twice", place)
    if percent is None:
        percent = max(values) > 1 or any("%" in str(row[column_v]) for _, row in rows)
        if not percent and decimals == 0:
            what = "0 and 1 may be percent or fractions; say which with --percent or --fractions"
            raise ReadError(path, what)
    scale = 100 if percent else 1
    for (number, _), value in zip(rows, values, strict=True):
        if not 0 <= value <= scale:
            what = f"{value} is outside [0, {scale}]"
            raise ReadError(path, what, f"line {number}")
    half_width = 0.5 * 10.0**-decimals / scale
    fractions = tuple(float(value / scale) for value in values)
    return PrintedCurve(tuple(ks), fractions, half_width, percent)


def _column(path: str, names: list[str], known: tuple[str, ...], role: str) -> str:
    for wanted in known:
        for name in names:
            if plain(name) == wanted:
                return name
    raise ReadError(path, f"no column {role!r}; there are {', '.join(map(repr, names))}", "line 1")


def _whole(path: str, place: str, name: str, text: object) -> int:
    try:
        value = float(str(text).strip())
        if not value.is_integer() or value < 0:
            raise ValueError
        return int(value)
    except (ValueError, OverflowError):
        raise ReadError(path, f"{name!r} must be a whole number; got {text!r}", place) from None
