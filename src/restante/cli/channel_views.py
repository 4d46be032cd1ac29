"""What `restante channel` does and shows, once its heavy rooms are loaded."""

import asyncio
import html
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from rich.console import Console
from rich.text import Text

from restante.cli.terminal import console, print_json, table
from restante.client.channels import Channels, Draft, Enqueued
from restante.client.outbox_words import Status
from restante.model.codes import Code
from restante.model.errors import RestanteError
from restante.model.ids import MessageId, show_message_id
from restante.model.states import State
from restante.policy.channel_platforms import RULES, Format, Platform, PlatformRules, measure
from restante.policy.settings import Settings
from restante.ports.channel_adapter import Outgoing
from restante.runtime.channels.chunking import chunk
from restante.runtime.channels.chunking import render as render_for
from restante.runtime.channels.registration import Registered
from restante.runtime.system import SystemEntropy

TEST_TEXT: Final = "A test by restante: this channel works."
_KEY_BYTES: Final = 16
_TAG: Final = re.compile("<[^>]*>")
_SEEN: Final = {code: 0x2400 + code for code in range(0x20) if chr(code) not in "\n\t"} | {0x7F: 0x2421}
"""Control characters as pictures: IRC's marks are to be seen, and no text may steer the terminal."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Outcome:
    """One step of a test, and what was said."""

    step: str
    words: str
    problem: Code | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class SentByHand:
    """`chunks` is empty where nothing was queued; `reason` says why."""

    reason: str | None
    chunks: Sequence[tuple[MessageId, Status]]

    @property
    def has_failed(self) -> bool:
        return any(status.state in (State.DEAD, State.EXPIRED) for _, status in self.chunks)


def channel_data(registered: Registered) -> dict[str, Any]:
    rules = RULES[registered.platform]
    return {
        "channel": registered.name,
        "adapter": registered.adapter,
        "platform": registered.platform.value,
        "format": rules.format.value,
        "chunk_limit": rules.chunk_limit,
        "counting": rules.counting.value,
    }


def channel_row(registered: Registered) -> tuple[str, ...]:
    data = channel_data(registered)
    holds = f"{data['chunk_limit']:,} {data['counting'].replace('_', ' ')}"
    return (registered.name, registered.adapter, data["platform"], data["format"], holds)


async def try_channel(registered: Registered, chat: str | None) -> list[Outcome]:
    """Build, start, ask, and perhaps send; the first step that fails is the last."""
    done: list[Outcome] = []
    step = "configured"
    adapter = None
    try:
        async with asyncio.timeout(3 * registered.limits.timeout_ms / 1_000):
            adapter = registered.make()
            done.append(Outcome(step=step, words=f"{registered.adapter}, {registered.platform.value}"))
            step = "starts"
            await adapter.start()
            done.append(Outcome(step=step, words=""))
            step = "answers"
            done.append(Outcome(step=step, words=await adapter.check()))
            if chat is not None:
                step = "takes a message"
                key = SystemEntropy().draw(_KEY_BYTES).hex()
                taken = await adapter.send(
                    Outgoing(chat=chat, text=TEST_TEXT, plain=TEST_TEXT, format=Format.PLAIN, key=key, thread_key=key)
                )
                done.append(Outcome(step=step, words="" if taken.name is None else f"as {taken.name}"))
    except RestanteError as problem:
        said = getattr(problem, "said", "")
        words = f"{problem}: {_printable(said)}" if said else str(problem)
        done.append(Outcome(step=step, words=f"{problem.code.value} {words}", problem=problem.code))
    except Exception as problem:  # noqa: BLE001 - somebody's own adapter may raise anything
        code = Code.CHANNEL_UNAVAILABLE
        done.append(Outcome(step=step, words=f"{code.value} {type(problem).__name__}", problem=code))
    finally:
        if adapter is not None:
            await adapter.close()
    return done


def _printable(text: str) -> str:
    """A platform's own words, so that nobody steers the terminal."""
    return "".join(each if each.isprintable() else " " for each in text[:200])


def outcome_data(outcome: Sequence[Outcome]) -> list[dict[str, Any]]:
    return [
        {"step": one.step, "well": one.problem is None, "code": one.problem and one.problem.value, "says": one.words}
        for one in outcome
    ]


def rendered_data(text: str, platform: Platform, limit: int | None) -> dict[str, Any]:
    rules = RULES[platform]
    ceiling = rules.chunk_limit if limit is None else min(limit, rules.chunk_limit)
    chunks = chunk(render_for(text, platform), limit=ceiling)
    return {
        "platform": platform.value,
        "format": rules.format.value,
        "limit": ceiling,
        "counting": rules.counting.value,
        "chunks": [{"text": one.text, "plain": one.plain, "size": _size(one.text, rules)} for one in chunks],
    }


def _size(text: str, rules: PlatformRules) -> int:
    """As the platform counts it; where markup does not count, it is taken out as the platform would."""
    counted = text if rules.markup_bytes is None else html.unescape(_TAG.sub("", text))
    return measure(counted, rules.counting)


def print_rendered(out: Console, text: str, platform: Platform, limit: int | None, *, plain: bool) -> None:
    data = rendered_data(text, platform, limit)
    count = len(data["chunks"])
    out.print(Text(f"{platform.value}: {data['format']}, {count} chunk{'' if count == 1 else 's'}", style="bold"))
    for number, one in enumerate(data["chunks"], 1):
        unit = data["counting"].replace("_", " ")
        out.print(Text(f"── {number} of {count}, {one['size']:,} {unit}", style="dim"))
        out.print(one["plain" if plain else "text"].translate(_SEEN), markup=False, soft_wrap=True)
    out.print()


async def send_now(
    file: Path, channels: Mapping[str, Registered], draft: Draft, *, settings: Settings, budget_ms: int | None
) -> SentByHand:
    """Queue it, send what is due on this channel within the budget, and say where each chunk is then."""
    service = Channels.open(file, channels, settings=settings)
    try:
        answer = await service.deliver(draft)
        if not isinstance(answer, Enqueued):
            return SentByHand(reason=answer.reason, chunks=())
        if budget_ms is not None:
            await service.drain(only=draft.channel, budget_ms=budget_ms)
        found = [(each, await service.outbox.status(each)) for each in answer.message_ids]
        return SentByHand(reason=None, chunks=[(each, status) for each, status in found if status is not None])
    finally:
        await service.close()


def print_sent(sent: SentByHand, *, as_json: bool) -> None:
    chunks: list[dict[str, Any]] = [
        {
            "message_id": show_message_id(message_id),
            "state": status.state.value,
            "code": None if status.last_error is None else status.last_error.value,
        }
        for message_id, status in sent.chunks
    ]
    if as_json:
        print_json({"skipped": sent.reason, "chunks": chunks})
        return
    if sent.reason is not None:
        console().print(f"Nothing was queued: {sent.reason}", markup=False)
        return
    rows = [(str(number), one["message_id"], one["state"], one["code"] or "") for number, one in enumerate(chunks, 1)]
    console().print(table(f"Chunks: {len(rows)}", "chunk", "message", "state", "error", rows=rows, right=("chunk",)))
