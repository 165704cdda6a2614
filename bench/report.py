"""Tables for people and the same figures for programs."""

import dataclasses
import statistics


def heading(about):
    lines = [
        f"Tidemill {about['commit']} beside {about['postgres']}",
        f"{about['cpu']}, {about['cores']} cores, Linux {about['kernel']}; load at the start {about['load']:.1f}",
        f"Rates are medians of {about['repeats']}, with the slowest and the fastest. CPU of the client and of everything",
        "else on the machine is in cores: when they are large the figures are theirs.",
    ]
    return "\n".join(lines)


def rate(case, samples):
    """A table of the contenders, and what has become of the case's goals."""
    medians = {name: statistics.median(s.rows_per_s for s in taken) for name, taken in samples.items()}
    against = case.goal.against
    head = f"{'':28}{'rows/s':>11}{'slowest':>11}{'fastest':>11}{'rows/CPU s':>12}{'CPU µs/row':>12}{'client':>8}{'else':>6}{'ratio':>8}"
    lines = ["", f"{case.name}: {case.about}", head]
    for name, taken in samples.items():
        rates = [s.rows_per_s for s in taken]
        per_cpu = _per_cpu(taken)
        cores = [statistics.median(getattr(s, part) / s.seconds for s in taken) for part in ["client_cpu_s", "other_cpu_s"]]
        lines.append(
            f"{name:28}{_count(medians[name]):>11}{_count(min(rates)):>11}{_count(max(rates)):>11}{_count(per_cpu):>12}"
            f"{1e6 / per_cpu:>12.3f}{cores[0]:>8.2f}{cores[1]:>6.2f}{medians[name] / medians[against]:>8.2f}"
        )
    ours = case.goal.of
    for other in case.beside:
        lines.append(f"  {ours}: {medians[ours] / medians[other]:.2f} times {other}")
    goals = _goals(case.goal, samples, medians)
    lines += [f"  {_verdict(goal)} {goal['goal']}: {goal['reached']}" for goal in goals]
    return {
        "case": case.name,
        "about": case.about,
        "samples": {name: [dataclasses.asdict(s) for s in taken] for name, taken in samples.items()},
        "goals": goals,
        "text": "\n".join(lines),
    }


def _goals(goal, samples, medians):
    ours, theirs = goal.of, goal.against
    ratio = medians[ours] / medians[theirs]
    goals = []
    if goal.rate:
        goals.append(_goal(f"at least {goal.rate:g} times {theirs}", f"{ratio:.2f}", ratio >= goal.rate))
    if goal.rows_per_cpu_s:
        per_cpu = _per_cpu(samples[ours])
        text = f"at least {_count(goal.rows_per_cpu_s)} rows a second of the server's CPU"
        goals.append(_goal(text, _count(per_cpu), per_cpu >= goal.rows_per_cpu_s))
    if goal.cpu_per_row:
        part = _per_cpu(samples[theirs]) / _per_cpu(samples[ours])
        text = f"at most {goal.cpu_per_row:g} of the CPU a row of {theirs}"
        goals.append(_goal(text, f"{part:.2f}", part <= goal.cpu_per_row))
    return goals


def figure(case, figures):
    lines, goals = ["", f"{case.name}: {case.about}"], []
    for it in figures:
        median = statistics.median(it.values)
        spread = f"  ({min(it.values):.2f} … {max(it.values):.2f})" if len(it.values) > 1 else ""
        lines.append(f"  {it.name:48}{median:>10.2f} {it.unit}{spread}")
        if it.goal is not None:
            reached = max(it.values)
            goals.append(_goal(f"{it.name} at most {it.goal:g} {it.unit}", f"{reached:.2f}", reached <= it.goal))
    lines += [f"  {_verdict(goal)} {goal['goal']}: {goal['reached']}" for goal in goals]
    return {
        "case": case.name,
        "about": case.about,
        "figures": [dataclasses.asdict(it) for it in figures],
        "goals": goals,
        "text": "\n".join(lines),
    }


def federation(case, taken, moved, dead):
    """A line a query: the median of each contender, and Tidemill's beside its limit."""
    names = list(next(iter(taken.values())))
    lines = ["", f"{case.name}: {case.about}; ms", f"{'':32}" + "".join(f"{name:>14}" for name in names)]
    goals = []
    for query in case.queries:
        medians = {name: statistics.median(values) for name, values in taken[query.name].items()}
        lines.append(f"{query.name:32}" + "".join(f"{medians[name]:>14.1f}" for name in names))
        if query.limit.of in medians:
            ours, limit = medians["Tidemill"], query.limit.ms(medians)
            reached = f"{ours:.1f} of {limit:.1f} ms, {ours / medians[query.limit.of]:.2f} times"
            if query.turns > 1:
                more, (low, high) = _more(taken[query.name][query.limit.of], taken[query.name]["Tidemill"])
                ours = medians[query.limit.of] + more
                reached = f"{more:.1f} ms more than beside it ({low:.1f} … {high:.1f})"
            goals.append(_goal(f"{query.name}: {query.limit}", reached, ours <= limit))
    rows, rows_max = moved
    goals.append(_goal(f"rows moved by a join: at most {rows_max:,}", f"{rows:,}", rows <= rows_max))
    healthy = None
    for name, values in dead.items():
        lines.append(f"sum over {name:47}{statistics.median(values):>14.1f}")
        if name.startswith("three"):
            healthy = values
        elif healthy:
            more, (low, high) = _more(healthy, values)
            goals.append(_goal(f"sum over {name}: at most 50 ms more than over three", f"{more:.1f} ({low:.1f} … {high:.1f})", more <= 50))
    lines += [f"  {_verdict(goal)} {goal['goal']}: {goal['reached']}" for goal in goals]
    samples = {"samples": taken, "rows_moved": rows, "dead_node": dead}
    return {"case": case.name, "about": case.about, **samples, "goals": goals, "text": "\n".join(lines)}


def answers(case, taken):
    """A line a query: the median of each contender, and how many times the first one's that is."""
    names = list(next(iter(taken.values())))
    lines = ["", f"{case.name}: {case.about}; ms, and times {names[0]}", f"{'':28}" + "".join(f"{name:>26}" for name in names)]
    for query, samples in taken.items():
        medians = [statistics.median(samples[name]) for name in names]
        cells = (f"{median:>18.1f}{f'({median / medians[0]:.2f})':>8}" for median in medians)
        lines.append(f"{query:28}" + "".join(cells))
    return {"case": case.name, "about": case.about, "samples": taken, "goals": [], "text": "\n".join(lines)}


def _more(theirs, ours):
    """The median of the differences of samples taken side by side, and where it is with 95 %: by their order alone."""
    differences = sorted(b - a for a, b in zip(theirs, ours, strict=True))
    count = len(differences)
    margin = 0.98 * count**0.5
    low, high = max(0, round(count / 2 - margin)), min(count - 1, round(count / 2 + margin))
    return statistics.median(differences), (differences[low], differences[high])


def _goal(goal, reached, met):
    return {"goal": goal, "reached": reached, "met": met}


def _verdict(goal):
    return "met:   " if goal["met"] else "MISSED:"


def _per_cpu(samples):
    return statistics.median(s.rows_per_cpu_s for s in samples)


def _count(number):
    for unit, name in [(1e6, " M"), (1e3, " k")]:
        if number >= unit:
            return f"{number / unit:.2f}{name}"
    return f"{number:.0f}"
