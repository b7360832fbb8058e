"""Health, readiness and metrics, requested over the network while a pipeline runs."""

import http.client
import json
import shutil
import socket
import ssl
import subprocess
import threading
import urllib.error
import urllib.request
from contextlib import ExitStack, closing

import pytest
from waiting import until

from streamboost.errors import ConfigurationError, StateError, UnavailableError
from streamboost.escaping import escape_line
from streamboost.pipelines.models.recorded import RecordedPredictions
from streamboost.pipelines.monitoring.http import AT_ONCE, HealthServer, HealthServerAddress
from streamboost.pipelines.monitoring.metrics import Metrics
from streamboost.pipelines.state.folder import read_or_create_token
from tests.ports import free_ports


def get(port, path, token=None, host="127.0.0.1"):
    request = urllib.request.Request(f"http://{host}:{port}{path}")
    if token is not None:
        request.add_header("Authorization", f"Bearer {token}")
    try:
        with urllib.request.urlopen(request, timeout=10) as answer:
            return answer.status, answer.read().decode()
    except urllib.error.HTTPError as error:
        with error:
            return error.code, error.read().decode()


@pytest.fixture
def served():
    servers = []

    def serve(ready=lambda: True, metrics=lambda: b"a 1\n"):
        servers.append(HealthServer(0, "secret", ready, metrics))
        return servers[-1].port

    yield serve
    for server in servers:
        server.close()


def test_health_and_readiness_say_only_yes_or_no(served):
    ready = [True]
    port = served(lambda: ready[0])
    assert get(port, "/healthz") == get(port, "/readyz") == (200, "yes\n")
    ready[0] = False
    assert get(port, "/healthz") == (200, "yes\n")
    assert get(port, "/readyz") == (503, "no\n")


@pytest.mark.parametrize(
    ("host", "status"),
    [
        ("127.0.0.1:1", 200),
        ("LOCALHOST", 200),
        ("[::1]:99", 200),
        ("evil.example", 400),
        ("127.0.0.1.evil.example:9464", 400),
        ("evil.example:127.0.0.1", 400),
        ("", 400),
    ],
)
def test_metrics_are_told_to_nobody_who_calls_this_machine_otherwise(served, host, status):
    connection = http.client.HTTPConnection("127.0.0.1", served(), timeout=10)
    with closing(connection):
        headers = {"Host": host, "Authorization": "Bearer secret"}
        connection.request("GET", "/metrics", headers=headers)
        assert connection.getresponse().status == status


@pytest.mark.parametrize("token", [None, "", "Secret", "secret2", "sécret"])
def test_metrics_need_the_token(served, token):
    port = served()
    assert get(port, "/metrics", "secret") == (200, "a 1\n")
    status, body = get(port, "/metrics", token)
    assert status == 401
    assert "a 1" not in body


def test_there_is_nothing_else(served):
    assert get(served(), "/")[0] == 404


def test_a_caller_who_says_nothing_keeps_nobody_waiting(served):
    port = served()
    with socket.create_connection(("127.0.0.1", port)):
        assert get(port, "/healthz") == (200, "yes\n")


def test_it_listens_on_this_machine_alone(served):
    port = served()
    with closing(socket.socket()) as other, pytest.raises(OSError, match="refused"):
        other.connect(("127.0.0.2", port))


@pytest.fixture
def opened():
    """Opens a server at a place."""
    servers = []

    def open_at(**place):
        place = HealthServerAddress(0, **place)
        servers.append(HealthServer(place, "secret", lambda: True, lambda: b"a 1\n"))
        return servers[-1].port

    yield open_at
    for server in servers:
        server.close()


def status_of(host, address, port, token="secret"):
    with closing(http.client.HTTPConnection(address, port, timeout=10)) as connection:
        headers = {"Host": host, "Authorization": f"Bearer {token}"}
        connection.request("GET", "/metrics", headers=headers)
        return connection.getresponse().status


def test_beyond_loopback_it_is_reached_by_numbers_and_the_names_it_was_given(opened):
    port = opened(host="0.0.0.0", allowed_hosts=["Pipeline", "box.example"])
    hosts = ("127.0.0.2", f"127.0.0.2:{port}", "[fe80::1]:9", "pipeline:80", "BOX.example")
    assert {status_of(host, "127.0.0.2", port) for host in hosts} == {200}
    for host in ("evil.example", "127.0.0.2.evil.example", "pipeline.evil.example"):
        assert status_of(host, "127.0.0.2", port) == 400
    assert status_of("pipeline", "127.0.0.2", port, "wrong") == 401


@pytest.mark.skipif(not socket.has_dualstack_ipv6(), reason="no IPv6 here")
def test_it_listens_on_an_address_of_ipv6(opened):
    port = opened(host="::1")
    assert status_of("[::1]", "::1", port) == 200


def test_an_address_that_is_not_this_machines_is_refused():
    with pytest.raises(ConfigurationError, match=r"cannot listen on 192\.0\.2\.7:0 .* 0\.0\.0\.0"):
        HealthServer(HealthServerAddress(0, "192.0.2.7"), "secret", lambda: True, lambda: b"")


def waiting():
    return sum("process_request" in thread.name for thread in threading.enumerate())


def test_many_who_say_nothing_keep_nobody_waiting(opened):
    port = opened(host="0.0.0.0")
    with ExitStack() as stack:
        for _ in range(2 * AT_ONCE):
            stack.enter_context(closing(socket.create_connection(("127.0.0.1", port))))
        assert get(port, "/healthz") == (200, "yes\n")
        until(lambda: waiting() <= AT_ONCE)


@pytest.fixture(scope="module")
def certificate(tmp_path_factory):
    if shutil.which("openssl") is None:
        pytest.skip("no openssl to make a certificate")
    folder = tmp_path_factory.mktemp("tls")
    words = ["openssl", "req", "-x509", "-nodes", "-newkey", "rsa:2048", "-days", "1"]
    words += ["-subj", "/CN=localhost", "-addext", "subjectAltName=IP:127.0.0.1"]
    words += ["-keyout", folder / "key.pem", "-out", folder / "cert.pem"]
    subprocess.run(words, check=True, capture_output=True)
    return folder / "cert.pem", folder / "key.pem"


def test_with_a_certificate_it_speaks_https_alone_and_nobody_slow_holds_it_up(opened, certificate):
    cert, key = certificate
    port = opened(host="0.0.0.0", certificate=cert, key=key)
    trusted = ssl.create_default_context(cafile=cert)
    with socket.create_connection(("127.0.0.1", port)):  # agrees on no key
        request = urllib.request.Request(f"https://127.0.0.1:{port}/metrics")
        request.add_header("Authorization", "Bearer secret")
        with urllib.request.urlopen(request, timeout=10, context=trusted) as answer:
            assert answer.read() == b"a 1\n"
    with pytest.raises((OSError, http.client.HTTPException)):
        status_of("127.0.0.1", "127.0.0.1", port)


def test_a_certificate_that_cannot_be_used_is_refused(certificate, tmp_path):
    cert, key = certificate
    (tmp_path / "damaged.pem").write_text("damaged")
    for one in ((cert, tmp_path / "none.pem"), (tmp_path / "damaged.pem", key)):
        place = HealthServerAddress(0, certificate=one[0], key=one[1])
        with pytest.raises(ConfigurationError, match=r"\[monitor\] certificate = .* PEM"):
            HealthServer(place, "secret", lambda: True, lambda: b"")


def test_a_port_that_is_taken_is_refused_by_its_number(served):
    port = served()
    with pytest.raises(ConfigurationError, match=rf"\[monitor\] port = {port}: cannot listen"):
        HealthServer(port, "secret", lambda: True, lambda: b"")


def test_the_token_is_made_once_and_is_its_owners_alone(tmp_path):
    path = tmp_path / "metrics.token"
    token = read_or_create_token(path)
    assert len(token) >= 32
    assert path.stat().st_mode & 0o777 == 0o600
    assert read_or_create_token(path) == token
    path.chmod(0o640)
    with pytest.raises(StateError, match="chmod 600"):
        read_or_create_token(path)


def sample(text, name):
    (line,) = [line for line in text.splitlines() if line.startswith(name + " ")]
    return float(line.split()[-1])


def test_metrics_count_what_batches_did(world, make_records):
    records, truth = make_records(60)
    metrics = Metrics(world.loop)
    world.loop.observers.append(metrics)
    world.feed(records, [{"id": r["id"], "label": t} for r, t in zip(records, truth, strict=True)])
    world.records.append([b"{", b""])
    world.run()
    text = metrics.expose().decode()
    assert sample(text, "streamboost_records_total") == 60
    assert sample(text, "streamboost_labels_total") == 60
    assert sample(text, "streamboost_requests_total") == len(world.read("requests"))
    assert sample(text, 'streamboost_dead_letters_total{reason="bad_json"}') == 1
    assert sample(text, 'streamboost_dead_letters_total{reason="empty"}') == 1
    assert sample(text, 'streamboost_trainings_total{kind="first"}') == 1
    assert sample(text, "streamboost_batch_seconds_count") == world.pipeline.sequence
    assert sample(text, "streamboost_sequence") == world.pipeline.sequence
    assert sample(text, "streamboost_retrying") == 0
    assert sample(text, 'streamboost_lag_messages{source="records"}') >= 0


def test_metrics_name_annotators_escaped_and_within_bounds(world, make_records):
    records, truth = make_records(60)
    metrics = Metrics(world.loop)
    names = ["nul\0", "\x1b[31mred\x9b\r\u2028\u202e\n# TYPE forged gauge", "long" * 1_000, "ann"]
    names += ["long" * 1_000 + " indeed"]  # cut, it is the same
    labels = [
        {"id": record["id"], "label": label, "source": names[i % len(names)]}
        for i, (record, label) in enumerate(zip(records, truth, strict=True))
    ]
    world.feed(records, labels)
    world.run()
    text = metrics.expose().decode()
    assert escape_line(text.replace("\n", "")) == text.replace("\n", "")
    found = [one for one in text.splitlines() if one.startswith("streamboost_annotator_labels{")]
    assert sample(text, 'streamboost_annotator_labels{source="ann"}') == 12
    assert len(found) == len(names) - 1
    assert sum(float(one.split()[-1]) for one in found) == 60, "no label is lost"
    assert max(map(len, found)) < 400
    assert "\n# TYPE forged" not in text


def test_a_pipeline_is_ready_once_it_runs_and_not_while_it_retries(world, make_records):
    loop, failing = world.loop, threading.Event()
    commit = world.transaction.commit

    def refuse(*batch):
        if failing.is_set():
            raise UnavailableError("the disk is away")
        commit(*batch)

    world.transaction.commit = refuse
    loop.poll_interval = 0.001
    assert not loop.is_ready
    thread = threading.Thread(target=loop.run)
    thread.start()
    try:
        until(lambda: loop.is_ready)
        failing.set()
        world.feed(make_records(5)[0])
        until(lambda: not loop.is_ready)
        failing.clear()
        until(lambda: loop.is_ready)
    finally:
        failing.clear()
        loop.stop.request_stop()
        thread.join()
    assert not loop.is_ready


@pytest.mark.slow
def test_a_run_serves_them_where_its_file_says(streamboost_command, tmp_path):
    """Without a host, that is on this machine alone: test_examples scrapes it there."""
    more = 'host = "0.0.0.0"\nallow_insecure_http = true\n'
    (port,) = free_ports(1)
    (tmp_path / "p.toml").write_text(
        '[pipeline]\nname = "test"\n[source]\nconnector = "sqlite"\nstream = "records"\n'
        f'[schema]\nnumeric = ["a"]\n[monitor]\nport = {port}\n{more}'
    )
    process = streamboost_command.start("run", "p.toml", "--log-json")
    token = tmp_path / "state" / "metrics.token"
    until(lambda: process.poll() is None and token.exists() and answers(port), 60)
    assert get(port, "/metrics")[0] == 401
    assert "streamboost_records_total 0.0" in get(port, "/metrics", token.read_text().strip())[1]
    assert get(port, "/metrics", token.read_text().strip(), "127.0.0.2")[0] == 200
    process.terminate()
    _, err = process.communicate(timeout=60)
    assert process.returncode == 0
    lines = [json.loads(line) for line in err.splitlines()]
    assert {"time", "level", "sequence", "logger", "message"} <= set(lines[0])
    assert any("/healthz" in line["message"] for line in lines)


def answers(port):
    try:
        return get(port, "/readyz")[0] == 200
    except OSError:
        return False


def test_recorded_predictions_are_counted_by_kind(world):
    world.pipeline.recorded = RecordedPredictions("score", n_valid=40, n_malformed=3)
    text = Metrics(world.loop).expose().decode()
    assert sample(text, 'streamboost_recorded_predictions{kind="valid"}') == 40
    assert sample(text, 'streamboost_recorded_predictions{kind="malformed"}') == 3
    assert "streamboost_accuracy_drop_low_ratio NaN" in text
