"""`restante demo`: play the whole story in about a minute and check that no message was lost."""

import tempfile
import textwrap
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Final

import typer
from rich.console import Console

from restante.cli.error_advice import EXIT_FAILURE
from restante.cli.shared_options import inputs_of
from restante.cli.terminal import console, print_json

if TYPE_CHECKING:
    from restante.cli.demo.chapters import Chapter

INDENT: Final = "  "


def demo(
    ctx: typer.Context,
    messages: Annotated[
        int, typer.Option(min=10, max=10_000, help="How many messages to send over the relay, in a loop.")
    ] = 2_000,
    seed: Annotated[int, typer.Option(help="Seed of the network's faults; the same seed gives the same faults.")] = 7,
    output: Annotated[
        Path | None,
        typer.Option("--output", metavar="DIR", help="Keep databases and the lake in this new directory."),
    ] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print the result as JSON.")] = False,
) -> None:
    """Play the whole story on this machine; check with Spark that no message was lost.

    The demo starts eight nodes as processes. People write to each other through circuits of three hops and over a
    relay, while nodes are killed, a node lies, the network loses messages, a client is restored from a backup, and a
    message expires. At the end a Spark job reads the journals of all nodes and clients. The demo uses the default
    settings with the shortest retry delay, and ignores the configuration.

    Exit status 0 only if every chapter ended as it must and every message is accounted for.
    """
    from restante.model.errors import ConfigurationInvalid

    inputs_of(ctx).load()
    if output is not None and output.exists() and any(output.iterdir() if output.is_dir() else [output]):
        raise ConfigurationInvalid(f"--output {output}: must be a new or empty directory")
    if output is not None:
        _run(output.absolute(), messages=messages, seed=seed, as_json=as_json)
        return
    with tempfile.TemporaryDirectory(prefix="restante-demo-") as made:
        _run(Path(made), messages=messages, seed=seed, as_json=as_json)


def _run(home: Path, *, messages: int, seed: int, as_json: bool) -> None:
    from restante.model.errors import EnvironmentUnsuitable

    try:
        from restante.cli.demo.story import Demo
        from restante.views.conservation_text import conservation_line
        from restante.views.fleet_text import print_fleet_report
    except ImportError as missing:
        raise EnvironmentUnsuitable("the demo needs Spark: pip install 'restante[fleet]'") from missing

    out = Console(quiet=True) if as_json else console()
    chapters: list[Chapter] = []

    def tell(chapter: "Chapter") -> None:
        chapters.append(chapter)
        _print_chapter(out, chapter)

    with out.status("") as status:
        demo = Demo(home, messages=messages, seed=seed, tell=tell, on_progress=status.update)
        demo.play()
        report = demo.report()
    out.print("The lake's report\n", style="bold")
    print_fleet_report(out, report)
    conservation = report.conservation
    is_accounted_for = conservation.balanced and conservation.complete and not report.provenance.missing
    proven = is_accounted_for and all(chapter.is_good for chapter in chapters)
    if as_json:
        print_json(
            {
                "proven": proven,
                "chapters": [{"title": each.title, "is_good": each.is_good, **each.figures} for each in chapters],
                "conservation": conservation_line(conservation.total),
                "unaccounted": conservation.total.unaccounted,
                "events": conservation.events,
            }
        )
    if not proven:
        raise typer.Exit(EXIT_FAILURE)


def _print_chapter(out: Console, chapter: "Chapter") -> None:
    out.print(chapter.title, style="bold" if chapter.is_good else "bold red", markup=False)
    for line in chapter.lines:
        out.print(textwrap.indent(textwrap.fill(line, out.width - len(INDENT)), INDENT), markup=False, soft_wrap=True)
    out.print()
