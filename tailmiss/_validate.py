"""Input checks. Every message names the argument, the value and where it stands."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NoReturn

import numpy as np
from numpy.typing import ArrayLike, NDArray

_LARGEST = float(np.finfo(float).max)


def _refuse(name: str, values: NDArray[Any], good: Any, requirement: str) -> NoReturn:
    bad = ~np.broadcast_to(good, values.shape)
    index = tuple(int(i) for i in np.argwhere(bad)[0])
    place = "" if not index else f" at index {index[0] if len(index) == 1 else index}"
    raise ValueError(f"{name} must be {requirement}; got {values[index].item()!r}{place}")


def real(name: str, values: ArrayLike) -> NDArray[np.float64]:
    """`values` as float64, without NaN."""
    try:
        array = np.asarray(values)
        if array.dtype.kind not in "buif":
            raise TypeError
        array = array.astype(np.float64, copy=False)
    except (TypeError, ValueError):
        raise ValueError(f"{name} must be real numbers; got {values!r}") from None
    if np.isnan(array.min(initial=0.0)):
        _refuse(name, array, ~np.isnan(array), "a number")
    return array


def within(
    name: str, values: ArrayLike, low: float, high: float, *, inclusive: bool = True
) -> NDArray[np.float64]:
    """`values` as float64, all inside [low, high], or inside (low, high)."""
    array = real(name, values)
    if array.size:
        smallest, largest = array.min(), array.max()
        if inclusive and not (low <= smallest and largest <= high):
            _refuse(name, array, (low <= array) & (array <= high), f"in [{low:g}, {high:g}]")
        if not inclusive and not (low < smallest and largest < high):
            _refuse(name, array, (low < array) & (array < high), f"in ({low:g}, {high:g})")
    return array


def mass(name: str, values: ArrayLike, *, inclusive: bool = True) -> NDArray[np.float64]:
    """`values` as probabilities in [0, 1], or in (0, 1)."""
    return within(name, values, 0.0, 1.0, inclusive=inclusive)


def whole(name: str, values: ArrayLike, low: int = 1, *, high: float = 2.0**53) -> NDArray[Any]:
    """`values` as float64 holding whole numbers >= low."""
    array = real(name, values)
    if array.size:
        is_integer = np.asarray(values).dtype.kind in "bui"
        if array.min() < low or array.max() > high:
            limit = f" and <= {high:g}" if array.max() > high else ""
            good = (low <= array) & (array <= high)
            _refuse(name, np.asarray(values), good, f"whole, >= {low}{limit}")
        if not is_integer and not (array == np.floor(array)).all():
            _refuse(name, array, array == np.floor(array), f"whole, >= {low}")
    return array


def whole_number(name: str, value: Any, low: int = 1, *, high: float = 2.0**53) -> int:
    """One whole number in [low, high], as int."""
    return int(one(name, whole(name, value, low, high=high)))


def finite(name: str, values: ArrayLike, low: float = -_LARGEST) -> NDArray[np.float64]:
    """`values` as float64, all finite and >= low."""
    array = real(name, values)
    good = (low <= array) & (array <= _LARGEST)
    if not good.all():
        _refuse(name, array, good, f"finite and >= {low:g}" if low > -_LARGEST else "finite")
    return array


def number(name: str, value: Any, low: float = -_LARGEST) -> float:
    """One finite number >= low, as float."""
    return float(one(name, finite(name, value, low)))


def share(name: str, value: Any) -> float:
    """One probability in [0, 1], as float."""
    return float(one(name, mass(name, value)))


def one(name: str, array: NDArray[Any]) -> NDArray[Any]:
    """`array`, which must hold one number."""
    if array.ndim:
        raise ValueError(f"{name} must be one number; got shape {array.shape}")
    return array


def every(name: str, values: NDArray[Any], good: Any, requirement: str) -> None:
    """All of `good`, else the first of `values` that is not is told with the requirement."""
    if not np.all(good):
        _refuse(name, values, good, requirement)


def at_most(
    name: str, values: NDArray[Any], bound_name: str, bound: NDArray[Any], *, strict: bool = False
) -> None:
    """Every value is at most (or below) its bound, after broadcasting."""
    good = values < bound if strict else values <= bound
    if not np.all(good):
        values, bound = np.broadcast_arrays(values, bound)
        worst = bound[tuple(np.argwhere(~good)[0])].item()
        relation = "<" if strict else "<="
        _refuse(name, values, good, f"{relation} {bound_name} ({worst!r})")


def rule_options(options: Any) -> dict[str, Any]:
    """Options of an advantage rule alone: a mapping without what a config has fields for."""
    if not isinstance(options, Mapping) or {"rule", "N", "gamma"}.intersection(options):
        raise ValueError(f"rule_options must map names of the rule's own options; got {options!r}")
    return {str(name): value for name, value in options.items()}


def one_of(name: str, value: Any, allowed: Any) -> Any:
    """`value`, which must be among `allowed`."""
    if value not in allowed:
        raise ValueError(f"{name} must be one of {', '.join(map(repr, allowed))}; got {value!r}")
    return value
