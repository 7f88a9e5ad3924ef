"""Forty tools as forty products might ship them: their names, words and parameters.

They are the ground on which the tool search is measured. Nothing here was written with the search,
or with the questions, in mind; the descriptions say what such tools say of themselves.
"""

from __future__ import annotations

from typing import Any

import windlass as w

Parameters = dict[str, dict[str, Any]]


def text(description: str) -> dict[str, Any]:
    return {"type": "string", "description": description}


def whole(description: str) -> dict[str, Any]:
    return {"type": "integer", "description": description}


def number(description: str) -> dict[str, Any]:
    return {"type": "number", "description": description}


def flag(description: str) -> dict[str, Any]:
    return {"type": "boolean", "description": description}


def some(description: str) -> dict[str, Any]:
    return {"type": "array", "items": {"type": "string"}, "description": description}


FORTY: tuple[tuple[str, str, Parameters], ...] = (
    (
        "read_file",
        "Read the complete contents of a file from the file system. Handles various text encodings "
        "and returns an error message if the file does not exist or cannot be opened.",
        {
            "path": text("Absolute path, or path relative to the workspace root"),
            "head": whole("If given, return only the first N lines"),
            "tail": whole("If given, return only the last N lines"),
        },
    ),
    (
        "grep_workspace",
        "Search all source files for a regular expression and return the matching lines together "
        "with file name and line number. Respects .gitignore.",
        {
            "pattern": text("Regular expression to look for"),
            "glob": text("Only search in files whose path matches, e.g. **/*.py"),
            "case_sensitive": flag("Match upper and lower case exactly"),
        },
    ),
    (
        "apply_patch",
        "Edit one or more files by applying a unified diff. Fails without touching anything when a "
        "hunk does not fit the current contents.",
        {
            "diff": text("The change to make, in unified diff format"),
            "dry_run": flag("Only check that the change would succeed"),
        },
    ),
    (
        "git_commit",
        "Record the staged changes in the repository with a log message.",
        {
            "repo_path": text("Path to the local repository"),
            "message": text("Message that describes the changes"),
            "amend": flag("Replace the tip of the current branch instead of adding to it"),
        },
    ),
    (
        "git_blame",
        "Show which revision and author last modified each line of a file.",
        {
            "file_path": text("The file to annotate"),
            "start_line": whole("First line of the range"),
            "end_line": whole("Last line of the range"),
        },
    ),
    (
        "github_create_pull_request",
        "Open a new pull request in a GitHub repository so that a branch can be reviewed and merged.",
        {
            "owner": text("Repository owner"),
            "repo": text("Repository name"),
            "title": text("Title of the pull request"),
            "head": text("The branch that contains the changes"),
            "base": text("The branch to merge into, usually main"),
            "reviewers": some("People who should review the code"),
        },
    ),
    (
        "jira_create_issue",
        "Create an issue in a Jira project: a bug, a task or a story, with summary, description, "
        "priority and assignee.",
        {
            "project_key": text("Key of the project, e.g. OPS"),
            "issue_type": text("Bug, Task or Story"),
            "summary": text("One-line summary"),
            "description": text("Full description, steps to reproduce for a bug"),
            "priority": text("Highest, High, Medium, Low"),
            "assignee": text("Account id of the person responsible"),
        },
    ),
    (
        "gcal_insert_event",
        "Add an event to a Google Calendar: schedules a meeting or appointment at a date and time "
        "and invites the attendees by email.",
        {
            "calendar_id": text("The calendar, 'primary' for the user's own"),
            "summary": text("Title shown in the calendar"),
            "start": text("Start time, RFC 3339"),
            "end": text("End time, RFC 3339"),
            "attendees": some("Email addresses of the people to invite"),
            "location": text("Room, address or video link"),
        },
    ),
    (
        "gcal_query_freebusy",
        "Look up when people are available. Returns the busy intervals of each calendar between two "
        "points in time, to find a slot that suits everybody.",
        {
            "emails": some("Whose calendars to check"),
            "time_min": text("Beginning of the interval"),
            "time_max": text("End of the interval"),
        },
    ),
    (
        "gmail_send_message",
        "Send an email from the user's Gmail account, with optional cc, bcc and attachments.",
        {
            "to": some("Recipients' addresses"),
            "subject": text("Subject line"),
            "body": text("Plain text or HTML of the mail"),
            "attachments": some("Paths of files to attach"),
        },
    ),
    (
        "gmail_search_threads",
        "Find conversations in the mailbox with Gmail's query syntax (from:, subject:, has:attachment, "
        "newer_than:) and return sender, subject, date and a snippet of each mail.",
        {
            "q": text("Query, e.g. from:alice has:attachment"),
            "max_results": whole("How many conversations to return"),
            "label_ids": some("Only mail that carries these labels, e.g. INBOX, UNREAD"),
        },
    ),
    (
        "stripe_create_refund",
        "Refunds a charge that was previously made, in full or in part. The money is returned to the "
        "customer's original payment method.",
        {
            "charge": text("Identifier of the charge or payment intent of the order"),
            "amount": whole("Amount in cents; the whole charge when left out"),
            "reason": text("duplicate, fraudulent or requested_by_customer"),
        },
    ),
    (
        "stripe_cancel_subscription",
        "Cancels a customer's recurring plan immediately or at the end of the billing period. The "
        "customer will not be charged again.",
        {
            "subscription": text("Identifier of the subscription"),
            "at_period_end": flag("Let it run until the paid period is over"),
        },
    ),
    (
        "stripe_list_invoices",
        "Lists invoices, newest first, with their totals, due dates and whether they were paid, open "
        "or past due.",
        {
            "customer": text("Only invoices of this customer"),
            "status": text("draft, open, paid, uncollectible or void"),
            "limit": whole("Number of objects, 1 to 100"),
        },
    ),
    (
        "salesforce_create_lead",
        "Add a prospective customer to the CRM with contact details, company and where they came from, "
        "so that sales can follow up.",
        {
            "last_name": text("Family name"),
            "company": text("Company they work for"),
            "email": text("Email address"),
            "phone": text("Phone number"),
            "lead_source": text("Web, trade fair, referral, ..."),
        },
    ),
    (
        "hubspot_update_deal",
        "Change a deal in the sales pipeline: move it to another stage, set its amount or expected "
        "close date.",
        {
            "deal_id": text("The deal"),
            "stage": text("qualified, proposal, negotiation, won or lost"),
            "amount": number("Value of the opportunity"),
            "close_date": text("When the contract is expected to be signed"),
        },
    ),
    (
        "k8s_scale_deployment",
        "Set the number of replicas of a Kubernetes workload, to give a service more or fewer instances.",
        {
            "namespace": text("Kubernetes namespace of the cluster"),
            "name": text("Name of the deployment"),
            "replicas": whole("Desired number of pods"),
        },
    ),
    (
        "k8s_pod_logs",
        "Fetch the output that a container has written to stdout and stderr, also of a previous "
        "instance that crashed.",
        {
            "namespace": text("Kubernetes namespace"),
            "pod": text("Name of the pod"),
            "container": text("Container, when there are several"),
            "previous": flag("Output of the terminated instance"),
            "since_seconds": whole("Only what is newer than this"),
        },
    ),
    (
        "k8s_rollout_undo",
        "Roll a deployment back to an earlier revision after a bad release.",
        {
            "namespace": text("Kubernetes namespace"),
            "deployment": text("Name of the deployment"),
            "to_revision": whole("Revision to go back to; the previous version when left out"),
        },
    ),
    (
        "brave_web_search",
        "Performs a search of the internet and returns titles, links and snippets of pages. Use it for "
        "general queries, news, articles and recent events.",
        {
            "query": text("Search query, at most 400 characters"),
            "count": whole("Number of results, 1 to 20"),
            "freshness": text("pd for the last day, pw for the last week, pm for the last month"),
        },
    ),
    (
        "browser_screenshot",
        "Open a website in a headless browser and capture a picture of the page as it is rendered.",
        {
            "url": text("Address of the site"),
            "width": whole("Viewport width in pixels"),
            "height": whole("Viewport height in pixels"),
            "full_page": flag("Capture the whole scrollable page"),
        },
    ),
    (
        "maps_directions",
        "Get the route between two points by car, on foot, by bicycle or by public transport, with "
        "distance, travel time and turn-by-turn instructions.",
        {
            "origin": text("Starting address or coordinates"),
            "destination": text("Address or coordinates of the goal"),
            "mode": text("driving, walking, bicycling or transit"),
            "departure_time": text("When the trip begins, for traffic"),
        },
    ),
    (
        "maps_nearby_places",
        "Find restaurants, shops, hotels and other points of interest around a location, with ratings "
        "and opening hours.",
        {
            "location": text("Centre as latitude,longitude or an address"),
            "radius": whole("Distance in metres"),
            "type": text("restaurant, cafe, pharmacy, hotel, gas_station, ..."),
            "open_now": flag("Leave out what is closed"),
        },
    ),
    (
        "gdocs_export_pdf",
        "Convert a Google document to PDF and save it to Drive or download it.",
        {
            "document_id": text("The document"),
            "file_name": text("Name of the resulting file"),
            "page_size": text("A4 or Letter, for printing"),
        },
    ),
    (
        "sheets_append_row",
        "Append values as a new row at the bottom of a spreadsheet.",
        {
            "spreadsheet_id": text("The spreadsheet"),
            "sheet": text("Name of the tab"),
            "values": some("Cell values from left to right"),
        },
    ),
    (
        "slack_post_message",
        "Post a message to a Slack channel or directly to a team member.",
        {
            "channel": text("Channel name or user id, e.g. #general"),
            "text": text("Message text with Slack markdown"),
            "thread_ts": text("Reply in this thread"),
        },
    ),
    (
        "zendesk_update_ticket",
        "Update a support ticket: change its status (open, pending, solved), assign it to an agent or "
        "add a comment for the requester.",
        {
            "ticket_id": whole("Number of the support case"),
            "status": text("open, pending, hold, solved or closed"),
            "assignee_email": text("Agent who takes it over"),
            "comment": text("Answer to the customer, or an internal note"),
        },
    ),
    (
        "pagerduty_acknowledge_incident",
        "Acknowledge a triggered incident so that it stops alerting and escalating to the next person "
        "on call.",
        {
            "incident_id": text("The incident"),
            "note": text("What you are doing about the alert"),
        },
    ),
    (
        "datadog_query_metrics",
        "Query time series such as CPU, memory, request latency and error rates over a period, for "
        "monitoring dashboards and performance analysis.",
        {
            "query": text("Metrics query, e.g. avg:system.cpu.user{service:api}"),
            "from": text("Start of the period"),
            "to": text("End of the period"),
        },
    ),
    (
        "postgres_execute_sql",
        "Run a read-only SQL statement against the production database and return the rows of the "
        "tables as JSON.",
        {
            "sql": text("SELECT statement"),
            "parameters": some("Values for the placeholders"),
            "row_limit": whole("Maximum number of records"),
        },
    ),
    (
        "s3_put_object",
        "Upload a file to an Amazon S3 bucket and optionally return a link that can be shared.",
        {
            "bucket": text("Name of the bucket"),
            "key": text("Path under which it is stored in the cloud"),
            "source": text("Local file to upload"),
            "presign": flag("Return a temporary public download link"),
        },
    ),
    (
        "deepl_translate",
        "Translate text from one language to another with DeepL. The source language is detected when "
        "it is not given.",
        {
            "text": text("What to translate"),
            "target_lang": text("Language code, e.g. DE, FR, JA"),
            "formality": text("more, less or default"),
        },
    ),
    (
        "whisper_transcribe",
        "Turn speech in an audio or video recording into written text, with speaker labels and "
        "timestamps.",
        {
            "audio_path": text("Recording in mp3, wav or m4a"),
            "language": text("Spoken language"),
            "diarize": flag("Tell the speakers apart"),
        },
    ),
    (
        "openweather_forecast",
        "Weather forecast for a place for up to eight days: temperature, rain, snow, wind and humidity.",
        {
            "city": text("Name of the city"),
            "days": whole("How many days ahead"),
            "units": text("metric or imperial"),
        },
    ),
    (
        "convert_currency",
        "Convert an amount of money from one currency into another at the current or a historic "
        "exchange rate.",
        {
            "amount": number("Amount to convert"),
            "from_code": text("ISO code, e.g. USD"),
            "to_code": text("ISO code, e.g. EUR"),
            "date": text("Day of the rate; today when left out"),
        },
    ),
    (
        "docker_build",
        "Build a container image from a Dockerfile and tag it.",
        {
            "context": text("Directory with the Dockerfile"),
            "tag": text("Name and tag of the image"),
            "push": flag("Push it to the registry afterwards"),
        },
    ),
    (
        "terraform_plan",
        "Preview the changes that Terraform would make to the infrastructure, without making them.",
        {
            "workdir": text("Directory with the configuration"),
            "var_file": text("Variable definitions"),
            "destroy": flag("Preview tearing everything down"),
        },
    ),
    (
        "dalle_generate_image",
        "Create a picture from a text description: illustrations, logos, photos in a given style.",
        {
            "prompt": text("Description of what to draw"),
            "size": text("1024x1024, 1792x1024 or 1024x1792"),
            "style": text("vivid or natural"),
        },
    ),
    (
        "shopify_adjust_inventory",
        "Increase or decrease the stock level of a product at a warehouse location.",
        {
            "sku": text("Stock keeping unit of the product"),
            "location_id": text("Warehouse or shop"),
            "delta": whole("Units that were added (positive) or removed (negative)"),
            "reason": text("received, damaged, correction, ..."),
        },
    ),
    (
        "docusign_send_envelope",
        "Send a document to one or more people for electronic signature and track who has signed.",
        {
            "document_path": text("Contract or other document, PDF"),
            "signers": some("Names and email addresses of those who sign"),
            "subject": text("Subject of the invitation"),
            "expire_days": whole("Days until the invitation expires"),
        },
    ),
)

NAMES: tuple[str, ...] = tuple(name for name, _, _ in FORTY)


async def _done(args: dict[str, Any]) -> str:
    return "done"


def tools(*, loaded: tuple[str, ...] = ()) -> list[w.Tool]:
    """The forty, all deferred but those that are `loaded`."""
    return [
        w.Tool(
            name=name,
            description=description,
            parameters=parameters,
            handler=_done,
            defer_loading=name not in loaded,
        )
        for name, description, parameters in FORTY
    ]
