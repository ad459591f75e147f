"""`kafka2011 settings`."""

from __future__ import annotations

import click

from kafka2011.cli.options import examples
from kafka2011.cli.output import json_option, show_table
from kafka2011.config import BrokerConfig, ConsumerConfig, GatewayConfig, ProducerConfig, Settings

_COMPONENTS: dict[str, type[Settings]] = {
    "broker": BrokerConfig,
    "producer": ProducerConfig,
    "consumer": ConsumerConfig,
    "gateway": GatewayConfig,
}


@click.command("settings", epilog=examples("kafka2011 settings broker", "kafka2011 settings consumer --json"))
@click.argument("component", type=click.Choice(list(_COMPONENTS)), required=False)
@json_option
def command(component: str | None, as_json: bool) -> None:
    """Show the settings of brokers, producers, consumers and the gateway: name, default and meaning.

    Set them in a file, with --override or --property, or as the environment variable shown.
    """
    rows = [
        (name, setting.key, setting.default_text.strip("`") or None, setting.variable, setting.doc.replace("`", ""))
        for name in ([component] if component else _COMPONENTS)
        for setting in _COMPONENTS[name].settings()
    ]
    show_table(("component", "setting", "default", "variable", "meaning"), rows, as_json=as_json)
