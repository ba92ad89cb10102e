"""`tracesmith mcp`, spoken to by a client as the specification has it."""

import json
import os
import select
import subprocess
import time

import pytest

from tracesmith import _places

DEADLINE_S = 60


class Client:
    """A client of the Model Context Protocol that checks what every message must be."""

    def __init__(self, *args, **options):
        self.server = subprocess.Popen([_places.command(), "mcp"] + list(args), stdin=subprocess.PIPE,
                                       stdout=subprocess.PIPE, stderr=subprocess.PIPE, **options)
        self.pending = b""
        self.next_id = 0

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.server.kill()
        self.server.wait()
        for pipe in (self.server.stdin, self.server.stdout, self.server.stderr):
            pipe.close()

    def send_line(self, line):
        self.server.stdin.write(line.encode() + b"\n")
        self.server.stdin.flush()

    def send(self, message):
        self.send_line(json.dumps(message))

    def receive(self):
        deadline = time.monotonic() + DEADLINE_S
        while b"\n" not in self.pending:
            left = deadline - time.monotonic()
            assert left > 0 and select.select([self.server.stdout], [], [], left)[0], "no answer"
            got = os.read(self.server.stdout.fileno(), 1 << 16)
            assert got, self.server.stderr.read().decode()
            self.pending += got
        line, self.pending = self.pending.split(b"\n", 1)
        return json.loads(line.decode())  # every line is one message

    def request(self, method, params=None):
        self.next_id += 1
        message = {"jsonrpc": "2.0", "id": self.next_id, "method": method}
        if params is not None:
            message["params"] = params
        self.send(message)
        answer = self.receive()
        assert answer["jsonrpc"] == "2.0" and answer["id"] == self.next_id
        assert ("result" in answer) != ("error" in answer)
        return answer

    def begin(self, version="2025-06-18"):
        answer = self.request("initialize", {"protocolVersion": version, "capabilities": {},
                                             "clientInfo": {"name": "test", "version": "1"}})
        self.send({"jsonrpc": "2.0", "method": "notifications/initialized"})
        return answer["result"]

    def tools(self):
        return {tool["name"]: tool for tool in self.request("tools/list")["result"]["tools"]}

    def call(self, tool, **arguments):
        result = self.request("tools/call", {"name": tool, "arguments": arguments})["result"]
        assert [part["type"] for part in result["content"]] == ["text"]
        return result["isError"], result["content"][0]["text"]


@pytest.fixture
def client(job):
    with Client(os.path.dirname(job)) as c:
        c.begin()
        yield c


@pytest.mark.parametrize("version", ["2024-11-05", "2025-03-26", "2025-06-18"])
def test_it_speaks_each_version_of_the_protocol(version):
    with Client() as c:
        result = c.begin(version)
        assert result["protocolVersion"] == version
        assert result["serverInfo"]["name"] == "tracesmith" and result["serverInfo"]["version"]
        assert "tools" in result["capabilities"]
        assert c.request("ping")["result"] == {}


def test_it_offers_its_newest_version_to_a_client_of_another_one():
    with Client() as c:
        assert c.begin("2099-01-01")["protocolVersion"] == "2025-06-18"


def test_tools_have_schemas_and_only_read(client):
    tools = client.tools()
    assert {"list_traces", "analyze", "query", "tables", "compare", "stacks"} <= set(tools)
    for tool in tools.values():
        assert tool["description"] and tool["annotations"]["readOnlyHint"] is True
        schema = tool["inputSchema"]
        assert schema["type"] == "object" and set(schema["required"]) <= set(schema["properties"])
    assert not {"start_session", "stop_session", "hangs"} & set(tools)


def test_it_finds_traces_and_analyzes_them(client, job):
    failed, text = client.call("list_traces")
    assert not failed and os.path.realpath(job) in [t["trace"] for t in json.loads(text)["traces"]]
    failed, text = client.call("analyze", trace=os.path.basename(job))
    assert not failed and "rank 3" in text.lower()
    failed, text = client.call("trace_info", trace=job)
    assert not failed and "32 ranks" in text


def test_sql_only_reads_and_is_limited(client, job, needs_query):
    failed, text = client.call("query", trace=job, sql="SELECT count(DISTINCT rank) AS ranks FROM events")
    assert not failed and text.splitlines() == ["ranks", "32", "(1 row)"]
    failed, text = client.call("query", trace=job, sql="SELECT ts FROM events", max_rows=3)
    assert not failed and text.endswith("(only the first 3 rows: there are more)\n") and len(text.splitlines()) == 5
    for sql in ["COPY (SELECT 1) TO '/tmp/tracesmith-mcp-test'", "CREATE TABLE x (a INT)", "SELECT nothing"]:
        failed, text = client.call("query", trace=job, sql=sql)
        assert failed and text
    failed, text = client.call("query", trace=job, sql="SELECT repeat('x', 200000)")
    assert failed and "larger than" in text


def test_it_runs_playbooks(client, job, needs_query):
    failed, text = client.call("playbooks")
    assert not failed and "Who hangs?" in text
    failed, text = client.call("run_playbook", playbook="slow-gpu", trace=job)
    assert not failed and "The GPU of rank 3" in text
    assert client.call("run_playbook", playbook="../x", trace=job)[0]


def test_a_trace_elsewhere_is_refused(client, tmp_path, command):
    other = str(tmp_path / "other.sbt")
    command("synth", "-o", other, "--events", "1000")
    failed, text = client.call("analyze", trace=other)
    assert failed and "not in a folder" in text
    failed, text = client.call("analyze", trace="no.sbt")
    assert failed and "no such trace" in text


def test_errors_have_the_codes_of_json_rpc(client):
    def error(message):
        client.send_line(message if isinstance(message, str) else json.dumps(message))
        answer = client.receive()
        assert answer["error"]["message"]
        return answer["error"]["code"], answer["id"]

    assert error("{") == (-32700, None)
    assert error("[]") == (-32600, None)
    assert error({"jsonrpc": "1.0", "id": 7, "method": "ping"}) == (-32600, 7)
    assert error({"jsonrpc": "2.0", "id": None, "method": "ping"}) == (-32600, None)
    assert error({"jsonrpc": "2.0", "id": "a", "method": "resources/list"}) == (-32601, "a")
    assert error({"jsonrpc": "2.0", "id": 8, "method": "tools/call"}) == (-32602, 8)
    call = {"jsonrpc": "2.0", "id": 9, "method": "tools/call"}
    assert error(dict(call, params={"name": "nothing"})) == (-32602, 9)
    assert error(dict(call, params={"name": "start_session", "arguments": {"name": "s"}})) == (-32602, 9)
    assert error(dict(call, params={"name": "analyze", "arguments": {}})) == (-32602, 9)
    assert error(dict(call, params={"name": "analyze", "arguments": {"trace": 3}})) == (-32602, 9)
    assert error(dict(call, params={"name": "analyze", "arguments": {"trace": "x", "y": ""}})) == (-32602, 9)
    assert client.request("ping")["result"] == {}


def test_it_answers_pings_and_cancels_while_a_tool_works(client, job, needs_query):
    slow = "SELECT count(*) FROM range(1000000000000) AS r(i) WHERE i % 7 = 3"
    client.send({"jsonrpc": "2.0", "id": "slow", "method": "tools/call",
                 "params": {"name": "query", "arguments": {"trace": job, "sql": slow}}})
    assert client.request("ping")["result"] == {}
    client.send({"jsonrpc": "2.0", "method": "notifications/cancelled", "params": {"requestId": "slow"}})
    assert not client.call("tables", table="steps")[0]


def test_it_answers_a_batch_with_one_array(client):
    client.send([{"jsonrpc": "2.0", "id": 1, "method": "ping"},
                 {"jsonrpc": "2.0", "method": "notifications/initialized"},
                 {"jsonrpc": "2.0", "id": 2, "method": "tools/call", "params": {"name": "tables", "arguments": {}}}])
    assert sorted(answer["id"] for answer in client.receive()) == [1, 2]


def test_it_ends_when_the_client_does(job):
    with Client(os.path.dirname(job)) as c:
        c.begin()
        c.server.stdin.close()
        assert c.server.wait(DEADLINE_S) == 0


def test_a_folder_that_is_not_there_is_an_error(tmp_path):
    with Client(str(tmp_path / "none")) as c:
        assert c.server.wait(DEADLINE_S) == 1
        assert "no such folder" in c.server.stderr.read().decode()
