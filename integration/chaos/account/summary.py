"""The account of a run: its figures, and every rule that did not hold. Pure."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from integration.chaos.account import (
    commits,
    deletions,
    messages,
    order,
    ownership,
    repeats,
    resources,
    settling,
    today,
)
from integration.chaos.evidence import Violation

if TYPE_CHECKING:
    from integration.chaos.evidence import Evidence

SHOWN = 5
TROUBLE = "a process did not behave"


@dataclass(slots=True)
class Account:
    """What a run amounts to."""

    figures: dict[str, object] = field(default_factory=dict)
    repeats: dict[str, Counter[str]] = field(default_factory=dict)
    violations: list[Violation] = field(default_factory=list)

    @property
    def is_good(self) -> bool:
        """Say whether every rule held."""
        return not self.violations

    def text(self) -> str:
        """Return it for people."""
        width = max(map(len, self.figures))
        lines = [f"{name:{width}}  {value}" for name, value in self.figures.items()]
        for where, causes in self.repeats.items():
            lines += [f"repeated in {where}: {number} {cause}" for cause, number in sorted(causes.items())]
        by_rule = Counter(violation.rule for violation in self.violations)
        for rule, number in by_rule.items():
            lines.append(f"VIOLATED, {number} times: {rule}")
            lines += [f"    {each.text}" for each in self.violations if each.rule == rule][:SHOWN]
        return "\n".join(lines)


def account_of(evidence: Evidence) -> Account:
    """Account for a run."""
    account = Account()
    wrong = account.violations
    wrong += [Violation(TROUBLE, text) for text in evidence.troubles]
    wrong += messages.find_wrong_logs(evidence)
    wrong += deletions.find_wrong_deletions(evidence)
    wrong += messages.find_wrong_receipts(evidence)
    wrong += messages.find_not_received(evidence)
    wrong += order.find_disorder_in_logs(evidence)
    wrong += order.find_disorder_in_groups(evidence)
    wrong += ownership.find_double_ownership(evidence)
    wrong += commits.find_wrong_commits(evidence)
    wrong += commits.find_missing_leases(evidence)
    wrong += resources.find_growth(evidence)
    wrong += today.find_wrong_for_today(evidence)
    account.repeats["the logs"], unexplained = repeats.repeats_in_logs(evidence)
    wrong += unexplained
    for group in evidence.groups:
        account.repeats[f"group {group}"], unexplained = repeats.repeats_in_group(evidence, group)
        wrong += unexplained
    account.figures = _figures(evidence, wrong)
    return account


def _figures(evidence: Evidence, wrong: list[Violation]) -> dict[str, object]:
    rules = Counter(violation.rule for violation in wrong)
    outcomes = Counter(sent.outcome or "unknown" for sent in evidence.sent)
    figures: dict[str, object] = {
        "faults": sum(bool(happened.whom) for happened in evidence.happened),
        "latest after its time": f"{_latest_s(evidence):.1f} s",
        "members": sum(map(len, evidence.groups.values())),
        "messages": len(evidence.sent),
        **{f"messages {outcome}": number for outcome, number in sorted(outcomes.items())},
        "broker starts given up": evidence.starts_given_up,
        "ZooKeeper's servers apart": evidence.servers_apart,
        "confirmed, lost": rules[messages.LOST],
        "confirmed, taken by power cuts": messages.count_vanished(evidence),
        "written only, lost": messages.count_lost_unconfirmed(evidence),
        "segments deleted": len(evidence.deletions),
        "commits": len(evidence.registry.commits),
        "double ownership": rules[ownership.TWO_OWNERS],
    }
    if evidence.read_today:
        figures["acknowledged by gateways"] = len(evidence.told)
        figures["acknowledged, without an offset"] = today.count_guessed(evidence)
        figures["acknowledged, with other offsets after retention"] = today.count_jumped(evidence)
        figures["read by a client of today"] = sum(map(len, evidence.read_today.values()))
    for topic, lines in evidence.endless.items():
        figures[f"read of {topic} by the Java consumer"] = sum(line.what == b"got" for line in lines)
    growth = ", ".join(f"{number} {what}" for what, number in resources.most_growth(evidence).items())
    figures["most growth of a process"] = growth
    for group in evidence.groups:
        for removed_by, number in messages.count_missed(evidence, group).items():
            figures[f"group {group} missed, removed by {removed_by}"] = number
        settled = sorted(each.seconds for each in settling.settle_times(evidence) if each.group == group)
        if settled:
            figures[f"group {group} settled after"] = (
                f"{settled[len(settled) // 2]:.1f} s (median), {settled[-1]:.1f} s (longest)"
            )
    return figures


def _latest_s(evidence: Evidence) -> float:
    """Return how late a fault came at most: on a machine that is too busy a run proves little."""
    return max((each.begun_s - evidence.started_s - each.fault.at_s for each in evidence.happened), default=0.0)
