"""The Spark pipeline: journals in; events, arrivals, messages, conservation and the other tables out.

`backfill`, `start_stream` and `report` take an existing SparkSession (fleet/api). They are loaded when they are first
used: executors import only kernels.
"""

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from restante.fleet.api import StreamOptions, backfill, report, start_stream

__all__ = ["StreamOptions", "backfill", "report", "start_stream"]


def __getattr__(name: str) -> Any:
    if name in __all__:
        from restante.fleet import api  # noqa: PLC0415 - loaded when it is used

        return getattr(api, name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
