"""The network: HTTP/1, HTTP/2, TLS, kubeconfig, list and watch, informers, and bounded servers.

``rest`` is where requests begin, ``watch`` and ``informer`` keep objects up to date. ``server`` (threads) and
``async_server`` (an event loop) answer requests from outside. ``extender/`` speaks the webhook protocol of scheduler
extenders, from both ends.
"""
