"""`restante fleet query`, `tables`, `compact`, `retain` and `forget`: a lake's tables, without Spark."""

from dataclasses import asdict
from datetime import UTC, date, datetime
from decimal import Decimal
from pathlib import Path
from typing import Annotated, Any

import typer

from restante.cli.client.options import YesOption
from restante.cli.error_advice import EXIT_FAILURE
from restante.cli.fleet.batch_jobs import AsJson, Root
from restante.cli.fleet.spark_jobs import require_spark
from restante.cli.fleet.text_files import write_text_file
from restante.cli.shared_options import inputs_of
from restante.cli.terminal import ask, console, print_json
from restante.model.errors import Malformed
from restante.model.ids import writer_id
from restante.policy.shipping import LONGEST_RETENTION_DAYS, SHORTEST_RETENTION_DAYS
from restante.runtime.system import SystemClock
from restante.views.text_tables import table


def query(sql: Annotated[str, typer.Argument(metavar="SQL")], *, lake: Root, as_json: AsJson = False) -> None:
    """Run an SQL query over the tables of a lake.

    The stream's own tables have the prefix stream_, such as stream_batches. Bytes are printed as hexadecimal digits.
    """
    with require_spark():
        from restante.fleet.lake.layout import Lake
        from restante.fleet.lake.query import query as run_query

    found = run_query(Lake(lake), sql)
    rows = [{name: _shown(value) for name, value in row.items()} for row in found.to_pylist()]
    if as_json:
        print_json(rows)
        return
    cells = [["" if value is None else str(value) for value in row.values()] for row in rows]
    console().print(table(f"{len(rows):,} rows", *found.column_names, rows=cells, whole=True))


def tables(*, lake: Root, as_json: AsJson = False) -> None:
    """List the tables of a lake with their sizes and the stream's batch that each has."""
    with require_spark():
        from restante.fleet.lake.layout import Lake
        from restante.fleet.lake.query import summaries

    found = summaries(Lake(lake))
    if as_json:
        print_json([asdict(one) for one in found])
        return
    rows = [
        (one.name, f"{one.rows:,}", f"{one.files:,}", f"{one.size_bytes:,}", str(one.version), str(one.batch or ""))
        for one in found
    ]
    heads = ("table", "rows", "files", "bytes", "version", "batch")
    console().print(table("Tables", *heads, rows=rows, right=heads[1:]))


def alerts(
    *,
    lake: Root,
    metrics: Annotated[
        Path | None,
        typer.Option("--metrics", metavar="FILE", help="Also write Prometheus gauges, for a textfile collector."),
    ] = None,
    as_json: AsJson = False,
) -> None:
    """List what calls for attention in the published tables of a lake; exit status 1 if there is anything.

    Unbalanced days, missing events, silent writers, withholding nodes, clocks that are off, a stream that lags, and
    missed targets of delivery rate, latency and duplicates.
    """
    with require_spark():
        from restante.fleet.lake.layout import Lake
        from restante.fleet.lake.measures import read_measures
    from restante.model.fleet_alerts import alerts as decide
    from restante.views.fleet_metrics import metrics_text

    measures = read_measures(Lake(lake), now_ms=SystemClock().now_ms())
    found = decide(measures)
    if metrics is not None:
        write_text_file(metrics_text(measures, found), metrics)
    if as_json:
        print_json([asdict(one) for one in found])
    elif found:
        rows = [(one.kind.value, one.subject, one.detail) for one in found]
        console().print(table("Alerts", "alert", "subject", "detail", rows=rows, whole=True))
    else:
        console().print("No alerts.")
    if found:
        raise typer.Exit(EXIT_FAILURE)


def compact(*, lake: Root, as_json: AsJson = False) -> None:
    """Merge small files of the tables of a backfill. A stream merges its own files."""
    with require_spark():
        from restante.fleet.lake.layout import Lake
        from restante.fleet.lake.upkeep import compact as run_compact

    _print(run_compact(Lake(lake)), as_json)


def retain(
    ctx: typer.Context,
    *,
    lake: Root,
    days: Annotated[
        int,
        typer.Option(
            "--days",
            min=1,
            max=LONGEST_RETENTION_DAYS,
            help=f"Days before today to keep; where a stream keeps the tables at least {SHORTEST_RETENTION_DAYS}.",
        ),
    ],
    yes: YesOption = False,
    as_json: AsJson = False,
) -> None:
    """Delete events and arrivals of older days, and the bytes of their files. The segments and all other tables stay.

    A stream may be running. Events of deleted days that it reads later go to the quarantine and are counted as late;
    copies of deleted events are counted as duplicates.
    """
    settings = inputs_of(ctx).load().settings
    with require_spark():
        from restante.fleet.jobs.retention import retain as run_retain
        from restante.fleet.lake.layout import Lake

    if not yes:
        ask(f"Delete events and arrivals older than {days} days from {lake}?", as_json=as_json)
    _print(run_retain(Lake(lake), settings, days=days, today=_today()), as_json)


def forget(
    *,
    lake: Root,
    writer: Annotated[str, typer.Option("--writer", metavar="HEX", help="Id of the journal writer.")],
    yes: YesOption = False,
    as_json: AsJson = False,
) -> None:
    """Erase one journal writer from a lake: its segments, its rows in all tables, and the logs that name it.

    The tables of a stream are deleted whole. The next 'restante fleet stream' makes them again without the writer.
    """
    with require_spark():
        from restante.fleet.lake.layout import Lake
        from restante.fleet.lake.upkeep import forget as run_forget

    try:
        wanted = writer_id(bytes.fromhex(writer))
    except ValueError:
        raise Malformed(f"--writer {writer!r} must be 32 hexadecimal digits") from None
    if not yes:
        ask(f"Erase all events of writer {writer} from {lake}?", as_json=as_json)
    _print(run_forget(Lake(lake), wanted), as_json)


def _print(done: Any, as_json: bool) -> None:
    if as_json:
        print_json([asdict(one) for one in done])
        return
    rows = [(one.table, f"{one.rows_deleted:,}", f"{one.files_before:,}", f"{one.files_after:,}") for one in done]
    heads = ("table", "rows deleted", "files before", "files after")
    console().print(table("Tables", *heads, rows=rows, right=heads[1:]))


def _today() -> date:
    return datetime.fromtimestamp(SystemClock().now_ms() / 1_000, UTC).date()


def _shown(value: Any) -> Any:
    if isinstance(value, bytes):
        return value.hex()
    return str(value) if isinstance(value, date | Decimal) else value
