"""The names of authority: what a user can type, and what must come of it."""

from __future__ import annotations

# name in `windlass` -> the parameters it must take
FUNCTIONS: dict[str, str] = {
    "export": "cls name verbs scope",
    "reflect": "table scope tenant shared version columns",
    "field": "index unique description private",
    "path_scope": "arg_keys workspace roots mount_modes",
    "approvals": "store session_id",
    "approve": "ids by store",
    "deny": "ids reason by store",
    "approve_plan": "plan by name expires_in store",
    "plan_of": "session_id store",
    "undoable": "session_id call_ids tools caller deps store",
    "undo": "session_id call_ids tools by name caller deps store force",
    "audit_query": "which",
    "audit_verify": "tenant session anchor",
    "audit_seal": "",
}

# class -> its fields, properties and methods
CLASSES: dict[str, str] = {
    "Runtime": "store config resources tools roles models conversations audit audit_anchor mcp_servers",
    "Caller": "user roles tenant local",
    "McpServer": (
        "name command args env cwd url headers auth allow deny timeout trust required sampling"
    ),
    "EffectPlan": "id session_id caller effects status approved_by expires_at used_by expired",
    "PlannedEffect": "tool arguments call_id diff note asks",
    "UndoStep": "call_id tool arguments what why outcome detail undone_by",
    "Resource": (
        "get search create update delete allow_read allow_create allow_update allow_delete version "
        "path table verbs mcp_tools max_limit audit_reads"
    ),
    "Resources": "tools call audit prepare add",
    "ResourceTx": "get search page create update save delete execute caller tenant now",
    "Handle": "get search create update delete run",
    "Page": "rows cursor",
    "Query": "where sort limit cursor",
    "Roles": "allows refusal of grant revoke restore",
    "ConversationResource": "id title user turns append",
    "ConversationTurn": "conversation number role content tool_calls tool_results session user",
    "GenerateResult": ("content tool_calls finish_reason usage trace cost_usd model session_id"),
    "Models": "generate generate_stream",
    "GenerateChunk": "delta_content delta_tool_calls finish_reason",
    "ToolTraceEntry": (
        "type iteration content tool call_id arguments outcome duration_ms usage cost_usd"
    ),
    "PermissionRequest": "tool args reason session",
    "Permissions": "allow deny on_escalation",
    "Ceiling": "tools side_effect_level",
    "ApprovalPolicy": ("rules external_roots workspace expires_in request_permission guards"),
    "Rule": "action match rationale",
    "PolicyDecision": "action rule rationale index",
    "PendingApproval": (
        "id session_id call_id tool arguments caller tenant agent rule reason receipt expires_at "
        "answered expired diff"
    ),
    "Taint": "mode trust_prompt unlabelled",
    "Audit": "query verify seal",
    "AuditEntry": (
        "at tool tenant caller roles request conversation session run call action rule digest reason "
        "outcome duration_ms resource verb row changes"
    ),
    "AuditPage": "entries cursor",
    "AuditReport": (
        "findings not_covered deleted sessions rows chains audit_rows seals anchored ok"
    ),
    "Finding": "what problem session chain tenant row",
    "Seal": "tenant number at ends previous hash sound",
    "Anchor": "put get",
    "AuditRow": (
        "n chain seq at tenant caller roles request conversation session run call tool resource verb "
        "row outcome reason changes hash"
    ),
    "ModelCall": (
        "tenant request conversation tool_calls gpu_ms input_tokens output_tokens cost_usd caller "
        "session run at"
    ),
}

RUNTIME = "store config resources tools roles audit_anchor".split()
HANDLE: dict[str, str] = {
    "get": "id",
    "search": "where sort limit cursor",
    "create": "values",
    "update": "id values version",
    "delete": "id version",
    "run": "method id",
}

#: What filters the log, and the books.
LOG = "tenant caller request conversation session call tool resource verb row outcome since until"
BOOKS = "tenant caller request conversation session run provider model since until"

# option of `generate` -> what it is when nobody says so, and something that it cannot be
GENERATE: dict[str, tuple[object, object]] = {
    "tools": (None, "get_product"),
    "tool_mode": ("auto", "manual"),
    "max_tool_iterations": (10, -1),
    "max_tokens": (None, 0),
    "max_output_tokens": (None, 0),
    "max_cost_usd": (None, -1),
    "tool_parallelism": ("parallel", "sometimes"),
    "tool_result_max_bytes": (65536, "many"),
    "tool_error_mode": ("recover", "retry"),
    "tool_arg_validation": ("strict", "loose"),
    "include_tool_trace": (False, "yes"),
    "conversation": (None, 7),
    "caller": (None, "ann"),
    "abort": (None, "now"),
}
#: Named in the specification as out of its scope: refused as unknown.
NOT_BUILT = "tool_permissions".split()

# option -> the keys of its dict, each with a value that it takes
OPTIONS: dict[str, dict[str, object]] = {
    "plan": {},
    "policy": {"tools": ("look",), "side_effect_level": "read_only"},
    "permissions": {
        "allow": ["look"],
        "deny": {"write": {"arg_key": "path", "patterns": ["*.key"]}},
        "on_escalation": lambda request: True,
    },
    "approval_policy": {
        "rules": [{"ask": "write"}],
        "external_roots": ["/srv"],
        "workspace": "/srv/shop",
        "expires_in": 60.0,
        "request_permission": lambda call: True,
        "guards": False,
    },
    "workspace": {},
    "mounts": {},
    "tool_preset": {},
    "sandbox": {
        "level": "none",
        "network": True,
        "memory": 1 << 30,
        "processes": 10,
        "file_size": 1000,
        "env": ("BUILD_MODE",),
    },
    "fetch": {
        "hosts": ("*.example.com",),
        "private": ("localhost:8000",),
        "timeout": 10.0,
        "max_bytes": 1000,
        "max_redirects": 2,
    },
    "taint": {
        "mode": "refuse",
        "trust_prompt": False,
        "unlabelled": "harmless",
        "roles": {"x": {"to": "target"}},
        "results": {"x": {"text": "untrusted"}},
    },
}
RULES: list[dict[str, object]] = [
    {"action": "deny", "match": {"tool": "x"}},
    {"allow": {"tool": "x"}},
    {"ask": {"tool": "x"}},
    {"deny": {"tool": "x"}},
    {"ask": "x", "rationale": "because"},
]
#: What a rule may look at.
MATCHERS = (
    "tool kind side_effect_level path command url domain method mcp_server agent persona mode "
    "capability repeat_count"
).split()
SENSITIVE = """
    .env .env.local id_rsa id_ed25519 server.pem tls.key .aws/credentials .ssh/config
    application_default_credentials.json .netrc
""".split()

# transcript kind -> its fields
EVENTS: dict[str, str] = {
    "PermissionGrant": "tool call_id grant reason",
    "PermissionDeny": "tool call_id reason",
    "PermissionEscalation": "tool call_id reason",
}
ERRORS = """
    ResourceError NotFound Conflict InvalidValue PermissionDenied BudgetExceeded Aborted ToolFailed
    Suspended NoSuchApproval CannotUndo
""".split()
#: What a model reads of a refusal.
REFUSAL = "error tool reason".split()
GRANTS: list[object] = [True, {"grant": "once"}, {"grant": "session"}]
MARKER = "[…truncated; full result {n} bytes]"
TURN_ROLES = "user system assistant tool".split()
FINISHED = "stop length tool_calls content_filter".split()
STORES = ("memory:", "sqlite:///{folder}/x.db")
COMMANDS = (
    "approvals list",
    "approvals show",
    "approvals approve",
    "approvals deny",
    "audit verify",
    "audit query",
    "audit seal",
    "undo",
    "doctor",
    "mcp list",
    "mcp call",
    "mcp doctor",
    "mcp serve",
)
