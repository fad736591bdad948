"""Verbs that are loaded when they are run: their imports take seconds, the list of them none."""

from __future__ import annotations

from collections.abc import Mapping
from importlib import import_module
from typing import Any

import click

from flfl.cli.say import FriendlyGroup


class LaterGroup(FriendlyGroup):
    """A group of verbs, each in the module ``flfl.cli.VERB`` under its own name.

    Parameters
    ----------
    summaries : what the list of verbs says of each, before any is loaded
    """

    def __init__(self, *arguments: Any, summaries: Mapping[str, str], **options: Any) -> None:
        super().__init__(*arguments, **options)
        self._later = set(summaries)
        for name, summary in summaries.items():
            self.add_command(click.Command(name, help=summary))

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        """Load the verb that is to be run, completed or explained."""
        name, command, rest = super().resolve_command(ctx, args)
        return name, command if name is None else self._loaded(name), rest

    def load_all(self) -> None:
        """Load every verb, for whoever looks at the options of all."""
        for name in self.commands:
            self._loaded(name)

    def _loaded(self, name: str) -> click.Command:
        if name in self._later:
            self._later.remove(name)
            self.commands[name] = getattr(import_module(f"flfl.cli.{name}"), name)
        return self.commands[name]
