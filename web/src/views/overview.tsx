// The cluster at a glance; for a file, the trace at a glance.

import { useStore } from "../store";
import { live } from "../live";
import { Alerts } from "./alerts";
import { FileOverview } from "./file";
import { ClusterGrid } from "./grid";
import { RecentSpread } from "./recent";
import { Sessions } from "./sessions";
import { TrainingNow } from "./training";
import { Empty, Failed, Loading, startCommand } from "../ui";
import { ApiError } from "../api";

export function Overview() {
  const state = useStore(live);
  if (state.info?.mode === "file") return <FileOverview />;
  if (!state.nodes) {
    if (state.connection === "down") return <Failed what="The overview" error={new ApiError(0, "offline", state.problem)} />;
    if (state.connection === "locked") return <Empty title="A token is required to see this cluster" />;
    return <Loading what="Loading the nodes" />;
  }
  if (!state.nodes.nodes.length)
    return (
      <div class="overview-empty">
        <Empty title="No node has joined yet" command={`tracesmith cluster agent --master ${location.hostname}:50051`}>
          Start an agent on each node. Without a GPU at hand, add <code>--sim 8</code> for eight simulated ones. The master of this page was
          started with <code>{startCommand()}</code> or the like; 50051 is its port unless <code>--port</code> says otherwise.
        </Empty>
        <Sessions state={state} />
      </div>
    );
  return (
    <div class="overview">
      <div class="overview-side">
        <ClusterGrid state={state} />
        <RecentSpread state={state} />
        <TrainingNow state={state} />
      </div>
      <div class="overview-side">
        <Sessions state={state} />
        <Alerts state={state} />
      </div>
    </div>
  );
}
