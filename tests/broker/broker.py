"""A real Apache Kafka broker for tests: one process that is broker and controller.

Its jars are named in `pom.xml`. Maven downloads the jars once into its local repository.
"""

import os
import shutil
import signal
import subprocess
import time
from pathlib import Path
from typing import Self

from kafka import KafkaAdminClient
from kafka.errors import KafkaError

from tests.broker.proxy import Proxy
from tests.ports import free_ports

HERE = Path(__file__).parent
PLUGIN = "org.apache.maven.plugins:maven-dependency-plugin:3.8.1:build-classpath"
PATIENCE = 60.0
"""Seconds until a broker that has not answered is given up."""

SETTINGS = """
process.roles=broker,controller
node.id=1
controller.quorum.voters=1@127.0.0.1:{controller}
listeners=PLAINTEXT://127.0.0.1:{port},SASL_PLAINTEXT://127.0.0.1:{guarded},\
PROXIED://127.0.0.1:{behind},SSL://127.0.0.1:{encrypted},CONTROLLER://127.0.0.1:{controller}
advertised.listeners=PLAINTEXT://127.0.0.1:{port},SASL_PLAINTEXT://127.0.0.1:{guarded},\
PROXIED://127.0.0.1:{proxied},SSL://127.0.0.1:{encrypted}
listener.security.protocol.map=PLAINTEXT:PLAINTEXT,SASL_PLAINTEXT:SASL_PLAINTEXT,\
PROXIED:PLAINTEXT,SSL:SSL,CONTROLLER:PLAINTEXT
controller.listener.names=CONTROLLER
inter.broker.listener.name=PLAINTEXT
sasl.enabled.mechanisms=PLAIN,SCRAM-SHA-256,OAUTHBEARER
listener.name.sasl_plaintext.plain.sasl.jaas.config=\
org.apache.kafka.common.security.plain.PlainLoginModule required user_{user}="{password}";
listener.name.sasl_plaintext.scram-sha-256.sasl.jaas.config=\
org.apache.kafka.common.security.scram.ScramLoginModule required;
listener.name.sasl_plaintext.oauthbearer.sasl.jaas.config=\
org.apache.kafka.common.security.oauthbearer.OAuthBearerLoginModule required \
unsecuredLoginStringClaim_sub="broker";
ssl.keystore.location={folder}/keys.p12
ssl.keystore.password={password}
log.dirs={folder}/data
auto.create.topics.enable=false
offsets.topic.num.partitions=1
offsets.topic.replication.factor=1
transaction.state.log.num.partitions=1
transaction.state.log.replication.factor=1
transaction.state.log.min.isr=1
transaction.abort.timed.out.transaction.cleanup.interval.ms=1000
group.initial.rebalance.delay.ms=0
message.max.bytes=20000000
broker.session.timeout.ms=6000
broker.heartbeat.interval.ms=200
controller.quorum.election.timeout.ms=200
controller.quorum.fetch.timeout.ms=500
log.retention.check.interval.ms=1000
"""

USER, PASSWORD = "streamboost", "the-right-one"
"""Who may use the guarded listener."""


def missing() -> str | None:
    """Return what is to be installed before a broker can be started here, or None."""
    lacking = [
        name for name, program in (("Java", "java"), ("Maven", "mvn")) if not shutil.which(program)
    ]
    if not lacking:
        return None
    return (
        f"{' and '.join(lacking)} not found: install Java 17 or newer and Maven, or name a "
        "running broker in KAFKA_BOOTSTRAP_SERVERS"
    )


class Broker:
    """One broker with its files in `folder`; it can be stopped, killed and started again."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        ports = free_ports(6)
        self.port, self.guarded_port, self.encrypted_port = ports[:3]
        self.proxied_port, self._behind, controller = ports[3:]
        self._settings = folder / "server.properties"
        self._log = folder / "broker.log"
        self._process: subprocess.Popen[bytes] | None = None
        self._settings.write_text(
            SETTINGS.format(
                port=self.port,
                guarded=self.guarded_port,
                encrypted=self.encrypted_port,
                proxied=self.proxied_port,
                behind=self._behind,
                controller=controller,
                folder=folder,
                user=USER,
                password=PASSWORD,
            )
        )
        self._classpath = _classpath()
        self._make_keys()
        scram = f"SCRAM-SHA-256=[name={USER},password={PASSWORD}]"
        format_ = ("kafka.tools.StorageTool", "format", "-t", "streamboosttests000000")
        self._java(*format_, "--add-scram", scram, "-c").wait()

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.kill()

    @property
    def servers(self) -> str:
        """Where it listens for everybody."""
        return f"127.0.0.1:{self.port}"

    @property
    def guarded(self) -> str:
        """Where it listens for those who know the password."""
        return f"127.0.0.1:{self.guarded_port}"

    @property
    def encrypted(self) -> str:
        """Where it listens with TLS."""
        return f"127.0.0.1:{self.encrypted_port}"

    @property
    def certificate(self) -> Path:
        """The certificate that it signed itself, for clients to trust."""
        return self.folder / "certificate.pem"

    def proxy(self) -> Proxy:
        """Return a proxy that listens where the broker tells its clients to come."""
        return Proxy(self.proxied_port, self._behind)

    def start(self) -> None:
        """Start the process and return once it answers."""
        self._process = self._java("kafka.Kafka")
        deadline = time.monotonic() + PATIENCE
        while not _answers(self.servers):
            if self._process.poll() is not None or time.monotonic() > deadline:
                said = self._log.read_text(errors="replace")[-4000:]
                self.kill()
                raise RuntimeError(f"the broker did not come up; it said:\n{said}")

    def kill(self) -> None:
        """End it as a power failure would."""
        self._end(signal.SIGKILL)

    def stop(self) -> None:
        """End it in good order."""
        self._end(signal.SIGTERM)

    def freeze(self) -> None:
        """Let it answer nobody, its connections staying open, until `thaw`."""
        self._signal(signal.SIGSTOP)

    def thaw(self) -> None:
        """Let it answer again, and return once it does: one that was frozen for long is fenced."""
        self._signal(signal.SIGCONT)
        deadline = time.monotonic() + PATIENCE
        while not _answers(self.servers):
            if time.monotonic() > deadline:
                raise RuntimeError("the broker does not answer after it was frozen")

    def _make_keys(self) -> None:
        """Make the key pair and the certificate of the listener with TLS."""
        keys = ["-keystore", "keys.p12", "-storepass", PASSWORD, "-alias", "broker"]
        made = [
            ["-genkeypair", *keys, "-keyalg", "EC", "-dname", "CN=broker"],
            ["-exportcert", *keys, "-rfc", "-file", self.certificate.name],
        ]
        made[0] += ["-ext", "SAN=ip:127.0.0.1", "-validity", "3650"]
        for arguments in made:
            subprocess.run(
                ["keytool", *arguments], cwd=self.folder, check=True, capture_output=True
            )

    def _end(self, number: signal.Signals) -> None:
        if self._process is not None:
            self._signal(number)
            try:
                self._process.wait(PATIENCE)
            except subprocess.TimeoutExpired:
                self._process.kill()
                self._process.wait()
            self._process = None

    def _signal(self, number: signal.Signals) -> None:
        if self._process is not None and self._process.poll() is None:
            self._process.send_signal(number)

    def _java(self, main: str, *arguments: str) -> subprocess.Popen[bytes]:
        command = ["java", "-Xmx384m", "-Xms128m", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1"]
        command += [f"-Dlog4j2.configurationFile={HERE / 'log4j2.properties'}"]
        command += ["-cp", self._classpath, main, *arguments, str(self._settings)]
        with self._log.open("ab") as log:
            return subprocess.Popen(command, stdout=log, stderr=log, cwd=self.folder)


def _classpath() -> str:
    """Return the broker's jars; Maven is asked where the POM has changed or one is gone."""
    pom, kept = HERE / "pom.xml", HERE / "target" / "classpath"
    if kept.exists() and kept.stat().st_mtime > pom.stat().st_mtime:
        found = kept.read_text().strip()
        if all(Path(jar).exists() for jar in found.split(os.pathsep)):
            return found
    command = ["mvn", "-q", "-B", "-f", str(pom), PLUGIN, f"-Dmdep.outputFile={kept}"]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode:
        raise RuntimeError(f"Maven could not bring the broker's jars:\n{done.stdout[-4000:]}")
    return kept.read_text().strip()


def _answers(servers: str) -> bool:
    try:
        admin = KafkaAdminClient(bootstrap_servers=servers, bootstrap_timeout_ms=2_000)
    except (KafkaError, OSError):
        return False
    try:
        if not admin.describe_cluster()["brokers"]:
            return False  # it is fenced, and would refuse to create topics
        # A fresh broker makes its topic of groups when it is first asked for one.
        return bool(admin.describe_groups(["any"]))
    except (KafkaError, OSError):
        return False
    finally:
        admin.close()
