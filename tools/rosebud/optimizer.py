"""Muon for the matrices of the layers, AdamW for all else.

Muon orthogonalises the momentum of each matrix (Newton-Schulz in bf16); all matrices of one shape go in one batch. Its
steps are scaled to the size that AdamW's have, so that both share one learning rate.
"""
import torch

MATRICES = ("q", "k", "v", "o", "gate_up", "down")


def orthogonal(g: torch.Tensor) -> torch.Tensor:
    """g [n, r, c] -> the nearest orthogonal matrices, roughly: singular values end between 0.7 and 1.2."""
    x = g.bfloat16()
    tall = x.shape[1] > x.shape[2]
    x = x.mT if tall else x
    x = x / (x.norm(dim=(1, 2), keepdim=True) + 1e-7)
    for _ in range(5):
        a = x @ x.mT
        x = 3.4445 * x + (-4.7750 * a + 2.0315 * a @ a) @ x
    return x.mT if tall else x


class Optimizer:
    def __init__(self, model, weight_decay: float = 0.05):
        matrices, others = {}, []
        for name, p in model.named_parameters():
            if name.startswith("layers.") and name.rsplit(".", 1)[1] in MATRICES:
                matrices.setdefault(p.shape[-2:], []).append(p)
            else:
                others.append(p)
        self.groups = list(matrices.values())
        self.momentum = [[torch.zeros_like(p) for p in group] for group in self.groups]
        self.adam = torch.optim.AdamW(others, lr=0.0, betas=(0.9, 0.97), weight_decay=0.0,
                                      fused=others[0].is_cuda)
        self.parameters = [p for group in self.groups for p in group] + others
        self.weight_decay = weight_decay

    @torch.no_grad()
    def step(self, lr: float):
        torch.nn.utils.clip_grad_norm_(self.parameters, 1.0, foreach=True)
        self.adam.param_groups[0]["lr"] = lr
        self.adam.step()
        for group, momentum in zip(self.groups, self.momentum):
            grads = [p.grad for p in group]
            torch._foreach_lerp_(momentum, grads, 0.05)
            wanted = torch._foreach_lerp(grads, momentum, 0.95)
            rows, columns = group[0].shape[-2:]
            flat = torch.cat([w.view(-1, rows, columns) for w in wanted])
            update = orthogonal(flat).to(flat.dtype) * (0.2 * max(rows, columns) ** 0.5)
            parts = update.split([p.numel() // (rows * columns) for p in group])
            torch._foreach_mul_(group, 1 - lr * self.weight_decay)
            torch._foreach_add_(group, [u.view_as(p) for u, p in zip(parts, group)], alpha=-lr)
        for p in self.parameters:
            p.grad = None
