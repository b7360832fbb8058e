"""Nonces for the scripts and styles of NiceGUI's pages.

With them the content security policy needs neither 'unsafe-inline' nor 'unsafe-eval', as long as no
element is used that compiles a template in the browser or is given JavaScript to run.
"""

import re
from collections.abc import Callable

import jinja2
import nicegui.client

__all__ = ["bear_nonces"]


def bear_nonces() -> None:
    """Have NiceGUI's page template give its scripts and styles the nonce of the response.

    A middleware has put it into the request's state as ``csp_nonce``. What the template fills in is
    not touched: markup in data would go without, and be refused.
    """
    environment = nicegui.client.templates.env
    if not isinstance(environment.loader, _Nonces):
        assert environment.loader is not None
        environment.loader = _Nonces(environment.loader)


class _Nonces(jinja2.BaseLoader):
    """Loads templates as `inner` does, with nonces."""

    NONCE = 'nonce="{{ request.state.csp_nonce }}"'

    def __init__(self, inner: jinja2.BaseLoader) -> None:
        self._inner = inner

    def get_source(
        self, environment: jinja2.Environment, template: str
    ) -> tuple[str, str | None, Callable[[], bool] | None]:
        """Return a template's text, where it comes from, and what tells whether it is current."""
        text, name, is_current = self._inner.get_source(environment, template)
        text = re.sub(r"<(script|style)\b", rf"<\1 {self.NONCE}", text)
        # Our own styles, and NiceGUI's for its components, come by these two.
        styled = """replace("<style>", '<style nonce="' + request.state.csp_nonce + '">') | safe"""
        for part in ("head_html", "body_html"):
            text = text.replace(f"{{{{ {part} | safe }}}}", f"{{{{ {part} | {styled} }}}}")
        return text.replace('style="display: none"', "hidden"), name, is_current
