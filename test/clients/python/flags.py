"""Evaluates flags over OFREP with the provider that OpenFeature publishes, and prints them as one JSON object."""

import json
import sys

from openfeature import api
from openfeature.contrib.provider.ofrep import OFREPProvider

api.set_provider(OFREPProvider(sys.argv[1]))
client = api.get_client()
color = client.get_string_details("color", "none")
absent = client.get_string_details("absent", "default")
json.dump(
    {
        "color": color.value,
        "reason": color.reason,
        "variant": color.variant,
        "isOpen": client.get_boolean_value("open", False),
        "limit": client.get_integer_value("limit", 0),
        "absent": absent.value,
        "error": absent.error_code.value,
    },
    sys.stdout,
)
