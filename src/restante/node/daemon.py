"""The node process: starts its services in order, runs maintenance, and on shutdown commits and answers every put.

Decides what happens when, and what is logged. What a relay does is in `relay`.
"""

import asyncio
import contextlib
import os
import resource
import signal
from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass
from functools import partial
from typing import Any, Final

from restante import __version__
from restante.model.error_codes import Code
from restante.model.errors import ConfigurationInvalid, EnvironmentUnsuitable, StoreUnusable
from restante.model.node_descriptor import Role
from restante.node.circuits.family import CircuitFamily
from restante.node.config import NodeConfig
from restante.node.gc_tuning import tune_garbage_collector
from restante.node.journal_shipping import shipper_of, shipping_data
from restante.node.mesh.agent import MeshAgent
from restante.node.mesh.service import MeshIdentity, MeshService
from restante.node.mesh.status import mesh_data, mesh_health
from restante.node.metrics import RelayMetrics
from restante.node.relay import Relay
from restante.node.safe_logging import RELAY_EVENTS, Event, Level, Reason, log
from restante.node.stats import RelayEvent
from restante.node.status_server import Answers, StatusServer
from restante.node.store_health import StoreHealth, StoreStatus, WatchedFile
from restante.runtime.directory_lock import DirectoryLock, hold
from restante.runtime.endpoints import Endpoint
from restante.runtime.family_certificates import load_certificate
from restante.runtime.journal.node_identity import append_node_started
from restante.runtime.journal.pruner import JournalPruner
from restante.runtime.node_home import NodeDirectory
from restante.runtime.onion_keys import OnionKeys
from restante.runtime.sqlite.file.node_file import NodeFile
from restante.runtime.sqlite.mailbox.maintenance import delay_reaping, journal_refusals
from restante.runtime.sqlite.mailbox.store import SqliteMailbox
from restante.runtime.system import SystemEntropy
from restante.runtime.systemd import ServiceState, notify
from restante.runtime.testing_clock import moved_clock
from restante.wire.inbox_keys import node_id_of

GRACE_S: Final = 10.0  # how long queued puts may take after SIGTERM
FILE_CHECK_INTERVAL_S: Final = 1.0
REFUSAL_INTERVAL_S: Final = 60.0
BUSY_MS: Final = 500  # a lock of another process stops the whole node for this long, then puts get E004
SPARE_FILES: Final = 128  # files the process opens besides connections

STOP_SIGNALS: Final = (signal.SIGTERM, signal.SIGINT)
REAP_SIGNAL: Final = signal.SIGUSR1


@dataclass(slots=True)
class _LastReap:
    """Published in the status page; `restante node gc` waits for `times` to grow."""

    times: int = 0
    failed_times: int = 0
    at_ms: int | None = None
    blobs: int = 0


def run_node(directory: NodeDirectory, config: NodeConfig) -> None:
    """Run until SIGTERM or SIGINT; return after everything accepted is committed and answered."""
    directory.check()
    _raise_file_limit(config.settings.relay.max_connections)
    with hold(directory.lock, what=f"the node in {directory.path}") as lock:
        asyncio.run(_Node(directory, config).run(lock))


class _Node:
    def __init__(self, directory: NodeDirectory, config: NodeConfig) -> None:
        self._config = config
        self._clock = moved_clock(config.clock_offset_ms)
        self._started_at_ms = self._clock.now_ms()
        self._identity = directory.identity()
        self._owned = NodeFile.open(directory.database, entropy=SystemEntropy(), busy_timeout_ms=BUSY_MS)
        self._database = self._owned.database
        journal = self._owned.journal
        reap_not_before_ms = delay_reaping(self._database, now_ms=self._started_at_ms)
        node_id = node_id_of(self._identity.node_key)
        append_node_started(self._database, journal, node_id, roles=config.roles, now_ms=self._started_at_ms)
        self._file = WatchedFile(self._database, self._owned.commits)
        self._store = SqliteMailbox(self._database, journal, tag_secret=self._identity.tag_secret)
        self._relay = Relay(
            self._identity,
            self._store,
            commits=self._file,
            settings=config.settings,
            clock=self._clock,
            entropy=SystemEntropy(),
            on_event=self._on_relay_event,
            reap_not_before_ms=reap_not_before_ms,
            is_mailbox=Role.MAILBOX in config.roles,
        )
        self._mesh = self._make_mesh_agent(directory) if config.is_in_mesh else None
        self._onion_keys = OnionKeys(directory.onion_keys, SystemEntropy())
        self._circuits: CircuitFamily | None = None
        self._health = StoreHealth(self._database, self._file, takes_puts=lambda: self._relay.stats().store_usable)
        self._shipper = shipper_of(config, self._database, journal, commits=self._file, clock=self._clock)
        is_shipped = config.ship_to is not None
        pruner = JournalPruner(self._database, commits=self._file, clock=self._clock, is_shipped=is_shipped)
        self._store_failing = False
        self._last_reap = _LastReap()
        self._maintenance = [self._reap_periodically, self._watch_file, self._journal_refusals, pruner.run]
        self._maintenance += [] if self._mesh is None else [self._mesh.run]
        self._reap_now = asyncio.Event()
        self._stop_requested = asyncio.Event()
        self._hurry = asyncio.Event()

    async def run(self, lock: DirectoryLock) -> None:
        shipping = None if self._shipper is None else self._shipper.stats
        mesh = None if self._mesh is None else self._mesh.stats
        metrics = RelayMetrics(self._relay.stats, database=self._database.path, shipping=shipping, mesh=mesh)
        status = StatusServer(Answers(health=self._answer_health, metrics=metrics.text, status=self._answer_status))
        try:
            with _signals(self._stop_requested, self._hurry, self._reap_now):
                status_at = await status.start(self._config.status)
                listen_at = await self._listen()
                tune_garbage_collector()
                lock.write_note({"pid": os.getpid(), "listen": str(listen_at), "status": str(status_at)})
                log(Level.INFO, Event.LISTENING, pid=os.getpid())
                if not status_at.is_loopback:
                    log(Level.WARNING, Event.STATUS_EXPOSED)
                if self._shipper is not None:
                    self._shipper.start()
                notify(ServiceState.READY)
                await self._run_maintenance()
                await self._stop()
        finally:
            self._owned.commits.close()
            await status.stop()
            if self._mesh is not None:
                self._mesh.service.close()
            self._store.close()
            self._owned.close()

    def _make_mesh_agent(self, directory: NodeDirectory) -> MeshAgent:
        config = self._config
        own = MeshIdentity(
            identity=self._identity,
            roles=config.roles,
            certificate=load_certificate(directory.certificate),
            is_private=config.is_private,
        )
        journal, settings = self._owned.journal, config.settings
        service = MeshService(
            own, self._database, journal, self._store, self._file, settings=settings, clock=self._clock
        )
        self._relay.register(service.family)
        return MeshAgent(service, self._file, settings=settings, entropy=SystemEntropy(), bootstrap=config.bootstrap)

    def _forward_circuits(self, mesh: MeshAgent) -> CircuitFamily:
        """Serve as a hop: the descriptor names an onion key, and the frames of circuits are handled."""
        view = mesh.service.view
        view.onion_key = lambda now_ms: self._onion_keys.rotate(now_ms=now_ms)
        self._onion_keys.rotate(now_ms=self._clock.now_ms())
        family = CircuitFamily(
            self._identity,
            view.find_valid,
            self._onion_keys.good,
            entropy=SystemEntropy(),
            circuit_limits=self._config.settings.circuits,
            limits=self._config.settings.relay,
        )
        self._relay.register(family)
        return family

    async def _listen(self) -> Endpoint:
        wanted = self._config.listen
        if self._mesh is not None and Role.HOP in self._config.roles:
            self._circuits = self._forward_circuits(self._mesh)
        try:
            server = await self._relay.listen(wanted.host, wanted.port)
        except OSError as error:
            why = os.strerror(error.errno) if error.errno else str(error)
            raise EnvironmentUnsuitable(f"node.listen = {wanted} cannot be listened at: {why}") from error
        host, port = server.sockets[0].getsockname()[:2]
        if self._mesh is not None:
            self._mesh.listens_at(host, port)
        return Endpoint(host=host, port=port)

    async def _run_maintenance(self) -> None:
        """Return when a signal requests the end; stop the node and raise if a maintenance task fails."""
        tasks = [asyncio.create_task(each()) for each in self._maintenance]
        stopping = asyncio.create_task(self._stop_requested.wait())
        done, _ = await asyncio.wait({stopping, *tasks}, return_when=asyncio.FIRST_COMPLETED)
        for task in (stopping, *tasks):
            task.cancel()
        await asyncio.gather(stopping, *tasks, return_exceptions=True)
        if stopping not in done:
            await self._stop()
            await asyncio.gather(*done)

    async def _stop(self) -> None:
        notify(ServiceState.STOPPING)
        log(Level.INFO, Event.STOPPING, connections=self._relay.stats().connections)
        if self._mesh is not None:
            await self._leave(self._mesh)
        if self._circuits is not None:
            await self._circuits.stop()
        await self._relay.stop(grace_s=GRACE_S)
        if self._shipper is not None:
            await self._shipper.finish()
        stats = self._relay.stats()
        clean = not stats.pending_put_bytes
        log(Level.INFO, Event.STOPPED, clean=clean, puts=stats.puts_stored_total, pending=stats.pending_puts)

    async def _leave(self, mesh: MeshAgent) -> None:
        """Hand over what the node holds for the mesh. A second signal ends that: its copies stay on disk."""
        leaving = asyncio.create_task(mesh.leave())
        hurrying = asyncio.create_task(self._hurry.wait())
        await asyncio.wait({leaving, hurrying}, return_when=asyncio.FIRST_COMPLETED)
        for task in (leaving, hurrying):
            task.cancel()
        await asyncio.gather(leaving, hurrying, return_exceptions=True)
        await mesh.stop()

    async def _reap_periodically(self) -> None:
        interval_s = self._config.settings.relay.reap_interval_ms / 1_000
        while True:
            if self._reap_now.is_set() or self._relay.may_reap():
                self._reap_now.clear()
                await self._reap()
            else:
                log(Level.WARNING, Event.REAP_DELAYED)
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(interval_s):
                    await self._reap_now.wait()

    async def _journal_refusals(self) -> None:
        """Append once a minute how many requests were refused, by code (SPEC 13.1)."""
        journaled: Counter[Code] = Counter()
        while True:
            await asyncio.sleep(REFUSAL_INTERVAL_S)
            refused = Counter(self._relay.stats().refusals_total)
            since = refused - journaled
            if not since:
                continue
            with contextlib.suppress(StoreUnusable):  # then the next minute has them
                await self._file.run(partial(self._append_refusals, since))
                journaled = refused

    def _append_refusals(self, refusals: Mapping[Code, int]) -> None:
        journal_refusals(self._owned.journal, refusals, now_ms=self._clock.now_ms())

    async def _reap(self) -> None:
        loop = asyncio.get_running_loop()
        began_s = loop.time()
        try:
            blobs = await self._relay.reap()
        except StoreUnusable as problem:
            self._last_reap.failed_times += 1
            log(Level.WARNING, Event.REAP_FAILED, problem)
            return
        self._last_reap = _LastReap(
            times=self._last_reap.times + 1,
            failed_times=self._last_reap.failed_times,
            at_ms=self._clock.now_ms(),
            blobs=blobs,
        )
        stats = self._relay.stats()
        log(
            Level.INFO,
            Event.REAPED,
            blobs=blobs,
            ms=round((loop.time() - began_s) * 1_000, 1),
            connections=stats.connections,
            puts=stats.puts_stored_total,
            served=stats.blobs_served_total,
            refusals=sum(stats.refusals_total.values()),
        )

    async def _watch_file(self) -> None:
        while True:
            await asyncio.sleep(FILE_CHECK_INTERVAL_S)
            if not self._file.look():
                break
        self._store_failing = True
        log(Level.ERROR, Event.STORE_FAILED, code=Code.STORE_UNUSABLE, reason=Reason.FILE_GONE)
        await asyncio.get_running_loop().create_future()  # a replaced file never comes back

    def _on_relay_event(self, event: RelayEvent, code: Code | None) -> None:
        """Log changes of the store's state; log events of single connections only at level `debug`."""
        failed, recovered = event is RelayEvent.STORE_FAILED, event is RelayEvent.STORE_RECOVERED
        if failed and not self._store_failing:
            log(Level.ERROR, Event.STORE_FAILED, code=code or Code.STORAGE_FAILED)
        elif recovered and self._store_failing:
            log(Level.INFO, Event.STORE_RECOVERED)
        elif not failed:
            log(Level.DEBUG, RELAY_EVENTS[event], **({} if code is None else {"code": code}))
        self._store_failing = (self._store_failing or failed) and not recovered

    async def _answer_health(self) -> tuple[bool, Mapping[str, Any]]:
        health = await self._health.check()
        return health.usable, self._health_data(health) | {
            "shipping": self._shipping_state(),
            "mesh": mesh_health(self._mesh),
        }

    async def _answer_status(self) -> Mapping[str, Any]:
        return {
            "version": __version__,
            "pid": os.getpid(),
            "started_at_ms": self._started_at_ms,
            "now_ms": self._clock.now_ms(),
            "health": self._health_data(await self._health.check()),
            "last_reap": asdict(self._last_reap),
            "relay": asdict(self._relay.stats()),
            "shipping": shipping_data(self._shipper),
            "mesh": mesh_data(self._mesh),
        }

    def _health_data(self, health: StoreStatus) -> dict[str, Any]:
        return {
            "usable": health.usable,
            "reason": health.reason,
            "code": health.code,
            "reaping": "working" if self._relay.may_reap() else "delayed, the clock jumped before the start",
            "damaged_blobs": self._relay.stats().blobs_damaged_total,
        }

    def _shipping_state(self) -> str:
        if self._shipper is None:
            return "off"
        return "failing" if self._shipper.stats().is_failing else "working"


@contextlib.contextmanager
def _signals(stop: asyncio.Event, hurry: asyncio.Event, reap: asyncio.Event) -> Iterator[None]:
    """Set the events on signals; a second request to stop sets `hurry`.

    SIGHUP is ignored: a closed terminal must not end a node.
    After the block all of them are ignored until the process ends, so that a second SIGTERM or a late SIGUSR1 does
    not turn a clean end into a failure.
    """
    loop = asyncio.get_running_loop()

    def request_stop() -> None:
        if stop.is_set():
            hurry.set()
        stop.set()

    for one in STOP_SIGNALS:
        signal.signal(one, lambda _number, _frame: loop.call_soon_threadsafe(request_stop))
    signal.signal(REAP_SIGNAL, lambda _number, _frame: loop.call_soon_threadsafe(reap.set))
    signal.signal(signal.SIGHUP, signal.SIG_IGN)
    try:
        yield
    finally:
        for one in (*STOP_SIGNALS, REAP_SIGNAL):
            signal.signal(one, signal.SIG_IGN)


def _raise_file_limit(most: int) -> None:
    """Raise the limit of open files, since each connection is one."""
    wanted = most + SPARE_FILES
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if hard != resource.RLIM_INFINITY and wanted > hard:
        raise ConfigurationInvalid(
            f"relay.max_connections = {most} needs {wanted} open files, this process may have {hard}: "
            "lower the setting, or raise the limit (ulimit -n, LimitNOFILE=)"
        )
    if soft != resource.RLIM_INFINITY and wanted > soft:
        resource.setrlimit(resource.RLIMIT_NOFILE, (wanted, hard))
