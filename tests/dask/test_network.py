"""AllReduce between processes over real sockets, and failures of a process."""

import json
import socket
import ssl
import threading
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest
from certificates import made_certificate

from streamboost.dask import handshake, network
from streamboost.dask.handshake import TlsContexts
from streamboost.dask.network import Rendezvous, abort_attempt, join_rendezvous, open_rendezvous
from streamboost.errors import ConfigurationError, LostWorkerError


@pytest.fixture
def meeting():
    meeting = open_rendezvous("127.0.0.1", 3)
    yield meeting
    abort_attempt(meeting.token)


def together(meeting, act, encryption=None, begin=None):
    """Have all join and act, each in a thread: what each returns or raises.

    All but the first wait for the event `begin`, where there is one.
    """

    def one(rank):
        try:
            if rank and begin is not None:
                assert begin.wait(30)
            return act(rank, join_rendezvous(meeting, rank, encryption))
        except Exception as error:
            return error

    with ThreadPoolExecutor(meeting.n) as pool:
        return list(pool.map(one, range(meeting.n)))


def sums(rank, total):
    """Add up all ranks."""
    values = np.array([rank])
    total.sum_over_shards(values)
    return values.tolist()


def test_all_have_the_sum_of_all(meeting):
    def act(rank, total):
        many = np.full((200, 1000), rank + 2**40)  # more than the system keeps for who is late
        few = np.array([rank])
        for values in (many, few):
            total.sum_over_shards(values)
        return many, few

    for many, few in together(meeting, act):
        np.testing.assert_array_equal(many, np.full((200, 1000), 3 + 3 * 2**40))
        assert few.tolist() == [3]


@pytest.mark.parametrize("lost", [0, 1, 2])
def test_where_one_is_lost_all_others_are_told(meeting, lost):
    def act(rank, total):
        total.sum_over_shards(np.array([1]))
        if rank == lost:
            for each in [total.first] if rank else total.peers:
                each.shutdown(socket.SHUT_RDWR)
            return
        total.sum_over_shards(np.array([1]))
        raise AssertionError("the sum came without one's part")

    for rank, told in enumerate(together(meeting, act)):
        assert rank == lost or isinstance(told, LostWorkerError)


def test_who_is_abandoned_waits_no_longer(meeting):
    with ThreadPoolExecutor(1) as pool:
        first = pool.submit(join_rendezvous, meeting, 0)
        abort_attempt(meeting.token)
        with pytest.raises(LostWorkerError):
            first.result(timeout=30)


def test_who_comes_after_the_end_is_told(meeting):
    abort_attempt(meeting.token)
    for rank in (0, 1):
        with pytest.raises(LostWorkerError):
            join_rendezvous(meeting, rank)


def test_a_stranger_is_not_let_in(meeting):
    stranger = socket.create_connection((meeting.host, meeting.port))
    network._send_message(
        stranger, b"a guess that is as long as a token, " + json.dumps({}).encode()
    )
    noise = socket.create_connection((meeting.host, meeting.port))
    noise.sendall(b"GET / HTTP/1.1\r\n\r\n" * 3)
    assert together(meeting, sums) == [[3]] * 3
    assert stranger.recv(1) == b""
    stranger.close()
    noise.close()


@pytest.mark.parametrize("said", [b"5", b"[" * 60_000, '["\u00e9", {}]'.encode(), b"\xff" * 99])
def test_nothing_that_a_stranger_says_ends_a_training(meeting, said):
    with socket.create_connection((meeting.host, meeting.port)) as stranger:
        network._send_message(stranger, said)
        stranger.shutdown(socket.SHUT_WR)
        assert together(meeting, sums) == [[3]] * 3


def test_strangers_who_stay_silent_keep_nobody_waiting(meeting):
    threads = ThreadPoolExecutor(1)
    silent = [socket.create_connection((meeting.host, meeting.port)) for _ in range(4)]
    try:
        silent[0].sendall(b"\0\0")
        assert threads.submit(together, meeting, sums).result(timeout=30) == [[3]] * 3
    finally:
        abort_attempt(meeting.token)
        threads.shutdown()
        for each in silent:
            each.close()


def test_the_oldest_of_too_many_strangers_makes_room(meeting, monkeypatch):
    monkeypatch.setattr(handshake, "_MAX_UNAUTHENTICATED", 1)
    with ThreadPoolExecutor(1) as threads:
        first = threads.submit(join_rendezvous, meeting, 0)
        with (
            socket.create_connection((meeting.host, meeting.port)) as oldest,
            socket.create_connection((meeting.host, meeting.port)),
        ):
            oldest.settimeout(30)
            assert oldest.recv(1) == b""
        abort_attempt(meeting.token)
        with pytest.raises(LostWorkerError):
            first.result(timeout=30)


@pytest.mark.skipif(not hasattr(socket, "TCP_USER_TIMEOUT"), reason="Linux alone has it")
def test_who_computes_with_much_unread_is_not_taken_for_lost(meeting):
    """Linux ends a connection with that option also where the other side only does not read yet."""

    def act(rank, total):
        ends = [total.first] if rank else total.peers
        return [one.getsockopt(socket.IPPROTO_TCP, socket.TCP_USER_TIMEOUT) for one in ends]

    assert together(meeting, act) == [[0, 0], [0], [0]]


def test_a_worker_that_would_not_come_to_the_same_bits_is_refused(meeting, monkeypatch):
    def act(rank, total):
        raise AssertionError("was let in")

    ours, others = network.environment(), iter([{"numba": "0.1"}, {}])
    monkeypatch.setattr(network, "environment", lambda: ours | next(others, {}))
    for refused in together(meeting, act):
        assert isinstance(refused, ConfigurationError)
        assert "numba" in str(refused)


def test_the_token_is_not_shown():
    assert "secret" not in repr(Rendezvous("here", 1, 2, "secret"))


def test_sums_out_of_step_are_a_loss(meeting):
    def act(rank, total):
        total.sum_over_shards(np.zeros(1 + rank, dtype=np.int64))

    assert all(isinstance(told, LostWorkerError) for told in together(meeting, act))


@pytest.fixture(scope="module")
def certificate(tmp_path_factory):
    return made_certificate(tmp_path_factory.mktemp("certificate"))


def encryption_of(files, trusted=None):
    """Return what Dask's own contexts come to: both sides show a certificate."""
    contexts = []
    for purpose in (ssl.Purpose.CLIENT_AUTH, ssl.Purpose.SERVER_AUTH):
        context = ssl.create_default_context(purpose, cafile=trusted or files[0])
        context.load_cert_chain(*files)
        context.verify_mode, context.check_hostname = ssl.CERT_REQUIRED, False
        contexts.append(context)
    return TlsContexts(*contexts)


def test_sums_go_by_tls_where_the_cluster_does(meeting, certificate):
    def act(rank, total):
        many = np.full((200, 1000), rank + 2**40)
        total.sum_over_shards(many)
        ends = [total.first] if rank else total.peers
        return many, [isinstance(end, ssl.SSLSocket) and end.cipher() for end in ends]

    for many, ciphers in together(meeting, act, encryption_of(certificate)):
        np.testing.assert_array_equal(many, np.full((200, 1000), 3 + 3 * 2**40))
        assert all(ciphers)


def test_who_comes_in_the_clear_or_with_a_strange_certificate_is_not_let_in(
    meeting, certificate, tmp_path
):
    ours = encryption_of(certificate)
    strange = encryption_of(made_certificate(tmp_path), trusted=certificate[0])
    with ThreadPoolExecutor(1) as threads:
        begin = threading.Event()
        all_of_us = threads.submit(together, meeting, sums, ours, begin)
        try:
            for theirs in (None, strange):
                with pytest.raises(LostWorkerError):
                    join_rendezvous(meeting, 1, theirs)
        finally:
            begin.set()
        assert all_of_us.result(timeout=30) == [[3]] * 3


def test_who_is_met_in_the_clear_or_by_a_strange_certificate_is_told_nothing(
    meeting, certificate, tmp_path
):
    ours = encryption_of(certificate)
    strange = encryption_of(made_certificate(tmp_path))
    for theirs in (None, strange):
        impostor = open_rendezvous("127.0.0.1", 2)
        with ThreadPoolExecutor(1) as threads:
            first = threads.submit(join_rendezvous, impostor, 0, theirs)
            with pytest.raises(LostWorkerError):
                join_rendezvous(impostor, 1, ours)
            abort_attempt(impostor.token)
            with pytest.raises(LostWorkerError):
                first.result(timeout=30)


def test_where_one_is_lost_the_others_are_told_by_tls_too(meeting, certificate):
    def act(rank, total):
        total.sum_over_shards(np.array([1]))
        if rank == 1:
            abort_attempt(meeting.token)  # as where the driver gives an attempt up
        total.sum_over_shards(np.array([1]))

    told = together(meeting, act, encryption_of(certificate))
    assert all(isinstance(one, LostWorkerError) for one in told)
