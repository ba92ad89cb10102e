"""Asks a Prometheus every expression of a Grafana dashboard: ask_dashboard.py DASHBOARD.json PORT
Fails when one is wrong, or gives nothing though a machine with GPUs is scraped."""
import json, sys, urllib.parse, urllib.request

MAY_BE_EMPTY = {
    "RDMA, sent and received",  # the machine of the test has none,
    "MFU", "Samples a second", "Tokens a second",  # its simulated job does not say
    "Whom the others wait for in a hang",  # nor does it hang,
    "Sent to other systems", "Given up", "Waiting to be sent",  # and its master sends nothing
    "Time since the step began",
}
opener = urllib.request.build_opener(urllib.request.ProxyHandler({}))
empty = []
for panel in json.load(open(sys.argv[1]))["panels"]:
    answers = 0
    for target in panel.get("targets", []):
        query = target["expr"]
        for variable in "$node", "$gpu", "$rank", "$op":
            query = query.replace(variable, ".*")
        url = f"http://127.0.0.1:{sys.argv[2]}/api/v1/query?" + urllib.parse.urlencode({"query": query})
        answers += len(json.load(opener.open(url, timeout=10))["data"]["result"])  # raises on an expression that is wrong
    if panel["type"] != "row" and answers == 0 and panel["title"] not in MAY_BE_EMPTY:
        empty.append(panel["title"])
if empty:
    sys.exit("no data: " + ", ".join(empty))
