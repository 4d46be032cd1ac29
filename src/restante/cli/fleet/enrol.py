"""`restante fleet enrol`: which journal keys count in a lake."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from restante.cli.fleet.batch_jobs import AsJson
from restante.cli.fleet.last_lists import last_list_file, last_serial, remember_serial
from restante.cli.fleet.operator_key import KeyFile, PinnedKey, parse_pinned_key, read_operator
from restante.cli.fleet.spark_jobs import require_spark
from restante.cli.terminal import HINT, console, print_json
from restante.model.errors import ConfigurationInvalid
from restante.views.text_tables import table

if TYPE_CHECKING:
    from restante.core.fleet.enrolment import Enrolment


def enrol(
    *,
    lake: Annotated[str, typer.Option("--lake", metavar="PATH", help="A lake, or a directory of segments.")],
    accept: Annotated[
        str | None,
        typer.Option("--accept", metavar="KEY", help="Enrol this key; 'restante journal status' shows a journal's."),
    ] = None,
    remove: Annotated[
        str | None, typer.Option("--remove", metavar="KEY", help="Remove this key: what it signed counts no more.")
    ] = None,
    show: Annotated[bool, typer.Option("--list", help="List the keys that are enrolled or signed a segment.")] = False,
    key: KeyFile = None,
    operator_key: PinnedKey = None,
    as_json: AsJson = False,
) -> None:
    """Enrol the keys whose journals count, remove one, or list them.

    The list of keys lies in the lake, signed by the operator's key. A segment that an unknown key signed counts for
    nothing. One that nothing signs is shown in reports and leads to no action. A stream keeps what it read before a key
    was removed, until 'restante fleet stream --reset'. Lists are numbered, and a file beside the operator's key keeps
    the last number for each lake: an older list that was put back is refused.
    """
    if [show, accept is not None, remove is not None].count(True) != 1:
        raise ConfigurationInvalid("one of --list, --accept KEY and --remove KEY is needed")
    with require_spark():
        from restante.fleet.lake.enrolment_file import read_enrolment
        from restante.fleet.lake.signers import signers_of

    if changed := accept or remove:
        if key is None:
            raise ConfigurationInvalid("--accept and --remove need --key FILE: the operator signs the list of keys")
        enrolled = _changed(lake, changed, key, is_accepted=accept is not None)
        if as_json:
            print_json({"enrolled": sorted(enrolled.keys)})
            return
        console().print(f"{len(enrolled.keys):,} key{'' if len(enrolled.keys) == 1 else 's'} enrolled")
        return
    pinned = parse_pinned_key(operator_key)
    if pinned is None and key is not None:
        pinned = bytes(read_operator(key).address)
    if pinned is None:
        raise ConfigurationInvalid("--list needs --operator-key HEX or --key FILE: it shows what the operator signed")
    known = read_enrolment(lake, pinned)
    seen = signers_of(lake)
    keys = sorted((known.keys if known is not None else frozenset()) | seen.keys())
    rows = [
        {"key": one, "enrolled": known is not None and one in known.keys, "segments": seen.get(one, 0)} for one in keys
    ]
    if as_json:
        print_json(rows)
        return
    cells = [(str(row["key"]), "yes" if row["enrolled"] else "NO", f"{row['segments']:,}") for row in rows]
    console().print(table("Journal keys", "key", "enrolled", "segments signed", rows=cells, right=("segments signed",)))


def lake_key(lake: str) -> str:
    """Return the name of a lake in the file of last numbers: one, however its address is spelled."""
    from restante.fleet.lake.layout import is_here, local_path, store_address

    return str(local_path(lake).resolve()) if is_here(lake) else store_address(lake).rstrip("/")


def _changed(lake: str, changed: str, key: Path, *, is_accepted: bool) -> "Enrolment":
    """Sign a new list of keys, unless the one in the lake is older than the last that this operator signed for it.

    The last number is written again first: a list whose number cannot be kept is not signed.
    """
    from restante.core.fleet.enrolment import OlderList, parse_journal_key
    from restante.fleet.lake.enrolment_file import accept_key, remove_key

    change = accept_key if is_accepted else remove_key
    operator = read_operator(key)
    place = lake_key(lake)
    journal_key, last = parse_journal_key(changed), last_serial(key, place)
    remember_serial(key, place, last)
    try:
        made = change(lake, journal_key, operator, last_serial=last)
    except OlderList as problem:
        problem.add_note(
            f"{HINT}Put back the newest list from a backup of the lake. Without one, look with --list which keys "
            f"this one names, delete the line of the lake in {last_list_file(key)} and remove what must not count."
        )
        raise
    remember_serial(key, place, made.serial)
    return made
