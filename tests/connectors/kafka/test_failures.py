"""Failures of a broker: a killed process, a broken network, a wrong password."""

import base64
import gc
import json
import logging
import os
import socket
import threading
import time
from contextlib import closing

import pytest
from kafka.errors import KafkaError
from kafka.net.sasl.oauth import AbstractTokenProvider

from streamboost.connectors.kafka.admin import JOURNAL, create_topics, missing_topics
from streamboost.connectors.kafka.cluster import KafkaCluster, close_producer
from streamboost.connectors.kafka.sink import KafkaSink
from streamboost.connectors.kafka.topic import KafkaSource
from streamboost.connectors.kafka.transaction import KafkaTransaction
from streamboost.errors import ConnectorError, UnavailableError
from tests.broker.broker import PASSWORD, USER
from tests.broker.proxy import END_TXN
from tests.waiting import until

pytestmark = pytest.mark.kafka


@pytest.fixture
def proxied(broker):
    """A cluster behind a proxy, and the proxy."""
    proxy = broker.proxy()
    yield KafkaCluster(f"127.0.0.1:{broker.proxied_port}"), proxy
    proxy.close()


@pytest.fixture
def name(broker):
    """A pipeline's name, its journal and topic created."""
    name = f"failing.{time.time_ns()}"
    create_topics(KafkaCluster(broker.servers), {f"{name}.journal": JOURNAL, name: {}})
    return name


def commit(transaction, sequence, writes, deadline=60):
    """Commit as the runtime does: until it succeeds."""
    end = time.monotonic() + deadline
    while True:
        try:
            return transaction.commit(sequence, writes, {"records": {"0": sequence}}, b"entry")
        except UnavailableError:
            assert time.monotonic() < end, "it never succeeded"


def payloads(broker, topic):
    found = []
    with closing(KafkaSource(KafkaCluster(broker.servers), topic)) as source:
        while batch := source.poll(100):
            found += [message.payload for message in batch]
    return sorted(found)


@pytest.mark.slow
def test_a_commit_whose_answer_is_lost_is_not_made_twice(broker, proxied, name):
    cluster, proxy = proxied
    sink = KafkaSink(cluster, name)
    with closing(KafkaTransaction(cluster, name)) as transaction:
        commit(transaction, 1, [(sink, [b"1"])])
        proxy.lose_answer(END_TXN)
        commit(transaction, 2, [(sink, [b"2"])])
        assert proxy.lost.is_set()
        commit(transaction, 3, [(sink, [b"3"])])
        assert [sequence for sequence, _ in transaction.read_journal()] == [1, 2, 3]
    assert payloads(broker, name) == [b"1", b"2", b"3"]


def test_a_process_that_lost_its_answer_finds_its_commit_when_it_asks(broker, name, monkeypatch):
    cluster = KafkaCluster(broker.servers)
    sink = KafkaSink(cluster, name)
    with closing(KafkaTransaction(cluster, name)) as transaction:
        commit(transaction, 1, [(sink, [b"1"])])
        write = transaction._write_transaction

        def write_and_hear_nothing(*arguments):
            write(*arguments)
            raise UnavailableError("no answer")

        with monkeypatch.context() as patch:
            patch.setattr(transaction, "_write_transaction", write_and_hear_nothing)
            with pytest.raises(UnavailableError):
                transaction.commit(2, [(sink, [b"2"])], {}, b"entry")
        commit(transaction, 2, [(sink, [b"2"])])
        commit(transaction, 3, [(sink, [b"3"])])
    assert payloads(broker, name) == [b"1", b"2", b"3"]


def test_a_network_that_breaks_is_gone_on_after(broker, proxied, name):
    cluster, proxy = proxied
    sink, source = KafkaSink(cluster, name), KafkaSource(cluster, name)
    with closing(KafkaTransaction(cluster, name)) as transaction, closing(source):
        found = []
        for sequence in range(1, 11):
            commit(transaction, sequence, [(sink, [b"%02d" % sequence])])
            proxy.cut()
            found += source.poll(10)
        end = time.monotonic() + 60
        while len(found) < 10 and time.monotonic() < end:
            found += source.poll(10)
    assert [m.payload for m in found] == [b"%02d" % n for n in range(1, 11)]


@pytest.mark.slow
def test_a_slow_network_is_lived_with(broker, proxied, name):
    cluster, proxy = proxied
    proxy.delay = 0.1
    with closing(KafkaTransaction(cluster, name)) as transaction:
        transaction.commit(1, [(KafkaSink(cluster, name), [b"1", b"2"])], {}, b"entry")
        assert [sequence for sequence, _ in transaction.read_journal()] == [1]
    assert payloads(broker, name) == [b"1", b"2"]


def test_a_producer_that_is_let_go_of_with_a_message_on_its_way_does_not_wait_for_it_later(
    proxied, name, monkeypatch
):
    cluster, proxy = proxied
    producer = cluster.create_producer()
    producer.partitions_for(name)
    proxy.delay = 2.0
    message = producer.send(name, b"1")
    close_producer(producer)
    waited = []
    monkeypatch.setattr(producer, "flush", waited.append)
    producer.close(timeout=1)  # as the library does when Python clears the producer away
    assert not waited
    with pytest.raises(KafkaError, match="closed forcefully"):
        message.get(timeout=30)
    producer._sender.join(30)
    assert not producer._sender.is_alive()


@pytest.mark.slow
def test_a_broker_that_is_killed_is_waited_for(broker, name):
    cluster = KafkaCluster(broker.servers)
    sink, source = KafkaSink(cluster, name), KafkaSource(cluster, name)
    with closing(KafkaTransaction(cluster, name)) as transaction, closing(source):
        commit(transaction, 1, [(sink, [b"1"])])
        found = source.poll(10)
        broker.kill()
        try:
            assert source.poll(10) == []
        finally:
            broker.start()
        commit(transaction, 2, [(sink, [b"2"])])
        end = time.monotonic() + 60
        while len(found) < 2 and time.monotonic() < end:
            found += source.poll(10)
        assert [s for s, _ in transaction.read_journal()] == [1, 2]
    assert [m.payload for m in found] == [b"1", b"2"]


def as_base64(value):
    return base64.urlsafe_b64encode(json.dumps(value).encode()).decode().rstrip("=")


class Tokens(AbstractTokenProvider):
    """Gives tokens that nobody signed, which a broker takes unless told otherwise."""

    def token(self):
        now = int(time.time())
        claims = {"sub": USER, "iat": now - 1, "exp": now + 600}
        return f"{as_base64({'alg': 'none'})}.{as_base64(claims)}."


def guarded(broker, mechanism, password):
    options = {
        "security_protocol": "SASL_PLAINTEXT",
        "sasl_mechanism": mechanism,
        "sasl_plain_username": USER,
        "sasl_plain_password": password,
        "sasl_oauth_token_provider": f"{__name__}:Tokens",
        "bootstrap_timeout_ms": 2_000,
    }
    return KafkaCluster(broker.guarded, options)


@pytest.mark.parametrize("mechanism", ["PLAIN", "SCRAM-SHA-256", "OAUTHBEARER"])
def test_who_proves_to_be_known_is_let_in(broker, name, mechanism):
    assert missing_topics(guarded(broker, mechanism, PASSWORD), [name]) == []


@pytest.mark.parametrize("mechanism", ["PLAIN", "SCRAM-SHA-256"])
def test_a_wrong_password_is_said(broker, name, mechanism):
    with pytest.raises(ConnectorError, match="these credentials") as raised:
        KafkaSource(guarded(broker, mechanism, "hunter2"), name).poll(1)
    assert "hunter2" not in str(raised.value)


def test_the_network_may_be_encrypted(broker, name):
    options = {"security_protocol": "SSL", "ssl_cafile": str(broker.certificate)}
    assert missing_topics(KafkaCluster(broker.encrypted, options), [name]) == []


def encrypted(servers, **options):
    return KafkaCluster(
        servers, {"security_protocol": "SSL", "bootstrap_timeout_ms": 2_000} | options
    )


def test_a_certificate_that_does_not_verify_is_said(broker, name):
    cluster = encrypted(broker.encrypted)
    with pytest.raises(ConnectorError, match="certificate verify failed: self-signed") as told:
        KafkaSource(cluster, name).poll(1)
    assert not told.value.retriable
    assert "[kafka]" in str(told.value)


def test_a_certificate_of_another_host_is_said(broker, name):
    servers = broker.encrypted.replace("127.0.0.1", "localhost")
    cluster = encrypted(servers, ssl_cafile=str(broker.certificate))
    with pytest.raises(ConnectorError, match="not valid for 'localhost'") as told:
        KafkaSource(cluster, name).poll(1)
    assert not told.value.retriable


def refusal_of(cluster):
    """Return what a cluster refuses for good, once it says so: at times it just hangs up."""

    def refused():
        try:
            cluster.create_admin_client()
        except UnavailableError:
            return None
        except ConnectorError as error:
            return str(error)

    return until(refused)


def test_a_plain_client_of_an_encrypted_listener_is_told_so(broker):
    said = refusal_of(KafkaCluster(broker.encrypted, {"bootstrap_timeout_ms": 2_000}))
    assert "see whether security_protocol is to be SSL" in said


def test_what_may_be_a_broker_that_is_starting_is_tried_again_and_its_reason_said(broker):
    cluster = encrypted(broker.servers, ssl_cafile=str(broker.certificate))
    with pytest.raises(UnavailableError, match="Handshake failed"):
        cluster.create_admin_client()


def test_a_mechanism_that_the_broker_does_not_have_is_said(broker):
    said = refusal_of(guarded(broker, "SCRAM-SHA-512", PASSWORD))
    assert "`sasl_mechanism`" in said
    assert "UnsupportedSaslMechanismError" in said


@pytest.mark.parametrize(
    ("servers", "reason"),
    [("127.0.0.1:1", "ECONNREFUSED"), ("no.such.host.invalid:9092", "DNS Resolution failure")],
)
def test_a_cluster_that_cannot_be_reached_may_be_later(servers, reason):
    cluster = KafkaCluster(servers, {"bootstrap_timeout_ms": 500})
    with pytest.raises(UnavailableError, match=f"{servers}.*{reason}"):
        KafkaSource(cluster, "records").poll(1)


@pytest.fixture
def falls_silent():
    """The address of a port that refuses the first connection, and leaves all after it waiting."""
    with socket.socket() as server, socket.socket() as waiting:
        server.bind(("127.0.0.1", 0))

        class AtTheFirst(logging.Handler):
            def emit(self, record):
                if "ECONNREFUSED" in record.getMessage() and not waiting.getsockname()[1]:
                    server.listen(0)
                    waiting.connect(server.getsockname())  # nobody accepts it: the queue is full

        handler = AtTheFirst()
        logging.getLogger("kafka.net.manager").addHandler(handler)
        yield f"127.0.0.1:{server.getsockname()[1]}"
        logging.getLogger("kafka.net.manager").removeHandler(handler)


def test_what_a_connection_failed_of_is_said_rather_than_that_time_ran_out(falls_silent):
    cluster = KafkaCluster(falls_silent, {"bootstrap_timeout_ms": 1_500})
    with pytest.raises(UnavailableError, match="ECONNREFUSED"):
        cluster.create_admin_client()
    with pytest.raises(UnavailableError, match="timed out"):
        cluster.create_admin_client()  # there is nothing else to say


@pytest.mark.slow
def test_who_waits_hears_at_once_that_nobody_is_there_and_once_until_somebody_is(broker, caplog):
    caplog.set_level(logging.INFO, "streamboost")
    cluster = KafkaCluster(broker.servers, {"bootstrap_timeout_ms": 300})

    def said():
        return [r.message for r in caplog.records if r.name.startswith("streamboost")]

    def somebody_is_there():
        with closing(KafkaCluster(broker.servers).create_admin_client()):
            return True

    assert somebody_is_there()  # whatever was said of it before
    for n in range(1, 3):
        broker.stop()
        try:
            for _ in range(3):
                with pytest.raises(UnavailableError):
                    cluster.create_admin_client()
        finally:
            broker.start()
        assert len(said()) == n
        assert said()[-1].startswith(f"no connection to {broker.servers} yet: ")
        assert "ECONNREFUSED" in said()[-1]
        assert somebody_is_there()
        assert len(said()) == n


@pytest.mark.parametrize("kind", ["create_admin_client", "create_consumer", "create_producer"])
@pytest.mark.slow
def test_who_asks_in_vain_again_and_again_holds_no_more_threads_and_files(kind, monkeypatch):
    # The errors that pytest would keep of it hold the sockets.
    monkeypatch.setattr(logging.getLogger("kafka"), "propagate", False)
    ask = getattr(KafkaCluster("127.0.0.1:1", {"bootstrap_timeout_ms": 100}), kind)

    def in_vain(times):
        for _ in range(times):
            with pytest.raises(UnavailableError):
                ask()
        gc.collect()
        return threading.active_count(), len(os.listdir("/dev/fd"))

    threads, files = in_vain(1)
    more_threads, more_files = in_vain(10)
    assert more_threads <= threads
    assert more_files < files + 10
