"""What this process's ranks and process groups are for."""
import json
import os
import sys

from . import probe

PARALLELISMS = ("DP", "TP", "PP", "EP", "CP", "SP")

# Where Megatron and DeepSpeed keep their groups, and what these are for.
HOMES = {
    "megatron.core.parallel_state": {
        "_DATA_PARALLEL_GROUP": "dp",
        "_TENSOR_MODEL_PARALLEL_GROUP": "tp",
        "_PIPELINE_MODEL_PARALLEL_GROUP": "pp",
        "_EXPERT_MODEL_PARALLEL_GROUP": "ep",
        "_CONTEXT_PARALLEL_GROUP": "cp",
    },
    "deepspeed.utils.groups": {
        "_EXPERT_PARALLEL_GROUP": "ep",
        "_EXPERT_DATA_PARALLEL_GROUP": "dp",
        "_WORLD_GROUP": "dp",
    },
}
HOMES["megatron.mpu.initialize"] = HOMES["apex.transformer.parallel_state"] = HOMES["megatron.core.parallel_state"]


def install(hooks):
    """Of a torch that has just been imported."""
    facts = hooks.training.metadata
    for name in PARALLELISMS:
        rank = os.environ.get("TRACESMITH_%s_RANK" % name)
        if rank:
            facts.append(("%s rank" % name.lower(), rank))

    def first_step_ended(_):
        hooks.training.on_step.remove(once)
        tell_groups(hooks)

    once = hooks.after_steps("roles", first_step_ended)


def tell_groups(hooks):
    """The groups that a framework has made, which by now it has."""
    functions = probe.functions()
    groups = getattr(hooks, "groups", None)
    if functions is None or groups is None:
        return
    for home, names in HOMES.items():
        module = sys.modules.get(home)
        for name, role in names.items():
            found = getattr(module, name, None)
            for group in found.values() if isinstance(found, dict) else [found]:
                if group is not None and not isinstance(group, (list, str, int)):
                    own = groups.group(group)
                    ranks = json.dumps(sorted(own.ranks)).encode() if own.ranks else None
                    functions.process_group(own.text, role.encode(), own.backend.encode(), own.size, ranks)
