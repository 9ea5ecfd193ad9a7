"""Where fuzzing begins: one or more sound inputs for each target."""

from pathlib import Path

ROOT = Path(__file__).parents[2]
MARKDOWN = (
    """# Title *and* _more_ <!channel> <@U1> &amp; <b>html</b>

1. one `code` **bold ~~gone~~**
   - [link](https://a.example/x(1)) ![image](x.png) <https://b.example>
> quote with || spoiler || and 👩‍👩‍👧 é ẑ̂

```python
print("```")
```
| a | b |
|---|--:|
| 1 | \\| 2 |

~~~
"""
    + "long words " * 80
)

OPENAI = (
    'data: {"id":"1","choices":[{"index":0,"delta":{"role":"assistant","content":"he"}}]}\n\n'
    ': comment\r\n\r\ndata: {"choices":[{"delta":{"content":[{"type":"text","text":"llo"}],"reasoning":"why"}}]}\r\n\r\n'
    'data: {"choices":[{"delta":{"tool_calls":[{"index":0,"id":"c1","function":{"name":"exec","arguments":"{\\"a\\""}}]}}]}\n\n'
    'data: {"choices":[{"delta":{"tool_calls":[{"index":0,"function":{"arguments":":1}"}}]},"finish_reason":"tool_calls"}],'
    '"usage":{"prompt_tokens":1,"completion_tokens":2,"prompt_tokens_details":{"cached_tokens":1}}}\n\ndata: [DONE]\n\n'
)
ANTHROPIC = (
    'event: message_start\ndata: {"type":"message_start","message":{"usage":{"input_tokens":3}}}\n\n'
    'data: {"type":"content_block_start","index":0,"content_block":{"type":"tool_use","id":"t1","name":"exec","input":{}}}\n\n'
    'data: {"type":"content_block_delta","index":0,"delta":{"type":"input_json_delta","partial_json":"{}"}}\n\n'
    'data: {"type":"content_block_stop","index":0}\n\n'
    'data: {"type":"content_block_delta","index":1,"delta":{"type":"text_delta","text":"hi"}}\n\n'
    'data: {"type":"message_delta","delta":{"stop_reason":"end_turn"},"usage":{"output_tokens":5}}\n\n'
    'data: {"type":"message_stop"}\n\n'
)
SESSION = (
    '{"_type":"metadata","key":"telegram:1","metadata":{},"last_consolidated":0}\n'
    '{"role":"user","content":"q","turn":"t1"}\n'
    '{"role":"assistant","content":"","tool_calls":[{"id":"c1","function":{"name":"a","arguments":"{}"}}],"turn":"t1"}\n'
    '{"role":"tool","content":"r","tool_call_id":"c1","turn":"t1"}\n'
    '{"role":"assistant","content":"a","turn":"t1","latency_ms":5}\n'
)


NAMES = (
    "slack_event", "telegram_update", "slack_markdown", "telegram_markdown", "sse_openai", "sse_anthropic", "frame",
    "session_file", "skill_head", "page",
)  # fmt: skip


def samples(channel: str) -> list[bytes]:
    return [path.read_bytes() for path in sorted((ROOT / "channels" / channel / "samples").glob("*.json"))]


def corpus(name: str) -> list[bytes]:
    match name:
        case "slack_event":
            return samples("slack")
        case "telegram_update":
            return samples("telegram")
        case "slack_markdown" | "telegram_markdown":
            return [MARKDOWN.encode(), b"```\n" + b"x" * 600 + b"\n" + b"y\n" * 300, "👍🏽".encode() * 300]
        case "sse_openai":
            return [OPENAI.encode()]
        case "sse_anthropic":
            return [ANTHROPIC.encode()]
        case "frame":
            return [
                b'{"type":"message","chat_id":"c","content":"x","id":"1","media":[{"data_url":"data:,x","name":"n"}]}'
            ]
        case "session_file":
            return [SESSION.encode()]
        case "skill_head":
            return [path.read_bytes() for path in sorted((ROOT / "skills").glob("*/SKILL.md"))]
        case "page":
            return [
                b"<title>a</title><p>b<pre>c</pre><a href='x'>d</a><table><tr><td>e</table><script>f</script><ul><li>g"
            ]
    raise KeyError(name)
