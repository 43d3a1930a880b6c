"""What docs/deployment.md shows of conf/ is there, and fits what intake and command know."""

from __future__ import annotations

import configparser
import json
import os
import re
import shlex
import shutil
import subprocess
import sys
import tomllib
from pathlib import Path
from typing import Any

import pytest
import yaml

from aqueduct_core.cli.main import build_parser
from aqueduct_core.intake import config_file
from aqueduct_core.intake.settings.intake import IntakeSettings
from aqueduct_core.primitives.host_port import HostPort
from tests.docs.blocks import blocks
from tests.support.repository import ROOT
from tests.support.standalone import running
from tests.support.waiting import LONG, environment

PAGE = "docs/deployment.md"
UNIT = ROOT / "conf" / "systemd" / "aqueduct-intake.service"
IMAGE = (ROOT / "conf" / "docker" / "intake.Dockerfile").read_text("utf-8")
COMPOSE = yaml.safe_load((ROOT / "conf" / "docker" / "compose.yaml").read_text("utf-8"))
MANIFESTS = {
    (each["kind"], each["metadata"]["name"]): each
    for name in ("intake", "driver")
    for each in yaml.safe_load_all((ROOT / "conf" / "kubernetes" / f"{name}.yaml").read_text())
}
POD = MANIFESTS["StatefulSet", "aqueduct-intake"]["spec"]["template"]
BUILT = ("intake", "spark")
COPIES = [block for block in blocks(PAGE) if block.same_as]


def shell(heading: str) -> list[str]:
    """The lines of shell below a heading."""
    return [
        block.text for block in blocks(PAGE) if (block.heading, block.language) == (heading, "sh")
    ]


def walked(lines: str, folder: Path) -> str:
    path = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
    done = subprocess.run(
        ["bash", "-eo", "pipefail", "-c", lines],
        cwd=folder,
        env=environment(PATH=path),
        capture_output=True,
        text=True,
        timeout=LONG,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


def settings(text: str, folder: Path) -> IntakeSettings:
    """As an intake reads them, in a folder of the test."""
    file = folder / "intake.toml"
    file.write_text(text.replace("/var/lib/aqueduct", str(folder)))
    read, _ = config_file.read(file)
    return read


def ports(read: IntakeSettings) -> set[tuple[int, str]]:
    inner = [read.flight] if read.http.listen is None else [read.flight, read.http.listen]
    tcp = {(HostPort.parse(str(each)).port, "TCP") for each in inner}
    return {(HostPort.parse(str(read.listen)).port, "UDP"), *tcp}


@pytest.mark.parametrize("block", COPIES, ids=lambda block: block.same_as)
def test_the_page_shows_the_file_as_it_is(block: Any) -> None:
    assert block.text == (ROOT / block.same_as).read_text("utf-8")


def test_it_shows_all_but_those_it_links() -> None:
    linked = re.findall(r"\]\(\.\./(conf/\w+/[\w.]+)\)", (ROOT / PAGE).read_text("utf-8"))
    there = {
        str(path.relative_to(ROOT))
        for folder in ("systemd", "docker", "kubernetes")
        for path in (ROOT / "conf" / folder).iterdir()
    }
    assert {block.same_as for block in COPIES} | set(linked) == there


def arguments(command: list[str]) -> Any:
    program, *rest = command
    assert Path(program).name == "aqueduct"
    return build_parser().parse_args(rest)


def test_the_unit_starts_an_intake() -> None:
    unit = configparser.ConfigParser(strict=False, interpolation=None)
    unit.optionxform = str  # type: ignore[assignment, method-assign]
    unit.read(UNIT)
    given = arguments(shlex.split(unit["Service"]["ExecStart"]))
    assert given.config == Path("/etc/aqueduct/intake.toml")
    assert unit["Service"]["StateDirectory"] == Path(unit["Service"]["WorkingDirectory"]).name


@pytest.mark.skipif(shutil.which("systemd-analyze") is None, reason="there is no systemd here")
def test_systemd_understands_the_unit(tmp_path: Path) -> None:
    text = UNIT.read_text().replace("/opt/aqueduct/bin/aqueduct", sys.executable)
    file = tmp_path / UNIT.name
    file.write_text(text)
    done = subprocess.run(
        ["systemd-analyze", "verify", "--man=no", str(file)],
        capture_output=True,
        text=True,
        check=False,
    )
    said = [line for line in done.stderr.splitlines() if UNIT.name in line]
    assert (said, done.returncode) == ([], 0)


def test_the_steps_of_the_service_make_all_that_its_intake_needs(tmp_path: Path) -> None:
    """What the page has done as root, by this user in a folder of its own."""
    packages, files, start, send, _ = shell("A standalone intake")
    assert "systemctl enable --now aqueduct-intake" in start
    bin_of_the_service = re.findall(r"-m venv (\S+)", packages)[0] + "/bin"
    here = files.replace(bin_of_the_service, str(Path(sys.executable).parent))
    here = re.sub(r"sudo (-u aqueduct )?", "", here).replace(" -o aqueduct -g aqueduct", "")
    here = re.sub(r"(?<= )/etc/", f"{tmp_path}/", here)
    (tmp_path / "systemd" / "system").mkdir(parents=True)
    walked(here, tmp_path)
    [config] = tmp_path.glob("*/intake.toml")
    text = config.read_text("utf-8")
    for old, new in {"/etc/": f"{tmp_path}/", "/var/lib/": f"{tmp_path}/lib/"}.items():
        text = text.replace(old, new)
    config.write_text(re.sub(r'"[\d.]+:\d+"', '"127.0.0.1:0"', text))
    with running(config, "-J") as intake:
        [name] = re.findall(r"aqueduct://(\S+):4433", send)
        there = send.replace(f"{name}:4433", intake.ready["listen"])
        there = there.replace("--ca ca.pem", f"--ca tls/ca.pem --server-name {name}")
        assert "sent=1 acked=1" in walked(there, config.parent)


def test_without_spark_is_with_all_the_rest() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["project"]
    rest = sorted(each for each in project["dependencies"] if not each.startswith("pyspark"))
    images = [(ROOT / "conf" / "docker" / f"{name}.Dockerfile").read_text() for name in BUILT]
    for text in (*shell("Hosts without Spark"), *images):
        assert "--no-deps aqueduct-spark" in text
        lines = text.replace("\\\n", " ").splitlines()
        assert sorted(re.findall(r'"([\w-]+[<>=][^"]+)"', " ".join(lines))) == rest


def test_the_image_is_that_of_its_configuration(tmp_path: Path) -> None:
    read = settings((ROOT / "conf" / "docker" / "intake.toml").read_text("utf-8"), tmp_path)
    assert arguments(json.loads(IMAGE.split("ENTRYPOINT ", 1)[1])).config.name == "intake.toml"
    exposed = {(int(port), kind.upper()) for port, kind in re.findall(r"(\d+)/(udp|tcp)", IMAGE)}
    published = {
        (int(port), kind.upper())
        for port, kind in (
            each.split(":", 1)[1].split("/") for each in COMPOSE["services"]["intake"]["ports"]
        )
    }
    assert exposed == published == ports(read)


def test_the_pod_is_that_of_its_configuration(tmp_path: Path) -> None:
    text = MANIFESTS["ConfigMap", "aqueduct-intake"]["data"]["intake.toml"]
    (tmp_path / "tokens").write_text("a-token-of-thirty-two-characters-or-so\n")
    read = settings(
        text.replace("/etc/aqueduct/producers/tokens", str(tmp_path / "tokens")), tmp_path
    )
    [container] = POD["spec"]["containers"]
    open_ports = {(each["containerPort"], each["protocol"]) for each in container["ports"]}
    assert open_ports == ports(read)
    names = {each["name"] for each in container["ports"]}
    for probe in ("startupProbe", "livenessProbe", "readinessProbe"):
        [asked] = [value for value in container[probe].values() if isinstance(value, dict)]
        assert asked["port"] in names
        assert asked.get("path", "/healthz") == "/healthz"
    assert f"--uid {POD['spec']['securityContext']['runAsUser']} " in IMAGE
    mounted = {each["mountPath"] for each in container["volumeMounts"]}
    for path in re.findall(r'"(/[\w/.]+)"', text):
        assert any(path.startswith(mount) for mount in mounted), path
    assert read.advertise == "aqueduct-intake-0.aqueduct-intakes"


def test_what_manifests_name_is_there() -> None:
    sizes = MANIFESTS["StatefulSet", "aqueduct-intake"]["spec"]
    assert sizes["serviceName"] in {name for kind, name in MANIFESTS if kind == "Service"}
    assert sizes["selector"]["matchLabels"].items() <= POD["metadata"]["labels"].items()
    claimed = {each["metadata"]["name"] for each in sizes["volumeClaimTemplates"]}
    driver = MANIFESTS["Deployment", "orders-query"]["spec"]["template"]
    for pod, more in ((POD, claimed), (driver, set())):
        volumes = {each["name"] for each in pod["spec"]["volumes"]} | more
        [container] = pod["spec"]["containers"]
        assert {each["name"] for each in container["volumeMounts"]} == volumes
    claims = [each.get("persistentVolumeClaim") for each in driver["spec"]["volumes"]]
    for claim in filter(None, claims):
        assert ("PersistentVolumeClaim", claim["claimName"]) in MANIFESTS
    container = POD["spec"]["containers"][0]
    by_name = {each["name"]: each["protocol"] for each in container["ports"]}
    for (kind, _), manifest in MANIFESTS.items():
        if kind == "Service":
            assert manifest["spec"]["selector"]["app"] == POD["metadata"]["labels"]["app"]
            for port in manifest["spec"]["ports"]:
                assert by_name[port["targetPort"]] == port["protocol"]


def test_the_spool_leaves_room_on_its_volume(tmp_path: Path) -> None:
    [claim] = MANIFESTS["StatefulSet", "aqueduct-intake"]["spec"]["volumeClaimTemplates"]
    text = MANIFESTS["ConfigMap", "aqueduct-intake"]["data"]["intake.toml"]
    most = int(re.findall(r'spoolMaxBytes = "(\d+)g"', text)[0])
    assert most <= 0.85 * int(claim["spec"]["resources"]["requests"]["storage"].removesuffix("Gi"))
