"""A scheduled worker for work that must not leave the VPC: the same loop, over the mounted file in place of the API.

To deploy it, copy it to functions/work_inside.py and events/sweep.json to events/work_inside.json, and give the
template a function beside SweepFunction:

  WorkInsideFunction:
    Type: AWS::Serverless::Function
    Condition: WithWorker
    IgnoreGlobals: [ReservedConcurrentExecutions]
    Properties:
      Handler: work_inside.handler
      Role: !GetAtt RouteRole.Arn
      FileSystemConfigs: *QueueFile
      Layers: [!Ref TasksLayer]
      Timeout: 300
      LoggingConfig: {LogGroup: !Ref WorkInsideLogs}
      EventInvokeConfig: {MaximumRetryAttempts: 0, MaximumEventAgeInSeconds: 60}
      Events:
        EveryMinute:
          Type: ScheduleV2
          Properties: {ScheduleExpression: rate(1 minute), RoleArn: !GetAtt SchedulerRole.Arn, OmitName: true}

with its log group, which RouteRole has to be allowed to write, and the right of SchedulerRole to call it: all under the
same condition, by which it shares WorkerSchedule's switch, and by which `make run` leaves it alone. Take its types out
of WorkerTypes. It reaches what the VPC reaches: a database of yours, say, in a security group that lets
FunctionSecurityGroup in, to which FunctionSecurityGroup has to be let out.
"""

from __future__ import annotations

from dataclasses import asdict
from functools import cache
from typing import TYPE_CHECKING, Any

from queuelog import Principal, Queue, Role, Store
from queuelog_client import RunningJob, Tasks, Worker
from web.settings import settings

if TYPE_CHECKING:
    from queuelog import BoundQueue

#: Seconds that a job may take, that the last ones get, and that are left of the time-out in the end.
LONGEST, GRACE, MARGIN = 60.0, 70.0, 5.0

tasks = Tasks()


@tasks.task("sync", max_seconds=LONGEST)
def sync(job: RunningJob) -> dict[str, int]:
    """Do what only the VPC can; here it counts what it was given."""
    return {"fields": len(job.payload)}


@cache
def queue() -> BoundQueue:
    """Return the queue as this worker may use it, in the way that the file system needs."""
    store = Store(settings().database, policy=settings().policy)
    return Queue(store).bound(Principal(name="inside", roles=frozenset({Role.WORKER}), types=frozenset(tasks)))


def handler(_: dict[str, Any], context: Any) -> dict[str, int]:
    """Work until nothing is due or the time is nearly up.

    A handler of a job that goes on after its deadline would be frozen with the process, and go on at the next call:
    functions/work.py shows how to end the process then.
    """
    worker = Worker(queue(), tasks, concurrency=4, grace=GRACE, alone_after=1)
    seconds = context.get_remaining_time_in_millis() / 1_000 - MARGIN
    return asdict(worker.run(until_empty=True, seconds=seconds, handle_signals=False))
