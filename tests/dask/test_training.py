"""Trainings on the workers of a Dask cluster equal those of one machine, bit for bit."""

import os
import signal
import threading
import time

import numpy as np
import pytest
from certificates import made_certificate
from waiting import until

from streamboost import SketchLogitBoostClassifier
from streamboost.dask import DaskSketchLogitBoostClassifier, training
from streamboost.dask.handshake import TlsContexts
from streamboost.errors import ConfigurationError, DataError, LostWorkerError

distributed = pytest.importorskip("distributed", reason="Dask is not installed")
da = pytest.importorskip("dask.array")

pytestmark = [
    pytest.mark.slow,
    pytest.mark.filterwarnings("ignore"),  # Dask's own, of ports and of large graphs
]

NOTICED_SECONDS = 20  # by who shares its machine with all other tests; alone it takes one or two
KILLS = int(os.environ.get("STREAMBOOST_KILLS", "2"))
N = 900
rng = np.random.default_rng(5)
X = rng.standard_normal((N, 7)).astype(np.float32)
X[:, 0] = rng.integers(0, 9, N)
y = np.array(["low", "high", "middle"])[(X[:, 1:4] + rng.standard_normal((N, 3))).argmax(axis=1)]
X[rng.random(N) < 0.1, 3] = np.nan
WEIGHT = rng.random(N) * 10
WEIGHT[::7] = 0
SETTINGS = {
    "plain": {},
    "categories": {"categorical_features": [0], "class_weight": "balanced"},
    "sampled": {"subsample": 0.5, "max_features": 0.5, "class_weight": {"low": 2.0, "high": 0}},
}


@pytest.fixture(scope="module", params=[1, 3])
def client(request):
    with started(request.param) as cluster, distributed.Client(cluster) as client:
        yield client


def started(n_workers, **settings):
    own = {"threads_per_worker": 1, "dashboard_address": None, "memory_limit": 0}
    return distributed.LocalCluster(n_workers=n_workers, **own, **settings)


@pytest.fixture(scope="module")
def two():
    with started(2) as cluster, distributed.Client(cluster) as client:
        yield client


def bytes_of(model):
    return {name: np.asarray(a).tobytes() for name, a in model.committee_.to_arrays().items()}


def dask_model(**settings):
    return DaskSketchLogitBoostClassifier(**{"n_estimators": 6, "random_state": 1} | settings)


def local_model(**settings):
    return SketchLogitBoostClassifier(**{"n_estimators": 6, "random_state": 1} | settings)


def chunked(values, chunks):
    return da.from_array(values, chunks=chunks)


@pytest.mark.parametrize("settings", SETTINGS)
@pytest.mark.parametrize("chunks", [(900, 7), (100, 3), ((1, 0, 450, 449), 7)])
def test_a_committee_is_that_of_one_machine(client, settings, chunks):
    expected = local_model(**SETTINGS[settings]).fit(X, y, WEIGHT)
    model = dask_model(**SETTINGS[settings])
    model.fit(chunked(X, chunks), chunked(y, 128), chunked(WEIGHT, 450))
    assert bytes_of(model) == bytes_of(expected)


def test_an_extension_is_that_of_one_machine(client):
    old = y != "middle"
    expected = local_model().fit(X[old], y[old]).extend(X, y, n_estimators=3)
    model = dask_model().fit(chunked(X[old], (200, 7)), chunked(y[old], 200))
    model.extend(chunked(X, (250, 7)), chunked(y, 250), n_estimators=3)
    assert bytes_of(model) == bytes_of(expected)
    local = model.to_local()
    assert type(local) is SketchLogitBoostClassifier
    np.testing.assert_array_equal(local.predict_proba(X), expected.predict_proba(X))


@pytest.mark.parametrize("method", ["predict", "predict_proba", "decision_function"])
@pytest.mark.parametrize("n_classes", [2, 3])
def test_rows_are_scored_chunk_by_chunk(two, method, n_classes):
    kept = slice(None) if n_classes == 3 else y != "middle"
    given, labels = X[kept], y[kept]
    model = dask_model().fit(chunked(given, (300, 7)), chunked(labels, 300))
    expected = getattr(model.to_local(), method)(given)
    scores = getattr(model, method)(chunked(given, (200, 2)))
    assert isinstance(scores, da.Array)
    assert scores.shape == expected.shape
    np.testing.assert_array_equal(scores.compute(), expected)
    np.testing.assert_array_equal(getattr(model, method)(given), expected)


def test_frames_are_read_by_the_names_of_their_columns(two):
    dd, pd = pytest.importorskip("dask.dataframe"), pytest.importorskip("pandas")
    frame = pd.DataFrame(X, columns=list("abcdefg"))
    expected = local_model().fit(frame, pd.Series(y))
    lazy = dd.from_pandas(frame.assign(label=y), npartitions=4)
    model = dask_model().fit(lazy[list("abcdefg")], lazy["label"])
    assert bytes_of(model) == bytes_of(expected)
    assert model.feature_names_in_.tolist() == list("abcdefg")
    turned = lazy[list("gfedcba")]
    np.testing.assert_array_equal(
        model.predict_proba(turned[list("abcdefg")]).compute(), expected.predict_proba(frame)
    )


def test_categories_by_type_are_refused_by_name(two):
    dd, pd = pytest.importorskip("dask.dataframe"), pytest.importorskip("pandas")
    frame = pd.DataFrame({"a": X[:, 1], "town": pd.Categorical(y)})
    lazy = dd.from_pandas(frame, npartitions=2)
    with pytest.raises(DataError, match="town"):
        dask_model().fit(lazy, lazy["a"])


def test_what_is_not_done_is_refused_by_name(two):
    with pytest.raises(ConfigurationError, match="early_stopping"):
        dask_model(early_stopping=True).fit(chunked(X, 300), chunked(y, 300))
    with pytest.raises(DataError, match="X is no Dask array"):
        dask_model().fit(X, y)
    with pytest.raises(DataError, match="900 rows, and y or sample_weight 899"):
        dask_model().fit(chunked(X, 300), chunked(y[:-1], 300))


def test_what_is_wrong_with_the_rows_of_a_worker_is_said(two):
    wrong = X.copy()
    wrong[500, 2] = np.inf
    with pytest.raises(ValueError, match="infinity"):
        dask_model().fit(chunked(wrong, (100, 7)), chunked(y, 100))


def test_the_fault_of_a_training_ends_it_at_once(two, monkeypatch):
    model = dask_model(max_features="many")
    monkeypatch.setattr(type(model), "check_parameters", lambda self: None)
    with pytest.raises(TypeError):
        model.fit(chunked(X, (100, 7)), chunked(y, 100))


def test_two_trainings_at_once_do_not_wait_for_each_other(two):
    expected = bytes_of(local_model().fit(X, y))
    models = [dask_model(client=two) for _ in range(2)]
    threads = [
        threading.Thread(target=model.fit, args=(chunked(X, (90, 7)), chunked(y, 90)))
        for model in models
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(120)
    assert [bytes_of(model) for model in models] == [expected] * 2


def test_sums_go_by_the_certificates_of_a_cluster_with_tls(tmp_path):
    cert, key = made_certificate(tmp_path)
    roles = {f"tls_{role}_{part}": file for role in ("scheduler", "worker", "client")
             for part, file in (("cert", cert), ("key", key))}  # fmt: skip
    security = distributed.Security(tls_ca_file=cert, require_encryption=True, **roles)
    expected = bytes_of(local_model().fit(X, y))
    with (
        started(2, security=security, protocol="tls://") as cluster,
        distributed.Client(cluster, security=security) as client,
    ):
        encrypts = client.run(lambda dask_worker: TlsContexts.from_worker(dask_worker) is not None)
        model = dask_model().fit(chunked(X, (90, 7)), chunked(y, 90))
    assert list(encrypts.values()) == [True, True]
    assert bytes_of(model) == expected


def test_a_cluster_without_tls_has_none(two):
    encrypts = two.run(lambda dask_worker: TlsContexts.from_worker(dask_worker) is not None)
    assert list(encrypts.values()) == [False, False]


def test_a_training_can_be_interrupted_while_a_worker_stands_still(monkeypatch):
    monkeypatch.setattr(training, "_END_SECONDS", 1)
    met = []
    with started(2) as cluster, distributed.Client(cluster) as client:
        pids = list(client.run(os.getpid).values())

        def interrupted(*_):
            os.kill(pids[1], signal.SIGSTOP)
            raise KeyboardInterrupt

        def fit():
            try:
                dask_model().fit(chunked(X, (90, 7)), chunked(y, 90))
            except BaseException as error:
                met.append(type(error))

        monkeypatch.setattr(training, "_wait_for_futures", interrupted)
        thread = threading.Thread(target=fit, daemon=True)
        thread.start()
        thread.join(60)
        os.kill(pids[1], signal.SIGKILL)
    assert met == [KeyboardInterrupt]


def test_who_came_in_the_place_of_one_that_died_and_has_no_rows_is_spared(two):
    first, second = sorted(two.ncores())
    rows = two.scatter([1, 2, 3, 4], workers=[first])
    sharing = [
        set(training._assign_parts_to_workers(two, rows, [1] * 4, known))
        for known in ({first}, {first, second}, {"tcp://gone:1"})
    ]
    assert sharing == [{first}, {first, second}, {first}]


def test_who_dies_before_all_have_met_keeps_nobody_waiting(monkeypatch):
    """What Dask sends to a worker that is gone, it tries for 30 seconds."""
    ended = []
    with started(2) as cluster, distributed.Client(cluster) as client:
        pids, meet = client.run(os.getpid), training._open_rendezvous
        first = min(pids)

        def killed(client, workers):
            monkeypatch.setattr(training, "_open_rendezvous", meet)
            os.kill(pids[first], signal.SIGKILL)
            until(lambda: first not in client.ncores())
            begun = time.monotonic()
            try:
                return meet(client, workers)
            finally:
                ended.append(time.monotonic() - begun)

        monkeypatch.setattr(training, "_open_rendezvous", killed)
        model = dask_model().fit(chunked(X, (90, 7)), chunked(y, 90))
    assert ended[0] < NOTICED_SECONDS
    assert bytes_of(model) == bytes_of(local_model().fit(X, y))


@pytest.mark.parametrize("seed", range(KILLS))
def test_a_worker_killed_at_any_moment_changes_no_bit_and_is_noticed(seed, caplog):
    caplog.set_level("INFO", "streamboost.dask.training")
    rng = np.random.default_rng(seed)
    settings = {"n_estimators": 300, "learning_rate": 0.1}
    expected = bytes_of(local_model(**settings).fit(X, y))
    with started(3) as cluster, distributed.Client(cluster) as client:
        dask_model(n_estimators=1).fit(chunked(X, (90, 7)), chunked(y, 90))  # loads the kernels
        pids = list(client.run(os.getpid).values())
        model, told = dask_model(**settings), []

        def fit():
            try:
                model.fit(chunked(X, (90, 7)), chunked(y, 90))
            except Exception as error:
                told.append(error)

        thread = threading.Thread(target=fit)
        thread.start()
        thread.join(rng.random() * 3)  # whenever that is in a training of some seconds
        n_begun = caplog.text.count("training on")
        os.kill(pids[rng.integers(3)], signal.SIGKILL)
        until(
            lambda: not thread.is_alive() or caplog.text.count("training on") > n_begun,
            seconds=1.5 * NOTICED_SECONDS,
        )
        until(lambda: not thread.is_alive())
    if told:
        assert isinstance(told[0], LostWorkerError)
    else:
        assert bytes_of(model) == expected
