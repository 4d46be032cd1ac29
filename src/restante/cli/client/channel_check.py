"""What `restante channel list` and `test` show."""

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Final

from restante.model.error_codes import Code
from restante.model.errors import RestanteError
from restante.policy.channel_platforms import RULES, Format
from restante.ports.channel_adapter import Outgoing
from restante.runtime.channels.channel_config import Registered
from restante.runtime.system import SystemEntropy

TEST_TEXT: Final = "A test by restante: this channel works."
_KEY_BYTES: Final = 16


@dataclass(frozen=True, slots=True, kw_only=True)
class Outcome:
    """One step of a test, and what was said."""

    step: str
    words: str
    problem: Code | None = None


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
