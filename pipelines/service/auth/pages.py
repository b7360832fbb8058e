"""Plain HTML pages for browsers without a login."""

from collections.abc import Mapping
from html import escape

from starlette.responses import HTMLResponse
from starlette.types import Scope

_PAGE = """<!doctype html>
<html lang="en"><head><meta charset="utf-8"><title>{title} | streamboost</title>
<meta name="viewport" content="width=device-width, initial-scale=1">
<meta name="color-scheme" content="light dark">
<style nonce="{nonce}">
body {{ font: 1rem/1.5 system-ui, sans-serif; max-width: 32rem; margin: 15vh auto;
  padding: 0 1rem; }}
h1 {{ font-size: 1.5rem; overflow-wrap: anywhere; }}
button {{ font: inherit; padding: 0.5rem 1.25rem; min-height: 2.75rem; cursor: pointer; }}
</style></head>
<body><main><h1>{title}</h1>
{content}
</main></body></html>
"""


def html_page(
    scope: Scope,
    title: str,
    content: str,
    status: int = 200,
    headers: Mapping[str, str] | None = None,
) -> HTMLResponse:
    """Return a page with the heading `title` and the HTML `content`.

    `scope` is that of the request, whose state has the nonce of the style as ``csp_nonce``.
    """
    nonce = scope["state"]["csp_nonce"]
    return HTMLResponse(
        _PAGE.format(title=escape(title), nonce=nonce, content=content), status, headers
    )
