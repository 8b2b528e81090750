"""Every minute: take back leases that have ended, and delete what retention gives up."""

from __future__ import annotations

import time
from typing import Any

from aws_lambda_powertools.metrics import MetricUnit

from web.app import faults_logged, logger, metrics, store
from web.clock import clock_of

#: Seconds after which it stops, so that the next one finds it gone: each rests as long as it writes, and several that
#: take turns would leave the workers no time between them.
LONGEST = 50
#: What is left of the time-out when it stops: enough for the transaction that is under way.
MARGIN_MILLISECONDS = 5_000


def handler(_: dict[str, Any], context: Any) -> dict[str, Any]:
    """Sweep until nothing is left or the time is nearly up; the next minute goes on."""
    end = time.monotonic() + LONGEST

    def may_go_on() -> bool:
        return time.monotonic() < end and context.get_remaining_time_in_millis() > MARGIN_MILLISECONDS

    with faults_logged(context):
        swept = store().sweep(now=clock_of(context).now(), may_go_on=may_go_on)
    logger.info("sweep", request_id=context.aws_request_id, **swept._asdict())
    # Only what there is: a metric costs for each hour in which it is sent, and those of an idle queue find nothing.
    counts = {"LeasesExpired": swept.leases_expired, "JobsDeleted": swept.jobs_deleted}
    if any(counts.values()):
        metrics.add_dimension(name="verb", value="sweep")
        for name, count in counts.items():
            metrics.add_metric(name=name, unit=MetricUnit.Count, value=count)
        metrics.flush_metrics()
    return swept._asdict()
