"""Made-up secrets of every kind that redaction must know, and the places of a transcript in which one may stand.

Values are drawn from a seed and put together from parts, so that no scanner takes this file for a leak.
"""

from __future__ import annotations

import base64
import json
import random
import string
from collections.abc import Callable, Iterator
from typing import Any

LETTERS = string.ascii_letters + string.digits


def values(seed: int) -> dict[str, tuple[str, str]]:
    """Kind -> (the text as it stands in a transcript, the part that must not survive)."""
    rng = random.Random(seed)

    def any_of(alphabet: str, length: int) -> str:
        if seed == 0:  # the dull form: a word over and over
            return "".join(char for char in "FAKEfake0123456789" * 30 if char in alphabet)[:length].ljust(
                length, alphabet[0]
            )
        text = "".join(rng.choice(alphabet) for _ in range(length - 3))
        return (
            text
            + rng.choice("abcdef")
            + rng.choice("0123456789")
            + (rng.choice("ABCDEF") if "A" in alphabet else "7")
        )

    def word(length: int) -> str:
        return any_of(LETTERS, length)

    def lower(length: int) -> str:
        return any_of("0123456789abcdef", length)

    def dashed(length: int) -> str:
        return word(length // 2) + "_" + word(length - length // 2 - 1)

    uuid = "-".join((lower(8), lower(4), "4" + lower(3), "8" + lower(3), lower(12)))
    jwt = ".".join(("e" + "yJhbGciOiJIUzI1NiJ9", "e" + "yJ" + word(30), word(43)))
    pem_type = rng.choice(("RSA ", "EC ", "OPENSSH ", "DSA ", ""))
    begin, end = f"-----BEGIN {pem_type}PRIVATE" + " KEY-----", f"-----END {pem_type}PRIVATE" + " KEY-----"
    pem = f"{begin}\n{word(64)}\n{word(64)}\n{word(20)}==\n{end}"
    basic = base64.b64encode(f"svc_user:{word(12)}".encode()).decode()
    key40 = any_of(LETTERS + "+/", 36) + "/k9Z"
    bare: dict[str, str] = {
        "openai_project": "sk" + "-proj-" + dashed(56),
        "openai_legacy": "sk" + "-" + word(20) + "T3Blbk" + "FJ" + word(20),
        "anthropic_api": "sk" + "-ant-" + "api03-" + dashed(93) + "AA",
        "anthropic_oauth": "sk" + "-ant-" + "oat01-" + dashed(93) + "AA",
        "anthropic_refresh": "sk" + "-ant-" + "ort01-" + dashed(93) + "AA",
        "github_classic": rng.choice(("ghp", "gho", "ghu", "ghs", "ghr")) + "_" + word(36),
        "github_fine": "github" + "_pat_" + word(22) + "_" + word(59),
        "gitlab": rng.choice(("glpat", "gldt", "glrt", "glcbt")) + "-" + word(20),
        "aws_access_key": rng.choice(("AKIA", "ASIA", "ABIA", "ACCA"))
        + any_of("ABCDEFGHIJKLMNOPQRSTUVWXYZ234567", 16).upper(),
        "aws_secret_bare": key40,
        "google": "AIza" + word(35),
        "slack": rng.choice(("xoxb", "xoxp", "xoxa", "xoxs")) + "-123456789012-123456789012-" + word(24),
        "slack_webhook": "https://hooks." + "slack.com/services/T0123ABCD/B0123ABCD/" + word(24),
        "stripe": rng.choice(("sk_live", "rk_live", "sk_test")) + "_" + word(24),
        "huggingface": "hf" + "_" + word(34),
        "sendgrid": "SG" + "." + word(22) + "." + word(43),
        "twilio": rng.choice(("AC", "SK")) + lower(32).replace("A", "a"),
        "npm": "npm" + "_" + word(36),
        "pypi": "pypi" + "-AgEIcHlwaS5vcmc" + word(70),
        "telegram": "123456789" + ":" + word(35),
        "discord": "M" + word(23) + "." + word(6) + "." + word(27),
        "jwt": jwt,
        "langfuse": rng.choice(("pk", "sk")) + "-lf-" + uuid,
        "langsmith": "lsv2" + rng.choice(("_pt_", "_sk_")) + lower(32) + "_" + lower(10),
        "groq": "gsk" + "_" + word(52),
        "tavily": "tvly" + "-" + word(32),
        "private_key": pem,
        "private_key_one_line": pem.replace("\n", "\\n"),
        "session_token_bare": word(120) + "/" + word(60) + "+" + word(60) + "==",
        "base64_header": base64.b64encode(f"Authorization: Bearer {word(40)}".encode()).decode(),
    }
    within: dict[str, tuple[str, str]] = {
        "aws_secret": (f"aws_secret_access_key = {key40}", key40),
        "session_token": (f"aws_session_token={word(220)}==", word(220) if seed == 0 else ""),
        "service_account": (json.dumps({"type": "service_account", "private_key": pem}), pem.split("\n")[1]),
        "bearer": (f"Authorization: Bearer {(token := word(40))}", token),
        "basic": (f"Authorization: Basic {basic}", basic),
        "x_api_key": (f"X-API-Key: {(key := word(32))}", key),
        "goog_api_key": (f"x-goog-api-key: {(key2 := word(32))}", key2),
        "api_key_header": (f"api-key: {(key3 := word(32))}", key3),
        "cookie": (f"Cookie: session={(cookie := word(32))}; theme=dark", cookie),
        "postgres": (f"postgresql://svc:{(pg := word(10) + '%23x')}@db.example.test:5432/app", pg),
        "mongodb": (f"mongodb+srv://svc:{(mongo := word(14))}@cluster0.example.test/db", mongo),
        "redis": (f"redis://:{(redis := word(14))}@cache.example.test:6379/0", redis),
        "amqp": (f"amqp://svc:{(amqp := word(14))}@mq.example.test/vhost", amqp),
        "odbc": (f"Server=db.example.test;Database=app;User Id=svc;Password={(odbc := word(10) + '!x')};Encrypt=yes", odbc),
        "azure_storage": (f"AccountName=acct;AccountKey={(azure := word(86) + '==')};EndpointSuffix=core.windows.net", azure),
        "azure_sas": (f"https://acct.blob.core.windows.net/c/b?sv=2022-11-02&sr=b&sig={(sas := word(40) + '%2Fa%3D')}", sas),
        "signed_url": (f"https://b.s3.amazonaws.com/k?X-Amz-Date=20260101T000000Z&X-Amz-Signature={(sign := lower(64))}", sign),
        "query_token": (f"https://api.example.test/v1/x?access_token={(query := word(30))}&page=2", query),
        "git_remote": (f"git clone https://{(git := 'ghp' + '_' + word(36))}@github.com/o/r.git", git),
        "password": (f"password={(pw := word(6) + '-' + word(5))}", pw),
        "secret": (f"client_secret: {(secret := word(24))}", secret),
        "flag_joined": (f"deploy --api-key={(flag := word(24))} --yes", flag),
        "flag_split": (f"deploy --token {(split := word(24))} --yes", split),
        "mysql": (f"mysql -h db -u root -p{(mysql := word(9))} app", mysql),
        "curl_user": (f"curl -u svc_user:{(curl := word(9) + '-x')} https://example.test", curl),
        "export": (f"export DB_PASSWORD={(export := word(12))}", export),
        "docker_env": (f"docker run --rm -e MODE=prod -e SERVICE_TOKEN={(docker := word(20))} -p 80:80 img:1", docker),
        "otp": (f"otpauth://totp/Acme:me?secret={(otp := any_of('ABCDEFGHIJKLMNOPQRSTUVWXYZ234567', 16).upper())}&issuer=Acme", otp),
        "nested": (json.dumps({"body": json.dumps({"api_key": (nested := word(24)), "n": 1})}), nested),
    }  # fmt: skip
    token = "FwoG" + word(220)
    within["session_token"] = (f"aws_session_token={token}", token)
    return {**{kind: (value, value) for kind, value in bare.items()}, **within}


def places(value: str) -> dict[str, Any]:
    """The value at each place of a transcript that the acceptance lists, as a JSON value."""
    half = len(value) // 2
    return {
        "01 named argument": {"api_key": value},
        "02 harmless name": {"note": value},
        "03 shell command": {"command": f"cd /srv && run '{value}' | tee out.log"},
        "04 JSON in a string": {"payload": json.dumps({"x": value, "n": 1})},
        "05 argv": ["run", "--verbose", value, "x"],
        "06 three deep": {"a": {"b": {"c": value}}},
        "07 result text": f"found it:\n{value}\ndone",
        "08 content blocks": [{"type": "text", "text": f"got {value}"}],
        "09 traceback": f'ValueError: bad {value}\n  File "x.py", line 3, in f\n    call("{value}")',
        "10 log line": f"2026-01-01T00:00:00Z INFO app using {value} for login",
        "11 URL userinfo": f"https://{value}@host.test/x",
        "11 URL query": f"https://host.test/x?q={value}&z=1",
        "12 header dump": f"HTTP/1.1 200 OK\r\nServer: x\r\nX-Note: {value}\r\nDate: y",
        "13 prose": f"I read the file. A GitHub token: {value} was in it.",
        "14 sed": f"sed -i 's|{value}|REDACTED|g' config",
        "14 sed with slashes": f"sed -i 's/{value}/REDACTED/g' config",
        "15 key of a dict": {value: 1},
        "16 two lines": f"{value[:half]}\n{value[half:]}",
        "16 colour codes": f"\x1b[31m{value[:half]}\x1b[0m\x1b[1;32m{value[half:]}\x1b[0m",
        "17 again far away": [{"api_key": value}, "lorem ipsum " * 40, f"later {value} was seen"],
        "18 span metadata": {"metadata": {"attributes": {"custom.note": value}}},
        "repr": repr({"x": value}),
        "JSON three deep": json.dumps(json.dumps({"x": [value]})),
    }


def every_text(value: Any) -> Iterator[str]:
    """All keys and texts of a value, those inside JSON strings included."""
    if isinstance(value, str):
        yield value
        try:
            inner = json.loads(value)
        except ValueError:
            return
        yield from every_text(inner)
    elif isinstance(value, dict):
        for key, item in value.items():
            yield from every_text(key)
            yield from every_text(item)
    elif isinstance(value, list | tuple):
        for item in value:
            yield from every_text(item)


def survivors(secret: str, value: Any, clean: Callable[[str], str]) -> list[str]:
    """Pieces of the secret, ten characters or longer, that are still there to be read."""
    text = "\0".join(every_text(value))
    joined = clean(text)
    pieces = [
        secret,
        *(secret[at : at + 12] for at in range(0, max(1, len(secret) - 11), 6) if len(secret) >= 20),
    ]
    return [
        piece for piece in pieces if piece in text or piece in joined or piece in joined.replace("\n", "")
    ]
