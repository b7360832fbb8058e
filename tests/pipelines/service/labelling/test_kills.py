"""`serve` as a separate process, killed and out of memory: no label is lost, no pipeline stops."""

import json
import resource
import signal
import threading
from contextlib import closing
from pathlib import Path

import httpx
import pytest
from serving import FILES, Serving, make_file, put, read, some_records
from waiting import until

from streamboost.connectors.files.json_lines import JsonLinesSource
from streamboost.connectors.kafka.cluster import KafkaCluster
from streamboost.connectors.kafka.topic import KafkaSource
from streamboost.pipelines.app.connect import create_topics
from streamboost.pipelines.app.inspect import describe_pipeline
from streamboost.pipelines.config.file import load


@pytest.fixture
def serve(streamboost_command):
    started = []

    def start(*words):
        started.append(Serving(streamboost_command, *words))
        return started[-1]

    yield start
    for serving in started:
        serving.kill()


def labels_of(config):
    section = config.sections.labels
    if section.connector == "sqlite":
        return read(config, "labels")
    if section.connector == "files":
        source = JsonLinesSource(config.resolve_path(section.path), follow=True)
    else:
        source = KafkaSource(KafkaCluster(config.sections.kafka.bootstrap_servers), section.topic)
    with closing(source):
        return [json.loads(message.payload) for message in source.poll(10_000)]


def kill_while_posting(serving, pipelines=("test",)):
    """Kill the process while labels are posted, and return those that were acknowledged."""
    acknowledged, enough = {name: [] for name in pipelines}, threading.Event()

    def post_on():
        for i in range(100_000):
            for name in pipelines:
                try:
                    serving.post("labels", {"labels": [{"id": f"l{i}", "label": "left"}]}, name)
                except httpx.TransportError:
                    return
                acknowledged[name].append(f"l{i}")
            if i == 10:
                enough.set()

    thread = threading.Thread(target=post_on)
    thread.start()
    assert enough.wait(60)
    serving.kill()
    thread.join()
    return acknowledged


@pytest.mark.slow
def test_a_label_acknowledged_before_a_kill_is_never_lost(serve, file, tmp_path):
    other = make_file(tmp_path / "other", FILES)
    other.write_text(other.read_text().replace('name = "test"', 'name = "other"'))
    first = serve("job/state", "other/p.toml")
    asked = first.post("labelling/next")["request"]["id"]
    assert first.post("labelling/answer", {"id": asked, "label": "left"})["stage"] == "held"
    acknowledged = kill_while_posting(first, ("test", "other"))
    for name, config in (("test", load(file)), ("other", load(other))):
        written = [label["id"] for label in labels_of(config) if label["id"].startswith("l")]
        assert written[: len(acknowledged[name])] == acknowledged[name]
    serve("job/p.toml")
    held = {"id": asked, "label": "left", "source": "api"}
    until(lambda: any(held.items() <= label.items() for label in labels_of(load(file))))


@pytest.mark.kafka
@pytest.mark.slow
def test_a_label_acknowledged_before_a_kill_is_in_the_topic(serve, tmp_path, kafka_servers):
    more = f'[kafka]\nbootstrap_servers = "{kafka_servers}"\n[labels]\nconnector = "kafka"\n'
    config = load(make_file(tmp_path / "job", f'{more}topic = "{tmp_path.name}.labels"'))
    create_topics(config)
    acknowledged = kill_while_posting(serve("job/p.toml"))["test"]
    written = [label["id"] for label in labels_of(config)]
    assert written[: len(acknowledged)] == acknowledged


def fails(serving):
    """Tell whether a request with large records fails because the process is out of memory."""
    records = [{"id": str(i), "text": "x" * 3_000} for i in range(1_000)]
    try:
        answer = serving.client.post("/api/v1/pipelines/test/records", json={"records": records})
    except httpx.TransportError:
        return True
    return answer.status_code >= 500


@pytest.mark.slow
@pytest.mark.skipif(not hasattr(resource, "prlimit"), reason="only Linux can limit another process")
def test_a_pipeline_goes_on_whatever_happens_to_serve(serve, streamboost_command, file):
    config = load(file)
    pipeline = streamboost_command.start("run", "job/p.toml", "--log-json")
    serving = serve("job/state")

    def commits(start):
        before = describe_pipeline(config.state)["sequence"]
        put(config, "records", some_records(20, start))
        until(lambda: describe_pipeline(config.state)["sequence"] > before)
        assert pipeline.poll() is None

    commits(2_000)
    serving.process.send_signal(signal.SIGSTOP)
    commits(3_000)
    serving.process.send_signal(signal.SIGCONT)
    pages = int(Path(f"/proc/{serving.process.pid}/statm").read_text().split()[0])
    most = pages * resource.getpagesize() + 4_000_000
    resource.prlimit(serving.process.pid, resource.RLIMIT_AS, (most, most))
    assert any(fails(serving) for _ in range(8))
    commits(4_000)
    serving.kill()
    commits(5_000)
    pipeline.terminate()
    pipeline.communicate(timeout=60)
    assert pipeline.returncode == 0
