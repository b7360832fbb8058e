"""Slow reference of stream mode: one record after the other, each evaluated in full."""

from math import ceil, erf, sqrt

import numpy as np


class NaiveQuerier:
    """Decides about each record by itself; exact, slow, and without a way to be cut in batches."""

    def __init__(self, config, seeds):
        self.config = config
        self.draws, self.places, _ = (np.random.default_rng(seed) for seed in seeds.spawn(3))
        share, audit = config.budget_share, config.audit_share
        self.tokens = type(share)(config.initial_credit)  # exact fractions of a token
        self.cap = config.burst - bool(audit)
        self.repaid = share * 0
        if config.initial_credit:
            self.repaid = type(share)(config.initial_credit, config.stream_length)
        self.block = min(ceil(1 / (audit * (share - self.repaid))), 2**62) if audit else 0
        self.first = ceil(1 / share)
        self.place = self.records = self.requests = self.audits = 0
        self.utilities = []
        self.threshold = 1.0

    @property
    def earned(self):
        lent = self.config.initial_credit and self.records < self.config.stream_length
        return self.config.budget_share - (self.repaid if lent else 0)

    @property
    def free(self):
        if not self.block:
            return self.tokens
        behind = self.records - self.first
        ahead = self.block - behind % self.block if behind >= 0 else -behind
        return self.tokens - max(0, 1 - ahead * self.earned)

    def select_requests(self, ids, utility, *, at_random):
        """Return (id, utility, propensity, audit, selected) of those that are asked for."""
        asked = []
        for id, u in zip(ids, utility.tolist(), strict=True):
            self.tokens = min(self.tokens + self.earned, self.cap)
            self.records += 1
            audits = self.block and self.records >= self.first
            if audits and (self.records - self.first) % self.block == 0:
                self.tokens -= 1
                self.place = self.records + int(self.places.integers(self.block))
            draw, by_rank = self.draws.random(), self.config.strategy != "random"
            p = 0.0
            if self.free >= 1:
                p = self.chance(u) if by_rank and not at_random else self.even_share()
            wanted = draw < p
            if self.free >= 1 and by_rank and not at_random:
                self.threshold *= 0.99 if wanted else 1.01
            audited = bool(audits and self.records == self.place)
            self.tokens -= wanted
            self.audits += audited
            self.requests += wanted or audited
            if by_rank:
                self.utilities = [*self.utilities, u][-self.config.window :]
            if wanted or audited:
                either = p + (1.0 - p) / self.block if audits else p
                asked.append((id, u, either, audited, wanted))
        return asked

    def state(self, budget):
        """Return what a budget of these settings keeps, its tokens in units of its own."""
        price = budget.share.denominator * self.repaid.denominator
        return {
            "bank": self.tokens * price,
            "place": self.place,
            "records": self.records,
            "requests": self.requests,
            "audits": self.audits,
            "again": 0,
        }

    def even_share(self):
        earned = self.rule_share()
        horizon = max(50.0, 5.0 / float(self.config.budget_share))
        share = earned + (float(self.free) - 1.0) / horizon
        return min(max(share, 0.0), 3.0 * earned, 1.0)

    def rule_share(self):
        return float(self.earned) - (1.0 / self.block if self.block else 0.0)

    def chance(self, u):
        if self.config.selection == "quantile_filter":
            known = np.array([*self.utilities, u])
            threshold = np.quantile(known, 1.0 - max(self.rule_share(), 0.0))
            return float(u >= threshold - np.ptp(known) * (float(self.free) - 1.0) / 50.0)
        return 0.5 + 0.5 * erf((1.0 - (1.0 - u) / self.threshold) / sqrt(2.0))
