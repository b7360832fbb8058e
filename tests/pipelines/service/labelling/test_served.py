"""Discovery of a pipeline by `serve`, its write permissions, and its listening address."""

import re
import shutil
import signal
import socket
import ssl
import subprocess
import sys
from contextlib import closing

import httpx
import pytest
from serving import FILES, make_file, put, site_of, some_records
from waiting import until
from websockets.exceptions import ConnectionClosedError, InvalidStatus
from websockets.sync.client import connect

from streamboost.errors import ConfigurationError, StateError, UnavailableError
from streamboost.pipelines.app.run import run
from streamboost.pipelines.app.serve import ServeAddress, serve
from streamboost.pipelines.config.file import LEARNER, load
from streamboost.pipelines.service.app import create_app
from streamboost.pipelines.service.auth.settings import AuthSettings
from streamboost.pipelines.service.auth.users import PROGRAM, Users
from streamboost.pipelines.service.labelling.served import ServedPipeline, find_config


def test_a_state_folder_tells_what_its_pipeline_file_says(file):
    by_file, by_state = find_config(file), find_config(file.parent / "state")
    for section in by_file.written.keys() - set(LEARNER):
        assert by_state.written[section] == by_file.written[section]
    assert by_state.written.keys() == by_file.written.keys()
    assert (by_state.folder, by_state.state) == (by_file.folder, by_file.state)


def test_a_state_folder_that_was_moved_is_refused_and_its_file_asked_for(file):
    moved = shutil.copytree(file.parent / "state", file.parent / "elsewhere")
    with pytest.raises(ConfigurationError, match=r"give the pipeline file|or the pipeline file"):
        find_config(moved)


def test_a_folder_that_is_no_state_is_refused(tmp_path):
    with pytest.raises(ConfigurationError, match="not the state folder of a pipeline"):
        find_config(tmp_path)


def test_a_state_elsewhere_is_found_as_long_as_no_path_depends_on_the_file(tmp_path, file):
    state = tmp_path / "far" / "state"
    for more, fits in (("", True), (FILES, False)):
        text = file.read_text().replace("[schema]", f'state = "{state}"\n[schema]', 1)
        text = text.replace("[committee]", f"{more}\n[committee]")
        (tmp_path / "q.toml").write_text(text)
        state.mkdir(parents=True, exist_ok=True)
        (state / "config.toml").write_text(load(tmp_path / "q.toml").to_toml())
        if fits:
            assert find_config(state).state == state
        else:
            with pytest.raises(
                ConfigurationError, match=r"give the pipeline file|or the pipeline file"
            ):
                find_config(state)


def test_a_pipeline_is_found_without_what_only_its_learner_needs(file, monkeypatch):
    monkeypatch.setitem(sys.modules, "streamboost.pipelines.config.learner", None)
    for path in (file, file.parent / "state"):
        config = find_config(path)
        assert not config.has_learner_config
        assert ServedPipeline.from_config(config).is_running() is False


def test_what_a_file_says_of_the_learner_is_left_to_run(file):
    """Labels go where they went."""
    file.write_text(file.read_text().replace("budget = 0.5", "budget = 0.25"))
    assert find_config(file).name == "test"


@pytest.mark.slow
def test_serve_imports_no_compiler_and_no_learner(file):
    code = (
        "import sys, pathlib; from streamboost.pipelines.app import serve;"
        "from streamboost.pipelines.service.labelling.served import ServedPipeline, find_config;"
        "ServedPipeline.from_config(find_config(pathlib.Path(sys.argv[1])));"
        "print({'numba', 'sklearn', 'scipy', 'pandas', 'river'} & sys.modules.keys())"
    )
    done = subprocess.run(
        [sys.executable, "-c", code, file], capture_output=True, text=True, check=True
    )
    assert done.stdout == "set()\n"


def test_a_file_that_no_longer_fits_its_state_is_refused(file):
    file.write_text(file.read_text() + '[labels]\nconnector = "sqlite"\nstream = "others"\n')
    with pytest.raises(StateError, match=r"\[labels\] stream"):
        find_config(file)


@pytest.mark.parametrize(
    ("labels", "why"),
    [
        ('connector = "files"\npath = "-"', "standard input"),
        ('connector = "files"\npath = "labels.parquet"', "JSON Lines"),
        ('connector = "files"\npath = "labels.csv"\nfollow = true', "JSON Lines"),
        ('connector = "files"\npath = "labels.jsonl"', "follow = false"),
        ('connector = "river"\ndataset = "ImageSegments"', "dataset"),
    ],
)
def test_labels_that_cannot_be_written_are_refused_with_a_word(tmp_path, labels, why):
    file = make_file(tmp_path / "job", f"[labels]\n{labels}")
    with site_of(file) as site:
        (summary,) = site.program().get("/api/v1/pipelines").json()
        assert why in summary["labels_refused"]
        assert summary["records_refused"] is None
        body = {"labels": [{"id": "1", "label": "left"}]}
        answer = site.program().post("/api/v1/pipelines/test/labels", json=body)
        assert answer.status_code == 409
        assert why in answer.json()["detail"]


def test_what_cannot_be_written_now_is_said_without_what_the_environment_holds(
    tmp_path, monkeypatch
):
    monkeypatch.setenv("WHERE", str(tmp_path / "hunter2"))
    (tmp_path / "hunter2").write_text("a file, where a folder should be")
    labels = FILES.replace("labels.jsonl", "${WHERE}/labels.jsonl")
    with site_of(make_file(tmp_path / "job", labels)) as site:
        body = {"labels": [{"id": "1", "label": "left"}]}
        answer = site.program().post("/api/v1/pipelines/test/labels", json=body)
        assert answer.status_code == 503
        assert "${WHERE}/labels.jsonl" in answer.json()["detail"]
        assert "hunter2" not in answer.text


def test_two_pipelines_of_one_name_are_refused(file):
    pair = [ServedPipeline.from_config(find_config(file)) for _ in range(2)]
    with pytest.raises(ConfigurationError, match="two pipelines have the name 'test'"):
        create_app(pair, AuthSettings("secret"), Users("secret", file.parent))


@pytest.mark.parametrize("address", ["0.0.0.0", "192.168.1.5", "::", "example.org"])
def test_another_address_than_loopback_needs_https_or_a_word(address, tmp_path):
    with pytest.raises(ConfigurationError, match="--allow-insecure-http"):
        ServeAddress(address)
    assert not ServeAddress(address, allow_insecure_http=True).is_secure
    assert ServeAddress(address, certificate=tmp_path, key=tmp_path).is_secure


def test_a_certificate_without_its_key_is_refused(tmp_path):
    with pytest.raises(ConfigurationError, match="need each other"):
        ServeAddress(certificate=tmp_path)


def test_an_answer_is_sent_at_once_in_however_many_parts_it_is_written():
    with (
        ServeAddress(port=0).listen() as listening,
        socket.create_connection(listening.getsockname()),
        listening.accept()[0] as connection,
    ):
        assert connection.getsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY)


def test_a_port_that_is_taken_is_named():
    with (
        ServeAddress(port=0).listen() as taken,
        pytest.raises(ConfigurationError, match="choose another --port"),
    ):
        ServeAddress(port=taken.getsockname()[1]).listen()


def test_the_address_to_open_is_one_that_a_browser_can_reach():
    for place, url in (
        (ServeAddress(), "http://127.0.0.1:1"),
        (ServeAddress("::1"), "http://[::1]:1"),
        (ServeAddress("0.0.0.0", allow_insecure_http=True), "http://127.0.0.1:1"),
        (ServeAddress("::", allow_insecure_http=True, allowed_hosts=("box",)), "http://box:1"),
    ):
        assert place.url(1) == url


def test_a_host_may_be_one_of_its_names_alone():
    place = ServeAddress(
        "0.0.0.0", allow_insecure_http=True, allowed_hosts=("Box.Example", "[fe80::1]")
    )
    assert place.hosts == {"127.0.0.1", "::1", "localhost", "box.example", "fe80::1"}


@pytest.mark.skipif(shutil.which("openssl") is None, reason="no openssl to make a certificate")
@pytest.mark.slow
def test_the_command_serves_over_https_until_it_is_told_to_end(streamboost_command, file, tmp_path):
    words = ["openssl", "req", "-x509", "-nodes", "-newkey", "rsa:2048", "-days", "1"]
    words += ["-subj", "/CN=localhost", "-addext", "subjectAltName=IP:127.0.0.1"]
    words += ["-keyout", tmp_path / "key.pem", "-out", tmp_path / "cert.pem"]
    subprocess.run(words, check=True, capture_output=True)
    process = streamboost_command.start(
        "serve", str(file), "--port", "0", "--operator", "ann", "--annotator", "ben",
        "--certificate", "cert.pem", "--key", "key.pem",
    )  # fmt: skip
    links = [process.stdout.readline() for _ in range(2)]
    assert [link.partition(":")[0] for link in links] == ["ann (operator)", "ben (annotator)"]
    link = re.search(r"https://\S+", links[0])[0]
    trusted = ssl.create_default_context(cafile=tmp_path / "cert.pem")
    with httpx.Client(verify=trusted, timeout=60) as client:
        until(lambda: is_there(client, link))
        own = {"Origin": link.partition("/login")[0]}
        cookie = client.post(link, headers=own).headers["set-cookie"]
        page = client.get(httpx.URL(link).join("/label"))
    with httpx.Client(verify=trusted, timeout=60) as stranger:
        for path in ("/", "/label", *re.findall(r'(?:src|href)="(/[^"]+)"', page.text)):
            assert stranger.get(httpx.URL(link).join(path)).status_code == 401, path
    assert page.status_code == 200
    live = f"{link.replace('https', 'wss').partition('/login')[0]}/_nicegui_ws/socket.io/"
    live += "?EIO=4&transport=websocket"
    with pytest.raises(InvalidStatus, match="403"), connect(live, ssl=trusted):
        pass
    token = (file.parent / "state" / "serve.token").read_text().strip()
    with connect(live, ssl=trusted, additional_headers={"Authorization": f"Bearer {token}"}) as ws:
        assert "sid" in ws.recv()
        ws.send("4" * 5_000_000)
        with pytest.raises(ConnectionClosedError, match="1009"):
            ws.recv()
    assert cookie.startswith("__Host-streamboost-")
    assert "; Secure" in cookie
    assert (file.parent / "state" / "serve.token").stat().st_mode & 0o777 == 0o600
    process.send_signal(signal.SIGTERM)
    _, err = process.communicate(timeout=60)
    assert (process.returncode, err) == (0, "")


def is_there(client, link):
    try:
        return client.get(httpx.URL(link).join("/healthz")).text == "yes\n"
    except httpx.TransportError:
        return False


def test_a_token_that_others_may_read_is_refused(file):
    token = file.parent / "state" / "serve.token"
    token.write_text("known to all")
    token.chmod(0o644)
    with pytest.raises(StateError, match="other users may read"):
        serve([find_config(file)], ServeAddress(port=0))


def test_readiness_says_no_while_labels_wait(file, monkeypatch):
    def fail(labels):
        raise UnavailableError("the disk is away")

    with site_of(file) as site:
        program, ready = site.program(), site.stranger()
        assert ready.get("/readyz").status_code == 200
        monkeypatch.setattr(site.served.labels, "append_validated", fail)
        asked = program.post("/api/v1/pipelines/test/labelling/next").json()["request"]["id"]
        body = {"id": asked, "label": "left"}
        assert program.post("/api/v1/pipelines/test/labelling/answer", json=body).is_success
        assert site.served.queue.write_due_labels(at_once=True) == 0
        answer = ready.get("/readyz")
        assert (answer.status_code, answer.text) == (503, "no\n")
        (summary,) = program.get("/api/v1/pipelines").json()
        assert summary["trouble"] == "the disk is away"


def test_where_the_first_label_stays_no_answer_is_changed(tmp_path):
    labels = '[labels]\nconnector = "sqlite"\nstream = "labels"\non_conflict = "{}"'
    for rule, corrects in (("first", False), ("vote", True)):
        file = make_file(tmp_path / rule, labels.format(rule))
        served = ServedPipeline.from_config(find_config(file))
        assert served.queue._corrects is corrects
        served.close()


BRIEF = '[requests]\nconnector = "sqlite"\nstream = "requests"\nexpires_after = 30'


def test_an_answer_that_the_pipeline_found_expired_is_told_to_have_come_too_late(tmp_path):
    file = make_file(tmp_path / "brief", BRIEF)
    config = load(file)
    put(config, "records", some_records(20))
    run(config, until_idle=True)
    with closing(ServedPipeline.from_config(find_config(file))) as served:
        queue = served.queue
        first, second = served.status.request_ids()[:2]
        queue.answer(PROGRAM, first, "left")
        queue.write_due_labels(at_once=True)
        run(config, until_idle=True)
        queue.answer(PROGRAM, second, "left")
        for start in (100, 200, 300):
            put(config, "records", some_records(20, start=start))
            run(config, until_idle=True)
        assert served.status.request(second) is None
        queue.write_due_labels(at_once=True)
        run(config, until_idle=True)
        assert served.status.document("join")["expired"] == 1

        def stages():
            queue.write_due_labels()
            return {entry.id: entry.stage for entry in queue.history()}

        until(lambda: stages() == {first: "written", second: "late"})
