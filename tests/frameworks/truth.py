# SPDX-License-Identifier: Apache-2.0
"""What a trainer says it saved, kept beside the checkpoint: OUT/<case>/truth.pt.

sets       {set directory of the mount, "" for the root: {name: tensor}}
ties       [[canonical name, alias]] in the root
checkpoint what to mount, relative to the case's folder
reference  which of the framework's own converters can read it: "deepspeed", "dcp" or None
options    options of the mount
hub        for transformers: {"ids": input, "logits": what the trained model answers}
adapter    for PEFT, which saved beside the checkpoint: {"base": the model's state, "settings": of its config, "ids", "logits",
           "computed": PEFT's file has what no checkpoint has}
decoder    for hf/ as the recipe makes it: {"recipe": its name, "ids", "logits": what the trained model answers,
           "tensors": what the trainer's own converter makes of it, or None}
"""
import faulthandler
import os
import shutil
import signal
import sys
import tempfile
import traceback

import torch
from torch import distributed as dist

# No process of a producer outlives this, whatever its collective operations wait for.
LIFETIME = 390


def watchdog():
    """Ends this process, not those it forks, with a traceback when its time is over."""
    faulthandler.register(signal.SIGALRM, chain=True)
    signal.alarm(LIFETIME)


def own(tensors):
    return {name: t.detach().clone().contiguous() for name, t in tensors.items()}


def write(out, case, sets, checkpoint="ckpt", **more):
    known = {"ties": [], "reference": None, "options": [], "hub": None, "adapter": None, "decoder": None}
    sets = {directory: own(tensors) for directory, tensors in sets.items() if tensors}
    torch.save({**known, **more, "sets": sets, "checkpoint": checkpoint}, os.path.join(out, case, "truth.pt"))


def decoder(out, case, recipe, ids, logits, tensors=None, **more):
    made = {"recipe": recipe, "ids": ids, "logits": logits.detach().clone(), "tensors": own(tensors) if tensors else None}
    write(out, case, {}, decoder=made, **more)


def folder(out, case):
    """An empty folder for the case's checkpoint."""
    path = os.path.join(out, case)
    shutil.rmtree(path, ignore_errors=True)
    os.makedirs(os.path.join(path, "ckpt"))
    return os.path.join(path, "ckpt")


def skip(out, case, why):
    """Says why a case cannot be made here."""
    os.makedirs(os.path.join(out, case), exist_ok=True)
    with open(os.path.join(out, case, "skip"), "w", encoding="utf-8") as f:
        f.write(why)


def failed(out, case):
    """Keeps why a case could not be made; the suite counts it as a failure."""
    if sys.exc_info()[0]:
        traceback.print_exc()
    os.makedirs(os.path.join(out, case), exist_ok=True)
    kind, value, _ = sys.exc_info()
    why = f"{kind.__name__}: {value}".splitlines()[0] if kind else "a rank failed"
    with open(os.path.join(out, case, "error"), "w", encoding="utf-8") as f:
        f.write(why)


def moments(model, optimizer):
    """{"optim/<state>": {name: tensor}} of a torch.optim optimizer."""
    sets = {}
    for name, p in model.named_parameters():
        for key, value in optimizer.state.get(p, {}).items():
            sets.setdefault("optim/" + key, {})[name] = value
    return sets


def numbered(optimizer):
    """The same under the optimizer's own numbers, which are all that its state_dict knows."""
    sets = {}
    for number, state in optimizer.state_dict()["state"].items():
        for key, value in state.items():
            sets.setdefault("optim/" + key, {})[str(number)] = value
    return sets


def ranks(world, work, *args):
    """Forks `world` processes of one gloo group, each running work(rank, world, *args); True when all succeed."""
    # They meet in a file, not at a port: any number may be taken, and producers run side by side.
    meeting = os.path.join(tempfile.mkdtemp(prefix="zerofs-ranks-"), "meeting")
    children = []
    for rank in range(world):
        pid = os.fork()
        if pid == 0:
            watchdog()
            # DeepSpeed asks for the address although the group is there already.
            os.environ.update(MASTER_ADDR="127.0.0.1", MASTER_PORT="0", RANK=str(rank), LOCAL_RANK=str(rank),
                              WORLD_SIZE=str(world), LOCAL_WORLD_SIZE=str(world))
            status = 1
            try:
                dist.init_process_group("gloo", init_method="file://" + meeting, rank=rank, world_size=world)
                work(rank, world, *args)
                status = 0
            except BaseException:  # pylint: disable=broad-except
                traceback.print_exc()
            finally:
                sys.stdout.flush()
                sys.stderr.flush()
                os._exit(status)
        children.append(pid)
    status = [os.waitpid(pid, 0)[1] for pid in children]
    shutil.rmtree(os.path.dirname(meeting), ignore_errors=True)
    return not any(status)
