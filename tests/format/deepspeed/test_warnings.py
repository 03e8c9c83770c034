#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""`zerofs info` says in one line each where DeepSpeed's own tools, or its files, are wrong, and says it of no other save."""
import json
import os
import shutil
import subprocess
import sys
import tempfile

sys.path[:0] = [os.path.dirname(os.path.abspath(__file__)), os.path.dirname(os.path.dirname(os.path.abspath(__file__)))]
import makeds  # noqa: E402
from tap import check, done  # noqa: E402
from torchedit import Archive  # noqa: E402

ZEROFS = os.environ.get("ZEROFS", "./zerofs")
DATA = os.path.join(os.environ.get("ZF_DATA", "tests/data"), "deepspeed")
ORDER = "zero_to_fp32.py of that release gives weights wrong names"
LOST = "a frozen parameter, and DeepSpeed did not save its data"
ROBIN = "round_robin_gradients is on"
FROZEN = "frozen parameters are only in \"module\"; zero_to_fp32.py leaves them out"
WHOLE = "(zero_to_fp32.py of DeepSpeed"
TIES = "names to parameters of other shapes"
EVERY = (ORDER, LOST, ROBIN, FROZEN, WHOLE, TIES)

for save, some in {
        "ds0_4_0_zero2_w2": (ORDER,),
        "ds0_5_10_zero3_w3_groups_frozen": (LOST, WHOLE),
        "zero1_w2": (FROZEN, WHOLE),
        "zero1_w2_bf16optimizer": (FROZEN, WHOLE),
        "zero2_w2": (WHOLE,),
        "zero2_w2_ds0_9_5": (WHOLE,),
        "zero3_w2": (WHOLE,),
        "ds0_19_8_zero2_align_roundrobin_w3": (),
        "ds0_19_8_zero1_bf16opt_w3": (FROZEN,),
        "ds0_19_8_zero3_bf16_w3": (),
        "ds0_19_8_zero2_fastwriter_w2": ()}.items():
    said = subprocess.run([ZEROFS, "info", os.path.join(DATA, save)], capture_output=True, text=True, timeout=60).stdout
    check(f"{save}: what is told", all((w in said) == (w in some) for w in EVERY), [(w, w in said) for w in EVERY])
    lines = [line for w in some for line in said.splitlines() if w in line]
    check(f"{save}: a line each, and as data",
          len({line.split(":")[0] for line in lines}) >= len(some) and all(w in json.dumps(json.loads(subprocess.run(
              [ZEROFS, "info", "--json", os.path.join(DATA, save)], capture_output=True, text=True, timeout=60).stdout)).replace('\\\\"', '"').replace('\\"', '"')
              for w in some), lines)

STATE = makeds.State({f"p{i}": (i + 2, 3) for i in range(5)})
for on, dealt, ranks in ((True, True, 2), (False, False, 2), (True, False, 1)):
    files = makeds.zero12(STATE, ranks, order=makeds.dealt if dealt else None)
    for v in files.values():
        v["ds_config"]["zero_optimization"]["round_robin_gradients"] = on
    if dealt:
        model = files["mp_rank_00_model_states.pt"]
        model["param_shapes"] = [makeds.OrderedDict((n, makeds.Size(STATE.shape(n))) for n in makeds.dealt(g, ranks)) for g in STATE.groups]
    with tempfile.TemporaryDirectory() as d:
        makeds.write(os.path.join(d, "tag"), files)
        said = subprocess.run([ZEROFS, "info", os.path.join(d, "tag")], capture_output=True, text=True, timeout=60)
    check(f"round_robin_gradients {on} on {ranks} ranks", not said.stderr and (ROBIN in said.stdout) == (on and dealt), said)

# What a release cannot tell is refused by name: experts that are spread over tensor-parallel ranks as well.
with tempfile.TemporaryDirectory() as d:
    top = os.path.join(d, "run")
    shutil.copytree(os.path.join(DATA, "ds0_19_8_autoep2_zero3_w4"), top)
    for place, _, names in os.walk(top):
        os.chmod(place, 0o755)
        for n in names:
            os.chmod(os.path.join(place, n), 0o644)
            if "model_states" in n and n.startswith("zero_pp"):
                with Archive(os.path.join(place, n)) as a:
                    a.root["folding"] = {"tp_size": 2, "ep_size": 2}
    for opts in ((), ("-o", "degraded")):
        r = subprocess.run([ZEROFS, "info", *opts, top], capture_output=True, text=True, timeout=60)
        check(f"folded experts {opts}", r.returncode and "AutoEP folded into AutoTP" in r.stderr and r.stderr.count("\n") == 1, r)
done()
