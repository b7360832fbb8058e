"""Options of Kafka's clients: passed on, or refused by name."""

import pytest
from kafka import codec
from kafka import errors as kafka_errors
from kafka.net.sasl.oauth import AbstractTokenProvider

from streamboost.connectors.kafka.cluster import KafkaCluster, translate_errors
from streamboost.errors import ConfigurationError, StateError


class Tokens(AbstractTokenProvider):
    """Gives a token of no worth."""

    def token(self):
        return "token"


def test_an_option_that_no_client_knows_is_refused_with_the_nearest_one():
    with pytest.raises(ConfigurationError, match="did you mean 'sasl_mechanism'"):
        KafkaCluster("localhost:9092", {"sasl_mechanisms": "PLAIN"})


@pytest.mark.parametrize("name", ["enable_auto_commit", "isolation_level", "transactional_id"])
def test_an_option_that_a_guarantee_rests_on_cannot_be_set(name):
    with pytest.raises(ConfigurationError, match=f"{name}' cannot be set: "):
        KafkaCluster("localhost:9092", {name: "x"})


def test_options_that_do_not_fit_each_other_are_refused_before_connecting():
    with pytest.raises(ConfigurationError, match="do not fit each other"):
        KafkaCluster("localhost:9092", {"fetch_max_wait_ms": 40_000}).create_consumer()


@pytest.mark.parametrize(
    ("name", "value", "known"),
    [
        ("security_protocol", "TLS", "PLAINTEXT, SSL, SASL_PLAINTEXT or SASL_SSL"),
        ("sasl_mechanism", "PLANE", ".*PLAIN, SCRAM-SHA-256"),
        ("request_timeout_ms", "many", "a number"),
        ("batch_size", True, "a number"),
        ("ssl_check_hostname", "no", "true or false"),
        ("compression_type", "zip", "gzip, snappy, lz4 or zstd"),
    ],
)
def test_a_value_that_means_nothing_is_refused_by_name(name, value, known):
    with pytest.raises(ConfigurationError, match=f"'{name}' is {value!r}: write {known}"):
        KafkaCluster("localhost:9092", {name: value})


def test_a_compression_whose_library_is_missing_is_refused(monkeypatch):
    monkeypatch.setattr(codec, "zstd", None)
    with pytest.raises(ConfigurationError, match=r"'zstd'.*library.*not installed"):
        KafkaCluster("localhost:9092", {"compression_type": "zstd"})


@pytest.mark.parametrize(
    ("options", "lacking"),
    [
        ({"security_protocol": "SASL_SSL"}, "sasl_mechanism"),
        ({"sasl_mechanism": "PLAIN"}, "sasl_plain_username"),
        ({"sasl_mechanism": "SCRAM-SHA-512", "sasl_plain_username": "me"}, "sasl_plain_password"),
        ({"sasl_mechanism": "OAUTHBEARER"}, "sasl_oauth_token_provider"),
    ],
)
def test_what_a_login_lacks_is_said_before_connecting(options, lacking):
    cluster = KafkaCluster("127.0.0.1:1", {"security_protocol": "SASL_PLAINTEXT"} | options)
    with pytest.raises(ConfigurationError, match=f"{lacking!r} is missing"):
        cluster.create_consumer()


@pytest.mark.parametrize("name", ["ssl_cafile", "ssl_certfile", "ssl_keyfile", "ssl_crlfile"])
def test_a_file_that_cannot_be_read_is_named_before_connecting(tmp_path, name):
    options = {"security_protocol": "SSL", name: str(tmp_path / "no.pem")}
    with pytest.raises(ConfigurationError, match=rf"{name}.*no\.pem.*No such file"):
        KafkaCluster("127.0.0.1:1", options).create_producer()


@pytest.mark.parametrize("name", ["ssl_cafile", "ssl_certfile"])
def test_a_file_that_holds_no_certificate_is_named_before_connecting(tmp_path, name):
    junk = tmp_path / "junk.pem"
    junk.write_text("junk")
    options = {"security_protocol": "SSL", name: str(junk)}
    with pytest.raises(ConfigurationError, match=rf"{name}.*junk\.pem.*(SSL|X509)"):
        KafkaCluster("127.0.0.1:1", options).create_producer()


def test_each_client_takes_the_options_it_knows(monkeypatch):
    from streamboost.connectors.kafka import cluster as kafka_cluster

    made = {}
    for name in ("KafkaConsumer", "KafkaProducer"):
        monkeypatch.setattr(
            kafka_cluster, name, lambda name=name, **settings: made.update({name: settings})
        )
    cluster = KafkaCluster("a:1, b:2", {"linger_ms": 50, "fetch_max_bytes": 7})
    cluster.create_consumer()
    cluster.create_producer()
    assert made["KafkaConsumer"]["bootstrap_servers"] == ["a:1", "b:2"]
    assert made["KafkaConsumer"]["fetch_max_bytes"] == 7
    assert "linger_ms" not in made["KafkaConsumer"]
    assert made["KafkaProducer"]["linger_ms"] == 50
    assert made["KafkaProducer"]["enable_idempotence"]


def test_a_token_provider_is_found_by_its_name(monkeypatch):
    from streamboost.connectors.kafka import cluster as kafka_cluster

    made = {}
    monkeypatch.setattr(kafka_cluster, "KafkaConsumer", lambda **settings: made.update(settings))
    monkeypatch.setitem(__import__("sys").modules, "tokens", __import__("sys").modules[__name__])
    KafkaCluster("a:1", {"sasl_oauth_token_provider": "tokens:Tokens"}).create_consumer()
    assert made["sasl_oauth_token_provider"].token() == "token"


def test_a_token_provider_that_cannot_be_found_is_refused_by_name():
    cluster = KafkaCluster("a:1", {"sasl_oauth_token_provider": "no_such_module:Tokens"})
    with pytest.raises(ConfigurationError, match="no_such_module:Tokens"):
        cluster.create_consumer()


@pytest.mark.parametrize(
    "error",
    [
        kafka_errors.ProducerFencedError(),
        kafka_errors.KafkaError(kafka_errors.InvalidProducerEpochError()),
        kafka_errors.KafkaError("we are in an error state: [Error 90] ProducerFencedError"),
    ],
)
def test_who_is_fenced_is_told_so_however_the_library_says_it(error):
    with (
        pytest.raises(StateError, match="another process has taken"),
        translate_errors("the journal"),
    ):
        raise error
