"""An API object as plain values, in the shape that JSON gives it."""

from __future__ import annotations

from typing import Any

Object = dict[str, Any]
