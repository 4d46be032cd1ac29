"""`restante channel`: list and test channels, preview messages, send one."""

import contextlib
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Final

import typer

from restante.cli.client.options import FILE_VARIABLE, FileOption, JsonOption
from restante.cli.error_advice import EXIT_FAILURE
from restante.cli.shared_options import inputs_of
from restante.cli.terminal import console, print_json
from restante.model.error_codes import Code
from restante.model.errors import ConfigurationInvalid, EnvironmentUnsuitable, RestanteError
from restante.policy.channel_platforms import Platform
from restante.views.text_tables import table

if TYPE_CHECKING:
    from restante.runtime.channels.channel_config import Registered

MAX_TEXT_BYTES: Final = 4_194_304
SEND_BUDGET_MS: Final = 60_000

app = typer.Typer(
    help="List and test the channels to chat platforms, preview messages, send one.",
    no_args_is_help=True,
    rich_markup_mode="rich",
)

ChannelArgument = Annotated[str, typer.Argument(metavar="CHANNEL", help="A channel's name in the configuration.")]
SourceArgument = Annotated[str, typer.Argument(metavar="FILE", help="A Markdown file, or - for standard input.")]


@app.command("list")
def list_channels(ctx: typer.Context, as_json: JsonOption = False) -> None:
    """List the channels of the configuration with their format and limit."""
    from restante.cli.client.channel_check import channel_data, channel_row

    channels = _registered(ctx)
    if as_json:
        print_json({"channels": [channel_data(one) for one in channels.values()]})
        return
    if not channels:
        console().print("The configuration has no channels: write [channels.NAME] into it.", markup=False)
        return
    rows = [channel_row(one) for one in channels.values()]
    columns = ("channel", "adapter", "platform", "format", "a chunk holds")
    console().print(table(f"Channels: {len(rows)}", *columns, rows=rows))


@app.command("test")
def check_platform(
    ctx: typer.Context,
    channel: ChannelArgument,
    chat: Annotated[str | None, typer.Option(help="Also send a short message to this chat, without the queue.")] = None,
    as_json: JsonOption = False,
) -> None:
    """Start a channel and check the connection to its platform. Exit status 1 if a step fails."""
    import asyncio

    from restante.cli.client.channel_check import check_channel, steps_data

    registered = _one(_registered(ctx), channel)
    steps = asyncio.run(check_channel(registered, chat))
    if as_json:
        print_json(steps_data(steps))
    else:
        rows = [(one.step, "yes" if one.problem is None else "no", one.words) for one in steps]
        console().print(table(f"Channel {channel}", "step", "ok", "answer", rows=rows))
    if any(one.problem for one in steps):
        raise typer.Exit(EXIT_FAILURE)


@app.command()
def render(
    source: SourceArgument,
    platform: Annotated[
        list[Platform] | None, typer.Option(help="Only for this platform. Repeatable. Default: all.")
    ] = None,
    limit: Annotated[
        int | None, typer.Option(min=64, max=100_000, help="Use this limit instead of the platform's.")
    ] = None,
    plain: Annotated[
        bool, typer.Option("--plain", help="Show the plain text that is sent if a platform refuses the format.")
    ] = False,
    as_json: JsonOption = False,
) -> None:
    """Show the chunks that each platform would get. Nothing is sent."""
    with _require_channels_extra():
        from restante.cli.client.channel_preview import print_rendered, rendered_data

    text = _text(source)
    wanted = platform or list(Platform)
    if as_json:
        print_json([rendered_data(text, one, limit) for one in wanted])
        return
    for one in wanted:
        print_rendered(console(), text, one, limit, plain=plain)


@app.command()
def send(
    ctx: typer.Context,
    *,
    channel: ChannelArgument,
    chat: Annotated[str, typer.Argument(metavar="CHAT", help="The chat, as the platform names it.")],
    source: SourceArgument,
    file: FileOption = None,
    title: Annotated[str | None, typer.Option(help="The subject, where a platform has one.")] = None,
    reply_to: Annotated[str | None, typer.Option(help="The platform's id of the message to reply to.")] = None,
    thread: Annotated[str | None, typer.Option(help="The thread or topic.")] = None,
    best_effort: Annotated[
        bool, typer.Option("--best-effort", help="Send later chunks even if an earlier one failed.")
    ] = False,
    queue_only: Annotated[
        bool, typer.Option("--queue-only", help="Only queue the message; a running program sends it.")
    ] = False,
    as_json: JsonOption = False,
) -> None:
    """Queue a message and send it now. Chunks that cannot be sent yet stay in the outbox.

    Exit status 1 if a chunk became a dead letter.
    """
    import asyncio

    channels = _registered(ctx)
    _one(channels, channel)
    settings = inputs_of(ctx).load().settings
    if file is None:
        raise ConfigurationInvalid(f"which client's file? Add --file PATH, or set {FILE_VARIABLE}")
    with _require_channels_extra():
        from restante.cli.client.channel_send import print_sent, send_now
        from restante.client.channels import ChannelMessage, Strategy

    draft = ChannelMessage(
        channel=channel,
        chat=chat,
        markdown=_text(source),
        title=title,
        reply_to=reply_to,
        thread=thread,
        strategy=Strategy.BEST_EFFORT if best_effort else Strategy.ALL_OR_ABORT,
    )
    budget_ms = None if queue_only else SEND_BUDGET_MS
    sent = asyncio.run(send_now(file, {channel: channels[channel]}, draft, settings=settings, budget_ms=budget_ms))
    print_sent(sent, as_json=as_json)
    if sent.has_failed:
        raise typer.Exit(EXIT_FAILURE)


@contextlib.contextmanager
def _require_channels_extra() -> Iterator[None]:
    try:
        yield
    except ImportError as missing:
        raise EnvironmentUnsuitable("channels need more packages: pip install 'restante[channels]'") from missing


def _registered(ctx: typer.Context) -> "dict[str, Registered]":
    import os

    with _require_channels_extra():
        from restante.runtime.channels.channel_config import registered_channels
    return registered_channels(inputs_of(ctx).file(), os.environ)


def _one(channels: "dict[str, Registered]", name: str) -> "Registered":
    if name not in channels:
        known = ", ".join(channels) or "none"
        raise RestanteError(
            f"there is no channel {name!r} in the configuration; it has {known}", code=Code.CHANNEL_ABSENT
        )
    return channels[name]


def _text(source: str) -> str:
    try:
        raw = sys.stdin.buffer.read(MAX_TEXT_BYTES + 1) if source == "-" else _read(Path(source))
        text = raw.decode()
    except OSError as problem:
        raise RestanteError(f"cannot read {source}: {problem.strerror}", code=Code.NOT_FOUND) from None
    except UnicodeDecodeError:
        raise RestanteError(f"{source} is not UTF-8 text", code=Code.MALFORMED) from None
    if len(raw) > MAX_TEXT_BYTES:
        raise RestanteError(f"{source} has more than {MAX_TEXT_BYTES:,} bytes", code=Code.MESSAGE_TOO_LARGE)
    return text


def _read(path: Path) -> bytes:
    with path.open("rb") as file:
        return file.read(MAX_TEXT_BYTES + 1)
