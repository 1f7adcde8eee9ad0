"""People who run services: alerts, logs, traces, deployments, tickets."""

import json

from tests.bench.context.scribe import Dice, Scribe, hexes, table

SERVICES = (
    "checkout",
    "catalogue",
    "search",
    "billing",
    "mailer",
    "sessions",
    "gateway",
    "inventory",
    "reports",
    "media",
)
COMPONENTS = ("http", "db.pool", "cache", "queue", "auth", "scheduler")
CALM = (
    "request served in {n} ms",
    "connection {h} returned to the pool ({n} idle)",
    "heartbeat ok, lag {n} ms",
    "cache refreshed, {n} keys",
    "token {h} renewed",
    "job {h} done in {n} ms",
)
ALARMING = (
    "upstream timed out after {n} ms, request_id={r} trace={t}",
    "deadlock detected, retrying transaction {h}, trace={t}",
    "pool exhausted: {n} waiting, request_id={r} trace={t}",
    "response 503 for request_id={r} trace={t}",
)
SETTINGS = ("limit", "timeout", "size")
RULES = (
    "You look after our services. Standing rules: never roll back anything on a Friday without asking me, always "
    "name the ticket in your answer, and page nobody between 22:00 and 06:00. Start by telling me which alerts "
    "are open."
)


class Operations:
    """One installation: its hosts, its deployments, its open alerts."""

    def __init__(self, dice: Dice) -> None:
        self.dice = dice
        self.hosts = {
            service: [f"{service}-{dice.choice('abcdef')}{n:02d}" for n in range(1, 6)] for service in SERVICES
        }
        self.day = 1

    def session(self, scribe: Scribe, tasks: int) -> None:
        scribe.task(RULES)
        self._alerts(scribe)
        kinds = (self._incident, self._incident, self._capacity, self._incident, self._back_to_it)
        for number in range(tasks):
            self.day = 1 + number // 3
            kinds[number % len(kinds)](scribe)

    def _alerts(self, scribe: Scribe) -> None:
        alerts = [
            {
                "id": f"ALR-{self.dice.randint(10_000, 99_999)}",
                "service": self.dice.choice(SERVICES),
                "severity": self.dice.choice(("page", "ticket", "info")),
                "since": self._time(),
                "summary": "error ratio above budget",
            }
            for _ in range(self.dice.many(6, 12))
        ]
        scribe.call("list_alerts", json.dumps(alerts, indent=1), state="open")
        scribe.say(f"{len(alerts)} alerts are open; the oldest concerns {alerts[0]['service']}.")

    def _incident(self, scribe: Scribe) -> None:
        dice, service = self.dice, self.dice.choice(SERVICES)
        host = dice.choice(self.hosts[service])
        symptom = dice.choice(("is slow", "answers with errors", "drops requests", "keeps restarting"))
        scribe.task(f"{service} {symptom} since this morning. Find out why and undo whatever caused it.")
        status = [
            {
                "host": name,
                "state": "degraded" if name == host else "ok",
                "cpu": f"{dice.randint(3, 97)}%",
                "image": f"{service}:{dice.randint(2, 9)}.{dice.randint(0, 30)}.{dice.randint(0, 9)}",
            }
            for name in self.hosts[service]
        ]
        scribe.call("service_status", table([dict(row) for row in status]), service=service)
        trace, request = hexes(dice, 16), f"req-{hexes(dice, 10)}"
        scribe.call("read_log", self._log(host, trace, request, dice.many(45, 110)), host=host, lines=200)
        scribe.call("get_trace", self._trace(service, trace), trace_id=trace)
        if dice.random() < 0.6:
            other = dice.choice(self.hosts[dice.choice(SERVICES)])
            scribe.call("grep_logs", self._log(other, trace, request, dice.many(15, 40)), pattern=request, host=other)
        deploys = [
            {
                "deploy": f"dep-{hexes(dice, 8)}",
                "service": service,
                "at": self._time(),
                "by": dice.choice(("ines", "tomas", "bo", "ci")),
                "commit": hexes(dice, 10),
            }
            for _ in range(dice.many(6, 14))
        ]
        scribe.call("list_deploys", table([dict(row) for row in deploys]), service=service)
        guilty = dice.choice(deploys)
        diff = [
            f"{dice.choice('+-')} {dice.choice(COMPONENTS)}.{dice.choice(SETTINGS)} = {dice.randint(1, 900)}"
            for _ in range(dice.many(8, 30))
        ]
        scribe.call("show_commit", "\n".join([f"commit {guilty['commit']}", *diff]), commit=guilty["commit"])
        scribe.say(
            f"A deployment by {guilty['by']} shrank a limit; {host} runs out of connections. Shall I roll it back?"
        )
        scribe.user("Yes, do it, and open a ticket.")
        scribe.call("rollback", json.dumps({"ok": True, "now": hexes(dice, 10)}), deploy_id=guilty["deploy"])
        ticket = f"OPS-{dice.randint(1_000, 9_999)}"
        opened = json.dumps({"ticket": ticket, "state": "open", "watchers": ["ines", "bo"]})
        scribe.call("open_ticket", opened, title=f"{service} {symptom}", trace_id=trace, host=host)
        scribe.say(f"Rolled back. The ticket is {ticket}.")
        scribe.found(f"{service} {symptom}", "trace", trace)
        scribe.found(f"{service} {symptom}", "deploy", str(guilty["deploy"]))

    def _capacity(self, scribe: Scribe) -> None:
        dice, service = self.dice, self.dice.choice(SERVICES)
        scribe.task(f"How full are the disks behind {service}? Grow the worst one.")
        volumes = [
            {
                "volume": f"vol-{hexes(dice, 12)}",
                "host": dice.choice(self.hosts[service]),
                "size_gb": dice.choice((50, 100, 200)),
                "used": f"{dice.randint(20, 99)}%",
                "mount": f"/var/lib/{service}/{n}",
                "iops": dice.randint(100, 9_000),
            }
            for n in range(dice.many(12, 30))
        ]
        scribe.call("list_volumes", table([dict(row) for row in volumes]), service=service)
        worst = max(volumes, key=lambda row: str(row["used"]).rjust(4))
        samples = [
            {"at": self._time(), "used_gb": round(dice.uniform(20, 190), 2), "writes": dice.randint(10, 9_999)}
            for _ in range(dice.many(25, 60))
        ]
        scribe.call(
            "volume_history", json.dumps({"volume": worst["volume"], "samples": samples}), volume=worst["volume"]
        )
        scribe.call("grow_volume", json.dumps({"ok": True, "size_gb": 400}), volume=worst["volume"], size_gb=400)
        scribe.say(f"The disk on {worst['host']} was at {worst['used']}; it has 400 GB now.")

    def _back_to_it(self, scribe: Scribe) -> None:
        """Something settled long ago comes up again, without anybody naming its id."""
        deploy = scribe.long_ago("deploy")
        if deploy is None:
            return
        scribe.task(
            f"Remember when {deploy.about}? Which deployment did you roll back then? Freeze it for good, please."
        )
        scribe.call("freeze_deploy", json.dumps({"ok": True}), deploy_id=deploy.value)
        scribe.say("It is frozen.")

    def _log(self, host: str, trace: str, request: str, lines: int) -> str:
        dice, second = self.dice, self.dice.randint(0, 40_000)
        bad = set(dice.sample(range(lines), 3))
        out = []
        for number in range(lines):
            second += dice.randint(0, 9)
            text = dice.choice(ALARMING if number in bad else CALM)
            filled = text.format(n=dice.randint(1, 4_000), h=hexes(dice, 8), r=request, t=trace)
            level = "ERROR" if number in bad else dice.choice(("INFO", "INFO", "DEBUG", "WARN"))
            clock = f"{second // 3600:02d}:{second // 60 % 60:02d}:{second % 60:02d}.{dice.randint(0, 999):03d}"
            out.append(f"2025-03-{self.day:02d}T{clock}Z {host} {level:5} [{dice.choice(COMPONENTS)}] {filled}")
        return "\n".join(out)

    def _trace(self, service: str, trace: str) -> str:
        dice = self.dice
        spans = [
            {
                "span_id": hexes(dice, 12),
                "service": dice.choice((service, *SERVICES)),
                "operation": f"{dice.choice(('GET', 'POST', 'SELECT', 'PUBLISH'))} /{dice.choice(COMPONENTS)}",
                "start_us": dice.randint(0, 900_000),
                "duration_us": dice.randint(40, 600_000),
                "status": dice.choice(("ok", "ok", "ok", "error")),
            }
            for _ in range(dice.many(8, 26))
        ]
        return json.dumps({"trace_id": trace, "spans": spans}, indent=2)

    def _time(self) -> str:
        dice = self.dice
        return f"2025-03-{self.day:02d}T{dice.randint(0, 23):02d}:{dice.randint(0, 59):02d}:{dice.randint(0, 59):02d}Z"
