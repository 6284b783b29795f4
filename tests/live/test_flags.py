"""kube-scheduler's flags: read as pflag reads them, honoured, said to be without effect, or refused."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from mooring.api.errors import UsageError
from mooring.live.flags import FLAGS, Flag, help_text, openssl_ciphers, parse_flags


@pytest.mark.parametrize(
    ("arguments", "name", "want"),
    [
        pytest.param(["--secure-port=1"], "secure-port", "1", id="with an equals sign"),
        pytest.param(["--secure-port", "1"], "secure-port", "1", id="with a space"),
        pytest.param(["--leader-elect"], "leader-elect", "true", id="a switch"),
        pytest.param(["--leader-elect=false"], "leader-elect", "false", id="a switch turned off"),
        pytest.param(["--leader_elect=false"], "leader-elect", "false", id="with underscores"),
        pytest.param(["-v", "4"], "v", "4", id="a short flag with a space"),
        pytest.param(["-v=4"], "v", "4", id="a short flag with an equals sign"),
        pytest.param(["-v4"], "v", "4", id="a short flag with its value attached"),
        pytest.param(["--v=4"], "v", "4", id="a short name with two dashes"),
        pytest.param(["--plugin=a:A", "--plugin", "b:B"], "plugin", "a:A,b:B", id="lists add up"),
        pytest.param(["--authorization-always-allow-paths=/x"], "authorization-always-allow-paths", "/x", id="a list"),
        pytest.param(["--secure-port=1", "--secure-port=2"], "secure-port", "2", id="the last word counts"),
    ],
)
def test_reading(arguments, name, want):
    flags = parse_flags(arguments)
    assert flags.text(name) == want
    assert flags.given == {name}


@pytest.mark.parametrize(
    ("arguments", "text"),
    [
        pytest.param(["--secure-prt=1"], "unknown flag: --secure-prt; did you mean --secure-port?", id="a typo"),
        pytest.param(["--secure-port"], "flag needs an argument: --secure-port", id="nothing behind it"),
        pytest.param(["--secure-port=x"], 'invalid argument "x" for --secure-port: write a whole number', id="no int"),
        pytest.param(["--secure-port=65536"], "for --secure-port: write a number from 0 to 65535", id="no port"),
        pytest.param(["--secure-port=-1"], "for --secure-port: write a number from 0 to 65535", id="below all ports"),
        pytest.param(["--kube-api-qps=nan"], 'invalid argument "nan" for --kube-api-qps: write a number', id="NaN"),
        pytest.param(["--kube-api-qps=x"], 'invalid argument "x" for --kube-api-qps: write a number', id="no number"),
        pytest.param(
            ["--leader-elect=no"], 'invalid argument "no" for --leader-elect: write true or false', id="no bool"
        ),
        pytest.param(
            ["--leader-elect-retry-period=2"],
            'invalid argument "2" for --leader-elect-retry-period: write a duration such as 15s or 5m0s',
            id="no unit",
        ),
        pytest.param(["now"], "'now': arguments without a flag are not taken", id="a stray word"),
        pytest.param(["-x"], "unknown shorthand flag: 'x' in -x", id="no such short flag"),
        pytest.param(
            ["--vmodule=a=1"], "--vmodule=a=1 is not supported: verbosity cannot be set per file", id="refused"
        ),
        pytest.param(
            ["--leader-elect-resource-lock=endpoints"],
            "--leader-elect-resource-lock=endpoints is not supported: only leases are supported",
            id="a lock that is not a lease",
        ),
    ],
)
def test_mistakes_are_one_line(arguments, text):
    with pytest.raises(UsageError) as caught:
        parse_flags(arguments)
    assert text in str(caught.value) and "\n" not in str(caught.value)


@pytest.mark.parametrize(
    "argument",
    [
        "--leader-elect-resource-lock=leases",
        "--emulated-version=kube=1.36",
        "--log-json-split-stream=false",
        "--permit-port-sharing=F",
    ],
)
def test_what_is_the_case_anyway_may_be_said(argument):
    parse_flags([argument])


def test_flags_without_effect_are_named():
    flags = parse_flags(["--kube-api-content-type=application/json", "--log-flush-frequency=5s", "--v=1"])
    assert list(flags.without_effect()) == ["--kube-api-content-type has no effect: requests are JSON"]


def test_every_flag_of_kube_scheduler_is_known_with_its_default():
    shown = (Path(__file__).parent / "wire" / "flagz.txt").read_text().splitlines()
    recorded = dict(line.partition(" ")[::2] for line in shown if re.match(r"^[a-z0-9-]+ ?", line))
    recorded.pop("kube-scheduler", None)
    ours = parse_flags([]).shown()
    assert recorded.keys() <= ours.keys()
    differing = {name for name, value in recorded.items() if ours[name] != value}
    # What the recording's command line said.
    given = {
        *("authentication-kubeconfig", "authorization-kubeconfig", "cert-dir", "config", "secure-port", "v"),
        *("tls-cert-file", "tls-private-key-file"),
    }
    assert differing == given


def test_the_help_names_every_flag_and_fits_the_screen():
    text = help_text("Example: mooring run")
    for flag in FLAGS.values():
        assert f"--{flag.name}" in text
    assert max(map(len, text.splitlines())) <= 110


def test_no_flag_is_neither_explained_nor_refused():
    def is_explained(flag: Flag) -> bool:
        return bool(flag.help) + bool(flag.no_effect) + bool(flag.refused) == 1

    assert [name for name, flag in FLAGS.items() if not is_explained(flag)] == []


@pytest.mark.parametrize(
    ("name", "want"),
    [
        pytest.param("TLS_ECDHE_RSA_WITH_AES_128_GCM_SHA256", "ECDHE-RSA-AES128-GCM-SHA256", id="GCM"),
        pytest.param("TLS_ECDHE_ECDSA_WITH_AES_256_CBC_SHA", "ECDHE-ECDSA-AES256-SHA", id="CBC"),
        pytest.param("TLS_RSA_WITH_AES_256_GCM_SHA384", "AES256-GCM-SHA384", id="without a key exchange"),
        pytest.param(
            "TLS_ECDHE_RSA_WITH_CHACHA20_POLY1305_SHA256", "ECDHE-RSA-CHACHA20-POLY1305", id="ChaCha, which has no hash"
        ),
        pytest.param("TLS_AES_128_GCM_SHA256", "", id="those of TLS 1.3 cannot be chosen"),
        pytest.param("AES256-SHA", "AES256-SHA", id="OpenSSL's own names stay"),
    ],
)
def test_cipher_suites(name, want):
    import ssl

    assert openssl_ciphers([name]) == want
    if want:
        ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER).set_ciphers(want)
