"""A chat platform in memory: gives the answers it was configured with and stores what was sent."""

from collections import deque
from collections.abc import Iterable

from restante.policy.channel_platforms import Platform
from restante.policy.channel_rate_limit import ChannelLimits
from restante.ports.channel_adapter import ChannelAdapter, NotSent, Outgoing, PlatformAck


class MemoryChannel(ChannelAdapter):
    """Accepts every message after the configured `answers` are used up. An exception among them is raised."""

    def __init__(
        self,
        *,
        platform: Platform = Platform.OTHER,
        answers: Iterable[PlatformAck | Exception] = (),
        recognises_repeats: bool = False,
        limits: ChannelLimits | None = None,
    ) -> None:
        self.platform = platform
        self.recognises_repeats = recognises_repeats
        self.limits = limits or ChannelLimits()
        self.answers = deque(answers)
        self.asked: list[Outgoing] = []
        self.taken: list[Outgoing] = []
        self.failing_starts = 0

    async def start(self) -> None:
        if self.failing_starts:
            self.failing_starts -= 1
            raise NotSent("the channel does not start yet")

    async def send(self, message: Outgoing) -> PlatformAck:
        self.asked.append(message)
        answer = self.answers.popleft() if self.answers else PlatformAck(f"m{len(self.taken) + 1}")
        if isinstance(answer, Exception):
            raise answer
        self.taken.append(message)
        return answer

    @property
    def texts(self) -> list[str]:
        return [one.text for one in self.taken]
