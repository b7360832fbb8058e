import sqlite3
import threading
from contextlib import closing

import pytest

from streamboost.connectors.sqlite.database import Database
from tests.waiting import until


def test_a_connection_that_is_in_use_is_closed_by_its_own_thread(tmp_path):
    """Closed under a call of its own, SQLite takes the process with it."""
    database = Database(tmp_path / "log.db")
    with database.write_transaction() as connection:
        connection.execute("CREATE TABLE t (n)")
    begun, used = threading.Event(), []

    def write():
        begun.set()
        with database.write_transaction() as connection:
            used.append(connection)
            connection.execute("INSERT INTO t VALUES (1)")

    with closing(sqlite3.connect(database.path, isolation_level=None)) as other:
        other.execute("BEGIN IMMEDIATE")
        thread = threading.Thread(target=write, daemon=True)
        thread.start()
        begun.wait(30)
        until(lambda: len(database._connections) == 2)
        database.close()
        other.execute("ROLLBACK")
        thread.join(30)
    with closing(sqlite3.connect(database.path)) as found:
        assert found.execute("SELECT n FROM t").fetchall() == [(1,)]
    (connection,) = used
    with pytest.raises(sqlite3.ProgrammingError, match="closed"):
        connection.execute("SELECT 1")
