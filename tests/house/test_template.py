from __future__ import annotations

import json
import re
from itertools import product
from typing import Any

import pytest

from queuelog.job import MAX_BACKOFF_SECONDS, MAX_DELAY_SECONDS, MAX_LEASE_SECONDS, TYPE_PATTERN
from queuelog.policy import Policy
from queuelog.principal import Role
from queuelog.registry import new_entry
from tests.house.template import ROOT, listed, properties, resources, source, statements, target, translated

ROUTES = {
    ("POST", "/jobs"): "EnqueueJobFunction",
    ("GET", "/jobs"): "ListJobsFunction",
    ("GET", "/jobs/{id}"): "GetJobFunction",
    ("GET", "/jobs/{id}/explain"): "ExplainJobFunction",
    ("POST", "/jobs/claim"): "ClaimJobFunction",
    ("POST", "/jobs/{id}/heartbeat"): "HeartbeatJobFunction",
    ("POST", "/jobs/{id}/complete"): "CompleteJobFunction",
    ("POST", "/jobs/{id}/fail"): "FailJobFunction",
    ("POST", "/jobs/{id}/release"): "ReleaseJobFunction",
    ("POST", "/jobs/{id}/cancel"): "CancelJobFunction",
    ("POST", "/jobs/{id}/retry"): "RetryJobFunction",
    ("GET", "/stats"): "GetStatsFunction",
    ("POST", "/batch/enqueue"): "EnqueueJobsFunction",
    ("POST", "/batch/claim"): "ClaimJobsFunction",
    ("POST", "/batch/heartbeat"): "HeartbeatJobsFunction",
    ("POST", "/batch/finish"): "FinishJobsFunction",
    ("POST", "/batch/retry"): "RetryJobsFunction",
}
OF_ROUTES = {*ROUTES.values(), "HealthFunction"}
WITH_FILE = {*OF_ROUTES, "SweepFunction", "BackUpFunction"}
SCHEDULED = {
    "SweepFunction": "rate(1 minute)",
    "BackUpFunction": {"Ref": "BackUpSchedule"},
    "WorkFunction": {"Ref": "WorkerSchedule"},
}
FUNCTIONS = {*WITH_FILE, "AuthorizeFunction", "WorkFunction"}
ROLES = ["RouteRole", "HealthRole", "AuthorizeRole", "BackUpRole", "WorkRole"]
BACKUPS = {"Fn::Sub": "${BackupBucket.Arn}/queue/*"}
DOCUMENTS = {"Fn::Sub": "${DocumentBucket.Arn}/pdf/*"}
OF_SES = [
    {"Fn::Sub": f"arn:${{AWS::Partition}}:ses:${{AWS::Region}}:${{AWS::AccountId}}:{kind}/*"}
    for kind in ("identity", "configuration-set")
]
API = "arn:${AWS::Partition}:execute-api:${AWS::Region}:${AWS::AccountId}:${QueueApi}"
#: Resources with a wildcard for what nobody can know beforehand: a name in a folder, a job's id, who reads an e-mail.
OPEN_ENDED = [
    BACKUPS,
    DOCUMENTS,
    *OF_SES,
]
#: What one function alone is told.
OWN_VARIABLES = {
    "AuthorizeFunction": {"QUEUELOG_REGISTRY_SECRET"},
    "BackUpFunction": {"QUEUELOG_BACKUP_BUCKET"},
    "WorkFunction": {
        "QUEUELOG_DOCUMENT_BUCKET",
        "QUEUELOG_EMAIL_FROM",
        "QUEUELOG_URL",
        "QUEUELOG_WEBHOOK_SECRET",
        "QUEUELOG_WEBHOOK_TARGETS",
        "QUEUELOG_WORKER_CONCURRENCY",
        "QUEUELOG_WORKER_TYPES",
    },
}
#: What a parameter has to ask for, by the condition under which it is there.
OF_THE_WORKER = {
    "WithWorker": {
        "DocumentBucket",
        "DocumentBucketPolicy",
        "WorkFunction",
        "WorkFunctionEventInvokeConfig",
        "WorkFunctionWhenDue",
        "WorkLogs",
        "WorkPolicy",
        "WorkRole",
    },
    "WithEmail": {"WorkEmailPolicy"},
    "WithWebhooks": {"WebhookSecret", "WorkWebhookPolicy"},
}

# Every type of answer that API Gateway gives by itself, with the status that callers are to see.
GATEWAY_STATUS = {
    "ACCESS_DENIED": 401,
    "API_CONFIGURATION_ERROR": 500,
    "AUTHORIZER_CONFIGURATION_ERROR": 500,
    "AUTHORIZER_FAILURE": 500,
    "BAD_REQUEST_BODY": 400,
    "BAD_REQUEST_PARAMETERS": 400,
    "DEFAULT_4XX": 400,
    "DEFAULT_5XX": 500,
    "EXPIRED_TOKEN": 403,
    "INTEGRATION_FAILURE": 500,
    "INTEGRATION_TIMEOUT": 500,
    "INVALID_API_KEY": 403,
    "INVALID_SIGNATURE": 403,
    "MISSING_AUTHENTICATION_TOKEN": 403,
    "QUOTA_EXCEEDED": 429,
    "REQUEST_TOO_LARGE": 413,
    "RESOURCE_NOT_FOUND": 404,
    "THROTTLED": 429,
    "UNAUTHORIZED": 401,
    "UNSUPPORTED_MEDIA_TYPE": 415,
    "WAF_FILTERED": 403,
}
SLUGS = {
    400: "bad-request",
    401: "unauthorized",
    403: "forbidden",
    404: "not-found",
    413: "payload-too-large",
    415: "unsupported-media-type",
    429: "too-many-requests",
    500: "internal-error",
}

# The only actions that may be allowed on every resource: those for which AWS knows no narrower one.
ON_EVERYTHING = {
    "ec2:AssignPrivateIpAddresses",
    "ec2:CreateNetworkInterface",
    "ec2:DeleteNetworkInterface",
    "ec2:DescribeNetworkInterfaces",
    "ec2:DescribeSubnets",
    "ec2:UnassignPrivateIpAddresses",
    "xray:PutTelemetryRecords",
    "xray:PutTraceSegments",
}


def body() -> dict[str, Any]:
    return dict(properties("QueueApi")["Body"])


def doors() -> dict[tuple[str, str], tuple[str, str]]:
    """Return what each method and path of the API asks for and reaches: (scheme, function)."""
    found = {}
    for path, methods in body()["paths"].items():
        for method, operation in methods.items():
            (security,) = operation["security"]
            (scheme,) = security
            (function,) = re.findall(
                r"\$\{(\w+)\.Arn\}", operation["x-amazon-apigateway-integration"]["uri"]["Fn::Sub"]
            )
            found[method.upper(), path] = (scheme, function)
    return found


def gateway_response(response_type: str) -> dict[str, Any]:
    responses = body()["x-amazon-apigateway-gateway-responses"]
    default = "DEFAULT_5XX" if GATEWAY_STATUS[response_type] >= 500 else "DEFAULT_4XX"
    return dict(responses.get(response_type, responses[default]))


def role_of(function: str) -> str:
    return target(properties(function)["Role"])


def test_every_route_takes_a_key_and_below_iam_a_signature_and_only_health_is_open() -> None:
    with_key = {(method, path): ("KeyAuthorizer", function) for (method, path), function in ROUTES.items()}
    signed = {(method, f"/iam{path}"): ("AWS_IAM", function) for (method, path), function in ROUTES.items()}
    assert doors() == with_key | signed | {("GET", "/health"): ("NONE", "HealthFunction")}


def test_the_schemes_are_a_lambda_authoriser_and_signature_version_4() -> None:
    schemes = body()["components"]["securitySchemes"]
    assert set(schemes) == {"KeyAuthorizer", "AWS_IAM"}
    assert schemes["AWS_IAM"]["x-amazon-apigateway-authtype"] == "awsSigv4"
    authorizer = schemes["KeyAuthorizer"]["x-amazon-apigateway-authorizer"]
    assert schemes["KeyAuthorizer"]["name"] == "X-Api-Key"
    assert (authorizer["type"], authorizer["authorizerResultTtlInSeconds"]) == ("token", 60)
    assert target(authorizer["authorizerUri"]["Fn::Sub"][1]["__FunctionArn__"]) == "AuthorizeFunction"


def test_only_what_looks_like_a_key_reaches_the_authoriser() -> None:
    scheme = body()["components"]["securitySchemes"]["KeyAuthorizer"]
    pattern = scheme["x-amazon-apigateway-authorizer"]["identityValidationExpression"]
    key, _ = new_entry("somebody", [Role.ADMIN])
    assert re.fullmatch(pattern, key)
    assert not any(re.fullmatch(pattern, other) for other in ("", "x", key[:-1], key + "x", f"Bearer {key}"))


def test_callers_need_no_right_to_invoke_functions() -> None:
    operations = [operation for methods in body()["paths"].values() for operation in methods.values()]
    assert not any("credentials" in operation["x-amazon-apigateway-integration"] for operation in operations)


def test_api_gateway_may_invoke_each_function_for_its_own_routes_only() -> None:
    allowed = set()
    for permission in resources("AWS::Lambda::Permission").values():
        assert permission["Principal"] == "apigateway.amazonaws.com"
        allowed.add(
            (target(permission["FunctionName"]), permission["SourceArn"]["Fn::Sub"][0].rpartition("${__ApiId__}/")[2])
        )
    of_routes = {
        (function, f"${{__Stage__}}/{method}{prefix}{path.replace('{id}', '*')}")
        for ((method, path), function), prefix in product(ROUTES.items(), ["", "/iam"])
    }
    assert allowed == of_routes | {
        ("HealthFunction", "${__Stage__}/GET/health"),
        ("AuthorizeFunction", "authorizers/*"),
    }


def test_there_is_one_stage_which_throttles_every_route() -> None:
    (stage,) = resources("AWS::ApiGateway::Stage").values()
    assert stage["StageName"] == "v1"
    assert stage["MethodSettings"] == [
        {
            "ResourcePath": "/*",
            "HttpMethod": "*",
            "ThrottlingRateLimit": {"Ref": "ThrottlingRate"},
            "ThrottlingBurstLimit": {"Ref": "ThrottlingBurst"},
        }
    ]
    defaults = {name: source()["Parameters"][name]["Default"] for name in ("ThrottlingRate", "ThrottlingBurst")}
    assert defaults == {"ThrottlingRate": 50, "ThrottlingBurst": 100}


def test_the_access_log_is_off_until_asked_for_and_holds_no_key() -> None:
    (stage,) = resources("AWS::ApiGateway::Stage").values()
    condition, setting, otherwise = stage["AccessLogSetting"]["Fn::If"]
    assert otherwise == {"Ref": "AWS::NoValue"}
    assert translated()["Conditions"][condition] == {"Fn::Equals": [{"Ref": "AccessLog"}, "on"]}
    assert source()["Parameters"]["AccessLog"]["Default"] == "off"
    assert "request_id" in json.loads(setting["Format"])
    assert "header" not in setting["Format"]
    assert "apiKey" not in setting["Format"]


def test_bodies_reach_the_functions_as_the_bytes_that_were_sent() -> None:
    assert body()["x-amazon-apigateway-binary-media-types"] == ["*/*"]


@pytest.mark.parametrize("response_type", GATEWAY_STATUS)
def test_api_gateways_own_answers_are_problems(response_type: str) -> None:
    status = GATEWAY_STATUS[response_type]
    response = gateway_response(response_type)
    problem = json.loads(response["responseTemplates"]["application/json"])
    assert list(problem) == ["type", "title", "status", "detail"]
    assert problem["type"] == f"urn:queuelog:problem:{SLUGS[status]}"
    assert (problem["status"], response["statusCode"]) == (status, str(status))
    assert problem["title"]
    assert problem["detail"].endswith(".")
    # A dollar sign would be taken for a variable of the gateway.
    assert "$" not in json.dumps(problem)
    headers = {"gatewayresponse.header.Content-Type": "'application/problem+json'"}
    if status == 429:
        headers["gatewayresponse.header.Retry-After"] = "'1'"
    assert response["responseParameters"] == headers


def test_one_kind_of_problem_has_one_title() -> None:
    problems = [
        json.loads(response["responseTemplates"]["application/json"])
        for response in body()["x-amazon-apigateway-gateway-responses"].values()
    ]
    assert len({(problem["type"], problem["title"]) for problem in problems}) == len(SLUGS)


def layer(name: str) -> str:
    """Return the logical id that SAM gives a layer, which changes with what it holds."""
    (found,) = [each for each in resources("AWS::Lambda::LayerVersion") if each.startswith(name)]
    return found


def test_all_functions_are_of_one_folder_and_one_layer_and_the_worker_has_one_more() -> None:
    functions = resources("AWS::Lambda::Function")
    assert set(functions) == FUNCTIONS
    assert len(resources("AWS::Lambda::LayerVersion")) == 2
    layers = {name: function["Layers"] for name, function in functions.items()}
    assert layers.pop("WorkFunction") == [{"Ref": layer("QueuelogLayer")}, {"Ref": layer("TasksLayer")}]
    assert all(each == [{"Ref": layer("QueuelogLayer")}] for each in layers.values())
    assert len({json.dumps(function["Code"]) for function in functions.values()}) == 1
    assert not (ROOT / "functions" / "requirements.txt").exists()


@pytest.mark.parametrize("function", sorted(FUNCTIONS))
def test_a_functions_handler_has_the_functions_name(function: str) -> None:
    words = re.findall(r"[A-Z][a-z]+", function.removesuffix("Function"))
    assert properties(function)["Handler"] == "_".join(words).lower() + ".handler"


def test_functions_end_before_api_gateway_gives_up_on_them() -> None:
    assert {properties(name)["Timeout"] for name in FUNCTIONS - set(SCHEDULED)} == {15}


def test_what_no_request_waits_for_may_take_as_long_as_lambda_lets_it() -> None:
    assert {properties(name)["Timeout"] for name in WITH_FILE - OF_ROUTES} == {900}


def test_each_schedule_has_its_function_and_a_name_of_its_own_in_each_stack() -> None:
    schedules = resources("AWS::Scheduler::Schedule").values()
    assert {target(each["Target"]["Arn"]): each["ScheduleExpression"] for each in schedules} == SCHEDULED
    assert not any("Name" in each for each in schedules)
    assert {target(each["Target"]["RoleArn"]) for each in schedules} == {"SchedulerRole"}


def test_what_a_sweep_or_a_worker_left_undone_is_left_to_the_next_one() -> None:
    invocations = list(resources("AWS::Lambda::EventInvokeConfig").values())
    assert {target(each["FunctionName"]) for each in invocations} == {"SweepFunction", "WorkFunction"}
    deliveries = {
        target(each["Target"]["Arn"]): each["Target"]["RetryPolicy"]
        for each in resources("AWS::Scheduler::Schedule").values()
        if "RetryPolicy" in each["Target"]
    }
    assert set(deliveries) == {"SweepFunction", "WorkFunction"}
    for limits in (*invocations, *deliveries.values()):
        assert (limits["MaximumRetryAttempts"], limits["MaximumEventAgeInSeconds"]) == (0, 60)


def test_eventbridge_may_call_those_functions_alone_and_for_this_account_alone() -> None:
    (trust,) = properties("SchedulerRole")["AssumeRolePolicyDocument"]["Statement"]
    assert trust["Principal"] == {"Service": "scheduler.amazonaws.com"}
    assert trust["Condition"] == {"StringEquals": {"aws:SourceAccount": {"Ref": "AWS::AccountId"}}}
    (statement,) = statements("SchedulerRole")
    assert statement["Action"] == "lambda:InvokeFunction"
    *always, (condition, worker, otherwise) = [each.get("Fn::If", each) for each in statement["Resource"]]
    assert (condition, otherwise) == ("WithWorker", {"Ref": "AWS::NoValue"})
    assert {target(each) for each in (*always, worker)} == set(SCHEDULED)


def test_a_backup_has_all_the_room_that_lambda_gives() -> None:
    assert properties("BackUpFunction")["EphemeralStorage"] == {"Size": 10240}


def test_functions_are_traced() -> None:
    assert all(each["TracingConfig"] == {"Mode": "Active"} for each in resources("AWS::Lambda::Function").values())


@pytest.mark.parametrize(("name", "folder"), [("QueuelogLayer", "queuelog"), ("TasksLayer", "tasks")])
def test_a_layer_serves_both_architectures(name: str, folder: str) -> None:
    made = properties(layer(name))
    assert made["CompatibleArchitectures"] == source()["Parameters"]["Architecture"]["AllowedValues"]
    runtimes = {function["Runtime"] for function in resources("AWS::Lambda::Function").values()}
    assert set(made["CompatibleRuntimes"]) == runtimes
    makefile = (ROOT / "layers" / folder / "Makefile").read_text(encoding="utf-8")
    assert {"manylinux2014_x86_64", "manylinux2014_aarch64"} <= set(makefile.split())
    assert {f"python{version}" for version in re.findall(r"--python-version (\S+)", makefile)} == runtimes


@pytest.mark.parametrize("folder", ["queuelog", "tasks"])
def test_everything_that_a_layer_carries_is_pinned(folder: str) -> None:
    lines = (ROOT / "layers" / folder / "requirements.txt").read_text(encoding="utf-8").splitlines()
    required = [line for line in lines if line and not line.startswith("#")]
    assert required
    assert all(re.fullmatch(r"[a-z0-9-]+==[0-9.]+", line) for line in required)


def test_the_client_in_the_layer_of_the_tasks_is_the_client() -> None:
    assert (ROOT / "layers/tasks/python/queuelog_client").resolve() == ROOT / "client/queuelog_client"


def test_variables_are_the_same_everywhere_but_for_what_one_function_alone_needs() -> None:
    common = {
        "POWERTOOLS_LOG_LEVEL",
        "POWERTOOLS_METRICS_NAMESPACE",
        "POWERTOOLS_SERVICE_NAME",
        "QUEUELOG_ADMIN_ROLE_ARNS",
        "QUEUELOG_BACKOFF_CAP_SECONDS",
        "QUEUELOG_BACKOFF_SECONDS",
        "QUEUELOG_DATABASE",
        "QUEUELOG_JOB_TYPES",
        "QUEUELOG_KEEP_COMPLETED_DAYS",
        "QUEUELOG_KEEP_FAILED_DAYS",
        "QUEUELOG_LEASE_SECONDS",
        "QUEUELOG_PRODUCER_ROLE_ARNS",
        "QUEUELOG_WORKER_ROLE_ARNS",
    }
    assert set(source()["Globals"]["Function"]["Environment"]["Variables"]) == common
    for name, function in resources("AWS::Lambda::Function").items():
        assert set(function["Environment"]["Variables"]) == common | OWN_VARIABLES.get(name, set())


def test_every_variable_that_is_set_is_read() -> None:
    code = "".join(path.read_text("utf-8") for path in (ROOT / "functions").rglob("*.py"))
    read = set(re.findall(r'"(QUEUELOG_[A-Z_]+)"', code)) | {f"QUEUELOG_{role.name}_ROLE_ARNS" for role in Role}
    for function in resources("AWS::Lambda::Function").values():
        assert {name for name in function["Environment"]["Variables"] if name.startswith("QUEUELOG_")} <= read


def test_what_a_queue_does_by_default_is_the_same_in_the_template_and_in_the_core() -> None:
    parameters = source()["Parameters"]
    defaults = Policy(
        lease_seconds=parameters["DefaultLeaseSeconds"]["Default"],
        backoff_seconds=parameters["RetryBackoffSeconds"]["Default"],
        backoff_cap_seconds=parameters["RetryBackoffCapSeconds"]["Default"],
        keep_completed_seconds=parameters["KeepCompletedDays"]["Default"] * 86_400,
        keep_failed_seconds=parameters["KeepFailedDays"]["Default"] * 86_400,
    )
    assert defaults == Policy()


def test_a_parameter_of_seconds_goes_as_far_as_a_request_may() -> None:
    ranges = {name: (each.get("MinValue"), each.get("MaxValue")) for name, each in source()["Parameters"].items()}
    assert ranges["DefaultLeaseSeconds"] == (1, MAX_LEASE_SECONDS)
    assert ranges["RetryBackoffSeconds"] == (0, MAX_BACKOFF_SECONDS)
    assert ranges["RetryBackoffCapSeconds"] == (0, MAX_DELAY_SECONDS)


def test_only_functions_that_use_the_file_mount_it_and_are_in_the_vpc() -> None:
    functions = resources("AWS::Lambda::Function")
    assert {name for name, function in functions.items() if "FileSystemConfigs" in function} == WITH_FILE
    assert {name for name, function in functions.items() if "VpcConfig" in function} == WITH_FILE


def test_the_database_lies_on_the_mount() -> None:
    for name in WITH_FILE:
        (mount,) = properties(name)["FileSystemConfigs"]
        assert target(mount["Arn"]) == "AccessPoint"
        assert properties(name)["Environment"]["Variables"]["QUEUELOG_DATABASE"].startswith(
            mount["LocalMountPath"] + "/"
        )


def test_functions_are_in_the_two_subnets_that_have_a_mount_target() -> None:
    subnets = [each["SubnetId"] for each in resources("AWS::EFS::MountTarget").values()]
    assert len(subnets) == 2
    assert all(properties(name)["VpcConfig"]["SubnetIds"] == subnets for name in WITH_FILE)


def test_a_function_is_made_after_the_mount_targets() -> None:
    assert set(translated()["Resources"]["AccessPoint"]["DependsOn"]) == set(resources("AWS::EFS::MountTarget"))


def test_the_file_belongs_to_a_user_who_is_not_root() -> None:
    access_point = properties("AccessPoint")
    owner = access_point["RootDirectory"]["CreationInfo"]
    assert access_point["PosixUser"] == {"Uid": owner["OwnerUid"], "Gid": owner["OwnerGid"]}
    assert "0" not in access_point["PosixUser"].values()
    assert access_point["RootDirectory"]["Path"] != "/"


def test_the_file_system_outlives_the_stack() -> None:
    file_system = translated()["Resources"]["FileSystem"]
    assert (file_system["DeletionPolicy"], file_system["UpdateReplacePolicy"]) == ("Retain", "Retain")


def test_the_file_system_is_encrypted_elastic_and_not_copied_while_in_use() -> None:
    file_system = properties("FileSystem")
    assert file_system["Encrypted"] is True
    assert file_system["ThroughputMode"] == "elastic"
    assert file_system["BackupPolicy"] == {"Status": "DISABLED"}


def test_the_file_system_lets_in_nobody_by_itself() -> None:
    # Having a policy ends the default, which allows everything; so this one must allow nothing.
    effects = {each["Effect"] for each in properties("FileSystem")["FileSystemPolicy"]["Statement"]}
    assert effects == {"Deny"}


def test_functions_talk_to_the_file_system_alone() -> None:
    assert all(
        properties(name)["VpcConfig"]["SecurityGroupIds"] == [{"Ref": "FunctionSecurityGroup"}]
        for name in WITH_FILE - {"BackUpFunction"}
    )
    (egress,) = properties("FunctionSecurityGroup")["SecurityGroupEgress"]
    assert (egress["IpProtocol"], egress["FromPort"], egress["ToPort"]) == ("tcp", 2049, 2049)
    assert egress["DestinationSecurityGroupId"] == {"Ref": "FileSystemSecurityGroup"}
    assert "SecurityGroupIngress" not in properties("FunctionSecurityGroup")


def test_the_function_that_makes_backups_talks_to_s3_besides() -> None:
    groups = properties("BackUpFunction")["VpcConfig"]["SecurityGroupIds"]
    assert groups == [{"Ref": "FunctionSecurityGroup"}, {"Ref": "BackUpSecurityGroup"}]
    (egress,) = properties("BackUpSecurityGroup")["SecurityGroupEgress"]
    assert (egress["IpProtocol"], egress["FromPort"], egress["ToPort"]) == ("tcp", 443, 443)
    assert "SecurityGroupIngress" not in properties("BackUpSecurityGroup")


def test_the_file_system_is_reached_from_functions_alone() -> None:
    for mount_target in resources("AWS::EFS::MountTarget").values():
        assert mount_target["SecurityGroups"] == [{"Ref": "FileSystemSecurityGroup"}]
    assert "SecurityGroupIngress" not in properties("FileSystemSecurityGroup")
    (ingress,) = resources("AWS::EC2::SecurityGroupIngress").values()
    assert (ingress["IpProtocol"], ingress["FromPort"], ingress["ToPort"]) == ("tcp", 2049, 2049)
    assert ingress["GroupId"] == {"Ref": "FileSystemSecurityGroup"}
    assert ingress["SourceSecurityGroupId"] == {"Ref": "FunctionSecurityGroup"}


def test_the_network_has_no_way_to_the_internet() -> None:
    kinds = {each["Type"] for each in translated()["Resources"].values() if each["Type"].startswith("AWS::EC2::")}
    assert kinds == {
        "AWS::EC2::RouteTable",
        "AWS::EC2::SecurityGroup",
        "AWS::EC2::SecurityGroupIngress",
        "AWS::EC2::Subnet",
        "AWS::EC2::SubnetRouteTableAssociation",
        "AWS::EC2::VPC",
        "AWS::EC2::VPCEndpoint",
    }
    (endpoint,) = resources("AWS::EC2::VPCEndpoint").values()
    assert endpoint["VpcEndpointType"] == "Gateway"
    assert endpoint["ServiceName"] == {"Fn::Sub": "com.amazonaws.${AWS::Region}.s3"}
    condition, policy, otherwise = endpoint["PolicyDocument"]["Fn::If"]
    (statement,) = policy["Statement"]
    assert (condition, otherwise) == ("NewVpc", {"Ref": "AWS::NoValue"})
    assert statement["Condition"] == {"StringEquals": {"aws:ResourceAccount": {"Ref": "AWS::AccountId"}}}


def test_the_backups_outlive_the_stack_with_the_rules_that_guard_them() -> None:
    for name in ("BackupBucket", "BackupBucketPolicy"):
        resource = translated()["Resources"][name]
        assert (resource["DeletionPolicy"], resource["UpdateReplacePolicy"]) == ("Retain", "Retain")


def test_the_backups_are_encrypted_versioned_private_and_sent_over_tls_alone() -> None:
    bucket = properties("BackupBucket")
    (encryption,) = bucket["BucketEncryption"]["ServerSideEncryptionConfiguration"]
    assert encryption == {"ServerSideEncryptionByDefault": {"SSEAlgorithm": "AES256"}}
    assert bucket["VersioningConfiguration"] == {"Status": "Enabled"}
    assert bucket["OwnershipControls"] == {"Rules": [{"ObjectOwnership": "BucketOwnerEnforced"}]}
    assert len(bucket["PublicAccessBlockConfiguration"]) == 4
    assert all(bucket["PublicAccessBlockConfiguration"].values())
    policy = properties("BackupBucketPolicy")
    (statement,) = policy["PolicyDocument"]["Statement"]
    assert policy["Bucket"] == {"Ref": "BackupBucket"}
    assert (statement["Effect"], statement["Principal"], statement["Action"]) == ("Deny", "*", "s3:*")
    assert statement["Condition"] == {"Bool": {"aws:SecureTransport": "false"}}
    assert statement["Resource"] == [{"Fn::GetAtt": ["BackupBucket", "Arn"]}, {"Fn::Sub": "${BackupBucket.Arn}/*"}]


def test_old_backups_and_what_an_upload_left_behind_go_away() -> None:
    (rule,) = properties("BackupBucket")["LifecycleConfiguration"]["Rules"]
    assert rule["Status"] == "Enabled"
    # For all of the bucket, and both what is current and what was put aside.
    assert not {"Prefix", "TagFilters"} & set(rule)
    assert rule["ExpirationInDays"] == {"Ref": "KeepBackupsDays"}
    assert rule["NoncurrentVersionExpiration"] == {"NoncurrentDays": 7}
    assert rule["AbortIncompleteMultipartUpload"] == {"DaysAfterInitiation": 1}


def test_only_the_function_that_makes_backups_touches_the_bucket_and_it_can_but_add() -> None:
    about_s3 = {role: [each for each in statements(role) if "s3:" in json.dumps(each)] for role in ROLES}
    del about_s3["WorkRole"]
    (allowed,) = about_s3.pop("BackUpRole")
    assert (allowed["Effect"], allowed["Action"]) == ("Allow", "s3:PutObject")
    assert allowed["Resource"] == BACKUPS
    assert not any(about_s3.values())
    assert {name for name in FUNCTIONS if role_of(name) == "BackUpRole"} == {"BackUpFunction"}
    assert target(properties("BackUpFunction")["Environment"]["Variables"]["QUEUELOG_BACKUP_BUCKET"]) == "BackupBucket"


def test_a_vpc_of_ones_own_takes_the_place_of_every_part_of_the_new_one() -> None:
    own = {"AWS::EC2::RouteTable", "AWS::EC2::Subnet", "AWS::EC2::SubnetRouteTableAssociation", "AWS::EC2::VPC"}
    made = [each for each in translated()["Resources"].values() if each["Type"] in own]
    assert {each.get("Condition") for each in made} == {"NewVpc"}
    for group in resources("AWS::EC2::SecurityGroup").values():
        assert group["VpcId"] == {"Fn::If": ["NewVpc", {"Ref": "Vpc"}, {"Ref": "VpcId"}]}


def test_the_secret_is_made_without_a_value_that_a_deploy_could_put_back() -> None:
    assert set(properties("RegistrySecret")) == {"Description"}


def test_only_the_authoriser_reads_the_keys() -> None:
    about_secrets = {
        role: [each for each in statements(role) if "secretsmanager" in json.dumps(each)] for role in ROLES
    }
    (signing,) = about_secrets.pop("WorkRole")
    assert signing["Resource"] == {"Ref": "WebhookSecret"}
    (allowed,) = about_secrets.pop("AuthorizeRole")
    assert allowed["Action"] == "secretsmanager:GetSecretValue"
    assert allowed["Resource"] == {"Ref": "RegistrySecret"}
    assert not any(about_secrets.values())
    assert {name for name in FUNCTIONS if role_of(name) == "AuthorizeRole"} == {"AuthorizeFunction"}


def test_health_may_look_at_the_file_and_all_others_may_write_it() -> None:
    allowed = {
        role: {
            action
            for statement in statements(role)
            for action in listed(statement["Action"])
            if action.startswith("elasticfilesystem:")
        }
        for role in ROLES
    }
    assert allowed == {
        "RouteRole": {"elasticfilesystem:ClientMount", "elasticfilesystem:ClientWrite"},
        "HealthRole": {"elasticfilesystem:ClientMount"},
        "AuthorizeRole": set(),
        "BackUpRole": {"elasticfilesystem:ClientMount", "elasticfilesystem:ClientWrite"},
        "WorkRole": set(),
    }
    assert {name for name in FUNCTIONS if role_of(name) == "HealthRole"} == {"HealthFunction"}


def test_the_file_is_reached_through_the_access_point_alone() -> None:
    for role in ("RouteRole", "HealthRole", "BackUpRole"):
        (statement,) = [each for each in statements(role) if "elasticfilesystem" in json.dumps(each["Action"])]
        assert target(statement["Resource"]) == "FileSystem"
        (access_point,) = statement["Condition"]["StringEquals"].values()
        assert target(access_point) == "AccessPoint"


def test_every_function_has_a_log_of_its_own_that_is_kept_for_a_while() -> None:
    logs = {name: target(properties(name)["LoggingConfig"]["LogGroup"]) for name in FUNCTIONS}
    assert len(set(logs.values())) == len(FUNCTIONS)
    for name, log in logs.items():
        assert properties(log)["RetentionInDays"] == {"Ref": "LogRetentionDays"}
        module = properties(name)["Handler"].removesuffix(".handler")
        assert properties(log)["LogGroupName"]["Fn::Sub"].endswith(f"/{module}")


@pytest.mark.parametrize("role", ROLES)
def test_a_role_writes_the_logs_of_its_own_functions_and_makes_no_group(role: str) -> None:
    (statement,) = [each for each in statements(role) if "logs:" in json.dumps(each["Action"])]
    assert statement["Action"] == ["logs:CreateLogStream", "logs:PutLogEvents"]
    own = {target(properties(name)["LoggingConfig"]["LogGroup"]) for name in FUNCTIONS if role_of(name) == role}
    assert {target(resource) for resource in listed(statement["Resource"])} == own


@pytest.mark.parametrize("role", ROLES)
def test_a_role_allows_nothing_wider_than_aws_forces(role: str) -> None:
    for statement in statements(role):
        if statement["Effect"] == "Deny":
            continue
        actions = set(listed(statement["Action"]))
        assert not any("*" in action for action in actions)
        if any("*" in json.dumps(resource) for resource in listed(statement["Resource"]) if resource not in OPEN_ENDED):
            assert actions <= ON_EVERYTHING


def test_a_functions_own_code_may_not_touch_the_network() -> None:
    allow, deny = properties("NetworkPolicy")["PolicyDocument"]["Statement"]
    assert (allow["Effect"], deny["Effect"]) == ("Allow", "Deny")
    assert deny["Action"] == allow["Action"]
    assert deny["Condition"] == {"Null": {"lambda:SourceFunctionArn": "false"}}


@pytest.mark.parametrize("role", ["AuthorizeRole", "WorkRole"])
def test_what_is_outside_the_network_has_no_rights_in_it(role: str) -> None:
    assert not any("ec2:" in json.dumps(each) for each in statements(role))


def test_nothing_of_the_worker_is_there_until_a_schedule_asks_for_it() -> None:
    assert source()["Parameters"]["WorkerSchedule"]["Default"] == ""
    conditional = {
        condition: {name for name, each in translated()["Resources"].items() if each.get("Condition") == condition}
        for condition in OF_THE_WORKER
    }
    conditional["WithWorker"].remove(layer("TasksLayer"))
    assert conditional == OF_THE_WORKER
    conditions = translated()["Conditions"]
    assert conditions["WithWorker"] == {"Fn::Not": [{"Fn::Equals": [{"Ref": "WorkerSchedule"}, ""]}]}
    for condition in ("WithEmail", "WithWebhooks"):
        assert conditions[condition]["Fn::And"][0] == {"Condition": "WithWorker"}


def test_the_worker_is_a_worker_of_the_queue_once_it_is_there() -> None:
    variables = source()["Globals"]["Function"]["Environment"]["Variables"]
    separator, (given, own) = variables["QUEUELOG_WORKER_ROLE_ARNS"]["Fn::Join"]
    assert (separator, given) == (",", {"Fn::Join": [",", {"Ref": "WorkerRoleArns"}]})
    condition, worker, otherwise = own["Fn::If"]
    assert (condition, target(worker), otherwise) == ("WithWorker", "WorkRole", "")
    assert {name for name in FUNCTIONS if role_of(name) == "WorkRole"} == {"WorkFunction"}
    assert "WorkPolicy" in listed(translated()["Resources"]["WorkFunction"]["DependsOn"])


def test_the_worker_may_add_documents_sign_webhooks_and_send_as_one_sender() -> None:
    allowed = {action: each for each in statements("WorkRole") for action in listed(each["Action"])}
    assert set(allowed) - {"logs:CreateLogStream", "logs:PutLogEvents", *ON_EVERYTHING} == {
        "execute-api:Invoke",
        "s3:PutObject",
        "secretsmanager:GetSecretValue",
        "ses:SendEmail",
    }
    assert allowed["s3:PutObject"]["Resource"] == DOCUMENTS
    # An identity that has a configuration set by default can't be used without a right to that.
    assert allowed["ses:SendEmail"]["Resource"] == OF_SES
    assert allowed["ses:SendEmail"]["Condition"] == {"StringEquals": {"ses:FromAddress": {"Ref": "EmailFrom"}}}


def test_what_webhooks_are_signed_with_is_base64_as_it_is_made() -> None:
    made = properties("WebhookSecret")["GenerateSecretString"]
    assert made == {"PasswordLength": 48, "ExcludePunctuation": True}


def test_what_webhooks_are_signed_with_outlives_the_worker() -> None:
    # CloudFormation would delete it without the days in which it can be had back.
    secret = translated()["Resources"]["WebhookSecret"]
    assert (secret["DeletionPolicy"], secret["UpdateReplacePolicy"]) == ("Retain", "Retain")


def test_documents_are_encrypted_private_sent_over_tls_alone_and_outlive_the_stack() -> None:
    bucket, backups = properties("DocumentBucket"), properties("BackupBucket")
    for name in ("BucketEncryption", "OwnershipControls", "PublicAccessBlockConfiguration"):
        assert bucket[name] == backups[name]
    policy = json.dumps(properties("BackupBucketPolicy")).replace("BackupBucket", "DocumentBucket")
    assert properties("DocumentBucketPolicy") == json.loads(policy)
    for name in ("DocumentBucket", "DocumentBucketPolicy"):
        resource = translated()["Resources"][name]
        assert (resource["DeletionPolicy"], resource["UpdateReplacePolicy"]) == ("Retain", "Retain")


def test_lambda_alone_may_take_a_functions_role() -> None:
    assert set(resources("AWS::IAM::Role")) == {*ROLES, "SchedulerRole"}
    for role in ROLES:
        (statement,) = properties(role)["AssumeRolePolicyDocument"]["Statement"]
        assert statement["Principal"] == {"Service": "lambda.amazonaws.com"}


def test_concurrency_is_reserved_only_when_asked_for_and_only_for_routes() -> None:
    assert source()["Parameters"]["ReservedConcurrency"]["Default"] == 0
    for name in OF_ROUTES:
        condition, value, otherwise = properties(name)["ReservedConcurrentExecutions"]["Fn::If"]
        assert (value, otherwise) == ({"Ref": "ReservedConcurrency"}, {"Ref": "AWS::NoValue"})
        assert translated()["Conditions"][condition] == {
            "Fn::Not": [{"Fn::Equals": [{"Ref": "ReservedConcurrency"}, "0"]}]
        }
    assert not any("ReservedConcurrentExecutions" in properties(name) for name in FUNCTIONS - OF_ROUTES)
    # What the description of the parameter says that it costs.
    assert len(OF_ROUTES) == 18
    assert "Eighteen times" in source()["Parameters"]["ReservedConcurrency"]["Description"]


@pytest.mark.parametrize("name", source()["Parameters"])
def test_a_parameter_has_a_default_a_limit_and_says_what_it_is(name: str) -> None:
    parameter = source()["Parameters"][name]
    assert "Default" in parameter
    assert parameter["Description"].endswith(".")
    assert {"AllowedPattern", "AllowedValues", "MinValue"} & set(parameter)


@pytest.mark.parametrize(
    ("name", "good", "bad"),
    [
        ("JobTypes", ["email", "a.b:c_d-e", "X" * 100], ["", "-x", "a b", "X" * 101]),
        ("ProducerRoleArns", ["", "arn:aws:iam::123456789012:role/path/Name"], ["*", "arn:aws:iam::1:role/x"]),
        ("WorkerRoleArns", ["", "arn:aws-cn:iam::123456789012:role/N"], ["arn:aws:iam::123456789012:user/Name"]),
        ("AdminRoleArns", ["", "arn:aws:iam::123456789012:role/a+b=c.d@e-f_g"], ["arn:aws:iam::123456789012:root"]),
        ("BackUpSchedule", ["cron(17 3 * * ? *)", "rate(6 hours)"], ["", "daily", "at(2026-01-31T12:00:00)", "rate()"]),
        ("WorkerSchedule", ["", "rate(1 minute)", "cron(0/5 6-20 ? * MON-FRI *)"], ["always", "rate()", "1 minute"]),
        ("WorkerTypes", ["", "email", "a.b:c_d-e"], ["-x", "a b", "X" * 101]),
        ("EmailFrom", ["", "queue@example.com", "a+b@mail.example.com"], ["Ada <a@example.com>", "a@b@c.de", "a@b"]),
        (
            "WebhookTargets",
            ["", "hooks.example.com", "h.example:8443"],
            ["https://h.example", "H.example", "*.a.b", "a", "h.example:443"],
        ),
        ("VpcId", ["", "vpc-0a1b2c3d"], ["default", "vpc-"]),
        ("SubnetIds", ["", "subnet-0a,subnet-0b", "subnet-0a,subnet-0b,subnet-0c"], ["subnet-0a", "subnet-0a,"]),
        ("RouteTableIds", ["", "rtb-0a", "rtb-0a,rtb-0b"], ["rtb-0a, rtb-0b", "main"]),
    ],
)
def test_a_parameter_takes_what_is_meant_and_refuses_the_rest(name: str, good: list[str], bad: list[str]) -> None:
    pattern = source()["Parameters"][name]["AllowedPattern"]
    assert all(re.fullmatch(pattern, value) for value in good)
    assert not any(re.fullmatch(pattern, value) for value in bad)


def test_the_parameter_of_types_and_the_core_agree_on_what_a_type_is() -> None:
    assert source()["Parameters"]["JobTypes"]["AllowedPattern"] == TYPE_PATTERN


def test_the_outputs_name_both_doors_and_the_way_to_a_first_key() -> None:
    outputs = {name: output["Value"] for name, output in translated()["Outputs"].items()}
    assert outputs["Url"]["Fn::Sub"].endswith("/v1")
    assert outputs["IamUrl"]["Fn::Sub"] == outputs["Url"]["Fn::Sub"] + "/iam"
    assert outputs["RegistrySecret"] == {"Ref": "RegistrySecret"}
    assert outputs["BackupBucket"] == {"Ref": "BackupBucket"}
    assert outputs["FirstKey"]["Fn::Sub"].startswith("make key STACK=${AWS::StackName} ")
