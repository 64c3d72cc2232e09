"""An operator of kopf: it answers each Widget with its status, and cleans up behind a finalizer before one goes."""

import os

import kopf


@kopf.on.login()
def login(**arguments):
    if "KOPF_SERVER" not in os.environ:
        # Its own way, login_with_service_account, goes to kubernetes.default.svc whatever the variables say.
        return kopf.login_via_client(**arguments)
    return kopf.ConnectionInfo(server=os.environ["KOPF_SERVER"])


@kopf.on.startup()
def configure(settings: kopf.OperatorSettings, **_):
    settings.posting.enabled = False
    settings.networking.error_backoffs = [0.2] * 600


@kopf.on.create("widgets.example.com")
@kopf.on.update("widgets.example.com")
@kopf.on.resume("widgets.example.com")
def made(spec, patch, **_):
    patch.status["size"] = spec["size"]


@kopf.on.delete("widgets.example.com")
def gone(name, logger, **_):
    logger.info(f"cleaned up {name}")
