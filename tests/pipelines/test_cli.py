import json
import os
import signal
import sys
import tomllib

import pytest

from streamboost.pipelines import cli
from streamboost.pipelines.template import render


@pytest.fixture
def call(tmp_path, monkeypatch, capsys):
    """Call the command line within this process and return (exit code, stdout, stderr)."""
    monkeypatch.chdir(tmp_path)
    handlers = {number: signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM)}

    def call(*words):
        monkeypatch.setattr(sys, "argv", ["streamboost", *words])
        with pytest.raises(SystemExit) as ended:
            cli.main()
        out, err = capsys.readouterr()
        return ended.value.code or 0, out, err

    yield call
    for number, handler in handlers.items():
        signal.signal(number, handler)


def test_help_names_every_command(call):
    code, out, _ = call("--help")
    assert code == 0
    for command in ("demo", "init", "check", "run", "inspect", "warmup"):
        assert command in out


def test_init_writes_a_file_that_check_accepts_and_run_runs(call, tmp_path):
    assert call("init", "p.toml")[0] == 0
    assert (tmp_path / "p.toml").read_text() == render()
    code, out, _ = call("check", "p.toml")
    assert code == 0
    assert "exactly once" in out
    assert "Found 18 numeric fields in 200 records" in out
    assert not (tmp_path / "state").exists(), "check writes nothing"
    code, _, err = call("run", "p.toml", "--until-idle")
    assert code == 0, err
    code, out, _ = call("inspect", "state")
    assert "pipeline segments: not running, 6 batches committed" in out
    assert "records      go on at partition 0: 2310" in out
    assert "ledger       records 2,310, requests 2" in out
    code, out, _ = call("inspect", "state", "--json")
    found = json.loads(out)
    assert found["sequence"] == found["snapshot"]["sequence"] > 0
    assert found["positions"]["records"] == {"0": 2310}
    assert found["snapshot"]["ledger"]["records"] == 2310
    assert found["snapshot"]["ledger"]["requests"] <= 231
    assert not found["running"]


def test_init_never_overwrites(call, tmp_path):
    (tmp_path / "pipeline.toml").write_text("mine")
    code, _, err = call("init")
    assert code == 2
    assert "is there already" in err
    assert (tmp_path / "pipeline.toml").read_text() == "mine"


def test_init_into_a_missing_folder_says_so(call):
    code, _, err = call("init", "no/such/folder.toml")
    assert code == 2
    assert "cannot be written" in err


def test_check_shows_the_configuration_with_defaults_and_without_secrets(
    call, tmp_path, monkeypatch
):
    monkeypatch.setenv("WHERE", "hunter2.jsonl")
    (tmp_path / "hunter2.jsonl").write_text('{"id": 1, "a": 2}\n{"id": 1\n')
    (tmp_path / "p.toml").write_text(
        '[pipeline]\nname = "x"\n[source]\nconnector = "files"\npath = "${WHERE}"\n'
        '[requests]\nconnector = "files"\npath = "requests.jsonl"\n'
    )
    code, out, _ = call("check", "p.toml")
    assert code == 0
    shown = tomllib.loads(out.split("\nsource  ")[0])
    assert shown["source"] == {"connector": "files", "path": "${WHERE}", "follow": False}
    assert shown["query"]["budget"] == 0.05
    assert "hunter2" not in out
    assert "1 are damaged: bad_json" in out
    assert "at least once: requests lies outside the log" in out


def test_check_tries_every_connector_and_fails_if_one_does(call, tmp_path):
    (tmp_path / "p.toml").write_text(
        '[pipeline]\nname = "x"\n[source]\nconnector = "files"\npath = "nowhere.jsonl"\n'
        '[predictions]\nconnector = "files"\npath = "folder"\n'
    )
    (tmp_path / "folder").mkdir()
    code, out, _ = call("check", "p.toml")
    assert code == 1
    assert "source        FAILED  there is no file" in out
    assert "predictions   FAILED" in out
    assert "labels        ok" in out


@pytest.mark.parametrize("path", ["labels.jsonl/x", "labels.jsonl/x/y", "pipe"])
def test_check_sees_that_an_output_has_a_place(call, tmp_path, path):
    (tmp_path / "labels.jsonl").write_text("")
    os.mkfifo(tmp_path / "pipe")
    (tmp_path / "p.toml").write_text(
        '[pipeline]\nname = "x"\n[source]\nconnector = "river"\ndataset = "Phishing"\n'
        f'[predictions]\nconnector = "files"\npath = "{path}"\n'
        '[requests]\nconnector = "files"\npath = "new/requests.jsonl"\n'
    )
    code, out, _ = call("check", "p.toml")
    assert code == 1
    assert "predictions   FAILED" in out
    assert "is not a f" in out
    assert "requests      ok" in out


@pytest.mark.parametrize(
    ("words", "code", "said"),
    [
        (("run", "nowhere.toml"), 2, "there is no such file"),
        (("check", "bad.toml"), 2, "[pipeline] nam: unknown key; did you mean name?"),
        (("run", "nofile.toml", "--until-idle"), 1, "there is no file"),
        (("inspect", "."), 1, "is not the state folder"),
        (("demo", "--budget", "3"), 2, "[query] budget: query budget is 3.0"),
    ],
)
def test_an_error_is_one_message_without_a_traceback(call, tmp_path, words, code, said):
    (tmp_path / "bad.toml").write_text('[pipeline]\nname = "x"\nnam = 1\n[source]\n')
    (tmp_path / "nofile.toml").write_text(
        '[pipeline]\nname = "x"\n[source]\nconnector = "files"\npath = "nowhere.jsonl"\n'
    )
    got, _, err = call(*words)
    assert got == code
    assert said in err
    assert "Traceback" not in err


def test_a_mistake_in_the_first_file_can_be_mended_and_run_again(call, tmp_path):
    text = '[pipeline]\nname = "x"\n[source]\nconnector = "files"\npath = "{}"\n'
    (tmp_path / "p.toml").write_text(text.format("nowhere.jsonl"))
    assert call("run", "p.toml", "--until-idle")[0] == 1
    (tmp_path / "p.toml").write_text(text.format("records.jsonl"))
    (tmp_path / "records.jsonl").write_text('{"id": 1, "a": 2}\n')
    code, _, err = call("run", "p.toml", "--until-idle")
    assert code == 0, err
    (tmp_path / "p.toml").write_text(text.format("records.jsonl") + "[query]\nbudget = 0.3\n")
    code, _, err = call("run", "p.toml", "--until-idle")
    assert code == 1
    assert "[query] budget was 0.05 and is 0.3" in err


def test_warmup_says_how_long_it_took(call):
    code, out, _ = call("warmup")
    assert code == 0
    assert out.startswith("all kernels are compiled and kept; it took ")
