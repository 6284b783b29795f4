"""The configuration that makes a kube-scheduler call an extender."""

from __future__ import annotations

from typing import Any

from mooring.extender.handlers import Served


def entry_for(
    served: Served, url: str, *, ca_file: str = "", cert_file: str = "", key_file: str = ""
) -> dict[str, Any]:
    """An entry of ``extenders``: the verbs that there are, and what the extender says about itself."""
    settings = served.settings
    entry: dict[str, Any] = {"urlPrefix": url.rstrip("/")}
    for verb in served.verbs:
        entry[f"{verb}Verb"] = verb
    if "prioritize" in served.verbs:
        entry["weight"] = settings.weight
    if url.startswith("https:"):
        entry["enableHTTPS"] = True
        files = {"caFile": ca_file, "certFile": cert_file, "keyFile": key_file}
        if any(files.values()):
            entry["tlsConfig"] = {field: file for field, file in files.items() if file}
    if settings.node_cache_capable:
        entry["nodeCacheCapable"] = True
    if settings.ignorable:
        entry["ignorable"] = True
    if settings.http_timeout:
        entry["httpTimeout"] = settings.http_timeout
    if settings.managed_resources:
        entry["managedResources"] = [
            {"name": name, **({"ignoredByScheduler": True} if settings.ignored_by_scheduler else {})}
            for name in settings.managed_resources
        ]
    return entry


def configuration_for(served: Served, url: str, **files: str) -> dict[str, Any]:
    """A whole KubeSchedulerConfiguration with this extender and nothing else."""
    return {
        "apiVersion": "kubescheduler.config.k8s.io/v1",
        "kind": "KubeSchedulerConfiguration",
        "extenders": [entry_for(served, url, **files)],
    }
