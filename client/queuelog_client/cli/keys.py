from __future__ import annotations

import functools
import json
import re
from datetime import datetime, timedelta
from typing import TYPE_CHECKING, Any

import click

from queuelog_client.cli.app import (
    Failed,
    ask,
    data_dir_option,
    is_given,
    json_option,
    may_ask,
    stack_option,
    yes_option,
)
from queuelog_client.cli.output import counted, local_time, show_json, show_table, when
from queuelog_client.cli.outside import outside, require_aws, require_core
from queuelog_client.cli.values import NAMES, SECONDS, TEXT, Moment, Priority

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from pathlib import Path

    from queuelog.registry import Entry, Registry
    from queuelog_client.cli.app import AnyFunction
    from queuelog_client.cli.registries import Place
    from queuelog_client.job import JobPriority

NEVER = "never"


class End(Moment):
    """When a key ends, or never."""

    def __init__(self) -> None:
        super().__init__(or_how_long="from now")

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        """Return the time, or NEVER; raise click.BadParameter."""
        if value == NEVER:
            return value
        end = super().convert(value, param, ctx)
        if end <= outside().now():
            self.fail(f"{value!r} lies in the past: the key would never work.", param, ctx)
        return end


class KeyId(click.ParamType):
    """The public part of a key; a key in full is not repeated in an error, where it would be read by others."""

    name = "id"

    def convert(self, value: str, param: click.Parameter | None, ctx: click.Context | None) -> str:
        """Return the id; raise click.BadParameter."""
        if not re.fullmatch(r"[A-Za-z0-9]{8}", value):
            self.fail("must be a key's id: 8 letters and digits, which `queuelog keys list` shows.", param, ctx)
        return value


def with_registry(command: AnyFunction) -> Callable[..., Any]:
    """Add --stack and --data-dir, and pass the registry's place as the argument place."""

    @stack_option
    @data_dir_option()
    @functools.wraps(command)
    def with_place(*, stack: str | None, data_dir: Path, **given: Any) -> Any:
        require_core()
        from queuelog_client.cli.registries import NotChangedError, RegistryFile, RegistrySecret  # noqa: PLC0415

        if stack and is_given("data_dir"):
            raise click.UsageError("--stack and --data-dir name two registries: give one.")
        if stack:
            require_aws()
        place = RegistrySecret(stack, outside().aws) if stack else RegistryFile(data_dir / "principals.json")
        try:
            return command(place=place, **given)
        except NotChangedError as error:
            raise Failed(str(error)) from error

    return with_place


@click.group()
def keys() -> None:
    """Make, list, revoke and rotate API keys."""


@keys.command()
@click.argument("name", type=TEXT)
@click.option("--roles", required=True, type=NAMES, help="One or more of producer, worker, admin, with commas.")
@click.option("--types", type=NAMES, help="The only job types that it may use, with commas.  [default: all]")
@click.option(
    "--max-priority",
    type=Priority(),
    help="The highest priority that it may give a job.  [default: medium; critical for an admin]",
)
@click.option(
    "--expires", type=End(), default=NEVER, show_default=True, help="When it ends: 90d, 12h, 2026-01-31T12:00."
)
@json_option
@with_registry
def create(
    *,
    place: Place,
    name: str,
    roles: list[str],
    types: list[str] | None,
    max_priority: JobPriority | None,
    expires: datetime | str,
    as_json: bool,
) -> None:
    """Make a key for the principal NAME, and show it once.

    Keys of one name are one principal: they see the same jobs.
    """
    from queuelog import InvalidRegistry  # noqa: PLC0415
    from queuelog import JobPriority as CorePriority  # noqa: PLC0415
    from queuelog.registry import new_entry  # noqa: PLC0415
    from queuelog_client.cli.registries import adding  # noqa: PLC0415

    highest = None if max_priority is None else CorePriority.from_label(max_priority.label)
    try:
        key, entry = new_entry(name, roles, types, highest, _end(expires))
    except InvalidRegistry as error:
        raise click.UsageError(str(error)) from None
    registry = place.change(adding(entry))
    if as_json:
        show_json({"key": key, **_shown(_entry(registry, entry["key_id"]))})
        return
    _show_key(key)
    click.echo(f"Its entry, written to {place.name}:\n\n{json.dumps(entry, indent=2)}")
    others = len(registry.key_ids(name)) - 1
    if others:
        click.echo(f"\n{name} already had {counted(others, 'key')}: all are one principal, and see the same jobs.")


@keys.command("list")
@json_option
@with_registry
def list_keys(*, place: Place, as_json: bool) -> None:
    """List whose each key is, what it may do, and until when.

    The keys themselves are kept nowhere.
    """
    entries = [_shown(entry) for entry in place.read().entries]
    if as_json:
        show_json({"keys": entries})
        return
    if not entries:
        click.echo(f"There are no keys in {place.name}.")
        return
    show_table(
        ("key id", "name", "roles", "types", "up to", "expires"),
        [
            (
                each["key_id"],
                each["name"],
                ", ".join(each["roles"]),
                "all" if each["types"] is None else ", ".join(each["types"]) or "none",
                each["max_priority"],
                NEVER if each["expires_at"] is None else when(each["expires_at"], outside().now()),
            )
            for each in entries
        ],
    )


@keys.command()
@click.argument("key_ids", metavar="[KEY_ID]...", nargs=-1, type=KeyId())
@click.option("--name", metavar="NAME", type=TEXT, help="All keys of this principal.")
@yes_option
@json_option
@with_registry
def revoke(*, place: Place, key_ids: tuple[str, ...], name: str | None, yes: bool, as_json: bool) -> None:
    """Revoke keys: whoever comes with one is turned away.

    Of a stack, two minutes later. You are asked first.
    """
    from queuelog_client.cli.registries import removing  # noqa: PLC0415

    if bool(key_ids) == bool(name):
        raise click.UsageError("Say which keys: their ids, or --name for all keys of a principal.")
    is_to_ask = may_ask(yes=yes)
    registry = place.read()
    wanted = _keys_of(registry, name, place) if name else list(dict.fromkeys(key_ids))
    unknown = [each for each in wanted if each not in registry]
    if unknown:
        raise Failed(f"There is no key {', '.join(unknown)} in {place.name}: nothing was revoked.")
    named = ", ".join(f"{each} of {_entry(registry, each).principal.name}" for each in wanted)
    if is_to_ask:
        ask(f"Revoke {named}?")
    place.change(removing(wanted))
    if as_json:
        show_json({"revoked": wanted})
        return
    click.echo(f"Revoked {named}, in {place.name}.{_delay(place)}")


@keys.command()
@click.argument("which", metavar="NAME|KEY_ID", type=TEXT)
@click.option(
    "--keep",
    type=SECONDS,
    default="1d",
    show_default=True,
    help="How long the old key goes on: 12h, 7d; 0 revokes it at once.",
)
@click.option("--expires", type=End(), help="When the new key ends: 90d, 12h, 2026-01-31T12:00, or never.")
@json_option
@with_registry
def rotate(*, place: Place, which: str, keep: int, expires: datetime | str | None, as_json: bool) -> None:
    """Make a new key that may do the same, and let the old one end.

    Without --expires it lasts for ever if the old one did. With a NAME, every key of that principal ends.
    """
    from queuelog.registry import key_id, new_key  # noqa: PLC0415
    from queuelog_client.cli.registries import rotating  # noqa: PLC0415

    now = outside().now()
    until = now + timedelta(seconds=keep) if keep else None
    old = _to_rotate(place.read(), which, now, place)
    ends = any(each.expires_at for each in old)
    if expires is None and ends:
        raise click.UsageError("The old key has an end: say with --expires when the new one ends, or never.")
    key, gone = new_key(), [each.key_id for each in old]
    registry = place.change(rotating(gone, key, _end(expires), until))
    entry = _entry(registry, str(key_id(key)))
    if as_json:
        show_json({"key": key, **_shown(entry), "replaced": gone, "replaced_until": until})
        return
    _show_key(key)
    click.echo(f"It may do what {', '.join(gone)} may, and is registered in {place.name} as {entry.principal.name}.")
    if until is None:
        click.echo(f"{', '.join(gone)} {'is' if len(gone) == 1 else 'are'} revoked.{_delay(place)}")
    else:
        end = f"{local_time(until)} ({when(until, now)})"
        verb = "ends" if len(gone) == 1 else "end"
        click.echo(f"Move the callers: {', '.join(gone)} {verb} at {end}, or earlier if it was to.")


def _to_rotate(registry: Registry, which: str, now: datetime, place: Place) -> Sequence[Entry]:
    named = [entry for entry in registry.entries if entry.principal.name == which]
    if named and which in registry:
        raise Failed(f"{which} is a key's id and another one's name: give that key's own id.")
    wanted = named or [entry for entry in registry.entries if entry.key_id == which]
    if not wanted:
        raise Failed(f"There is no key of {which}, nor one with that id, in {place.name}.")
    living = [entry for entry in wanted if not entry.has_expired(now)]
    if not living:
        raise Failed(f"What {which} has is expired already: make a new key with queuelog keys create.")
    if len({entry.principal for entry in living}) > 1:
        ids = ", ".join(entry.key_id for entry in living)
        raise Failed(f"The keys of {which} may do different things: say which one, of {ids}.")
    return living


def _keys_of(registry: Registry, name: str, place: Place) -> list[str]:
    found = registry.key_ids(name)
    if not found:
        raise Failed(f"There is no key of {name} in {place.name}: nothing was revoked.")
    return found


def _entry(registry: Registry, key_id: str) -> Entry:
    return next(entry for entry in registry.entries if entry.key_id == key_id)


def _shown(entry: Entry) -> dict[str, Any]:
    principal, types = entry.principal, entry.principal.types
    return {
        "key_id": entry.key_id,
        "name": principal.name,
        "roles": sorted(principal.roles),
        "types": None if types is None else sorted(types),
        "max_priority": principal.max_priority and principal.max_priority.label,
        "expires_at": entry.expires_at,
        "expired": entry.has_expired(outside().now()),
    }


def _show_key(key: str) -> None:
    click.echo(f"The key, shown this once and kept nowhere:\n\n    {key}\n")


def _delay(place: Place) -> str:
    from queuelog_client.cli.registries import RegistrySecret  # noqa: PLC0415

    return " It may still be let in for two minutes." if isinstance(place, RegistrySecret) else ""


def _end(said: datetime | str | None) -> datetime | None:
    return said if isinstance(said, datetime) else None
