"""Checks that every metric in queries is one that we serve: check_series.py FILE... -- METRICS...
FILE: dashboards (.json) or alert rules (.yml). METRICS: texts of /metrics, or rate.def, whose metrics only some jobs have."""
import json, re, sys

split = sys.argv.index("--")
served = {"tracesmith_gpu_xid_errors_total"}  # it is there once there was one
for path in sys.argv[split + 1:]:
    text = open(path).read()
    served |= set(re.findall(r"^# TYPE (\S+) ", text, re.M))
    served |= {"tracesmith_" + name for name in re.findall(r'^RATE\(\w+, \w+, "(\w+)"', text, re.M)}
missing = []
for path in sys.argv[1:split]:
    text = open(path).read()
    if path.endswith(".json"):
        board = json.loads(text)
        queries = [t["expr"] for p in board["panels"] for t in p.get("targets", [])]
        queries += [v["definition"] for v in board["templating"]["list"] if "definition" in v]
        if not queries or not board["uid"] or board["schemaVersion"] < 30:
            sys.exit(path + " is not a dashboard")
    else:
        queries = re.findall(r"expr: (.*)", text) + re.findall(r'query "(.*?)"', text)
    for query in queries:
        names = re.findall(r"\btracesmith_\w+", query)
        if not names:
            missing.append(f"{path}: no metric of ours in {query}")
        missing += [f"{path}: {name} is not served" for name in names if name not in served]
if missing:
    sys.exit("\n".join(missing))
