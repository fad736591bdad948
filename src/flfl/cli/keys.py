"""``flfl keys``: certificates, identities and the roster."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import click

from flfl.cli.options import json_option
from flfl.cli.output import print_json
from flfl.report.content import count
from flfl.service.keys import (
    BROKER,
    REVOKED,
    ROSTER,
    Made,
    accept_certificate,
    make_authority,
    make_certificate,
    make_request,
    make_site,
    sign_request,
    write_roster,
)
from flfl.service.keys import revoke as revoke_site
from flfl.transport.link import COORDINATOR

_folder = click.option(
    "--folder",
    default="keys",
    show_default=True,
    type=click.Path(path_type=Path),
    help="Where the operators keep the authority.",
)
_days = click.option(
    "--days", default=365, show_default=True, type=int, help="How long certificates are valid."
)


@click.group()
def keys() -> None:
    """Make the certificates, identities and the roster of a network.

    \b
    Example:
      flfl keys init --network north --host broker.example.org   (operators)
      flfl keys request harbour                                 (at the site)
      flfl keys sign harbour.request                            (operators)
      flfl keys accept harbour.pem                              (at the site)
      flfl keys roster                                          (operators)
    """


@keys.command()
@click.option("--network", required=True, help="Name of the network.")
@click.option(
    "--host", "hosts", multiple=True, help="Name of the broker or SuperLink; may be repeated."
)
@_folder
@_days
@json_option
def init(network: str, hosts: tuple[str, ...], folder: Path, days: int, as_json: bool) -> None:
    """Make the authority, and certificates of the broker and the coordinator.

    \b
    Example:
      flfl keys init --network north --host broker.example.org
    """
    made = [make_authority(folder, network)]
    made.append(make_certificate(folder, BROKER, days, hosts or ("localhost", "127.0.0.1")))
    made.append(make_certificate(folder, COORDINATOR, days))
    _tell(made, as_json)


@keys.command()
@click.argument("name")
@_folder
@_days
@json_option
def site(name: str, folder: Path, days: int, as_json: bool) -> None:
    """Make all keys of a site here, to try a network on one machine.

    Whoever makes a key could use it: owners make their own with `flfl keys request`.

    \b
    Example:
      flfl keys site harbour
    """
    _tell([make_site(folder, name, days)], as_json)


@keys.command()
@click.argument("name")
@_folder
@json_option
def request(name: str, folder: Path, as_json: bool) -> None:
    """Make a site's keys at home, and a request for its certificate.

    The keys stay in the folder; the file .request goes to the operators. Do the same to renew a
    certificate: the identity stays, and a running site keeps its old pair until `flfl keys accept`.

    \b
    Example:
      flfl keys request harbour
    """
    path, shown = make_request(folder, name)
    if as_json:
        print_json({"request": str(path), "fingerprint": shown})
        return
    click.echo(f"{path}: send it to the operators, and tell them its fingerprint: {shown}")


@keys.command()
@click.argument("path", metavar="REQUEST", type=click.Path(path_type=Path))
@_folder
@_days
@json_option
def sign(path: Path, folder: Path, days: int, as_json: bool) -> None:
    """Sign a site's REQUEST, after its owner has told the same fingerprint.

    \b
    Example:
      flfl keys sign harbour.request
    """
    made, name, shown = sign_request(folder, path, days)
    if as_json:
        files = [str(one) for one in made.paths]
        expires = made.expires.isoformat()
        print_json({"site": name, "fingerprint": shown, "files": files, "expires": expires})
        return
    click.echo(f"{name}, fingerprint {shown}")
    _tell([made], as_json=False)
    click.echo(f"Send {made.paths[0]} back, with authority.pem and roster.json.")


@keys.command()
@click.argument("path", metavar="CERTIFICATE", type=click.Path(path_type=Path))
@_folder
@json_option
def accept(path: Path, folder: Path, as_json: bool) -> None:
    """Put the CERTIFICATE that the operators signed beside the key that waits for it.

    A running site takes it within seconds.

    \b
    Example:
      flfl keys accept harbour.pem
    """
    _tell([accept_certificate(folder, path)], as_json)


@keys.command()
@click.argument("names", nargs=-1)
@click.option("--threshold", default=0, help="Sites a sum needs.  [default: two thirds and one]")
@_folder
@json_option
def roster(names: tuple[str, ...], threshold: int, folder: Path, as_json: bool) -> None:
    """Write the list of sites that all parties get; without NAMES, of all that have keys here and
    were not revoked.

    \b
    Example:
      flfl keys roster
    """
    listed = write_roster(folder, names, threshold)
    if as_json:
        print_json({"roster": str(folder / ROSTER), "sites": list(listed.names)})
        return
    click.echo(
        f"{folder / ROSTER}: {count(len(listed.names), 'site')}, {listed.threshold} for a sum"
    )


@keys.command()
@click.argument("name")
@_folder
@json_option
def revoke(name: str, folder: Path, as_json: bool) -> None:
    """Put a site's certificates on the revocation list. Give the list to the broker.

    \b
    Example:
      flfl keys revoke harbour
    """
    listed = revoke_site(folder, name)
    if as_json:
        print_json({"revoked": str(folder / REVOKED), "certificates": listed})
        return
    click.echo(
        f"{folder / REVOKED}: {count(listed, 'certificate')}. Restart the broker with it, and write"
        " the roster anew without the site."
    )


def _tell(made: Sequence[Made], as_json: bool) -> None:
    if as_json:
        rows = [
            {"files": [str(path) for path in one.paths], "expires": one.expires.isoformat()}
            for one in made
        ]
        print_json({"made": rows})
        return
    for one in made:
        click.echo(f"{', '.join(str(path) for path in one.paths)} (until {one.expires:%Y-%m-%d})")
