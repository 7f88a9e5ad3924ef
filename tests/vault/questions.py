"""Forty questions as people ask them, one for each tool.

Each was written from the tool's purpose in one line, before there was an index, and is never edited
afterwards: a question that is not found is a fact about the search.
"""

from __future__ import annotations

QUESTIONS: dict[str, str] = {
    "read_file": "Show me the contents of config/settings.toml.",
    "grep_workspace": "Where in our code is the constant MAX_RETRIES used?",
    "apply_patch": "Here is a diff that fixes the typo, put it into the code.",
    "git_commit": "Save my staged work in the repository with the note 'fix login'.",
    "git_blame": "Who was the last person to touch line 42 of parser.py?",
    "github_create_pull_request": "My branch is ready, ask Anna to review it so we can merge.",
    "jira_create_issue": "Log a bug for the team: the export button crashes the app.",
    "gcal_insert_event": "Schedule a meeting with Tom and Priya on Tuesday at 3 pm.",
    "gcal_query_freebusy": "When are Tom and Priya both available next week?",
    "gmail_send_message": "Write an email to my landlord that the heating is broken.",
    "gmail_search_threads": "Has my accountant answered me about the taxes? Look in my inbox.",
    "stripe_create_refund": "My customer wants his money back for order 12.",
    "stripe_cancel_subscription": "She does not want to be charged every month any more, stop it.",
    "stripe_list_invoices": "Which bills has Acme not paid yet?",
    "salesforce_create_lead": "I met a possible customer at the trade fair, put her in the CRM.",
    "hubspot_update_deal": "We won the contract with Globex, move it along in the pipeline.",
    "k8s_scale_deployment": "Traffic is high, the checkout service needs more instances.",
    "k8s_pod_logs": "Why did the container crash? Show me what it printed.",
    "k8s_rollout_undo": "The new release is broken, go back to the previous version.",
    "brave_web_search": "What is in the news about the elections today?",
    "browser_screenshot": "Show me how our landing page looks on a phone.",
    "maps_directions": "How long does it take to drive from Berlin to Prague?",
    "maps_nearby_places": "Where can I eat sushi around the station?",
    "gdocs_export_pdf": "I need a printable version of the meeting notes document.",
    "sheets_append_row": "Add today's expenses at the bottom of the budget table.",
    "slack_post_message": "Tell the #general channel that lunch is here.",
    "zendesk_update_ticket": "Mark support case 8812 as solved and thank the customer.",
    "pagerduty_acknowledge_incident": "I am on call and looking at it, silence the alert.",
    "datadog_query_metrics": "How much CPU and memory did the API use last night?",
    "postgres_execute_sql": "How many users signed up in March? It's in the database.",
    "s3_put_object": "Upload the backup to our cloud bucket and give me a link.",
    "deepl_translate": "How do you say 'see you tomorrow' in Japanese?",
    "whisper_transcribe": "Write down what was said in this interview recording.",
    "openweather_forecast": "Will it rain in Lisbon on Saturday?",
    "convert_currency": "How many euros are 250 dollars at today's rate?",
    "docker_build": "Make a new container image of the backend.",
    "terraform_plan": "What would change in our infrastructure if I merged this?",
    "dalle_generate_image": "Draw a logo of a fox for my bakery.",
    "shopify_adjust_inventory": "Fifty red mugs arrived at the warehouse, put them in stock.",
    "docusign_send_envelope": "Both tenants have to put their signature under the lease.",
}
