"""The names of workers, suspension, triggers, daemons, workflows and fleets, and what comes of them."""

from __future__ import annotations

# name in `windlass` -> the parameters it must take
FUNCTIONS: dict[str, str] = {
    "spawn_agent": "config",
    "send_input": "handle task",
    "suspend_agent": "worker reason options",
    "resume_agent": "worker_or_snapshot resume_input continue_transcript",
    "agent_stop": "worker options",
    "agent_await_resumption": "reason conditions",
    "wait_agent": "handle_or_list",
    "close_agent": "handle",
    "list_agents": "",
    "agent_lifecycle_tools": "registry options",
    "parse_resume_conditions": "conditions",
    "save_snapshot": "session path",
    "load_snapshot": "path",
    "trigger_register": "spec action",
    "trigger_list": "",
    "trigger_remove": "id",
    "publish_event": "name payload",
    "fire_due": "store",
    "webhook_app": "store",
    "worker_request": "worker",
    "worker_result": "worker",
    "worker_provenance": "worker",
    "worker_research_questions": "worker",
    "worker_action_items": "worker",
    "worker_workflow_stages": "worker",
    "worker_verification_steps": "worker",
    "task_run": "task flow options",
    "workflow": "function",
    "workflow_draw": "flow result format",
    "workflow_graph": "spec",
    "workflow_execute": "task graph artifacts options",
    "workflow_session": "result",
    "workflow_session_fork": "session",
    "workflow_session_archive": "session",
    "workflow_session_resume": "session",
    "workflow_session_persist": "result path",
    "workflow_session_restore": "path",
    "daemon_spawn": "config",
    "daemon_trigger": "daemon event",
    "daemon_snapshot": "daemon",
    "daemon_stop": "daemon",
    "daemon_resume": "daemon",
}

# class -> its fields, properties and methods
CLASSES: dict[str, str] = {
    "ResumeConditions": "trigger timeout on_event to_dict",
    "SuspendedRun": "session_id run_id name status",
    "LoopResult": "handle reason initiator conditions iterations_completed",
    "AgentResult": "handle reason initiator conditions iterations_completed",
    "Worker": (
        "id name task status mode history config request provenance payload error transcript artifacts "
        "carry execution suspension agent stays"
    ),
    "Suspension": "reason initiator suspended_at snapshot_ref conditions",
    "StopResult": "status handoff children handoffs worker",
    "Trigger": "id spec action due fired created_at last",
    "DaemonSnapshot": "name status pending_event_count pending_events in_flight last_event",
    "RunHandle": "result status events steer follow_up cancel",
    "Workflow": "run resume with_",
    "WorkflowContext": "run step parallel session_id caller deps",
    "WorkflowGraph": "run resume with_ draw mermaid html",
    "WorkflowResult": (
        "status output outputs steps artifacts usage cost_usd pending raise_for_status"
    ),
    "WorkflowStep": "name status text data verdict error session_id labels",
    "WorkflowSession": "id status transcript run usage",
    "WorkflowUsage": "input_tokens output_tokens total_duration_ms call_count",
    "Runtime": "submit handle serve",
}

# error -> its parent
ERRORS: dict[str, str] = {
    "InvalidCondition": "ConfigError",
    "DaemonError": "WindlassError",
    "DaemonQueueFull": "DaemonError",
    "DaemonStopped": "DaemonError",
    "KeyReused": "ConfigError",
    "WorkflowChanged": "WindlassError",
    "WorkflowStepFailed": "WindlassError",
}

#: Keys of the dict that `spawn_agent` takes, and of the dicts in it.
CONFIG = (
    "name task node graph artifacts options transcript policy tools carry execution approval_policy"
    " permissions"
).split()
NODE = "kind mode model_policy output_contract tools".split()
NODE_KINDS = ("stage", "verify", "subagent")
NODE_MODES = ("agent", "llm")
CARRY = {
    "transcript_mode": ("inherit", "fork", "reset", "compact"),
    "artifact_mode": ("inherit", "none", "reset"),
    "resume_workflow": (True, False),
}
EXECUTION = "cwd env worktree".split()
WORKTREE = "repo branch cleanup".split()
CLEANUPS = ("preserve", "remove", "remove_if_clean")

DAEMON_OPTIONS = (
    "daemon persist_path resume_path wake_interval_ms watch_paths consolidate_on_idle"
    " idle_watchdog_attempts event_queue_capacity"
).split()

#: tool for the model -> its parameters
TOOLS: dict[str, str] = {
    "subagent_pause": "handle reason",
    "subagent_resume": "handle input continue_transcript",
    "subagent_stop": "handle graceful reason",
}

COMMANDS = (
    "worker",
    "fleet",
    "daemon start",
    "daemon trigger",
    "daemon status",
    "daemon stop",
    "daemon resume",
    "triggers add",
    "triggers list",
    "triggers remove",
    "triggers fire",
    "sessions wake",
    "workflow run",
    "workflow resume",
    "workflow draw",
)
