from __future__ import annotations

import functools
import json
import re
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click
from click.core import ParameterSource

from queuelog_client.cli.app import Failed, json_option
from queuelog_client.cli.output import show_json, show_table
from queuelog_client.cli.outside import WRONG_SETTING, Given, confirm, outside, require_aws, require_core
from queuelog_client.job import JobPriority, timestamp

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from queuelog.registry import Entry, Registry
    from queuelog_client.cli.app import AnyFunction
    from queuelog_client.cli.registries import Place

UNITS = {"d": timedelta(days=1), "h": timedelta(hours=1), "m": timedelta(minutes=1)}
A_MOMENT = (
    "must be a number of days, hours or minutes from now, such as 90d, 12h or 30m, "
    "or a time with its zone, such as 2026-12-31T00:00:00Z"
)


class Listed(Given):
    """Texts with commas between them."""

    name = "list"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        """Return the list."""
        return [part.strip() for part in super().convert(value, param, ctx).split(",")]


class KeyId(click.ParamType):
    """The public part of a key; a key in full is not repeated in an error, where it would be read by others."""

    name = "id"

    def convert(self, value: str, param: click.Parameter | None, ctx: click.Context | None) -> str:
        """Return the id."""
        if not re.fullmatch(r"[A-Za-z0-9]{8}", value):
            self.fail("must be a key's id: 8 letters and digits, which `queuelog keys list` shows.", param, ctx)
        return value


def with_registry(command: AnyFunction) -> Callable[..., Any]:
    """Add --stack and --data-dir, and pass the registry's place as the argument place."""

    @click.option("--stack", metavar="NAME", type=Given(), help="The registry of a deployed queue: its stack's name.")
    @click.option(
        "--data-dir",
        metavar="DIR",
        type=click.Path(path_type=Path),
        default=".local",
        show_default=True,
        help="The registry of a local queue: its data directory.",
    )
    @functools.wraps(command)
    def with_place(*, stack: str | None, data_dir: Path, **given: Any) -> Any:
        require_core()
        from queuelog_client.cli.registries import NotChangedError, RegistryFile, RegistrySecret  # noqa: PLC0415

        if stack and click.get_current_context().get_parameter_source("data_dir") is ParameterSource.COMMANDLINE:
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
@click.argument("name", type=Given())
@click.option("--roles", required=True, metavar="LIST", type=Listed(), help="One or more of producer,worker,admin.")
@click.option("--types", metavar="LIST", type=Listed(), help="The only job types it may use.  [default: all]")
@click.option(
    "--max-priority",
    type=click.Choice([each.label for each in JobPriority], case_sensitive=False),
    help="The highest priority that it may give a job.  [default: medium; critical for an admin]",
)
@click.option("--expires", metavar="WHEN", type=Given(), help="As 90d, 12h, 30m or a time.  [default: never]")
@json_option
@with_registry
def create(
    *,
    place: Place,
    name: str,
    roles: list[str],
    types: list[str] | None,
    max_priority: str | None,
    expires: str | None,
    as_json: bool,
) -> None:
    """Make a key for the principal NAME, and show it once.

    Keys of one name are one principal: they see the same jobs.
    """
    from queuelog import InvalidRegistry  # noqa: PLC0415
    from queuelog import JobPriority as Priority  # noqa: PLC0415
    from queuelog.registry import new_entry  # noqa: PLC0415
    from queuelog_client.cli.registries import adding  # noqa: PLC0415

    expires_at = None if expires is None else _moment(expires, "--expires")
    highest = None if max_priority is None else Priority.from_label(max_priority)
    try:
        key, entry = new_entry(name, roles, types, highest, expires_at)
    except InvalidRegistry as error:
        raise Failed(str(error), exit_code=WRONG_SETTING) from error
    registry = place.change(adding(entry))
    if as_json:
        show_json({"key": key, **_shown(_entry(registry, entry["key_id"]))})
        return
    _show_key(key)
    click.echo(f"Its entry, written to {place.name}:\n\n{json.dumps(entry, indent=2)}")
    others = len(registry.key_ids(name)) - 1
    if others:
        click.echo(f"\n{name} already had {others} key(s): all are the same principal, and see the same jobs.")


@keys.command("list")
@json_option
@with_registry
def list_keys(*, place: Place, as_json: bool) -> None:
    """List the keys: whose each is, what it may do, and until when. The keys themselves are kept nowhere."""
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
                _expiry(each),
            )
            for each in entries
        ],
    )


@keys.command()
@click.argument("key_ids", metavar="[KEY_ID]...", nargs=-1, type=KeyId())
@click.option("--name", type=Given(), help="All keys of this principal.")
@click.option("--yes", is_flag=True, help="Don't ask.")
@json_option
@with_registry
def revoke(*, place: Place, key_ids: tuple[str, ...], name: str | None, yes: bool, as_json: bool) -> None:
    """Revoke keys: whoever comes with one is turned away from then on, and of a stack two minutes later."""
    from queuelog_client.cli.registries import removing  # noqa: PLC0415

    if bool(key_ids) == bool(name):
        raise click.UsageError("Say which keys: their ids, or --name for all keys of a principal.")
    registry = place.read()
    wanted = _keys_of(registry, name, place) if name else list(dict.fromkeys(key_ids))
    unknown = [each for each in wanted if each not in registry]
    if unknown:
        raise Failed(f"There is no key {', '.join(unknown)} in {place.name}: nothing was revoked.")
    named = ", ".join(f"{each} of {_entry(registry, each).principal.name}" for each in wanted)
    confirm(f"Revoke {named}?", yes=yes)
    place.change(removing(wanted))
    if as_json:
        show_json({"revoked": wanted})
        return
    click.echo(f"Revoked {named}, in {place.name}.{_delay(place)}")


@keys.command()
@click.argument("which", metavar="NAME|KEY_ID", type=Given())
@click.option(
    "--keep",
    metavar="SPAN",
    type=Given(),
    default="1d",
    show_default=True,
    help="How long the old key goes on, as 1d, 12h or 30m; 0 revokes it at once.",
)
@click.option("--expires", metavar="WHEN", type=Given(), help="When the new key ends, as 90d, a time, or never.")
@json_option
@with_registry
def rotate(*, place: Place, which: str, keep: str, expires: str | None, as_json: bool) -> None:
    """Make a new key that may do what another one may, and let the old one end.

    Without --expires it lasts for ever if the old one did. With a NAME, every key of that principal ends.
    """
    from queuelog.registry import key_id, new_key  # noqa: PLC0415
    from queuelog_client.cli.registries import rotating  # noqa: PLC0415

    now = outside().now()
    until = None if keep == "0" else _later(keep, now)
    if until is None and keep != "0":
        raise click.BadParameter("must be a span such as 1d, 12h or 30m, or 0.", param_hint="--keep")
    old = _to_rotate(place.read(), which, now, place)
    ends = any(each.expires_at for each in old)
    if expires is None and ends:
        raise click.UsageError("The old key has an end: say with --expires when the new one ends, or never.")
    expires_at = None if expires in {None, "never"} else _moment(str(expires), "--expires")
    key, gone = new_key(), [each.key_id for each in old]
    registry = place.change(rotating(gone, key, expires_at, until))
    entry = _entry(registry, str(key_id(key)))
    if as_json:
        show_json({"key": key, **_shown(entry), "replaced": gone, "replaced_until": until})
        return
    _show_key(key)
    click.echo(f"It may do what {', '.join(gone)} may, and is registered in {place.name} as {entry.principal.name}.")
    if until is None:
        click.echo(f"{', '.join(gone)} is revoked.{_delay(place)}")
    else:
        click.echo(f"Move the callers: {', '.join(gone)} ends at {timestamp(until)}, or earlier if it would have.")


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


def _expiry(entry: dict[str, Any]) -> str:
    ends: datetime | None = entry["expires_at"]
    if ends is None:
        return "never"
    return f"expired {ends:%Y-%m-%d}" if entry["expired"] else f"{ends:%Y-%m-%d %H:%M} UTC"


def _show_key(key: str) -> None:
    click.echo(f"The key, shown this once and kept nowhere:\n\n    {key}\n")


def _delay(place: Place) -> str:
    from queuelog_client.cli.registries import RegistrySecret  # noqa: PLC0415

    return " It may still be let in for two minutes." if isinstance(place, RegistrySecret) else ""


def _moment(text: str, option: str) -> datetime:
    now = outside().now()
    moment = _later(text, now) or _point_in_time(text)
    if moment is None:
        raise click.BadParameter(f"{A_MOMENT}.", param_hint=option)
    if moment <= now:
        raise click.BadParameter("lies in the past: the key would never work.", param_hint=option)
    return moment


def _later(text: str, now: datetime) -> datetime | None:
    match = re.fullmatch(r"([0-9]{1,5})([dhm])", text)
    return now + int(match[1]) * UNITS[match[2]] if match else None


def _point_in_time(text: str) -> datetime | None:
    try:
        moment = datetime.fromisoformat(text)
        return moment.astimezone(UTC) if moment.tzinfo else None
    except (ValueError, OverflowError):
        return None
