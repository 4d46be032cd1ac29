"""The work of `restante channel list` and `restante channel test`."""

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

TEST_TEXT: Final = "Test message from Restante: this channel works."
_KEY_BYTES: Final = 16


@dataclass(frozen=True, slots=True, kw_only=True)
class CheckStep:
    """One step of a test, with the platform's answer."""

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


async def check_channel(registered: Registered, chat: str | None) -> list[CheckStep]:
    """Create and start the adapter, check the platform and, with `chat`, send a message. Stop at the first failure."""
    done: list[CheckStep] = []
    step = "configured"
    adapter = None
    try:
        async with asyncio.timeout(3 * registered.limits.timeout_ms / 1_000):
            adapter = registered.make()
            done.append(CheckStep(step=step, words=f"{registered.adapter}, {registered.platform.value}"))
            step = "starts"
            await adapter.start()
            done.append(CheckStep(step=step, words=""))
            step = "answers"
            done.append(CheckStep(step=step, words=await adapter.check()))
            if chat is not None:
                step = "accepts a message"
                key = SystemEntropy().draw(_KEY_BYTES).hex()
                taken = await adapter.send(
                    Outgoing(chat=chat, text=TEST_TEXT, plain=TEST_TEXT, format=Format.PLAIN, key=key, thread_key=key)
                )
                done.append(
                    CheckStep(
                        step=step, words="" if taken.platform_message_id is None else f"as {taken.platform_message_id}"
                    )
                )
    except RestanteError as problem:
        said = getattr(problem, "said", "")
        words = f"{problem}: {_printable(said)}" if said else str(problem)
        done.append(CheckStep(step=step, words=f"{problem.code.value} {words}", problem=problem.code))
    except Exception as problem:  # noqa: BLE001 - a user's adapter may raise anything
        code = Code.CHANNEL_UNAVAILABLE
        done.append(CheckStep(step=step, words=f"{code.value} {type(problem).__name__}", problem=code))
    finally:
        if adapter is not None:
            await adapter.close()
    return done


def _printable(text: str) -> str:
    """Return a platform's answer without characters that control a terminal."""
    return "".join(each if each.isprintable() else " " for each in text[:200])


def steps_data(steps: Sequence[CheckStep]) -> list[dict[str, Any]]:
    return [
        {"step": one.step, "ok": one.problem is None, "code": one.problem and one.problem.value, "answer": one.words}
        for one in steps
    ]
