"""Trains rosebud (or, with --draft-of, its draft) for a given time; saves, resumes, exports.

    python train.py --out DIR --minutes 9 [--resume DIR] [--draft-of models/rosebud] [--cap-from 200 --cap-to 3600]

DIR receives weights-*.safetensors and momentum-*.safetensors (bf16, each file below 15 MB), state.json, log.txt, export/.
With torchrun every GPU trains on its own rows and gradients are averaged.
"""
import argparse
import json
import os
import pathlib
import time

import torch
import torch.nn.functional as F
from safetensors.torch import load_file, save_file

import export
from data import Loader, test_rows
from evaluate import report
from model import DRAFT, ROSEBUD, Model, Tree
from optimizer import Optimizer

FILE_BYTES = 15_000_000


# ---- losses -------------------------------------------------------------------------------------------------------

def answer_loss(hidden, head, labels):
    """Mean cross entropy where labels >= 0; hidden [B, T, D], labels [B, T]."""
    logits = F.linear(hidden, head.to(hidden.dtype)).float().flatten(0, 1)
    return F.cross_entropy(logits, labels.flatten(), ignore_index=-1)


def draft_loss(hidden, head, target_hidden, target_head, labels):
    """Half the target's distribution, half its first choice, at the tokens of answers."""
    wanted = F.linear(target_hidden, target_head.to(target_hidden.dtype)).float().flatten(0, 1)
    logits = F.linear(hidden, head.to(hidden.dtype)).float().flatten(0, 1)
    each = 0.5 * F.cross_entropy(logits, wanted.softmax(-1), reduction="none")
    each = each + 0.5 * F.cross_entropy(logits, wanted.argmax(-1), reduction="none")
    mask = (labels.flatten() >= 0).float()
    return (each * mask).sum() / mask.sum()


# ---- saving -------------------------------------------------------------------------------------------------------

def weights(model) -> dict[str, torch.Tensor]:
    return dict(model.named_parameters())


def momenta(model, optimizer) -> dict[str, torch.Tensor]:
    names = {p: name for name, p in model.named_parameters()}
    return {names[p]: m for group, momentum in zip(optimizer.groups, optimizer.momentum) for p, m in zip(group, momentum)}


def save(folder: pathlib.Path, model, optimizer, facts: dict):
    """Everything in bf16, in files that are small enough to be carried about one by one."""
    for kind, tensors in (("weights", weights(model)), ("momentum", momenta(model, optimizer))):
        part, size, number = {}, 0, 0
        for name, t in list(tensors.items()) + [(None, None)]:
            if name is None or size + 2 * t.numel() > FILE_BYTES:
                save_file(part, folder / f"{kind}-{number}.safetensors")
                part, size, number = {}, 0, number + 1
            if name is not None:
                part[name] = t.detach().to(torch.bfloat16).cpu().contiguous()
                size += 2 * t.numel()
    (folder / "state.json").write_text(json.dumps(facts) + "\n")


def resume(folder: pathlib.Path, model, optimizer) -> dict:
    """Loads what `save` wrote; the momentum may be missing."""
    with torch.no_grad():
        for kind, mine in (("weights", weights(model)), ("momentum", momenta(model, optimizer))):
            for file in folder.glob(f"{kind}-*.safetensors"):
                for name, t in load_file(file).items():
                    mine[name].copy_(t)
    return json.loads((folder / "state.json").read_text())


# ---- training -----------------------------------------------------------------------------------------------------

def options():
    a = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    a.add_argument("--out", type=pathlib.Path, required=True)
    a.add_argument("--minutes", type=float, required=True, help="of training; compiling comes on top")
    a.add_argument("--seconds", type=float, help="of the whole run, compiling included: trains less than --minutes if need be")
    a.add_argument("--save-every", type=float, default=1e9, help="seconds between exports on the way")
    a.add_argument("--export", type=pathlib.Path, help="where the model goes, instead of DIR/export")
    a.add_argument("--resume", type=pathlib.Path, help="the DIR of an earlier run")
    a.add_argument("--start", type=pathlib.Path, help="begin with the weights of an exported model")
    a.add_argument("--draft-of", type=pathlib.Path)
    a.add_argument("--rows", type=int, default=10)
    a.add_argument("--length", type=int, default=8192)
    a.add_argument("--lr", type=float, default=3e-3)
    a.add_argument("--warmup", type=int, default=100)
    a.add_argument("--decay", type=float, default=0.0, help="part of the time in which the rate falls to 2 %%")
    a.add_argument("--cap-from", type=int, default=200, help="longest look-ups, in tokens, at the start")
    a.add_argument("--cap-to", type=int, default=3600)
    a.add_argument("--ramp", type=float, default=0.7, help="part of the time in which the longest look-ups grow")
    a.add_argument("--workers", type=int, default=14)
    a.add_argument("--seed", default="training")
    a.add_argument("--device", default="cuda")
    a.add_argument("--answers", type=int, default=300, help="answers a task in the evaluations")
    a.add_argument("--mix", type=json.loads, help='other shares of the tasks, such as {"columns": 0.5, "sums": 0.5}')
    a.add_argument("--eager", action="store_true", help="compile nothing: for short runs")
    a.add_argument("--log-every", type=int, default=200)
    a.add_argument("--eval-seconds", type=float, default=100)
    return a.parse_args()


def main():
    o, started = options(), time.time()
    world, rank = int(os.environ.get("WORLD_SIZE", 1)), int(os.environ.get("RANK", 0))
    device = f"cuda:{os.environ.get('LOCAL_RANK', 0)}" if o.device == "cuda" else o.device
    loader = Loader(o.rows, o.length, o.workers, f"{o.seed}-{rank}", o.mix)
    loader.cap.value = o.cap_from
    if world > 1:
        torch.cuda.set_device(device)
        torch.distributed.init_process_group("nccl", device_id=torch.device(device))
    torch.manual_seed(0)
    o.out.mkdir(parents=True, exist_ok=True)
    folder = o.export or o.out / "export"
    log_file = open(o.out / f"log{rank or ''}.txt", "a")

    def log(*words):
        if rank == 0:
            print(*words, flush=True)
            print(*words, file=log_file, flush=True)

    torch.set_float32_matmul_precision("high")
    model = Model(DRAFT if o.draft_of else ROSEBUD, o.length).to(device)
    if o.start:
        model.load_state_dict(export.load(o.start).state_dict())
    optimizer = Optimizer(model)
    facts = {"tokens": 0, "answer_tokens": 0, "steps": 0, "seconds": 0}
    if o.resume:
        facts = resume(o.resume, model, optimizer)
        log("resumed", facts)
    target = export.load(o.draft_of, positions=o.length).to(device).requires_grad_(False) if o.draft_of else None
    compiled = device != "cpu" and not o.eager
    loss_of = torch.compile(draft_loss if target else answer_loss) if compiled else draft_loss if target else answer_loss
    if compiled:
        for m in filter(None, (model, target)):
            m.compile()
    tree = Tree(o.rows, o.length, device, dense=not compiled)
    tests = test_rows(o.length, o.answers) if rank == 0 and o.answers else []

    def loss_on(batch):
        x = torch.from_numpy(batch).to(device, non_blocking=True)
        ids, labels = x[0].int(), x[4].long()
        tree.set(*x[1:4])
        hidden = model.hidden(ids, tree)
        if target:
            return loss_of(hidden, model.head, target.hidden(ids, tree), target.head, labels)
        return loss_of(hidden, model.head, labels)

    began = time.time()
    for _ in range(2):  # compile
        loss_on(loader.next()).backward()
        for p in optimizer.parameters:
            p.grad = None
    if device != "cpu":
        torch.cuda.synchronize()
    log(f"compiled in {time.time() - began:.0f} s; {sum(p.numel() for p in model.parameters()):,} parameters")

    began = shown = evaluated = saved = time.time()
    step, total, losses = 0, o.minutes * 60, []
    if o.seconds:  # the last seconds are for the export
        total = min(total, o.seconds - (began - started) - 5)
    while True:
        f = (time.time() - began) / total
        if world > 1:  # all ranks must agree on the end
            shared = torch.tensor(f, device=device)
            torch.distributed.broadcast(shared, 0)
            f = shared.item()
        if f >= 1:
            break
        loader.cap.value = int(o.cap_from + (o.cap_to - o.cap_from) * min(1.0, f / o.ramp))
        rate = o.lr * min(1.0, (step + 1) / o.warmup) * (min(1.0, max(0.02, (1 - f) / o.decay)) if o.decay else 1.0)
        batch = loader.next()
        loss = loss_on(batch)
        loss.backward()
        if world > 1:
            flat = torch.cat([p.grad.view(-1) for p in optimizer.parameters])
            torch.distributed.all_reduce(flat, torch.distributed.ReduceOp.AVG)
            for p, g in zip(optimizer.parameters, flat.split([p.numel() for p in optimizer.parameters])):
                p.grad.copy_(g.view_as(p))
        optimizer.step(rate)
        losses.append(loss.detach())
        step += 1
        facts["steps"] += 1
        facts["tokens"] += batch[0].size * world
        facts["answer_tokens"] += int((batch[4] >= 0).sum()) * world
        if step % o.log_every == 0:
            now = time.time()
            log(f"{facts['steps']:6d} {now - began:5.0f} s  loss {torch.stack(losses).mean():.4f}  cap {loader.cap.value}  lr {rate:.5f}"
                f"  {o.log_every * batch[0].size * world / (now - shown) / 1e6:.2f} M tok/s  waiting {loader.batches.qsize()}")
            losses, shown = [], now
            if tests and now - evaluated > o.eval_seconds:
                log(report(model, tree, tests, target))
                evaluated = shown = time.time()
        if rank == 0 and time.time() - saved > o.save_every:
            export.export(model, folder)
            saved = time.time()
    facts["seconds"] += round(time.time() - began)
    loader.close()
    if rank == 0:
        export.export(model, folder)
        save(o.out, model, optimizer, facts)
        log("saved", json.dumps(facts))
        if tests:
            log(report(model, tree, tests, target))
    if world > 1:
        torch.distributed.destroy_process_group()


if __name__ == "__main__":
    main()
