"""Comes in: the name of a key, or a value that stands beside one. Goes out: whether the name promises a secret, and whether the value can be one.

`token_env: GITHUB_TOKEN`, `max_tokens: 4096` and `password: ${DB_PASSWORD}` are lessons, not secrets: hiding them loses
what an agent should learn. What is secret is decided by the last words of a name, since `secret_name` names a secret and
`name_secret` is one.
"""

from __future__ import annotations

import re
from functools import lru_cache

__all__ = [
    "PLACEHOLDER",
    "is_placeholder",
    "is_reference",
    "key_kind",
    "looks_random",
    "name_words",
    "placeholder",
    "words",
]


def words(text: str) -> frozenset[str]:
    """The words of a text as a set; tables of words read better so."""
    return frozenset(text.split())


PLACEHOLDER = re.compile(r"<redacted(?::[a-z0-9_.-]{1,64})?(?:#\d{1,6})?>")
_WORD = re.compile(r"[A-Z]+(?![a-z])|[A-Z]?[a-z]+|\d+")

_PASSWORDS = words(
    "password passwd pwd passphrase passcode passwort kennwort passw pword passkey pswd userpass dbpass "
    "sshpass sshpwd pgpassword mysqlpwd storepass keypass userpassword dbpassword adminpassword "
    "rootpassword"
)
_SECRETS = words("secret clientsecret appsecret secretkey sharedsecret otpsecret totpsecret")
_TOKENS = words(
    "token authtoken accesstoken refreshtoken apitoken bearertoken sessiontoken idtoken csrftoken "
    "xsrftoken securitytoken bottoken bearer jwt pat oauthtoken"
)
_KEYS = words(
    "apikey accesskey privatekey secretkey accountkey sharedkey signingkey encryptionkey authkey "
    "masterkey sharedaccesskey subscriptionkey licensekey webhooksecret"
)
_KEY_QUALIFIERS = words(
    "api access private secret account signing encryption auth master shared subscription license service "
    "deploy ssh hmac aes rsa cipher decryption client storage admin integration ingest write"
)
_CREDENTIALS = frozenset(["credential", "credentials", "creds", "cred"])
# Words that may follow the secret word without turning the secret into a description of one.
_TAILS = words(
    "value text plain plaintext plaintxt prod production dev staging live test old new current previous "
    "prev primary secondary backup b64 base64 raw hash confirm confirmation again repeat header default "
    "str string hex enc encrypted 1 2 3 too"
)
# Words before `token` that make it a piece of text, a cursor or a count.
_NO_TOKEN = words(
    "next page continuation sync pad eos bos unk stop special mask sep cls start end max min input output "
    "prompt completion per nextpage previous cursor image eot new first last num word sub cached "
    "reasoning total a no"
)
_NO_VALUE = words(
    "true false null none include same-origin omit failed passed undefined nil yes no n/a na nan on off empty redacted hidden masked removed "
    "unset optional required str string number integer int float bool boolean bytes any object array list "
    "dict type secretstr unknown unauthorized valid invalid missing expired enabled disabled input"
)
_PLACE = re.compile(
    r"\$|%[A-Za-z_][A-Za-z0-9_]*%?$|%\(|\{|<[^<>\s]{0,80}>?$|\[[A-Za-z _.-]{0,60}\]?$|[*•x.X#_?-]{3,}|\*|`"
    r"|(?:os\.)?environ\b|process\.env\b|env[.(\[]|ENV\[|System\.getenv|getenv|os\.getenv|secrets?[.\[]|vars?[.\[]|config[.\[]|settings[.\[]|self\.|this\.|args\.|request\.|req\."
    r"|your[-_ .]?|my[-_]?(?:secret|token|password|api|key)|replace[-_ ]?(?:me|this|with)|insert[-_ ]|example[-_]?(?:key|token|secret|password)?$|<redacted"
)
_NAME = re.compile(r"[A-Z][A-Z0-9]*(?:_[A-Z0-9]+)+")
_MASKED = re.compile(r"\*{2,}[A-Za-z ]{0,20}\*{2,}|(?:\*{3,}|\.{3,}|…).*|.{0,6}(?:\*{3,}|…|\.{3})\S{0,6}")


@lru_cache(maxsize=8192)
def name_words(name: str) -> tuple[str, ...]:
    """Lower-case words of a name, whatever its case style: `xApiKey`, `X-API-Key` and `x_api_key` give the same.

    >>> name_words("X-API-Key")
    ('x', 'api', 'key')
    """
    return tuple(word.lower() for word in _WORD.findall(name[-200:]))


@lru_cache(maxsize=8192)
def key_kind(name: str) -> str | None:
    """What a key's value is by its name: `password`, `secret`, `token`, `api_key`, `credential`, `cookie`, `authorization`; else `None`.

    >>> key_kind("GITHUB_TOKEN"), key_kind("token_env"), key_kind("max_tokens")
    ('token', None, None)
    """
    parts = list(name_words(name))
    while len(parts) > 1 and (parts[-1] in _TAILS or parts[-1].isdigit()):
        parts.pop()
    if not parts:
        return None
    last, before = parts[-1], parts[-2] if len(parts) > 1 else ""
    if last in _PASSWORDS or (last, before) in (("phrase", "pass"), ("word", "pass")):
        return "password"
    if last == "pass":
        return None if before in ("", "by", "first", "second", "single", "boarding") else "password"
    if last in _KEYS or (last == "key" and before in _KEY_QUALIFIERS) or (last == "keys" and before == "api"):
        return "api_key"
    if last in _SECRETS or (last, before) == ("phrase", "seed"):
        return "secret"
    if last in _TOKENS:
        return None if before in _NO_TOKEN or parts == ["pat"] else "token"
    if last in _CREDENTIALS:
        return "credential"
    if last == "cookie":
        return "cookie"
    if last == "authorization" or (last == "auth" and len(parts) <= 3):
        return "authorization"
    return {"secrets": "secret", "passwords": "password"}.get(last)


def placeholder(kind: str) -> str:
    """The text that stands where a secret stood."""
    return f"<redacted:{kind}>"


def is_placeholder(value: str) -> bool:
    """Whether the value stands for something else: a variable, a template slot, a mask, a type name, our own mark.

    >>> [is_placeholder(v) for v in ("$NAME", "{{ x }}", "%s", "*****", "null", "hunter2")]
    [True, True, True, True, True, False]
    """
    text = value.strip().strip("\"'\\")
    if not text:
        return True
    if text.startswith("$2") and len(text) > 20:  # bcrypt
        return False
    if len(text) <= 2 and not text.isalnum():
        return True
    if text.lower().rstrip(".,;:!?)") in _NO_VALUE:
        return True
    if PLACEHOLDER.match(text):
        return True
    if text.endswith("EXAMPLE") and text.isupper():
        return True
    if text[0] in "$" and len(text) > 1:
        return bool(re.match(r"\$(?:\w+$|\{|\(|\w+[^\w])", text)) or len(text) < 8
    if _MASKED.fullmatch(text):
        return True
    if text in ("%s", "%d", "%r", "%v", "...", "{}"):
        return True
    return bool(_PLACE.match(text)) and not (text[0] in "%<[{*#-_." and looks_random(text) and len(text) > 24)


def is_reference(value: str) -> bool:
    """Whether the value is the NAME of a variable (`GITHUB_TOKEN`), which says where a secret lies and is none."""
    return bool(_NAME.fullmatch(value)) and (
        key_kind(value) is not None or value.endswith(("_ENV", "_NAME", "_ID", "_KEY"))
    )


def looks_random(value: str) -> bool:
    """Whether text looks drawn rather than written: letters and digits together, or capitals inside a word."""
    digits = sum(char.isdigit() for char in value)
    lower = any(char.islower() for char in value)
    upper = any(char.isupper() for char in value)
    if digits and (lower or upper):
        return True
    return lower and upper and bool(re.search(r"[a-z][A-Z]{2,}[a-z]|[A-Z]{2,}[a-z]+[A-Z]", value))
