"""What is in deploy/: services, containers, manifests, as their own tools and schemas see them."""

import glob
import json
import os
import re
import shutil
import subprocess

import pytest

CHECKOUT = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
DEPLOY = os.path.join(CHECKOUT, "deploy")
BUILD = os.environ.get("TRACESMITH_HOME", os.path.join(CHECKOUT, "build"))
PROGRAM = os.path.join(BUILD, "bin", "tracesmith")
UNITS = sorted(glob.glob(os.path.join(DEPLOY, "systemd", "*.service")))


def read(*path):
    with open(os.path.join(CHECKOUT, *path), encoding="utf-8") as file:
        return file.read()


def documents(text):
    yaml = pytest.importorskip("yaml", reason="PyYAML is not installed: scripts/setup test")
    return [d for d in yaml.safe_load_all(text) if d]


def needs(*programs):
    for program in programs:
        if not shutil.which(program):
            pytest.skip("{} is not installed".format(program))


def run(*command, **options):
    done = subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, universal_newlines=True, **options)
    assert done.returncode == 0, done.stdout
    return done.stdout


def options_of(*command):
    return set(re.findall(r"--[a-z][a-z-]*", run(PROGRAM, *command, "--help")))


def unit_of(path, tmp_path):
    """As it would be installed, with the program of this build."""
    text = read(path)
    assert "/usr/local/bin/tracesmith" in text
    unit = tmp_path / os.path.basename(path)
    unit.write_text(text.replace("/usr/local/bin/tracesmith", PROGRAM))
    return str(unit)


@pytest.mark.parametrize("path", UNITS, ids=os.path.basename)
def test_systemd_finds_no_fault_in_a_unit(path, tmp_path):
    needs("systemd-analyze")
    out = run("systemd-analyze", "verify", "--man=no", unit_of(path, tmp_path))
    assert out.strip() == "", out


# Of 10, less is safer. The agent is root and sees processes, which alone is more than 2.
@pytest.mark.parametrize("name, most", [("tracesmith-agent", 4.0), ("tracesmith-master", 2.0)])
def test_a_unit_is_as_closed_as_its_work_allows(name, most, tmp_path):
    needs("systemd-analyze")
    unit = unit_of(os.path.join(DEPLOY, "systemd", name + ".service"), tmp_path)
    out = run("systemd-analyze", "security", "--offline=true", "--no-pager", unit)
    found = re.search(r"Overall exposure level for \S+: ([0-9.]+)", out)
    assert found and float(found.group(1)) <= most, out


@pytest.mark.parametrize("role", ["agent", "master"])
def test_a_unit_gives_options_that_the_program_has(role):
    text = read("deploy", "systemd", "tracesmith-{}.service".format(role)) + read("deploy", "systemd", "tracesmith-{}.env".format(role))
    used = set(re.findall(r"(?<=[ =])--[a-z][a-z-]*", text))
    assert {"--data-dir", "--token-file"} <= used <= options_of("cluster", role)


@pytest.mark.parametrize("script", sorted(p for p in glob.glob(os.path.join(DEPLOY, "**", "*"), recursive=True)
                                          if os.path.isfile(p) and os.access(p, os.X_OK)), ids=os.path.basename)
def test_a_script_is_one(script):
    shell = "bash" if read(script).startswith("#!/bin/bash") else "sh"
    run(shell, "-n", script)
    if shutil.which("shellcheck"):
        run("shellcheck", "--severity=warning", script)


def test_the_epilog_removes_rings_of_ended_jobs_alone(tmp_path):
    needs("flock")
    user = "4242"
    folder = tmp_path / ("tracesmith-" + user)
    folder.mkdir()
    for name in ("ended.ring", "running.ring", "ended.txt"):
        (folder / name).write_text("")
    holder = subprocess.Popen(["flock", str(folder / "running.ring"), "sh", "-c", "echo; exec sleep 100"], stdout=subprocess.PIPE)
    try:
        holder.stdout.readline()  # it has the lock
        (tmp_path / "systemctl").write_text("#!/bin/sh\nexit 3\n")
        (tmp_path / "systemctl").chmod(0o755)
        environment = dict(os.environ, SLURM_JOB_UID=user, TRACESMITH_RING_ROOT=str(tmp_path), PATH="{}:{}".format(tmp_path, os.environ["PATH"]))
        run(os.path.join(DEPLOY, "slurm", "epilog.sh"), env=environment)
        assert sorted(os.listdir(str(folder))) == ["ended.txt", "running.ring"]
    finally:
        holder.terminate()
        holder.wait()


def stages():
    """Name → base of each stage of the Dockerfile, and what it copies from the checkout."""
    found, sources, name = {}, [], None
    for line in re.sub(r"\\\n", " ", read("deploy", "docker", "Dockerfile")).splitlines():
        words = line.split()
        if not words or line.startswith("#"):
            continue
        assert words[0] in ("ARG", "FROM", "COPY", "ADD", "ENV", "USER", "VOLUME", "EXPOSE", "ENTRYPOINT", "CMD"), line
        if words[0] == "FROM":
            assert words[2] == "AS", line
            name = words[3]
            found[name] = words[1]
        if words[0] in ("COPY", "ADD"):
            arguments = [w for w in words[1:] if not w.startswith("--")]
            origin = [w for w in words[1:] if w.startswith("--from=")]
            assert not origin or origin[0][len("--from="):] in found, line
            sources += [] if origin else arguments[:-1]
        if words[0] in ("ENTRYPOINT", "CMD"):
            json.loads(line.split(None, 1)[1])  # no shell
    return found, sources


def test_the_dockerfile_has_the_four_images_and_copies_what_is_there():
    found, sources = stages()
    assert {"profiler", "worker", "coordinator", "dashboard"} <= set(found)
    for source in sources:
        assert source.startswith("build/") or os.path.exists(os.path.join(CHECKOUT, source)), source
    ignored = read(".dockerignore").split()
    assert ignored[0] == "*" and {"!deploy", "!build/tracesmith-*-linux-*.tar.gz", "deploy/docker/secrets"} <= set(ignored)


def test_the_services_of_compose_fit_together():
    (compose,) = documents(read("deploy", "docker", "docker-compose.yml"))
    services = compose["services"]
    assert {"coordinator", "profiler", "worker", "influxdb", "dashboard"} <= set(services)
    made = read("deploy", "docker", "prepare")
    for name, service in services.items():
        assert ("build" in service) != (not service["image"].startswith("tracesmith/")), name
        if "build" in service:
            assert service["build"]["target"] == name and name in stages()[0]
        assert set(service.get("depends_on", [])) <= set(services), name
        assert set(service.get("secrets", [])) <= set(compose["secrets"]), name
        for volume in service.get("volumes", []):
            source = volume.split(":")[0]
            assert source in compose["volumes"] or source.startswith(("/", "./data/", "./traces")) or os.path.exists(
                os.path.join(DEPLOY, "docker", source)), volume
        if name in ("coordinator", "profiler"):
            used = set(w for w in service["command"] if w.startswith("--"))
            assert used <= options_of("cluster", "master" if name == "coordinator" else "agent")
            assert service["read_only"] and service["cap_drop"] == ["ALL"]
    for secret in compose["secrets"].values():
        assert os.path.basename(secret["file"]) in made, secret
    # Ports are for this machine alone.
    assert all(p.startswith("127.0.0.1:") for s in services.values() for p in s.get("ports", []))


def manifests():
    """What kustomize renders, or without kustomize the files that it names."""
    folder = os.path.join(DEPLOY, "kubernetes")
    (kustomization,) = documents(read(folder, "kustomization.yaml"))
    for command in (["kustomize", "build", folder], ["kubectl", "kustomize", folder]):
        if shutil.which(command[0]):
            return documents(run(*command))
    return [d for name in kustomization["resources"] for d in documents(read(folder, name))]


def examples():
    return documents(read("deploy", "kubernetes", "job.example.yaml"))


def test_the_manifests_are_of_the_types_that_kubernetes_declares(tmp_path):
    """As TypeScript: a field that the schema does not have, or one of another type, or a missing one is an error."""
    modules = os.path.join(CHECKOUT, "build", "web", "node_modules")
    if not os.path.isdir(os.path.join(modules, "kubernetes-types")):
        pytest.skip("the page's packages are not installed: make build")
    needs("node")
    os.symlink(modules, str(tmp_path / "node_modules"))

    def check(objects):
        lines = []
        for n, o in enumerate(objects):
            group, _, version = o["apiVersion"].rpartition("/")
            place = group.split(".")[0] or "core"
            lines.append('import {{ {0} as T{1} }} from "kubernetes-types/{2}/{3}";'.format(o["kind"], n, place, version))
            lines.append("export const o{0}: T{0} = {1};".format(n, json.dumps(o, indent=1)))
        (tmp_path / "manifests.ts").write_text("\n".join(lines))
        return subprocess.run(["node", os.path.join(modules, "typescript", "bin", "tsc"), "--noEmit", "--strict", "--skipLibCheck",
                               "manifests.ts"], cwd=str(tmp_path), stdout=subprocess.PIPE, universal_newlines=True)

    objects = manifests() + examples()
    done = check(objects)
    assert done.returncode == 0, done.stdout
    kinds = {o["kind"] for o in objects}
    assert {"DaemonSet", "StatefulSet", "Deployment", "Service", "NetworkPolicy", "Role", "RoleBinding", "ServiceAccount", "Namespace"} <= kinds
    # The check can fail: a field that is spelled wrongly, deep inside.
    daemon = json.loads(json.dumps(next(o for o in objects if o["kind"] == "DaemonSet")))
    daemon["spec"]["template"]["spec"]["hostPid"] = True
    wrong = check([daemon])
    assert wrong.returncode != 0 and "hostPid" in wrong.stdout


def pods():
    for o in manifests() + examples():
        if "template" in o.get("spec", {}):
            yield o, o["spec"]["template"]["spec"]


def test_the_objects_of_kubernetes_refer_to_each_other():
    objects = manifests()
    names = {(o["kind"], o["metadata"]["name"]) for o in objects}
    labels = [o["spec"]["template"]["metadata"]["labels"] for o, _ in pods() if "metadata" in o["spec"]["template"]]

    def selects(selector):
        return any(selector.items() <= have.items() for have in labels)

    for o in objects:
        spec = o.get("spec", {})
        if o["kind"] == "Service":
            assert selects(spec["selector"]), o["metadata"]["name"]
        if o["kind"] == "StatefulSet":
            assert ("Service", spec["serviceName"]) in names
        if o["kind"] == "NetworkPolicy":
            own = spec["podSelector"].get("matchLabels", {})
            assert selects(own)
            for rule in spec.get("ingress", []):
                for peer in rule["from"]:
                    assert selects(peer["podSelector"]["matchLabels"]) or "namespaceSelector" in peer
    for o, pod in pods():
        assert pod["automountServiceAccountToken"] is False
        if "serviceAccountName" in pod:
            assert ("ServiceAccount", pod["serviceAccountName"]) in names
        volumes = {v["name"]: v for v in pod["volumes"]}
        volumes.update((c["metadata"]["name"], c) for c in o["spec"].get("volumeClaimTemplates", []))
        for volume in pod["volumes"]:
            if "secret" in volume:
                assert volume["secret"]["defaultMode"] & 0o007 == 0
        for container in pod["containers"] + pod.get("initContainers", []):
            assert {m["name"] for m in container.get("volumeMounts", [])} <= set(volumes), container["name"]
            assert container["resources"]["limits"]
            if o["kind"] == "Job":
                continue
            context = container["securityContext"]
            assert context["readOnlyRootFilesystem"] and not context["allowPrivilegeEscalation"]
            assert context["capabilities"]["drop"] == ["ALL"]
            if o["kind"] != "DaemonSet":
                assert pod["securityContext"]["runAsNonRoot"] and not pod.get("hostPID") and "add" not in context["capabilities"]


@pytest.mark.parametrize("component, role", [("agent", "agent"), ("master", "master")])
def test_a_pod_gives_options_that_the_program_has(component, role):
    (container,) = [c for o, pod in pods() for c in pod["containers"] if c["name"] == component]
    assert {a.split("=")[0] for a in container["args"]} <= options_of("cluster", role)
    entry = [json.loads(line[len("ENTRYPOINT "):]) for line in read("deploy", "docker", "Dockerfile").splitlines() if line.startswith("ENTRYPOINT")]
    assert ["tracesmith", "cluster", role, "--data-dir", "/var/lib/tracesmith"] in entry


def test_the_workflows_call_what_continuous_integration_runs_elsewhere():
    paths = glob.glob(os.path.join(CHECKOUT, ".github", "workflows", "*.yml"))
    assert paths
    for path in paths:
        (workflow,) = documents(read(path))
        assert workflow[True] and workflow["permissions"] == {"contents": "read"}, path  # YAML reads "on" as true
        for job in workflow["jobs"].values():
            assert job["timeout-minutes"] and job["runs-on"]
            for step in job["steps"]:
                assert ("run" in step) != ("uses" in step)
    assert ".ci/run" in read(".github", "workflows", "ci.yml")
