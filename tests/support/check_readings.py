"""Checks that a server has every reading of the metrics once: check_readings.py prometheus|influx PORT [RUNS]
tracesmith_export_readings_total counts them from 1 in each of RUNS runs of the master. Prints how many there are."""
import json, sys, urllib.parse, urllib.request

kind, port, runs = sys.argv[1], sys.argv[2], int(sys.argv[3]) if len(sys.argv) > 3 else 1
opener = urllib.request.build_opener(urllib.request.ProxyHandler({}))

def ask(path, **query):
    return json.load(opener.open(f"http://127.0.0.1:{port}{path}?" + urllib.parse.urlencode(query), timeout=10))

name = "tracesmith_export_readings_total"
if kind == "prometheus":
    series = ask("/api/v1/query", query=name + "[1h]")["data"]["result"]
    values = [int(float(v)) for _, v in series[0]["values"]] if series else []
    if len(series) > 1:
        sys.exit(f"{len(series)} series")
else:
    result = ask("/query", db="tracesmith", q=f"SELECT value FROM {name}")["results"][0]
    values = [int(v) for _, v in result["series"][0]["values"]] if "series" in result else []
expected = 1
for value in values:
    if value == 1 and expected != 1:
        runs -= 1
        expected = 1
    if value != expected:
        sys.exit(f"{value} instead of {expected} in {values}")
    expected += 1
if not values or runs != 1:
    sys.exit(f"not all runs are there: {values}")
print(len(values))
