"""What type checkers see of the names in `__init__.py`; made by scripts/make_stub.py."""

from windlass import access as access
from windlass import agents as agents
from windlass import attempts as attempts
from windlass import audit as audit
from windlass import callers as callers
from windlass import chat as chat
from windlass import daemons as daemons
from windlass import errors as errors
from windlass import events as events
from windlass import fleet as fleet
from windlass import generate as generate
from windlass import llm as llm
from windlass import mcp as mcp
from windlass import messages as messages
from windlass import models as models
from windlass import observe as observe
from windlass import policies as policies
from windlass import redaction as redaction
from windlass import resources as resources
from windlass import runtime as runtime
from windlass import sessions as sessions
from windlass import simulated_users as simulated_users
from windlass import store as store
from windlass import sync as sync
from windlass import testing as testing
from windlass import toolbox as toolbox
from windlass import tools as tools
from windlass import triggers as triggers
from windlass import usage as usage
from windlass import workers as workers
from windlass import workflows as workflows
from windlass.access.approval import ApprovalPolicy as ApprovalPolicy
from windlass.access.approval import PolicyDecision as PolicyDecision
from windlass.access.approval import Rule as Rule
from windlass.access.caller import Caller as Caller
from windlass.access.ceiling import Ceiling as Ceiling
from windlass.access.permissions import PermissionRequest as PermissionRequest
from windlass.access.permissions import Permissions as Permissions
from windlass.access.permissions import path_scope as path_scope
from windlass.access.roles import Roles as Roles
from windlass.agents.agent import Agent as Agent
from windlass.agents.agent_loop import agent_loop as agent_loop
from windlass.agents.agent_turn import TurnResult as TurnResult
from windlass.agents.agent_turn import agent_turn as agent_turn
from windlass.agents.artifacts import Artifact as Artifact
from windlass.agents.fan_out import FanOutFailure as FanOutFailure
from windlass.agents.fan_out import FanOutResult as FanOutResult
from windlass.agents.fan_out import fan_out as fan_out
from windlass.agents.presets import agent_budget as agent_budget
from windlass.agents.presets import agent_preset as agent_preset
from windlass.agents.presets import audit_agent as audit_agent
from windlass.agents.presets import merge_captain_agent as merge_captain_agent
from windlass.agents.presets import oncall_captain_agent as oncall_captain_agent
from windlass.agents.presets import release_captain_agent as release_captain_agent
from windlass.agents.presets import repair_agent as repair_agent
from windlass.agents.presets import review_captain_agent as review_captain_agent
from windlass.agents.presets import summary_agent as summary_agent
from windlass.agents.presets import verify_agent as verify_agent
from windlass.attempts.definition import AgentDefinition as AgentDefinition
from windlass.attempts.definition import ObservabilityConfig as ObservabilityConfig
from windlass.attempts.definition import OutputToolConfig as OutputToolConfig
from windlass.attempts.definition import ToolsConfig as ToolsConfig
from windlass.attempts.definition import ValidationConfig as ValidationConfig
from windlass.attempts.definition import define_agent as define_agent
from windlass.attempts.execution import execute_agent as execute_agent
from windlass.attempts.execution import resume_execution as resume_execution
from windlass.attempts.result import AgentErrorCode as AgentErrorCode
from windlass.attempts.result import Attempt as Attempt
from windlass.attempts.result import CallbackError as CallbackError
from windlass.attempts.result import ExecuteFailure as ExecuteFailure
from windlass.attempts.result import ExecutionMetadata as ExecutionMetadata
from windlass.attempts.result import Failure as Failure
from windlass.attempts.result import FailureContext as FailureContext
from windlass.attempts.result import Success as Success
from windlass.attempts.state import AgentExecutionState as AgentExecutionState
from windlass.attempts.state import ExecuteCallbacks as ExecuteCallbacks
from windlass.attempts.tools import DEFAULT_SUBMIT_TOOL as DEFAULT_SUBMIT_TOOL
from windlass.attempts.tools import HelperTool as HelperTool
from windlass.audit.anchors import Anchor as Anchor
from windlass.audit.query import AuditEntry as AuditEntry
from windlass.audit.query import AuditPage as AuditPage
from windlass.audit.query import AuditQuery as AuditQuery
from windlass.audit.verify import AuditReport as AuditReport
from windlass.audit.verify import Finding as Finding
from windlass.callers.breaker import with_circuit_breaker as with_circuit_breaker
from windlass.callers.budget import with_budget as with_budget
from windlass.callers.cache import with_cache as with_cache
from windlass.callers.caller import compose as compose
from windlass.callers.caller import default_llm_caller as default_llm_caller
from windlass.callers.escalation import with_escalation as with_escalation
from windlass.callers.fallback import with_fallback as with_fallback
from windlass.callers.logs import with_logging as with_logging
from windlass.callers.retry import with_retry as with_retry
from windlass.callers.shadow import with_shadow as with_shadow
from windlass.chat.input import ChatCommand as ChatCommand
from windlass.chat.input import agent_chat_route_input as agent_chat_route_input
from windlass.chat.line import InputLine as InputLine
from windlass.chat.line import read_line as read_line
from windlass.chat.loop import ChatResult as ChatResult
from windlass.chat.loop import agent_chat_loop as agent_chat_loop
from windlass.conditions.error import InvalidCondition as InvalidCondition
from windlass.conditions.resume import AwaitRequest as AwaitRequest
from windlass.conditions.resume import ResumeConditions as ResumeConditions
from windlass.conditions.resume import agent_await_resumption as agent_await_resumption
from windlass.conditions.resume import parse_resume_conditions as parse_resume_conditions
from windlass.daemons.control import DaemonSnapshot as DaemonSnapshot
from windlass.daemons.control import daemon_snapshot as daemon_snapshot
from windlass.daemons.control import daemon_stop as daemon_stop
from windlass.daemons.control import daemon_trigger as daemon_trigger
from windlass.daemons.handle import DaemonHandle as DaemonHandle
from windlass.daemons.start import daemon_resume as daemon_resume
from windlass.daemons.start import daemon_spawn as daemon_spawn
from windlass.engine.active_runs import SuspendedRun as SuspendedRun
from windlass.engine.children import ChildRun as ChildRun
from windlass.engine.keywords import LoopOptions as LoopOptions
from windlass.engine.results import AgentResult as AgentResult
from windlass.engine.results import LoopResult as LoopResult
from windlass.engine.stream_events import StreamEvent as StreamEvent
from windlass.engine.transcript import transcript_events as transcript_events
from windlass.engine.transcript import transcript_render_full as transcript_render_full
from windlass.engine.transcript import transcript_render_visible as transcript_render_visible
from windlass.errors import Aborted as Aborted
from windlass.errors import AlreadyAnswered as AlreadyAnswered
from windlass.errors import AuthFailed as AuthFailed
from windlass.errors import BadReply as BadReply
from windlass.errors import BadRequest as BadRequest
from windlass.errors import BudgetExceeded as BudgetExceeded
from windlass.errors import CircuitOpen as CircuitOpen
from windlass.errors import ConfigError as ConfigError
from windlass.errors import Conflict as Conflict
from windlass.errors import ConnectionFailed as ConnectionFailed
from windlass.errors import ContextOverflow as ContextOverflow
from windlass.errors import Corrupt as Corrupt
from windlass.errors import DaemonError as DaemonError
from windlass.errors import DaemonQueueFull as DaemonQueueFull
from windlass.errors import DaemonStopped as DaemonStopped
from windlass.errors import Full as Full
from windlass.errors import GuardrailTripped as GuardrailTripped
from windlass.errors import InvalidValue as InvalidValue
from windlass.errors import KeyReused as KeyReused
from windlass.errors import Locked as Locked
from windlass.errors import McpError as McpError
from windlass.errors import ModelError as ModelError
from windlass.errors import NoSuchSession as NoSuchSession
from windlass.errors import NotFound as NotFound
from windlass.errors import OutputMissing as OutputMissing
from windlass.errors import Overloaded as Overloaded
from windlass.errors import ParentRequired as ParentRequired
from windlass.errors import PermissionDenied as PermissionDenied
from windlass.errors import QuotaExceeded as QuotaExceeded
from windlass.errors import RateLimited as RateLimited
from windlass.errors import Refused as Refused
from windlass.errors import ResourceError as ResourceError
from windlass.errors import ServerError as ServerError
from windlass.errors import SessionHeld as SessionHeld
from windlass.errors import StaleWriter as StaleWriter
from windlass.errors import StoreError as StoreError
from windlass.errors import StreamBroken as StreamBroken
from windlass.errors import Suspended as Suspended
from windlass.errors import Timeout as Timeout
from windlass.errors import TokenBudgetExceededError as TokenBudgetExceededError
from windlass.errors import ToolFailed as ToolFailed
from windlass.errors import WindlassError as WindlassError
from windlass.errors import WorkflowChanged as WorkflowChanged
from windlass.errors import WorkflowStepFailed as WorkflowStepFailed
from windlass.errors import WorkspaceChanged as WorkspaceChanged
from windlass.events import AnswerDelta as AnswerDelta
from windlass.events import ChildEvent as ChildEvent
from windlass.events import Event as Event
from windlass.events import SkillActivated as SkillActivated
from windlass.events import SkillDeactivated as SkillDeactivated
from windlass.events import SkillMatched as SkillMatched
from windlass.events import SkillNarrowed as SkillNarrowed
from windlass.events import SkillScopeTools as SkillScopeTools
from windlass.events import TextDelta as TextDelta
from windlass.events import ThinkingDelta as ThinkingDelta
from windlass.events import ToolCallReady as ToolCallReady
from windlass.events import ToolCallStarted as ToolCallStarted
from windlass.events import ToolCallUpdate as ToolCallUpdate
from windlass.events import TranscriptCompacted as TranscriptCompacted
from windlass.events.policy import Reminder as Reminder
from windlass.fleet.handle import RunHandle as RunHandle
from windlass.generate.api import GenerateChunk as GenerateChunk
from windlass.generate.api import GenerateResult as GenerateResult
from windlass.generate.api import Models as Models
from windlass.generate.api import ToolTraceEntry as ToolTraceEntry
from windlass.generate.keywords import GenerateOpts as GenerateOpts
from windlass.llm.call import Chunk as Chunk
from windlass.llm.call import LLMResult as LLMResult
from windlass.llm.call import llm_call as llm_call
from windlass.llm.call import llm_stream as llm_stream
from windlass.llm.completion import llm_completion as llm_completion
from windlass.llm.cost import SessionCost as SessionCost
from windlass.llm.cost import llm_budget as llm_budget
from windlass.llm.cost import llm_budget_remaining as llm_budget_remaining
from windlass.llm.cost import llm_cost as llm_cost
from windlass.llm.cost import llm_session_cost as llm_session_cost
from windlass.llm.transcript_compaction import transcript_compact as transcript_compact
from windlass.llm.transcript_compaction import transcript_summarize as transcript_summarize
from windlass.loop.abort import Abort as Abort
from windlass.loop.ledger import Budget as Budget
from windlass.loop.policy import Policy as Policy
from windlass.loop.policy import TryAgain as TryAgain
from windlass.loop.resume_input import Allow as Allow
from windlass.loop.resume_input import Deny as Deny
from windlass.loop.run import Run as Run
from windlass.loop.turn import Turn as Turn
from windlass.loop.verdict import Ask as Ask
from windlass.loop.verdict import Finish as Finish
from windlass.loop.verdict import KeepGoing as KeepGoing
from windlass.loop.verdict import Outcome as Outcome
from windlass.loop.verdict import Stop as Stop
from windlass.loop.verdict import Suspend as Suspend
from windlass.loop.verdict import Verdict as Verdict
from windlass.mcp.client.servers import McpServer as McpServer
from windlass.messages import Document as Document
from windlass.messages import Image as Image
from windlass.messages import Message as Message
from windlass.messages import Opaque as Opaque
from windlass.messages import Text as Text
from windlass.messages import Thinking as Thinking
from windlass.messages import ToolCall as ToolCall
from windlass.messages import ToolResult as ToolResult
from windlass.messages import estimate_tokens as estimate_tokens
from windlass.models.base import Frame as Frame
from windlass.models.base import Model as Model
from windlass.models.base import Request as Request
from windlass.models.base import Response as Response
from windlass.models.base import Settings as Settings
from windlass.models.mock import llm_mock as llm_mock
from windlass.models.mock import llm_mock_calls as llm_mock_calls
from windlass.models.mock import llm_mock_clear as llm_mock_clear
from windlass.models.registry.registry import provider_capabilities as provider_capabilities
from windlass.models.registry.registry import (
    provider_capabilities_clear as provider_capabilities_clear,
)
from windlass.models.registry.registry import (
    provider_capabilities_install as provider_capabilities_install,
)
from windlass.observe.result_records import ToolCallRecord as ToolCallRecord
from windlass.observe.trace_events import TraceEvent as TraceEvent
from windlass.output.partial import PartialObject as PartialObject
from windlass.output.partial_view import PartialValue as PartialValue
from windlass.policies.compaction.options import Compaction as Compaction
from windlass.policies.compaction.options import (
    compact_for_bug_fix_resumption as compact_for_bug_fix_resumption,
)
from windlass.policies.compaction.options import (
    compact_preserving_test_failures as compact_preserving_test_failures,
)
from windlass.policies.compaction.options import (
    compact_retaining_current_plan as compact_retaining_current_plan,
)
from windlass.policies.compaction.options import compaction_policy as compaction_policy
from windlass.policies.compaction.summary_prompt import CompactionPolicy as CompactionPolicy
from windlass.policies.completion import TurnPolicy as TurnPolicy
from windlass.policies.context_callback import ContextInfo as ContextInfo
from windlass.policies.context_strategy.options import ContextStrategy as ContextStrategy
from windlass.policies.context_strategy.options import CustomStrategy as CustomStrategy
from windlass.policies.context_strategy.options import SlidingWindow as SlidingWindow
from windlass.policies.context_strategy.options import Summarize as Summarize
from windlass.policies.decorators import DecorationContext as DecorationContext
from windlass.policies.guardrails import GuardrailContext as GuardrailContext
from windlass.policies.handoffs import Handoff as Handoff
from windlass.policies.judges.evidence import Proposal as Proposal
from windlass.policies.judges.gates import Cadence as Cadence
from windlass.policies.judges.options import CompletionJudge as CompletionJudge
from windlass.policies.judges.options import DoneJudge as DoneJudge
from windlass.policies.judges.step import StepJudge as StepJudge
from windlass.policies.loop_state import LoopState as LoopState
from windlass.policies.preview.plan import EffectPlan as EffectPlan
from windlass.policies.preview.plan import PlannedEffect as PlannedEffect
from windlass.policies.progress import ProgressTool as ProgressTool
from windlass.policies.projection.custom import ProjectionContext as ProjectionContext
from windlass.policies.projection.options import TranscriptProjection as TranscriptProjection
from windlass.policies.prompt_overrides import PromptOverrides as PromptOverrides
from windlass.policies.prompt_overrides import agent_prompt_overrides as agent_prompt_overrides
from windlass.policies.reminders.options import system_reminder as system_reminder
from windlass.policies.reminders.policy import SessionStart as SessionStart
from windlass.policies.scratchpad.options import Reorganizer as Reorganizer
from windlass.policies.scratchpad.options import Scratchpad as Scratchpad
from windlass.policies.skills.options import skill_define as skill_define
from windlass.policies.skills.options import skill_registry as skill_registry
from windlass.policies.skills.skill import Skill as Skill
from windlass.policies.skills.skill import SkillMatch as SkillMatch
from windlass.policies.skills.skill import SkillQuery as SkillQuery
from windlass.policies.skills.skill import SkillRegistry as SkillRegistry
from windlass.policies.stall.options import LoopDetection as LoopDetection
from windlass.policies.stall.options import LoopDetectionInfo as LoopDetectionInfo
from windlass.policies.stall.options import StallDiagnostics as StallDiagnostics
from windlass.policies.taint.policy import Taint as Taint
from windlass.policies.tool_narrowing import ToolSurfaceNarrowing as ToolSurfaceNarrowing
from windlass.policies.turn_limit.options import IterationBudget as IterationBudget
from windlass.redaction.redactor import Secret as Secret
from windlass.resources.audit import AuditRow as AuditRow
from windlass.resources.conversation_rows import ConversationResource as ConversationResource
from windlass.resources.conversation_rows import ConversationTurn as ConversationTurn
from windlass.resources.fields import field as field
from windlass.resources.query import Page as Page
from windlass.resources.query import Query as Query
from windlass.resources.reflect import reflect as reflect
from windlass.resources.registry import Handle as Handle
from windlass.resources.registry import Resources as Resources
from windlass.resources.registry import export as export
from windlass.resources.resource import Resource as Resource
from windlass.resources.tx import ResourceTx as ResourceTx
from windlass.resources.undo import CannotUndo as CannotUndo
from windlass.runtime.audit import Audit as Audit
from windlass.runtime.audit import audit_query as audit_query
from windlass.runtime.audit import audit_seal as audit_seal
from windlass.runtime.audit import audit_verify as audit_verify
from windlass.runtime.runtime import Runtime as Runtime
from windlass.sessions.api import agent_session_close as agent_session_close
from windlass.sessions.api import agent_session_fork as agent_session_fork
from windlass.sessions.api import agent_session_fork_at as agent_session_fork_at
from windlass.sessions.api import agent_session_list as agent_session_list
from windlass.sessions.api import agent_session_open as agent_session_open
from windlass.sessions.api import agent_session_post as agent_session_post
from windlass.sessions.api import agent_session_read as agent_session_read
from windlass.sessions.api import agent_session_remind as agent_session_remind
from windlass.sessions.api import agent_session_reset as agent_session_reset
from windlass.sessions.api import agent_session_trim as agent_session_trim
from windlass.sessions.approvals import NoSuchApproval as NoSuchApproval
from windlass.sessions.approvals import PendingApproval as PendingApproval
from windlass.sessions.approvals import approvals as approvals
from windlass.sessions.approvals import approve as approve
from windlass.sessions.approvals import deny as deny
from windlass.sessions.effect_plans import approve_plan as approve_plan
from windlass.sessions.effect_plans import plan_of as plan_of
from windlass.sessions.effects import UndoStep as UndoStep
from windlass.sessions.scratchpad import (
    agent_session_clear_scratchpad as agent_session_clear_scratchpad,
)
from windlass.sessions.scratchpad import agent_session_scratchpad as agent_session_scratchpad
from windlass.sessions.scratchpad import (
    agent_session_set_scratchpad as agent_session_set_scratchpad,
)
from windlass.sessions.seed import agent_session_seed_from_jsonl as agent_session_seed_from_jsonl
from windlass.sessions.snapshot import load_snapshot as load_snapshot
from windlass.sessions.snapshot import save_snapshot as save_snapshot
from windlass.sessions.undo import undo as undo
from windlass.sessions.undo import undoable as undoable
from windlass.simulated_users.agentic import agentic_user as agentic_user
from windlass.simulated_users.conversation import Statement as Statement
from windlass.simulated_users.script import fixture_user as fixture_user
from windlass.simulated_users.script import scripted_user as scripted_user
from windlass.simulated_users.tools import simulated_user_post_turn as simulated_user_post_turn
from windlass.simulated_users.tools import simulated_user_read_tools as simulated_user_read_tools
from windlass.simulated_users.tools import user_tools as user_tools
from windlass.simulated_users.user import SimulatedUser as SimulatedUser
from windlass.store.model_calls import ModelCall as ModelCall
from windlass.store.seals import Seal as Seal
from windlass.toolbox.edits.refusal import EditRefused as EditRefused
from windlass.toolbox.edits.reminder import edit_reminder as edit_reminder
from windlass.toolbox.edits.result import EditResult as EditResult
from windlass.toolbox.edits.tools import EditTools as EditTools
from windlass.toolbox.edits.tools import edit_apply_node as edit_apply_node
from windlass.toolbox.edits.tools import edit_dry_run as edit_dry_run
from windlass.toolbox.edits.tools import edit_insert_at_anchor as edit_insert_at_anchor
from windlass.toolbox.edits.tools import edit_rename_symbol as edit_rename_symbol
from windlass.toolbox.edits.tools import edit_safe_text_patch as edit_safe_text_patch
from windlass.toolbox.options import Fetch as Fetch
from windlass.toolbox.options import Sandbox as Sandbox
from windlass.toolbox.presets import TOOL_PRESETS as TOOL_PRESETS
from windlass.tools.filter import AGENT_FRAMEWORK_DISALLOWED as AGENT_FRAMEWORK_DISALLOWED
from windlass.tools.function import tool as tool
from windlass.tools.middleware.layers import with_audit_sink as with_audit_sink
from windlass.tools.middleware.layers import with_consent as with_consent
from windlass.tools.middleware.layers import with_dry_run as with_dry_run
from windlass.tools.middleware.layers import with_handoff_sink as with_handoff_sink
from windlass.tools.middleware.layers import with_rate_limit as with_rate_limit
from windlass.tools.middleware.layers import with_telemetry as with_telemetry
from windlass.tools.middleware.stack import ToolCaller as ToolCaller
from windlass.tools.middleware.stack import default_tool_caller as default_tool_caller
from windlass.tools.registry import tool_define as tool_define
from windlass.tools.registry import tool_registry as tool_registry
from windlass.tools.registry import tool_select as tool_select
from windlass.tools.roles import Content as Content
from windlass.tools.roles import Stake as Stake
from windlass.tools.roles import Target as Target
from windlass.tools.search.options import ToolSearch as ToolSearch
from windlass.tools.tool import AgentInfo as AgentInfo
from windlass.tools.tool import Parked as Parked
from windlass.tools.tool import Retry as Retry
from windlass.tools.tool import Tool as Tool
from windlass.tools.tool import ToolContext as ToolContext
from windlass.triggers.api import Trigger as Trigger
from windlass.triggers.api import publish_event as publish_event
from windlass.triggers.api import trigger_list as trigger_list
from windlass.triggers.api import trigger_register as trigger_register
from windlass.triggers.api import trigger_remove as trigger_remove
from windlass.triggers.fire import fire_due as fire_due
from windlass.triggers.webhook import WebhookApp as WebhookApp
from windlass.triggers.webhook import webhook_app as webhook_app
from windlass.usage import Usage as Usage
from windlass.workers.accessors import worker_action_items as worker_action_items
from windlass.workers.accessors import worker_provenance as worker_provenance
from windlass.workers.accessors import worker_request as worker_request
from windlass.workers.accessors import worker_research_questions as worker_research_questions
from windlass.workers.accessors import worker_result as worker_result
from windlass.workers.accessors import worker_verification_steps as worker_verification_steps
from windlass.workers.accessors import worker_workflow_stages as worker_workflow_stages
from windlass.workers.control import close_agent as close_agent
from windlass.workers.control import list_agents as list_agents
from windlass.workers.control import resume_agent as resume_agent
from windlass.workers.control import send_input as send_input
from windlass.workers.control import suspend_agent as suspend_agent
from windlass.workers.control import wait_agent as wait_agent
from windlass.workers.record import Suspension as Suspension
from windlass.workers.record import TaskRecord as TaskRecord
from windlass.workers.record import Worker as Worker
from windlass.workers.record import WorkerSummary as WorkerSummary
from windlass.workers.spawn import spawn_agent as spawn_agent
from windlass.workers.stop import StopResult as StopResult
from windlass.workers.stop import agent_stop as agent_stop
from windlass.workers.sub_agent_run import SubAgentError as SubAgentError
from windlass.workers.sub_agent_run import SubAgentRequest as SubAgentRequest
from windlass.workers.sub_agent_run import SubAgentResult as SubAgentResult
from windlass.workers.sub_agent_run import sub_agent_request as sub_agent_request
from windlass.workers.sub_agent_run import sub_agent_run as sub_agent_run
from windlass.workers.tools import agent_lifecycle_tools as agent_lifecycle_tools
from windlass.workflows.execute import WorkflowGraph as WorkflowGraph
from windlass.workflows.execute import workflow_execute as workflow_execute
from windlass.workflows.execute import workflow_graph as workflow_graph
from windlass.workflows.functions import Workflow as Workflow
from windlass.workflows.functions import WorkflowContext as WorkflowContext
from windlass.workflows.functions import workflow as workflow
from windlass.workflows.result import WorkflowResult as WorkflowResult
from windlass.workflows.sessions import WorkflowSession as WorkflowSession
from windlass.workflows.sessions import WorkflowUsage as WorkflowUsage
from windlass.workflows.sessions import workflow_session as workflow_session
from windlass.workflows.sessions import workflow_session_archive as workflow_session_archive
from windlass.workflows.sessions import workflow_session_fork as workflow_session_fork
from windlass.workflows.sessions import workflow_session_persist as workflow_session_persist
from windlass.workflows.sessions import workflow_session_restore as workflow_session_restore
from windlass.workflows.sessions import workflow_session_resume as workflow_session_resume
from windlass.workflows.steps import WorkflowStep as WorkflowStep
from windlass.workflows.task import task_run as task_run
from windlass.workflows.task import workflow_draw as workflow_draw

__version__: str
__all__ = [
    "Abort",
    "Agent",
    "AgentResult",
    "Allow",
    "ApprovalPolicy",
    "Ask",
    "Budget",
    "BudgetExceeded",
    "Caller",
    "Chunk",
    "Compaction",
    "ConfigError",
    "Deny",
    "Document",
    "Event",
    "Finish",
    "Image",
    "KeepGoing",
    "LLMResult",
    "LoopResult",
    "Message",
    "Model",
    "ModelError",
    "NoSuchSession",
    "OutputMissing",
    "Parked",
    "PermissionDenied",
    "Permissions",
    "Policy",
    "RateLimited",
    "Resource",
    "Retry",
    "Run",
    "Runtime",
    "Secret",
    "SessionHeld",
    "Skill",
    "SlidingWindow",
    "Stop",
    "StreamEvent",
    "Suspend",
    "Suspended",
    "Text",
    "TextDelta",
    "Tool",
    "ToolCall",
    "ToolContext",
    "ToolResult",
    "Turn",
    "Usage",
    "WindlassError",
    "agent_loop",
    "agent_turn",
    "approvals",
    "approve",
    "callers",
    "deny",
    "errors",
    "export",
    "field",
    "llm_call",
    "llm_stream",
    "models",
    "sync",
    "testing",
    "tool",
    "undo",
]
