"""`restante channel` as an operator runs it, with a webhook that really listens."""

import asyncio
import json
import os
from collections.abc import AsyncIterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from support.channels.fixtures import long_text
from support.channels.http_platform import HttpPlatform, Reply, as_json, listening
from support.cli.forked_commands import run_forked
from support.spec.clauses import clause

SECRET = "a-shared-secret"  # noqa: S105 - of this test only


@dataclass(frozen=True, slots=True, kw_only=True)
class Shell:
    directory: Path
    hook: HttpPlatform

    async def run(self, *arguments: str, status: int = 0, text: str = "") -> tuple[str, str]:
        kept = {name: value for name, value in os.environ.items() if not name.startswith("RESTANTE_")}
        env = kept | {"COLUMNS": "80", "NO_COLOR": "1", "RESTANTE_FILE": "mail.db", "HOOK": SECRET}
        done = await asyncio.to_thread(run_forked, *arguments, cwd=self.directory, env=env, text=text)
        assert done.returncode == status, done.stdout + done.stderr
        assert "Traceback" not in done.stderr
        assert SECRET not in done.stdout + done.stderr
        return done.stdout, done.stderr

    async def json(self, *arguments: str, status: int = 0, text: str = "") -> Any:
        out, _ = await self.run(*arguments, "--json", status=status, text=text)
        return json.loads(out)


@pytest.fixture
async def shell(tmp_path: Path) -> AsyncIterator[Shell]:
    async with listening(HttpPlatform(lambda _asked: as_json(message_id="n1", accepts=True))) as hook:
        (tmp_path / "restante.toml").write_text(
            f'[channels.hook]\nadapter = "webhook"\nurl = "{hook.url}"\nsecret_env = "HOOK"\n'
        )
        (tmp_path / "long.md").write_text(long_text(3))
        yield Shell(directory=tmp_path, hook=hook)


@clause("12.1")
async def test_the_platforms_message_id_is_shown_after_the_chunk_was_delivered(shell: Shell) -> None:
    sent = await shell.json("channel", "send", "hook", "room", "long.md")
    message_id = sent["chunks"][0]["message_id"]
    assert (await shell.json("outbox", "show", message_id))["platform_message_id"] == "n1"
    text, _ = await shell.run("outbox", "show", message_id)
    assert "id at the platform" in text


async def test_a_long_message_arrives_in_chunks_and_the_file_is_sound(shell: Shell) -> None:
    told = await shell.json("channel", "send", "hook", "room", "long.md", "--title", "T", "--reply-to", "7")
    assert [one["state"] for one in told["chunks"]] == ["delivered"] * 3
    sent = [asked.json() for asked in shell.hook.accepted]
    assert [(one["index"], one["reply_to"], one["title"]) for one in sent] == [
        (0, "7", "T"),
        (1, None, "T"),
        (2, None, "T"),
    ]
    assert (await shell.json("outbox", "check"))["sound"]


async def test_what_is_only_queued_is_listed_and_leaves_with_the_next_send(shell: Shell) -> None:
    await shell.run("channel", "send", "hook", "room", "-", "--queue-only", text="first")
    listed = await shell.json("outbox", "list")
    assert [one["lane"] for one in listed["messages"]] == ["hook/room"]
    await shell.run("channel", "send", "hook", "room", "-", text="second")
    assert [asked.json()["text"] for asked in shell.hook.accepted] == ["first", "second"]


async def test_messages_of_other_channels_in_the_file_are_left_alone(shell: Shell) -> None:
    await shell.run("channel", "send", "hook", "room", "-", "--queue-only", text="waits")
    other = f'[channels.other]\nadapter = "webhook"\nurl = "{shell.hook.url}"\nsecret_env = "HOOK"\n'
    (shell.directory / "other.toml").write_text(other)
    await shell.run("--config", "other.toml", "channel", "send", "other", "room", "-", text="goes")
    assert [asked.json()["text"] for asked in shell.hook.accepted] == ["goes"]
    assert [one["state"] for one in (await shell.json("outbox", "list"))["messages"]] == ["pending"]


async def test_a_final_refusal_is_shown_and_is_the_exit_status(shell: Shell) -> None:
    shell.hook.replies.append(Reply(status=400, body=b"invalid recipient"))
    told = await shell.json("channel", "send", "hook", "room", "long.md", status=1)
    assert [(one["state"], one["code"]) for one in told["chunks"]] == [("dead", "E120"), ("dead", None), ("dead", None)]
    letters = await shell.json("dlq", "list", status=3)
    assert sorted(one["reason"] for one in letters["dead_letters"]) == ["cancelled", "cancelled", "permanent_failure"]


async def test_an_empty_text_is_skipped_visibly(shell: Shell) -> None:
    assert await shell.json("channel", "send", "hook", "room", "-", text=" \n") == {"skipped": "empty", "chunks": []}
    out, _ = await shell.run("channel", "send", "hook", "room", "-", text=" \n")
    assert out == "Nothing was queued: empty\n"


async def test_a_test_says_what_works_and_what_does_not(shell: Shell) -> None:
    told = await shell.json("channel", "test", "hook", "--chat", "room")
    assert [(one["step"], one["ok"]) for one in told] == [
        ("configured", True),
        ("starts", True),
        ("answers", True),
        ("accepts a message", True),
    ]
    shell.hook.replies.append(Reply(status=403, body=b"go away\x1b[31m"))
    out, _ = await shell.run("channel", "test", "hook", "--chat", "room", status=1)
    assert "E120" in out
    assert "go away [31m" in out


async def test_channels_and_renderings_are_told_as_json(shell: Shell) -> None:
    [channel] = (await shell.json("channel", "list"))["channels"]
    assert (channel["channel"], channel["adapter"], channel["chunk_limit"]) == ("hook", "webhook", 4_000)
    platforms = await shell.json("channel", "render", "long.md")
    assert {one["platform"]: len(one["chunks"]) for one in platforms}["telegram"] == 3
    assert len(platforms) == 10
    for one in platforms:
        assert all(chunk["size"] <= one["limit"] for chunk in one["chunks"]), one["platform"]
    [short] = await shell.json("channel", "render", "long.md", "--platform", "slack", "--limit", "100")
    assert short["limit"] == 100


MISTAKES = (
    (("channel", "send", "nope", "room", "long.md"), 1, "E121", "it has hook"),
    (("channel", "test", "nope"), 1, "E121", "it has hook"),
    (("channel", "send", "hook", "room", "none.md"), 1, "E109", "cannot read none.md"),
    (("channel", "render", "none.md"), 1, "E109", "cannot read none.md"),
    (("channel", "send", "hook", "", "long.md"), 2, "E101", "printable"),
    (("--config", "none.toml", "channel", "list"), 2, "E107", "cannot read none.toml"),
    (("channel", "send", "hook", "room", "long.md", "--file", "long.md"), 1, "E106", "long.md is damaged"),
)


async def test_mistakes_are_answered_with_their_code(shell: Shell) -> None:
    answers = await asyncio.gather(*(shell.run(*arguments, status=status) for arguments, status, _, _ in MISTAKES))
    for (arguments, _, code, said), (_, err) in zip(MISTAKES, answers, strict=True):
        assert f"error {code}" in err, arguments
        assert said in err, arguments
