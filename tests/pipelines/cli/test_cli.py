import gzip
import json
import logging
import os
import re
import shutil
import signal
import sys
import tomllib

import pytest

import streamboost
from streamboost.pipelines.cli import __main__ as cli
from streamboost.pipelines.config.templates import brief
from streamboost.pipelines.config.templates.every import render_template
from streamboost.pipelines.state.folder import State
from tests.pipelines.command import ROOT


@pytest.fixture
def call(tmp_path, monkeypatch, capsys):
    """Call the command line within this process and return (exit code, stdout, stderr)."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "excepthook", sys.excepthook)
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
    assert call() == (0, out, "")
    for command in ("demo", "init", "check", "run", "control", "inspect", "warmup"):
        assert command in out


def test_init_writes_a_file_that_check_accepts_and_run_runs(call, tmp_path):
    assert call("init", "p.toml")[0] == 0
    assert (tmp_path / "p.toml").read_text() == brief.render_template()
    code, out, _ = call("check", "p.toml")
    assert code == 0
    assert "exactly once" in out
    assert out.startswith("OK: p.toml is valid; start it with `streamboost run p.toml`\nstate")
    assert "18 fields to learn from, by 500 records:" in out
    assert "[pipeline]" not in out, "the file is shown when asked to"
    assert not (tmp_path / "state").exists(), "check writes nothing"
    code, _, err = call("run", "p.toml", "--until-idle")
    assert code == 0, err
    code, out, _ = call("inspect", "state")
    assert "pipeline segments: not running, 231 batches committed" in out
    assert "records          continues after 2,310 records" in out
    assert re.search(r"labels +continues after 2\d\d requests", out)
    assert re.search(r"    requests +2\d\d  label requests", out)
    assert "dead letters" not in out, "zeros are hidden"
    assert re.search(r"Versions \d+ to \d+ are [\d.]+ points (better|worse) than \d+ \(", out)
    page = (ROOT / "docs" / "pages" / "how-to" / "monitoring.md").read_text()
    shown = re.search(r"^```\n(  pred.*?)^```", page, flags=re.DOTALL | re.MULTILINE)[1]
    in_form, there = (set(re.sub(r"[\d.,]+", "0", text).splitlines()) for text in (shown, out))
    assert in_form <= there, "the page shows what it says, with figures of another processor"
    assert call("inspect", "p.toml")[1] == out
    code, out, _ = call("inspect", "state", "--json")
    found = json.loads(out)
    assert found["sequence"] == found["checkpoint"]["sequence"] > 0
    assert found["positions"]["records"] == {"0": 2310}
    assert found["checkpoint"]["ledger"]["records"] == 2310
    assert found["checkpoint"]["ledger"]["requests"] <= 231
    assert not found["running"]


def own_records(n=120):
    return [
        {"id": f"r{i:03}", "a": i % 7, "code": f"0{i % 3}", "kind": "xyz"[i % 3]} for i in range(n)
    ]


def write_own(path, records):
    lines = [json.dumps(record) for record in records]
    if ".csv" in path.name:
        lines = [",".join(records[0]), *(",".join(map(str, r.values())) for r in records)]
    text = "\n".join([*lines, ""]).encode()
    if path.suffix == ".parquet":
        pytest.importorskip("pandas").DataFrame(records).to_parquet(path)
    else:
        path.write_bytes(gzip.compress(text) if path.suffix == ".gz" else text)


def test_init_writes_a_pipeline_for_records_of_ones_own_that_runs(call, tmp_path):
    write_own(tmp_path / "my records.csv", own_records())
    code, out, err = call("init", "my records.csv", "--label", "kind")
    assert code == 0, err
    assert "my records.csv: 120 records of 3 labels: x 40, y 40, z 40" in out
    assert "`streamboost run pipeline.toml --until-idle`" in out
    code, out, _ = call("check")
    assert code == 0
    assert "2 fields to learn from, by 120 records:" in out
    assert re.search(r"code +category +codes: numbers with zeros in front", out)
    assert "120 answers, 3 labels" in out
    code, _, err = call("run", "pipeline.toml", "--until-idle")
    assert code == 0, err
    assert "pipeline my-records: not running" in call("inspect")[1]


@pytest.mark.parametrize("name", ["r.jsonl", "r.csv.gz", "r.jsonl.gz", "r.parquet"])
def test_init_reads_records_of_every_kind_of_file(call, tmp_path, name):
    write_own(tmp_path / name, own_records())
    (tmp_path / "to").mkdir()
    code, _, err = call("init", name, "--label", "kind", "--output", "to/p.toml")
    assert code == 0, err
    code, out, _ = call("check", "to/p.toml")
    assert code == 0, out
    assert "2 fields to learn from, by 120 records:" in out


def test_init_finds_label_and_id_in_nested_records(call, tmp_path):
    records = [{"o": {"id": one["id"], "label": one["kind"]}} | one for one in own_records()]
    for one in records:
        del one["id"], one["kind"]
    write_own(tmp_path / "r.jsonl", records)
    _, _, err = call("init", "r.jsonl", "--label", "o.label")
    assert "give --id FIELD; o.id differs in every record" in err
    code, _, err = call("init", "r.jsonl", "--label", "o.label", "--id", "o.id")
    assert code == 0, err
    code, out, _ = call("check")
    assert code == 0, out
    assert "2 fields to learn from, by 120 records:" in out
    assert "120 answers, 3 labels" in out


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["r.csv"], "give it as --label FIELD"),
        (["r.csv", "--label", "kin"], "did you mean kind?"),
        (
            ["r.csv", "--label", "kind", "--id", "kind"],
            "this is the label field: give another field",
        ),
        (["r.csv", "--label", "kind", "--id", "no"], "none of 120 records has the field 'no'"),
        (["r.csv", "--label", "kind", "--all"], "leave out --kafka and --all"),
        (["other.csv", "--label", "kind"], "give --id FIELD; name differs in every record"),
        (["none.csv", "--label", "kind"], "none.csv"),
    ],
)
def test_init_refuses_records_that_no_pipeline_could_run_over(call, tmp_path, words, said):
    write_own(tmp_path / "r.csv", own_records())
    others = [{"name": f"n{i}", "a": 1, "kind": "xy"[i % 2]} for i in range(9)]
    write_own(tmp_path / "other.csv", others)
    code, _, err = call("init", *words)
    assert code in (1, 2)
    assert said in err
    assert not (tmp_path / "pipeline.toml").exists()


def test_init_writes_every_key_when_asked_to(call, tmp_path):
    assert call("init", "p.toml", "--all")[0] == 0
    assert (tmp_path / "p.toml").read_text() == render_template()
    assert call("init", "k.toml", "--all", "--kafka")[0] == 0
    assert (tmp_path / "k.toml").read_text() == render_template(kafka=True)


def test_init_never_overwrites(call, tmp_path):
    (tmp_path / "pipeline.toml").write_text("mine")
    code, _, err = call("init")
    assert code == 2
    assert "already exists" in err
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
    code, out, _ = call("check", "p.toml", "--show")
    assert code == 0
    shown = tomllib.loads(out.partition("\n# p.toml, all defaults")[2].partition("\n")[2])
    assert shown["source"] == {"connector": "files", "path": "${WHERE}", "follow": False}
    assert shown["query"]["budget"] == 0.05
    assert "hunter2" not in out
    assert "1 of 2 would be dead letters: bad_json" in out
    assert "at least once: requests is outside the log" in out


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
    assert "guarantee" not in out


def pipeline_of(folder, records, labels="", more="", section=""):
    (folder / "records.jsonl").write_text(records)
    (folder / "labels.jsonl").write_text(labels)
    (folder / "p.toml").write_text(
        f'[pipeline]\nname = "x"\n{more}\n[source]\nconnector = "files"\npath = "records.jsonl"\n'
        f'[labels]\nconnector = "files"\npath = "labels.jsonl"\n{section}\n'
    )


RECORDS = '{"id": 1, "width": 2}\n{"id": 2, "width": 3}\n'


@pytest.mark.parametrize(
    ("records", "labels", "section", "said"),
    [
        (
            RECORDS,
            '{"id": 1, "label": 3}\n' * 3 + '{"id": 2, "label": "x"}\n',
            '[schema]\nlabel = "string"',
            "labels        FAILED  3 of 4 would be dead letters, first: field 'label': expected "
            'text or null, got a whole number, in \'{"id": 1, "label": 3}\'',
        ),
        (
            RECORDS,
            '{"id": 1, "class": "x"}\n',
            "",
            "labels        FAILED  none of 1 records has the field 'label'; fields seen: id, class"
            "; set the names of the fields in [labels.fields]",
        ),
        (
            RECORDS,
            "",
            '[schema]\nnumeric = ["wdth"]',
            "schema        FAILED  none of 2 records has the field 'wdth'; did you mean width?",
        ),
        (
            RECORDS,
            "",
            '[schema.fields]\nwidht = "text"',
            "schema        FAILED  [schema.fields] none of 2 records has the field 'widht'; did "
            "you mean width?",
        ),
        (
            RECORDS,
            "",
            '[schema.fields]\nbodi = "text"',
            "schema        FAILED  [schema.fields] none of 2 records has the field 'bodi'; fields "
            "seen: id, width",
        ),
        (
            RECORDS,
            "",
            '[predictions]\nconnector = "sqlite"\nstream = "p"\ninclude = ["widht"]',
            "schema        FAILED  [predictions] include: none of 2 records has the field 'widht'",
        ),
        (
            RECORDS,
            "",
            '[schema]\nexclude = ["widht"]',
            "schema        FAILED  [schema] exclude: none of 2 records has the field 'widht'; did",
        ),
        (
            RECORDS,
            "",
            '[schema]\ntime = "when"',
            "schema        FAILED  [schema] time: none of 2 records has the field 'when'; fields "
            "seen: id, width",
        ),
        (
            '{"id": 1, "subject": "Where is my order?", "n": 1}\n' * 2,
            "",
            '[schema]\ntime = "subject"',
            "schema        FAILED  [schema] time: 2 of 2 values of the field 'subject' are no "
            "times, first: 'Where is my order?'; name a field with ISO 8601 text or seconds",
        ),
        (
            "id,width\n1,2\n",
            "",
            "",
            "schema        FAILED  none of the 2 messages at the start is a JSON object, as every "
            "record must be; the first is 'id,width'",
        ),
        (
            "id,width\n1,2\n",
            "",
            '[schema]\nnumeric = ["width"]',
            "schema        FAILED  2 of 2 would be dead letters, first: invalid character",
        ),
    ],
)
def test_check_sees_that_what_is_there_cannot_be_used(
    call, tmp_path, records, labels, section, said
):
    pipeline_of(tmp_path, records, labels, section=section)
    code, out, _ = call("check", "p.toml")
    assert code == 1
    assert said in out


@pytest.mark.parametrize(
    ("name", "code", "said"),
    [
        ("bodi", 1, "[schema.fields] none of 40 records has the field 'bodi'; did you mean body?"),
        ("widths", 0, "Added with the next batch: widths, from the pipeline file"),
    ],
)
def test_check_refuses_misspelt_field_that_was_added(call, tmp_path, name, code, said):
    records = [json.dumps({"id": n, "width": n, "body": f"text {n}"}) + "\n" for n in range(40)]
    pipeline_of(tmp_path, "".join(records))
    assert call("run", "p.toml", "--until-idle")[0] == 0
    pipeline_of(tmp_path, "".join(records), section=f'[schema.fields]\n{name} = "text"')
    found, out, _ = call("check", "p.toml")
    assert found == code
    assert said in out


def test_check_says_first_what_is_wrong_and_shows_the_file_when_asked_to(call, tmp_path):
    pipeline_of(tmp_path, RECORDS)
    code, out, _ = call("check", "p.toml")
    assert code == 0
    assert out.startswith("OK: p.toml is valid; start it with `streamboost run p.toml`\n")
    assert "\n  width  number          numbers\n" in out
    assert len(out.splitlines()) < 15
    pipeline_of(tmp_path, RECORDS, section='[predictions]\nconnector = "files"\npath = "."')
    code, out, _ = call("check", "p.toml")
    assert code == 1
    verdict, first, *_ = out.splitlines()
    assert verdict == "FAILED: 1 part of p.toml must be fixed"
    assert first.startswith("predictions   FAILED")


@pytest.mark.parametrize(
    ("records", "labels", "section", "why"),
    [
        (
            '{"key": 1, "a": 2}\n' * 3 + '{"id": null, "a": 1}\n',
            "",
            '[schema]\nnumeric = ["a"]',
            "no record could be used; the first, missing_id: field 'id' is absent or null",
        ),
        (
            RECORDS,
            '{"id": 1, "class": "x"}\n',
            "",
            "no label could be used; the first, missing_label: field 'label' is absent or null; "
            "set the names of the fields in [labels.fields]",
        ),
        (RECORDS, '{"id": "one", "label": "x"}\n' * 2, "", "none of 2 labels matched a record"),
    ],
    ids=["records", "labels", "strangers"],
)
@pytest.mark.quick_once
def test_a_run_that_could_use_nothing_says_why_and_fails(
    call, tmp_path, records, labels, section, why
):
    pipeline_of(tmp_path, records, labels, section=section)
    code, _, err = call("run", "p.toml", "--until-idle")
    assert code == 1
    assert why in err
    code, _, err = call("run", "p.toml", "--until-idle")
    assert code == 0, "nothing was there to use"


@pytest.mark.slow
def test_a_run_that_goes_on_is_none_that_failed_where_all_that_is_new_is_damaged(call, tmp_path):
    pipeline_of(tmp_path, RECORDS)
    assert call("run", "p.toml", "--until-idle")[0] == 0
    with (tmp_path / "records.jsonl").open("a") as file:
        file.write("damaged\n")
    assert call("run", "p.toml", "--until-idle")[0] == 0
    assert "\n    dead letters             1" in call("inspect", "p.toml")[1]


def test_a_run_without_labels_yet_is_none_that_failed(call, tmp_path):
    pipeline_of(tmp_path, RECORDS)
    assert call("run", "p.toml", "--until-idle")[0] == 0


@pytest.mark.slow
def test_check_says_from_where_the_next_run_goes_on_or_why_it_would_refuse(call, tmp_path):
    def state_row():
        code, out, _ = call("check", "p.toml")
        row = next(line for line in out.splitlines() if line.startswith("state   "))
        assert (code, "FAILED" in row) in ((0, False), (1, True))
        assert ("guarantee" in out) == (code == 0)
        return row

    pipeline_of(tmp_path, RECORDS)
    assert state_row().endswith("ok      empty: the next run starts from the beginning")
    assert call("run", "p.toml", "--until-idle")[0] == 0
    assert state_row().endswith("ok      the next run continues after batch 1")
    pipeline_of(tmp_path, RECORDS, more="seed = 7")
    assert "[pipeline] seed was 0 and is 7" in state_row()
    pipeline_of(tmp_path, RECORDS)
    with State(tmp_path / "state").hold_lock():
        running = f"ok      process {os.getpid()} is running on this state; batch 1 is committed"
        assert state_row().endswith(running)
        assert call("check", "p.toml")[1].startswith("OK: p.toml is valid, and its pipeline is")
    shutil.rmtree(tmp_path / "state" / "checkpoints")
    assert state_row().endswith("batch 1, and first replays all batches")


@pytest.mark.slow
def test_inspect_says_how_far_a_running_pipeline_is_beyond_its_checkpoint(call, tmp_path):
    one = '{{"id": {}, "a": 1}}\n'
    pipeline_of(tmp_path, one.format(0) + "damaged\n", '{"id": 0, "label": "x"}\n')
    (tmp_path / "p.toml").rename(tmp_path / "pipeline.toml")
    assert call("run", "--until-idle")[0] == 0
    _, out, _ = call("inspect")
    assert "as of the checkpoint of batch 1:" in out
    assert "records          continues after 26 bytes" in out
    assert "commands" not in out
    assert re.search(r"unsolicited +1  labels without a request \(learned\)", out)
    assert re.search(r"dead letters +1  rejected messages", out)
    for n in (1, 2):
        with (tmp_path / "records.jsonl").open("a") as file:
            file.write(one.format(n))
        assert call("run", "--until-idle")[0] == 0
    for newer in (2, 3):
        (tmp_path / "state" / "checkpoints" / f"{newer:010}").unlink()
    with State(tmp_path / "state").hold_lock():
        _, out, _ = call("inspect")
    assert "checkpoint of batch 1, 2 batches ago (a restart replays from there):" in out


def test_inspect_after_a_stop_on_empty_input_says_that_nothing_was_read(call, tmp_path):
    pipeline_of(tmp_path, "")
    assert call("run", "p.toml", "--until-idle")[0] == 0
    _, out, _ = call("inspect", "p.toml")
    assert "nothing has been read yet" in out


def test_the_version_is_printed(call):
    assert call("--version") == (0, f"streamboost {streamboost.__version__}\n", "")


def test_a_command_is_summed_up_in_a_line_that_is_not_cut(call):
    _, out, _ = call("--help")
    assert "..." not in out.partition("Commands:")[2]
    assert "Compile the numba kernels before a run." in out


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


@pytest.mark.slow
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
    assert out.startswith("all kernels are compiled and cached; this took ")


@pytest.mark.slow
def test_what_a_pipeline_is_told_is_obeyed_by_its_next_run(call, tmp_path):
    pipeline_of(tmp_path, RECORDS)
    code, _, err = call("control", "p.toml", "pause")
    assert (code, "has no pipeline state: run the pipeline first" in err) == (2, True)
    assert call("run", "p.toml", "--until-idle")[0] == 0
    code, out, _ = call("control", "p.toml", "pause")
    assert (code, "applies the command with its next batch" in out) == (0, True)
    text = (tmp_path / "p.toml").read_text()
    (tmp_path / "other.toml").write_text(re.sub('name = ".*"', 'name = "another"', text, count=1))
    code, _, err = call("control", "other.toml", "pause")
    assert (code, "and this is 'another'" in err) == (1, True)
    code, _, err = call("control", "p.toml", "rollback")
    assert (code, "rollback needs the number of a kept version" in err) == (2, True)
    assert call("control", "p.toml", "dance")[0] == 2
    code, _, err = call("control", "p.toml", "merge", "hgih")
    assert (code, "merge needs a class and another class as its target" in err) == (2, True)
    code, _, err = call("control", "p.toml", "pause", "hgih")
    assert (code, "rollback needs a version number" in err) == (2, True)
    code, out, _ = call("control", "p.toml", "merge", "hgih", "high")
    assert (code, out.startswith("merge hgih high: ")) == (0, True)
    _, _, err = call("run", "p.toml", "--until-idle")
    _, out, _ = call("inspect", "p.toml")
    assert "yes: no training, and the active committee stays" in out


@pytest.mark.slow
def test_a_command_about_what_is_not_there_fails_and_names_what_is(call, tmp_path):
    records = "".join(json.dumps({"id": n, "width": n}) + "\n" for n in range(40))
    labels = "".join(
        json.dumps({"id": n, "label": "delivery" if n % 2 else "billing", "source": "ann"}) + "\n"
        for n in range(40)
    )
    pipeline_of(tmp_path, records, labels)
    assert call("run", "p.toml", "--until-idle")[0] == 0
    kept = json.loads(call("inspect", "p.toml", "--json")[1])["checkpoint"]["versions"]
    there = ", ".join(map(str, kept))
    for said, *words in (
        (f"version 12345 is not kept: there are {there}", "rollback", "12345"),
        (
            "no class 'deliverey'; did you mean 'delivery'?; confirm",
            "merge",
            "billing",
            "deliverey",
        ),
        ("there is no class 'biling'; did you mean 'billing'?", "merge", "biling", "delivery"),
        ("there is no class 'x': the classes are 'billing', 'delivery'", "drop", "x"),
        ("'billing' is not merged into another: none is", "unmerge", "billing"),
        ("no class 'bilin'; did you mean 'billing'?", "decide", "threshold.bilin=0.9"),
        (r"the new class 'B\x1b[31m' holds U+001B", "merge", "billing", "B\x1b[31m", "--new"),
        ("no labels of the annotator 'eve': there are 'ann'", "retract", "--annotator", "eve"),
        (
            "no labels of the annotator 'anne'; did you mean 'ann'?",
            "retract",
            "--annotator",
            "anne",
        ),
    ):
        code, out, err = call("control", "p.toml", *words)
        assert (code, out, said in err) == (1, "", True), err
    assert call("control", "p.toml", "rollback", str(kept[0]))[0] == 0
    assert call("control", "p.toml", "pause", "--new")[0] == 2
    assert call("control", "p.toml", "retract")[0] == 2
    assert call("control", "p.toml", "pause", "--annotator", "ann")[0] == 2
    code, out, _ = call("control", "p.toml", "merge", "billing", "invoice", "--new")
    assert (code, out.startswith("merge billing invoice --new: ")) == (0, True)
    with (tmp_path / "records.jsonl").open("a") as file:
        file.write('{"id": 99, "width": 1}\n')
    assert call("run", "p.toml", "--until-idle")[0] == 0
    assert call("control", "p.toml", "retract", "--annotator", "ann")[0] == 0
    assert call("control", "p.toml", "drop", "invoices")[0] == 1
    assert call("control", "p.toml", "unmerge", "billing")[0] == 0


def test_a_state_is_verified_with_its_pipeline_file(call, tmp_path):
    pipeline_of(tmp_path, RECORDS)
    assert call("run", "p.toml", "--until-idle")[0] == 0
    code, out, _ = call("inspect", "p.toml", "--verify")
    assert (code, "batches 1 to 1 replayed: bit for bit" in out) == (0, True)
    code, _, err = call("inspect", "state", "--verify")
    assert (code, "--verify needs the pipeline file" in err) == (2, True)


HOSTILE = "\x1b[31mred\x9b0m\u202e\n2026-01-01 00:00:00,000 ERROR [7] forged\r\x7f\u2028"


def test_no_command_prints_raw_what_comes_from_outside(call, tmp_path):
    fields = [
        {"id": f"{n}{HOSTILE}", HOSTILE: n, f"b{HOSTILE}": "x", "class": f"{n % 2}{HOSTILE}"}
        for n in range(30)
    ]
    classes = [f"class {n % 2}" for n in range(30)]
    labels = [
        {"id": record["id"], "label": label, "source": f"ann{HOSTILE}"}
        for record, label in zip(fields, classes, strict=True)
    ]
    damaged = [{"id": HOSTILE * 100}, {HOSTILE: 1}]
    lines = ["".join(json.dumps(one) + "\n" for one in many) for many in (fields + damaged, labels)]
    pipeline_of(tmp_path, *lines)
    file, place = f"p{HOSTILE}.toml", tmp_path / f"records{HOSTILE}.jsonl"
    (tmp_path / "records.jsonl").rename(place)
    text = (tmp_path / "p.toml").read_text()
    (tmp_path / file).write_text(text.replace('"records.jsonl"', json.dumps(place.name)))
    (tmp_path / "bad.toml").write_text(f"{text}[{json.dumps(HOSTILE)}]\nx = 1\n[kafka]\n")
    (tmp_path / "gone.toml").write_text(
        text.replace('"records.jsonl"', json.dumps(f"gone{HOSTILE}.jsonl"))
    )
    for code, *words in (
        (0, "run", file, "--until-idle"),
        (0, "check", file, "--show"),
        (1, "check", "gone.toml"),
        (1, "run", "gone.toml"),
        (0, "inspect", file),
        (0, "inspect", file, "--json"),
        (0, "inspect", "state"),
        (0, "inspect", file, "--verify"),
        (0, "control", file, "pause"),
        (2, "control", file, "pause", HOSTILE),
        (2, "check", "bad.toml"),
        (2, "run", f"nowhere{HOSTILE}"),
        (2, "init", file),
        (0, "init", f"new{HOSTILE}"),
        (2, "demo", place.name, "--label", f"b{HOSTILE}"),
        (0, "demo", place.name, "--label", "class", "--strategy", "random"),
        (0, "serve", file, "--log-out", f"ann{HOSTILE}"),
    ):
        got, out, err = call(*words)
        said = out + err
        raw = {one for one in said if not (one.isprintable() or one == "\n")}
        assert not raw, (words, said)
        assert not any(line.startswith("2026-01-01") for line in said.splitlines()), words
        assert got == code, (words, said)


@pytest.mark.parametrize(
    "words",
    [
        (HOSTILE,),
        (f"--{HOSTILE}",),
        ("check", f"--{HOSTILE}"),
        ("control", "p.toml", HOSTILE),
        ("demo", "--seed", HOSTILE),
        ("check", "p.toml", HOSTILE),
    ],
)
def test_usage_error_is_printed_escaped(call, words):
    code, out, err = call(*words)
    assert (code, out) == (2, "")
    assert "Error: " in err
    assert all(one.isprintable() or one == "\n" for one in err)
    assert not any(line.startswith("2026-01-01") for line in err.splitlines())


def test_pipeline_file_that_is_a_pipe_is_refused(call, tmp_path):
    os.mkfifo(tmp_path / "p.toml")
    for command in ("check", "run", "inspect", "serve"):
        code, _, err = call(command, "p.toml")
        assert (code, "p.toml: is not a regular file" in err) == (2, True), command


def test_a_command_without_a_log_of_its_own_warns_in_escaped_words(call, tmp_path, capsys):
    pipeline_of(tmp_path, RECORDS)
    assert call("check", "p.toml")[0] == 0
    record = logging.LogRecord("x", logging.WARNING, "", 0, "%s", (HOSTILE,), None)
    logging.lastResort.handle(record)
    said = capsys.readouterr().err
    assert said.startswith("\\u001b[31mred\\u009b0m")
    assert len(said.splitlines()) == 1


def test_the_traceback_of_an_unexpected_error_is_escaped(call, capsys):
    assert call("--version")[0] == 0
    try:
        raise ValueError(HOSTILE)
    except ValueError as error:
        sys.excepthook(ValueError, error, error.__traceback__)
    said = capsys.readouterr().err
    assert said.startswith("Traceback")
    assert all(one.isprintable() or one == "\n" for one in said)
    assert not any(line.startswith("2026-01-01") for line in said.splitlines())
